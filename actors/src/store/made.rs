//! Folders that a store is kept in, where they are missing: for their user alone, and ignored by version control.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Called with each file or folder that a store makes.
pub type Made = Arc<dyn Fn(&Path) + Send + Sync>;

/// What keeps a folder out of version control, itself included, but for the commands of the project's own.
const IGNORED: &str = "# Sessions are nobody else's; commands are the project's.\n*\n!/commands/\n!/commands/**\n";

/// What earlier versions wrote instead.
const IGNORED_BEFORE: &str = "# Sessions are nobody else's.\n*\n";

/// Makes a folder for a store, with those above it, mode 0700. The uppermost of those that were missing is given a
/// `.gitignore` for everything in it but `commands`; a folder that was there is left as it is, except that a `.gitignore`
/// which an earlier version wrote is replaced.
///
/// # Errors
/// When a folder cannot be made. That it could not be kept out of version control is no error.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let missing = |path: &&Path| {
        let found = fs::symlink_metadata(path);
        !path.as_os_str().is_empty() && found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let uppermost = folder.ancestors().take_while(missing).last();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The folder itself, or the one above it, is what an earlier version made.
    for ignored in folder.ancestors().take(2).map(|folder| folder.join(".gitignore")) {
        if fs::read_to_string(&ignored).is_ok_and(|text| text == IGNORED_BEFORE) {
            let _as_it_was = fs::write(&ignored, IGNORED);
        }
    }
    if let Some(made) = uppermost {
        let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(made.join(".gitignore"));
        let _as_it_was = new.and_then(|mut file| file.write_all(IGNORED.as_bytes()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_kept_out_of_version_control_and_what_was_there_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let ignored = |path: &str| folder.path().join(path).join(".gitignore").exists();
        make_folder(&folder.path().join(".bob/sessions")).expect("made");
        assert!(ignored(".bob") && !ignored(".bob/sessions") && !ignored("."));
        let text = fs::read_to_string(folder.path().join(".bob/.gitignore")).expect("a text");
        assert!(text.lines().any(|line| line == "*"), "{text}");
        for theirs in [IGNORED_BEFORE, "*\n"] {
            fs::write(folder.path().join(".bob/.gitignore"), theirs).expect("written");
            make_folder(&folder.path().join(".bob/sessions")).expect("it is there");
            let now = fs::read_to_string(folder.path().join(".bob/.gitignore")).expect("a text");
            assert_eq!(now, if theirs == IGNORED_BEFORE { IGNORED } else { theirs }, "only what was made is replaced");
        }
        fs::create_dir(folder.path().join("own")).expect("a folder");
        make_folder(&folder.path().join("own")).expect("it is there");
        assert!(!ignored("own"), "a folder of the user's stays as it is");
        fs::remove_file(folder.path().join(".bob/.gitignore")).expect("removed");
        make_folder(&folder.path().join(".bob/sessions")).expect("it is there");
        assert!(!ignored(".bob"), "who removed it meant it");
    }

    #[test]
    fn git_sees_the_commands_of_a_project_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = |args: &[&str]| {
            let run = std::process::Command::new("git").arg("-C").arg(folder.path()).args(args).output().expect("git");
            assert!(run.status.success(), "{args:?}: {run:?}");
            String::from_utf8(run.stdout).expect("a text")
        };
        git(&["init", "--quiet"]);
        make_folder(&folder.path().join(".bob")).expect("made");
        fs::create_dir_all(folder.path().join(".bob/commands/deep")).expect("a folder");
        fs::create_dir_all(folder.path().join(".bob/sessions/commands")).expect("a folder");
        for file in ["sessions.db", "commands/fix.md", "commands/deep/er.md", "sessions/commands/a.md", "chat_history"]
        {
            fs::write(folder.path().join(".bob").join(file), "x").expect("written");
        }
        let seen = git(&["ls-files", "--others", "--exclude-standard"]);
        assert_eq!(seen.lines().collect::<Vec<_>>(), [".bob/commands/deep/er.md", ".bob/commands/fix.md"]);
    }
}
