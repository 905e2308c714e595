//! The input history: a private file in the user's state folder, one for each place of sessions, bounded in length. A folder that
//! was entered has none: a history in it may have come with it, or be a link to a file of the user's.
//!
//! A line is left out if it begins with a blank or contains a known secret: one of the configuration, or the value of
//! a variable named like a secret.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bob::store::make_folder;
use bob::tape::Redactor;
use bob_config::Config;
use bob_config::assemble::redactor;

use crate::runtime::trust;
use crate::terminal::print;

/// The name of a history beside sessions.
const NAME: &str = "chat_history";

/// How many lines of history are kept.
pub(super) const HISTORY_LINES: usize = 1_000;

/// A longer message is not kept: it was pasted, and is in its session.
const MOST_BYTES: usize = 16 * 1024;

pub(super) struct History {
    config: Config,
    redactor: Redactor,
}

impl History {
    pub(super) fn of(config: &Config) -> Self {
        let named = std::env::vars().filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value.into());
        let redactor = redactor(config, &|name| std::env::var(name).ok()).with(named);
        Self { config: config.clone(), redactor }
    }

    /// The path of the history; `None` if sessions are not stored, or there is no place for it.
    pub(super) fn file(&self) -> Option<PathBuf> {
        let (beside, state) = (self.config.beside_store()?, trust::state_folder().ok()?);
        make_folder(&beside).ok()?;
        let (beside, state) = (beside.canonicalize().ok()?, state.canonicalize().unwrap_or(state));
        let file = match beside.starts_with(&state) {
            true => beside.join(NAME),
            false => {
                let folder = state.join("histories");
                DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
                let file = folder.join(&blake3::hash(beside.as_os_str().as_bytes()).to_hex().as_str()[..32]);
                tell_of_earlier(&beside.join(NAME), &file);
                file
            }
        };
        OpenOptions::new().create(true).append(true).mode(0o600).open(&file).ok()?;
        keep_private(&file);
        Some(file)
    }

    /// Whether a line may be kept.
    pub(super) fn keeps(&self, line: &str) -> bool {
        !line.starts_with(char::is_whitespace) && line.len() <= MOST_BYTES && self.redactor.text(line) == line
    }
}

/// Says where the history of an earlier version is, once: whether it is the user's, only the user knows.
fn tell_of_earlier(earlier: &Path, now: &Path) {
    let is_there = fs::symlink_metadata(earlier).is_ok_and(|found| found.is_file() && found.len() > 0);
    if is_there && now.symlink_metadata().is_err() {
        let (earlier, now) = (earlier.display(), now.display());
        print::note(&format!("[the history in {earlier} is not read; if it is yours, copy it to {now}]"));
    }
}

/// Gives the file back to its owner alone, should anything have changed that.
pub(super) fn keep_private(file: &Path) {
    let _as_it_is = std::fs::set_permissions(file, Permissions::from_mode(0o600));
}

fn is_secret_name(name: &str) -> bool {
    ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"].iter().any(|end| name.to_ascii_uppercase().ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob_config::{Environment, Overrides, parse};

    #[test]
    fn g3_what_holds_a_secret_is_not_kept() {
        let text = "runtime.default_model = 'a:b'\n[providers.a]\nkind = 'openai'\napi_key = 'sk-written-here'\n\
                    base_url = 'http://x/${PART}'\n";
        let environment = Environment::from([("PART", "from-a-variable")]);
        let config = parse(text, Path::new("agent.toml"), &environment, &Overrides::default());
        let history = History::of(&config.unwrap_or_else(|error| panic!("{error}")));
        assert!(history.keeps("what is the time?") && history.keeps("/resume abc") && history.keeps("two\nlines"));
        assert!(!history.keeps("my key is sk-written-here, is it good?"));
        assert!(!history.keeps("from-a-variable"));
        assert!(!history.keeps(" a blank first"));
        assert!(!history.keeps(&"x".repeat(MOST_BYTES + 1)));
        assert!(is_secret_name("OPENAI_API_KEY") && is_secret_name("gh_token") && !is_secret_name("KEYBOARD"));
    }
}
