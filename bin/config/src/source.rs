use std::path::PathBuf;

use super::files::Files;

#[derive(Clone, Default)]
pub(super) struct Source {
    pub(super) files: Files,
    pub(super) user: OfUser,
    /// Keys of the user's policy that the project's file replaces.
    pub(super) replaced: Vec<String>,
    /// Whether any layer chooses the profile `strict`. A file that replaces it with another one relaxes its policy.
    pub(super) is_strict: bool,
    /// What the user's own file does by itself.
    pub(super) own: Vec<String>,
    /// Whether the model on this machine is started by built-in scripts.
    pub(super) has_scripts: bool,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

/// What of a merged configuration comes from the user's own file.
#[derive(Clone, Default)]
pub(super) struct OfUser {
    pub(super) folder: PathBuf,
    pub(super) providers: Vec<String>,
    pub(super) hooks: Vec<String>,
    /// Whether the tool servers are its.
    pub(super) servers: bool,
}

/// A hash of a configuration's text, in hex.
pub fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
