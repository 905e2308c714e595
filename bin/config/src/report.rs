//! Showing complaints: all of them in one report, each with its line, ready for a terminal or for a pipe.

use std::fmt;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::layers::{FileText, Layers};
use super::problem::{Finding, Findings, MAX_QUOTED_LINE, Origin, Problem};
use crate::sanitise;

/// All errors of a configuration. Contains no secret: quoted text is masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    problems: Vec<Problem>,
    /// How many there are; more than are listed when there are very many.
    count: usize,
}

impl ConfigError {
    pub(super) fn of_file(file: &Path, message: String, help: Option<String>) -> Self {
        let (origin, place) = (Origin::File, Some(file.to_owned()));
        let problem = Problem { message, help, origin, file: place, line: 0, column: 0, snippet: None };
        Self { file: file.to_owned(), problems: vec![problem], count: 1 }
    }

    /// Adds line and column to each error. `main` is the file that the report is about.
    pub(super) fn new(main: &Path, files: &[FileText<'_>], layers: &Layers, mut findings: Findings) -> Self {
        findings.list.sort_by_key(|finding| (finding.span.start, finding.span.end));
        let place = |finding: Finding| {
            let Finding { span, message, help } = finding;
            let origin = layers.origin(span.start);
            let message = match &origin {
                Origin::Option(name) => of_option(&message, name),
                Origin::File | Origin::Environment(_) => message,
            };
            let mut problem = Problem { message, help, origin, file: None, line: 0, column: 0, snippet: None };
            let file = files.iter().rev().find(|file| file.holds(span.start)).or(files.last());
            if problem.origin != Origin::File {
                return problem;
            }
            problem.file = Some(file.map_or(main, |file| file.file).to_owned());
            let Some(FileText { text, masked, start: before, .. }) = file else { return problem };
            let at = |place: usize| place.saturating_sub(*before);
            let start = text.floor_char_boundary(at(span.start).min(text.len()));
            let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
            problem.line = text[..start].matches('\n').count() + 1;
            problem.column = text[line_start..start].chars().count() + 1;
            let line = masked.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
            if line.len() <= MAX_QUOTED_LINE {
                // The parser may point into a character; the renderer needs character boundaries.
                let line = presentable(line);
                let marked = (start - line_start).min(line.len());
                let end = at(span.end).saturating_sub(line_start).clamp(marked, line.len());
                let span = line.floor_char_boundary(marked)..line.ceil_char_boundary(end);
                problem.snippet = Some((line, span));
            }
            problem
        };
        let count = findings.count;
        Self { file: main.to_owned(), problems: findings.list.into_iter().map(place).collect(), count }
    }

    /// The complaints in the order of the file, then of the environment, then of the command line; at most 50.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Renders the report, with a final line break. Use colours only if stderr is a terminal.
    pub fn render(&self, coloured: bool) -> String {
        let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
        let mut report = String::new();
        for problem in &self.problems {
            report.push_str(&self.render_one(problem, &renderer));
            report.push_str("\n\n");
        }
        let hidden = self.count - self.problems.len();
        let noun = if self.count == 1 { "problem" } else { "problems" };
        let is_in_file = self.count > self.problems.len() || self.problems.iter().any(|p| p.origin == Origin::File);
        match (is_in_file, self.problems.first().map(|problem| &problem.origin)) {
            (false, Some(Origin::Option(_))) => report.push_str("command line: "),
            (false, Some(Origin::Environment(_))) => report.push_str("environment: "),
            _ => report.push_str(&format!("{}: ", self.shown_file())),
        }
        report.push_str(&format!("{} {noun}", self.count));
        if hidden > 0 {
            report.push_str(&format!(", {hidden} of them not shown"));
        }
        report.push('\n');
        report
    }

    fn render_one(&self, problem: &Problem, renderer: &Renderer) -> String {
        let file = problem.file.as_deref().map_or_else(|| self.shown_file(), shown);
        let mut group = Group::with_title(Level::ERROR.primary_title(one_line(&problem.message)));
        match (&problem.origin, &problem.snippet) {
            (Origin::File, Some((line, span))) => {
                let annotation = AnnotationKind::Primary.span(span.clone());
                let snippet = Snippet::source(line.as_str()).line_start(problem.line).path(file);
                group = group.element(snippet.annotation(annotation));
            }
            (Origin::File, None) if problem.line > 0 => {
                let place = annotate_snippets::Origin::path(file).line(problem.line).char_column(problem.column);
                group = group.element(place);
            }
            (Origin::File, None) => group = group.element(annotate_snippets::Origin::path(file)),
            (Origin::Environment(name), _) => {
                group = group.element(Level::NOTE.message(format!("in the environment variable {}", one_line(name))));
            }
            (Origin::Option(name), _) => {
                group = group.element(Level::NOTE.message(format!("in the command line option {name}")));
            }
        }
        if let Some(help) = &problem.help {
            group = group.element(Level::HELP.message(one_line(help)));
        }
        renderer.render(&[group])
    }

    fn shown_file(&self) -> String {
        shown(&self.file)
    }
}

/// A message about a key that an option sets, as one about the option.
fn of_option(message: &str, option: &str) -> String {
    let behind = message.strip_prefix('`').and_then(|message| message.split_once('`')).map(|(_key, behind)| behind);
    behind.map_or_else(|| message.to_owned(), |behind| format!("`{option}`{behind}"))
}

fn shown(file: &Path) -> String {
    one_line(&file.display().to_string())
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for ConfigError {}

/// User text inside a message: on one line, sanitised and truncated.
fn one_line(text: &str) -> String {
    let clean = sanitise::clean(text).replace(['\n', '\t'], " ");
    match clean.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

/// A line of the file with unsafe characters replaced, byte for byte, so that the markers still fit.
fn presentable(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for character in line.chars() {
        match sanitise::is_shown(character) {
            true => shown.push(character),
            false => (0..character.len_utf8()).for_each(|_| shown.push('?')),
        }
    }
    shown
}
