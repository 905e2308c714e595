//! The input history: a private file beside the sessions, bounded in length.
//!
//! A line is left out if it begins with a blank or contains a known secret: one of the configuration, or the value of
//! a variable named like a secret.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bob::store::make_folder;
use bob::tape::Redactor;
use bob_config::Config;
use bob_config::assemble::redactor;

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

    /// The path of the history, beside the sessions; `None` if sessions are not stored.
    pub(super) fn file(&self) -> Option<PathBuf> {
        let folder = self.config.beside_store()?;
        make_folder(&folder).ok()?;
        let file = folder.join("chat_history");
        OpenOptions::new().create(true).append(true).mode(0o600).open(&file).ok()?;
        keep_private(&file);
        Some(file)
    }

    /// Whether a line may be kept.
    pub(super) fn keeps(&self, line: &str) -> bool {
        !line.starts_with(char::is_whitespace) && line.len() <= MOST_BYTES && self.redactor.text(line) == line
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
