//! What the project says of itself: its instructions for agents, and facts about the place where a session works.

use super::file::{Found, Root, Secrets, is_missing, open, open_root, refusal, text};
use bob_messages::Millis;
use bob_messages::error::AgentError;
use rustix::io::Errno;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The names of a project's instructions; in each folder the first one that is there counts.
pub const PROJECT_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// How much of all of them a prompt takes along, bytes. The nearest ones count first.
const MOST_BYTES: usize = 24 * 1024;

/// How many folders are looked at.
const MOST_FOLDERS: usize = 32;

/// The most of a branch's name that is told, in bytes.
const MOST_NAME_BYTES: usize = 200;

/// The folders from a session's up to its repository's root, the nearest first; only the session's own outside of a
/// repository.
pub(super) struct Place {
    folders: Vec<PathBuf>,
    repository: Option<PathBuf>,
}

impl Place {
    pub(super) fn of(folder: &Path) -> Self {
        let Ok(folder) = folder.canonicalize() else { return Self { folders: Vec::new(), repository: None } };
        let repository = folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok());
        let repository = repository.map(Path::to_owned);
        let is_inside = |above: &&Path| match &repository {
            Some(repository) => above.starts_with(repository),
            None => *above == folder,
        };
        let folders = folder.ancestors().take_while(is_inside).take(MOST_FOLDERS).map(Path::to_owned).collect();
        Self { folders, repository }
    }

    /// The instructions that are there, the nearest first. What cannot be opened, or leads out of its folder or to a file of
    /// secrets, is left out.
    /// Errors: `Overloaded` when the process has no descriptor left.
    pub(super) fn instructions(&self, secrets: &Secrets) -> Result<Vec<Found>, AgentError> {
        let mut found = Vec::new();
        for folder in &self.folders {
            let Ok(Some(root)) = open_root(folder) else { continue };
            found.extend(in_folder(&root, secrets)?);
        }
        Ok(found)
    }

    /// Facts that hold for a day: the date, the system, and the repository.
    pub(super) fn facts(&self, now: Millis) -> String {
        let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
        let git = match self.repository.as_deref().map(branch) {
            None => "it is in no git repository".to_owned(),
            Some(None) => "it is in a git repository, on no branch".to_owned(),
            Some(Some(branch)) => format!("it is in a git repository, on the branch {branch}"),
        };
        format!("Today is {} (UTC). The system is {os} on {architecture}. About the working folder: {git}.", date(now))
    }
}

fn in_folder(root: &Root, secrets: &Secrets) -> Result<Option<Found>, AgentError> {
    for name in PROJECT_FILES {
        match open(root, Path::new(name)) {
            Ok(_) if secrets.named(root, Path::new(name)).is_some() => {
                tracing::warn!("{name} of {} is left out: it leads to a file of secrets", root.path.display());
            }
            Ok((file, stamp)) => {
                return Ok(Some(Found::new("the project's instructions", file, stamp.at(root.path.join(name)))));
            }
            Err(error) if is_missing(&error) => {}
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => {
                return Err(refusal(&error, format!("cannot open {name}: {error}")));
            }
            Err(error) => tracing::warn!("{} of {} is left out: {error}", name, root.path.display()),
        }
    }
    Ok(None)
}

/// The texts as a prompt has them, the nearest last, since what is said later counts more.
pub(super) fn composed(found: Vec<Found>) -> Vec<String> {
    let mut left = MOST_BYTES;
    let mut texts = Vec::new();
    for found in found {
        let path = found.path().display().to_string();
        let text = match text(found) {
            Ok(text) => text,
            Err(error) => {
                tracing::warn!("{error}; it is left out");
                continue;
            }
        };
        let text = text.trim();
        let kept = &text[..text.floor_char_boundary(left)];
        left -= kept.len();
        let cut = if kept.len() < text.len() { "\n[… the rest is not shown …]" } else { "" };
        if !kept.is_empty() {
            texts.push(format!("Instructions of the project, from {path}:\n\n{kept}{cut}"));
        }
    }
    texts.reverse();
    texts
}

/// The branch of a repository; `None` when it is on none, or does not say.
fn branch(repository: &Path) -> Option<String> {
    let git = repository.join(".git");
    let head = match git.is_dir() {
        true => git.join("HEAD"),
        // A further working tree names the folder that has its state.
        false => repository.join(beginning(&git)?.strip_prefix("gitdir:")?.trim()).join("HEAD"),
    };
    let head = beginning(&head)?;
    let name = head.trim().strip_prefix("ref: refs/heads/")?;
    let name = name[..name.floor_char_boundary(MOST_NAME_BYTES)].escape_debug().to_string();
    (!name.is_empty()).then_some(name)
}

fn beginning(file: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(file).ok()?.take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The day in the calendar, by the rule for days since 1 March of the year 0.
fn date(now: Millis) -> String {
    let days = now.div_euclid(24 * 3_600_000) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year_of_era + era * 400 + later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_the_calendar() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
            (4_107_542_399, "2100-02-28"),
            (-1, "1969-12-31"),
        ] {
            assert_eq!(date(seconds * 1_000), day);
        }
    }

    #[test]
    fn the_branch_is_read_of_a_repository_and_of_a_further_working_tree() {
        let root = tempfile::tempdir().unwrap();
        let facts = |folder: &str| Place::of(&root.path().join(folder)).facts(0);
        fs::create_dir_all(root.path().join("repo/.git/worktrees/w")).unwrap();
        fs::create_dir_all(root.path().join("repo/src")).unwrap();
        fs::create_dir_all(root.path().join("tree")).unwrap();
        assert!(facts("repo/src").contains("on no branch"), "{}", facts("repo/src"));
        fs::write(root.path().join("repo/.git/HEAD"), "ref: refs/heads/a/b\n").unwrap();
        assert!(facts("repo/src").ends_with("on the branch a/b."), "{}", facts("repo/src"));
        fs::write(root.path().join("repo/.git/worktrees/w/HEAD"), "ref: refs/heads/c\nignore\n").unwrap();
        fs::write(root.path().join("tree/.git"), "gitdir: ../repo/.git/worktrees/w\n").unwrap();
        assert!(facts("tree").contains("on the branch c\\n"), "one line: {}", facts("tree"));
    }
}
