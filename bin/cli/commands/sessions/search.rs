//! `sessions search`: the sessions in which a text was said, by a person or the model, or stands in the title.

use std::sync::Arc;

use bob::sessions::SessionSummary;
use bob::store::Fact;
use bob::store::{Record, SessionStore};
use serde_json::json;

use super::rows::{self, First};
use super::{columns, find};
use crate::exit::Failure;
use crate::terminal::print;
use crate::terminal::screen::look;

/// How many lines of a session are shown.
const MOST_LINES: usize = 3;

/// How many characters stand before the text in a line that is cut.
const BEFORE: usize = 24;

/// How many columns a line has where nothing limits it.
const USUAL: usize = 160;

struct Found {
    summary: SessionSummary,
    /// Who said it, and the line.
    lines: Vec<(&'static str, String)>,
    all: usize,
}

/// Searches sessions, the last used first, until `limit` of them are found; 0: all. Letters match in either case. A
/// journal is read at a time; one that cannot be read is passed over. Errors: an empty text; no session has it.
pub(super) async fn search(
    store: &dyn SessionStore,
    sessions: &[SessionSummary],
    text: &str,
    limit: usize,
    as_json: bool,
) -> Result<(), Failure> {
    let wanted = text.trim().to_lowercase();
    if wanted.is_empty() {
        return Err(Failure::usage("the text to search for is empty"));
    }
    let mut found = Vec::new();
    for summary in sessions {
        let Ok(records) = store.load(&summary.session).await else { continue };
        found.extend(look_in(summary, &records, &wanted));
        if limit > 0 && found.len() == limit {
            break;
        }
    }
    if as_json {
        let one = |found: &Found| {
            let lines = found.lines.iter().map(|(who, line)| json!({ "who": who, "line": line }));
            json!({
                "session_id": found.summary.session, "title": found.summary.title,
                "updated_at": found.summary.updated_at, "matches": found.all, "lines": lines.collect::<Vec<_>>(),
            })
        };
        print::json(&json!({ "sessions": found.iter().map(one).collect::<Vec<_>>() }))?;
        return Ok(());
    }
    let summaries: Vec<_> = found.iter().map(|found| found.summary.clone()).collect();
    let interrupted = find::interrupted(store, &summaries).await;
    for (row, found) in rows::rows(&summaries, Some(sessions), &interrupted, First::Time, columns()).iter().zip(&found)
    {
        print::line(row)?;
        for (who, line) in &found.lines {
            print::line(&look::cut(&format!("    {who}: {line}"), columns().unwrap_or(USUAL)))?;
        }
        if found.all > found.lines.len() {
            print::line(&format!("    and {} more lines", found.all - found.lines.len()))?;
        }
    }
    if found.is_empty() {
        print::note(&format!("no session contains {}", print::on_one_line(text, USUAL)));
    }
    Ok(())
}

fn look_in(summary: &SessionSummary, records: &[Arc<Record>], wanted: &str) -> Option<Found> {
    let said = records.iter().flat_map(|record| said(&record.fact));
    let mut lines = Vec::new();
    let mut all = 0;
    for (who, text) in said {
        for line in text.lines().filter(|line| line.to_lowercase().contains(wanted)) {
            all += 1;
            if lines.len() < MOST_LINES {
                lines.push((who, around(line, wanted)));
            }
        }
    }
    let is_titled = summary.title.as_deref().is_some_and(|title| title.to_lowercase().contains(wanted));
    (all > 0 || is_titled).then(|| Found { summary: summary.clone(), lines, all })
}

fn said(fact: &Fact) -> Vec<(&'static str, String)> {
    match fact {
        Fact::Input(input) => input.parts.iter().map(|part| ("you", part.as_text())).collect(),
        Fact::Steered { parts, .. } => parts.iter().map(|part| ("you", part.as_text())).collect(),
        Fact::Resumed { reply, .. } => vec![("you", reply.clone())],
        Fact::Answered(answered) => vec![("model", answered.text.clone())],
        _not_said => Vec::new(),
    }
}

/// A line from shortly before the text on.
fn around(line: &str, wanted: &str) -> String {
    let line = line.trim();
    let Some(at) = line.to_lowercase().find(wanted) else { return line.to_owned() };
    let characters = line.get(..at).map_or(0, |before| before.chars().count());
    if characters <= BEFORE {
        return line.to_owned();
    }
    let rest: String = line.chars().skip(characters - BEFORE).collect();
    format!("…{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_from_shortly_before_the_text() {
        assert_eq!(around("  a short Line", "line"), "a short Line");
        let long = format!("{} Needle here", "word ".repeat(20));
        assert_eq!(around(&long, "needle"), "…rd word word word word  Needle here");
    }
}
