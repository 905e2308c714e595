//! Globs over names and paths.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

#[derive(Debug)]
pub(super) struct BadPattern {
    pub(super) pattern: String,
    pub(super) reason: String,
}

impl BadPattern {
    pub(super) fn new(pattern: &str, error: &globset::Error) -> Self {
        Self { pattern: pattern.to_owned(), reason: error.kind().to_string() }
    }
}

/// A pattern in which `*` stays inside one part and `**` crosses parts; a lone `*` is everything.
pub(super) fn glob(pattern: &str) -> Result<Glob, BadPattern> {
    let everything = pattern == "*";
    let glob = GlobBuilder::new(if everything { "**" } else { pattern }).literal_separator(true).build();
    glob.map_err(|error| BadPattern::new(pattern, &error))
}

pub(super) fn glob_set(patterns: &[String]) -> Result<GlobSet, BadPattern> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(glob(pattern)?);
    }
    set.build().map_err(|error| BadPattern::new("", &error))
}
