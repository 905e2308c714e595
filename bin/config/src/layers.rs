//! The layers above the file: the environment and the command line.
//!
//! Each layer becomes a TOML document whose text begins where that of the layer below ends, so the position of a
//! value identifies its layer, and all rules apply to all layers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::problem::{Findings, Origin};
use super::{secret, tree};

/// The prefix of environment variables that set a key: `BOB__RUNTIME__MAX_STEPS` sets `runtime.max_steps`.
const PREFIX: &str = "BOB__";

/// The environment variables a configuration may read, handed in so that tests need not change their process.
///
/// Has no `Debug`: environments are full of secrets.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>, Option<&'static str>);

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect(), None)
    }

    /// Gives every variable that is not set this value, for a caller that sends nothing anywhere.
    #[must_use]
    pub fn or_else(self, unset: &'static str) -> Self {
        Self(self.0, Some(unset))
    }

    /// The path in a variable that is set to one.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The value of a variable: nothing when it is not set, `Err` when it is not valid UTF-8.
    pub(super) fn get(&self, name: &str) -> Option<Result<&str, ()>> {
        let value = self.0.get(OsStr::new(name)).map(|value| value.to_str().ok_or(()));
        value.or_else(|| self.1.map(Ok))
    }
}

impl<'v> FromIterator<(&'v str, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (&'v str, String)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(), None)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(), None)
    }
}

/// Settings of the command line. They override all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--model`: `runtime.default_model`. For a session with a stored model, also pass it to the session.
    pub model: Option<String>,
    /// `--max-steps`: `runtime.max_steps`.
    pub max_steps: Option<u64>,
    /// `--timeout-ms`: `runtime.turn_timeout_ms`.
    pub timeout_ms: Option<u64>,
}

/// A file of the configuration. Its text begins where that of the file below it ends.
pub(super) struct FileText<'t> {
    pub(super) file: &'t Path,
    pub(super) text: &'t str,
    /// The text behind as many blanks as there is text below it.
    pub(super) placed: Cow<'t, str>,
    /// How many blanks.
    pub(super) start: usize,
    /// The text with its secrets painted over.
    pub(super) masked: String,
}

impl<'t> FileText<'t> {
    /// The files in their order, the lowest first.
    pub(super) fn stack(files: &[(&'t Path, &'t str)]) -> Vec<Self> {
        let mut start = 0;
        let place = |(file, text): &(&'t Path, &'t str)| {
            let placed = if start == 0 { Cow::Borrowed(*text) } else { Cow::Owned(" ".repeat(start) + text) };
            let placed = Self { file, text, start, masked: String::new(), placed };
            // One more than the file holds, so that a complaint about its end stays one about the file.
            start = placed.placed.len() + 1;
            placed
        };
        files.iter().map(place).collect()
    }

    /// Whether a value of this place stands in the file.
    pub(super) fn holds(&self, at: usize) -> bool {
        (self.start..=self.placed.len()).contains(&at)
    }
}

/// The concatenated texts of all layers, and the origin of each part.
pub(super) struct Layers {
    pub(super) environment: String,
    pub(super) options: String,
    pub(super) origins: Vec<(Range<usize>, Origin)>,
}

impl Layers {
    /// Writes the layers above files of this many bytes.
    pub(super) fn above(
        file_bytes: usize,
        environment: &Environment,
        overrides: &Overrides,
        findings: &mut Findings,
    ) -> Self {
        let mut origins = Vec::new();
        // One more than the file holds, so that a complaint about the end of the file stays one about the file.
        let mut text = " ".repeat(file_bytes + 1);
        for (name, value) in &environment.0 {
            let shown = name.to_string_lossy();
            let Some(key) = shown.strip_prefix(PREFIX) else { continue };
            let start = text.len();
            match assignment(key, value.to_str()) {
                Ok(line) => text.push_str(&line),
                Err(reason) => {
                    text.push_str("# refused");
                    findings.add(start..text.len(), reason);
                }
            }
            origins.push((start..text.len(), Origin::Environment(shown.clone().into_owned())));
            text.push('\n');
        }
        let mut options = " ".repeat(text.len());
        let given = [
            ("--model", "default_model", overrides.model.as_deref().map(tree::quoted)),
            ("--max-steps", "max_steps", overrides.max_steps.map(|steps| steps.to_string())),
            ("--timeout-ms", "turn_timeout_ms", overrides.timeout_ms.map(|time| time.to_string())),
        ];
        for (option, key, value) in given {
            let Some(value) = value else { continue };
            let start = options.len();
            options.push_str(&format!("runtime.{key} = {value}"));
            origins.push((start..options.len(), Origin::Option(option.to_owned())));
            options.push('\n');
        }
        Self { environment: text, options, origins }
    }

    /// Returns the origin of a position; by default the file.
    pub(super) fn origin(&self, at: usize) -> Origin {
        let layer = self.origins.iter().find(|(range, _)| range.contains(&at) || range.end == at);
        layer.map_or(Origin::File, |(_, origin)| origin.clone())
    }
}

fn assignment(key: &str, value: Option<&str>) -> Result<String, String> {
    let mut is_verbatim = false;
    let part = |part: &str| {
        let part = if is_verbatim { part.to_owned() } else { part.to_lowercase() };
        // Names below these keys belong to other programs and are case-sensitive.
        is_verbatim |= matches!(part.as_str(), "env" | "headers");
        part
    };
    let path: Vec<String> = key.split("__").map(part).collect();
    if path.len() > tree::MAX_DEPTH || path.iter().any(String::is_empty) {
        return Err("this variable names no key; write it like BOB__RUNTIME__MAX_STEPS".to_owned());
    }
    let value = value.ok_or_else(|| "the value of this variable is not valid UTF-8".to_owned())?;
    Ok(format!("{} = {}", tree::shown(&path), as_value(&path, value)))
}

/// The value of a key as it is written in a file.
pub(super) fn as_value(path: &[String], value: &str) -> String {
    // A key or a password may look like a number; secrets are always strings.
    match path.iter().any(|part| secret::is_secret_key(part)) && !value.trim_start().starts_with('{') {
        true => tree::quoted(value),
        false => as_toml(value),
    }
}

/// A value as it is when it is TOML by itself, else as a string. Dates have no place in the schema and stay text.
fn as_toml(value: &str) -> String {
    let line = format!("v = {value}");
    let (root, errors) = tree::parse(&line);
    let is_date = root.get("v").is_none_or(|item| item.get_ref().is_datetime());
    if errors.is_empty() && root.len() == 1 && !is_date { value.to_owned() } else { tree::quoted(value) }
}
