//! Folders that a store is kept in, where they are missing: for their user alone, and ignored by version control.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Called with each file or folder that a store makes.
pub type Made = Arc<dyn Fn(&Path) + Send + Sync>;

/// Called with the mark of a folder of journals before it gets the identity that has it; where this fails, it gets none.
pub type Marked = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// What keeps a folder out of version control, itself included, but for the commands of the project's own.
const IGNORED: &str = "# Sessions are private; commands belong to the project.\n*\n!/commands/\n!/commands/**\n";

/// What earlier versions wrote instead.
const IGNORED_BEFORE: &str = "# Sessions are nobody else's.\n*\n";

/// Makes a folder for a store, with those above it, mode 0700. The uppermost of those that were missing is given a
/// `.gitignore` for everything in it but `commands`, itself included, and so is a `.bob` that was there without one and
/// without sessions, as in a clone of a project that has commands. Any other folder that was there is left as it is,
/// except that a `.gitignore` which an earlier version wrote is replaced.
///
/// # Errors
/// When a folder cannot be made. That it could not be kept out of version control is no error.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let missing = |path: &&Path| {
        let found = fs::symlink_metadata(path);
        !path.as_os_str().is_empty() && found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let uppermost = folder.ancestors().take_while(missing).last();
    let new = folder.ancestors().take(2).find(|folder| is_unused(folder)).or(uppermost);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The folder itself, or the one above it, is what an earlier version made.
    for ignored in folder.ancestors().take(2).map(|folder| folder.join(".gitignore")) {
        if fs::read_to_string(&ignored).is_ok_and(|text| text == IGNORED_BEFORE) {
            let _as_it_was = fs::write(&ignored, IGNORED);
        }
    }
    if let Some(new) = new {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new.join(".gitignore"));
        let _as_it_was = file.and_then(|mut file| file.write_all(IGNORED.as_bytes()));
    }
    Ok(())
}

/// Whether it is a project's `.bob` in which nothing was kept yet.
fn is_unused(folder: &Path) -> bool {
    let is_kept = |name: &OsStr| name.as_encoded_bytes().starts_with(b"sessions");
    let holds_none =
        |mut entries: fs::ReadDir| entries.all(|entry| entry.is_ok_and(|entry| !is_kept(&entry.file_name())));
    // A link may lead into another repository.
    folder.file_name().is_some_and(|name| name == ".bob")
        && fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir())
        && fs::symlink_metadata(folder.join(".gitignore")).is_err()
        && fs::read_dir(folder).is_ok_and(holds_none)
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

    #[test]
    fn a_clone_of_a_project_with_commands_keeps_sessions_out_of_version_control() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = |at: &str, args: &[&str]| {
            let git = std::process::Command::new("git").arg("-C").arg(folder.path().join(at)).args(args).output();
            let run = git.expect("git");
            assert!(run.status.success(), "{args:?}: {run:?}");
            String::from_utf8(run.stdout).expect("a text")
        };
        fs::create_dir_all(folder.path().join("project/.bob/commands")).expect("a folder");
        fs::write(folder.path().join("project/.bob/commands/fix.md"), "x").expect("written");
        git("project", &["init", "--quiet"]);
        git("project", &["add", "."]);
        git("project", &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "commands"]);
        git(".", &["clone", "--quiet", "project", "sqlite"]);
        git(".", &["clone", "--quiet", "project", "json"]);
        for (clone, made, kept) in [("sqlite", ".bob", "sessions.db"), ("json", ".bob/sessions", "s.jsonl")] {
            let made = folder.path().join(clone).join(made);
            make_folder(&made).expect("made");
            fs::write(made.join(kept), "x").expect("written");
            assert_eq!(git(clone, &["status", "--porcelain"]), "", "{clone}");
            fs::remove_file(folder.path().join(clone).join(".bob/.gitignore")).expect("it is there");
            make_folder(&made).expect("it is there");
            assert!(!git(clone, &["status", "--porcelain"]).is_empty(), "{clone}: who removed it meant it");
        }
    }
}
