//! Complaints: collected while the configuration is read, then given a place a person can find.

use std::ops::Range;
use std::path::PathBuf;

/// Further errors are only counted: a hostile file could contain a million.
const MAX_KEPT: usize = 50;

/// Lines longer than this are not quoted, bytes.
pub(super) const MAX_QUOTED_LINE: usize = 240;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the configuration file.
    File,
    /// In an environment variable of this name.
    Environment(String),
    /// In a command line option of this name.
    Option(String),
}

/// One complaint about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The error: a lowercase fragment without a full stop.
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
    /// Which layer it was written in.
    pub origin: Origin,
    /// The file, if that is its layer.
    pub file: Option<PathBuf>,
    /// The line in the file, from 1; 0 when the origin has no lines.
    pub line: usize,
    /// The column in that line, in characters from 1; 0 when the origin has no lines.
    pub column: usize,
    /// The line of the file with its secrets painted over, and the bytes of it that are meant.
    pub(super) snippet: Option<(String, Range<usize>)>,
}

/// A complaint by its place in the text of all layers.
pub(super) struct Finding {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

#[derive(Default)]
pub(super) struct Findings {
    pub(super) list: Vec<Finding>,
    /// How many there are, those that were not kept included.
    pub(super) count: usize,
}

impl Findings {
    /// Whether further complaints are only counted.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_KEPT
    }

    /// Adds an error, unless this position has one already: the first one is the cause.
    pub(super) fn add(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.add_with_help(span, message, None);
    }

    /// Adds an error with a hint how to fix it.
    pub(super) fn add_with_help(&mut self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        let said = |other: &Finding| {
            !other.span.is_empty() && !span.is_empty() && other.span.start < span.end && span.start < other.span.end
                || other.span == span
        };
        if self.list.iter().any(said) {
            return;
        }
        self.count += 1;
        if !self.is_full() {
            self.list.push(Finding { span, message: message.into(), help });
        }
    }
}
