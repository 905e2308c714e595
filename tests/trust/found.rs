//! A folder with foreign files, and the traces of a program that was run in it.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::program::{Program, Run};
use crate::support::scratch::Scratch;

const AGENT: &str = env!("CARGO_BIN_EXE_cli-agent");

/// A folder with a configuration, and the user's home.
pub(crate) struct Found {
    pub(crate) scratch: Scratch,
}

impl Found {
    /// A folder in which nothing is configured yet.
    pub(crate) fn new() -> Self {
        let found = Self { scratch: Scratch::new() };
        for folder in ["folder", "home/.ssh", "state"] {
            found.scratch.folder(folder);
        }
        found.scratch.write("home/.bashrc", "# mine\n");
        found.scratch.write("home/.ssh/id_rsa", "canary-private-key\n");
        found
    }

    pub(crate) fn with(config: &str) -> Self {
        let found = Self::new();
        found.configure(config);
        found
    }

    pub(crate) fn configure(&self, config: &str) {
        self.scratch.write("folder/agent.toml", config);
    }

    pub(crate) fn folder(&self) -> std::path::PathBuf {
        self.scratch.join("folder")
    }

    pub(crate) fn program<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        let program = Program::new(AGENT).args(args).env("XDG_STATE_HOME", self.scratch.join("state"));
        let program = program.env("XDG_CONFIG_HOME", self.scratch.join("home/.config"));
        let program = program.env("HOME", self.scratch.join("home")).env("OPENAI_API_KEY", "canary-key-value");
        program.dir(self.folder())
    }

    #[track_caller]
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        self.program(args).run()
    }

    /// With the configuration of this folder named.
    #[track_caller]
    pub(crate) fn named<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        self.run(["--config", "agent.toml"].into_iter().chain(args))
    }

    /// Writes a script in which the model calls one tool and then replies.
    pub(crate) fn script(&self, tool: &str, arguments: &Value) {
        let replies = json!([{"calls": [{"name": tool, "arguments": arguments}]}, {"text": "done"}]);
        self.scratch.write("folder/s.json", json!([{ "replies": replies }]).to_string());
    }

    pub(crate) fn is_there(&self, relative: &str) -> bool {
        self.scratch.join(relative).exists()
    }
}

/// A model that is a script, on the default store, and further tables.
pub(crate) fn scripted(tables: &str) -> String {
    format!(
        "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n{tables}"
    )
}

/// All paths below a folder, except the program's own files.
pub(crate) fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            found.push(entry.path().strip_prefix(folder).expect("below it").display().to_string());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    found
}
