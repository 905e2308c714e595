//! A temporary folder for one test, removed on drop, whether the test passed or not.

use std::fs;
use std::path::{Path, PathBuf};

/// The handle of the folder.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("scratch-").tempdir().expect("a temporary folder");
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path below the folder; nothing is created.
    pub(crate) fn join(&self, relative: &str) -> PathBuf {
        assert!(Path::new(relative).is_relative(), "`{relative}` would lead out of the test's folder");
        self.path().join(relative)
    }

    /// Writes `agent.toml`; the path it returns goes behind `--config`.
    pub(crate) fn agent_toml(&self, text: &str) -> PathBuf {
        self.write("agent.toml", text)
    }

    /// Writes a file, with the folders above it.
    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the folders above a file");
        }
        fs::write(&path, content).expect("a file in the test's folder");
        path
    }

    /// Makes a folder, with those above it.
    pub(crate) fn folder(&self, relative: &str) -> PathBuf {
        let path = self.join(relative);
        fs::create_dir_all(&path).expect("a folder in the test's folder");
        path
    }

    /// The text of a file that must be there.
    #[track_caller]
    pub(crate) fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.join(relative)).unwrap_or_else(|why| panic!("failed to read `{relative}`: {why}"))
    }

    /// The names in a folder, sorted; none when it does not exist.
    pub(crate) fn list(&self, relative: &str) -> Vec<String> {
        let entries = fs::read_dir(self.join(relative)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}
