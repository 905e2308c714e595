//! Lists of sessions for people: local times, ids as short as they can be, titles cut to the terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bob::SessionId;
use bob::config::clock;
use bob::sessions::{SessionState, SessionSummary};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthStr;

use crate::terminal::screen::look;

/// How many letters of a generated id are shown at least.
const LEAST_ID: usize = 8;

/// The width of a generated id. Others were chosen by a person and are shown in full.
const GENERATED: usize = 36;

/// How many columns of a folder are shown; of a longer one the end.
const MOST_FOLDER: usize = 24;

/// A narrower terminal has the time since the last use instead of the time of day.
const NARROW: usize = 60;

/// How many columns a title keeps beside everything else.
const LEAST_TITLE: usize = 12;

/// How the state of a session is named whose turn was interrupted.
pub(super) const INTERRUPTED: &str = "interrupted";

/// The first column of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The local time of the last use.
    Time,
    /// A number, from 1, and the time since the last use.
    Number,
}

/// One line for each session: time, id, title, and in brackets a state other than idle and the working folder.
/// `all` are the sessions of the store, among which the shown ids are unique; ids are whole where these are not known. `interrupted`
/// are those that no process runs.
/// `columns` is the width of the terminal; `None` cuts nothing.
pub(crate) fn rows(
    sessions: &[SessionSummary],
    all: Option<&[SessionSummary]>,
    interrupted: &BTreeSet<SessionId>,
    first: First,
    columns: Option<usize>,
) -> Vec<String> {
    let whole = || sessions.iter().map(|summary| summary.session.to_string()).collect();
    let ids = all.map_or_else(whole, |all| short(sessions, all));
    let widest = ids.iter().map(|id| id.width()).max().unwrap_or(0);
    let now = clock::now();
    let digits = sessions.len().to_string().len();
    let is_narrow = columns.is_some_and(|columns| columns < NARROW);
    let row = |(at, (summary, id)): (usize, (&SessionSummary, &String))| {
        let begins = match first {
            First::Time if is_narrow => format!("{:>8}", age(summary.updated_at, now)),
            First::Time => time(summary.updated_at),
            First::Number => format!("{:>digits$}  {:>8}", at + 1, age(summary.updated_at, now)),
        };
        let begins = format!("{begins}  {id}{}  ", " ".repeat(widest - id.width()));
        let room = columns.map(|columns| columns.saturating_sub(begins.width()).max(LEAST_TITLE));
        let state = match interrupted.contains(&summary.session) {
            true => Some(INTERRUPTED),
            false => summary.state.filter(|state| *state != SessionState::Idle).map(SessionState::as_str),
        };
        let row = format!("{begins}{}", titled(summary, state, room));
        columns.map_or_else(|| row.clone(), |columns| look::cut(&row, columns)).trim_end().to_owned()
    };
    sessions.iter().zip(&ids).enumerate().map(row).collect()
}

/// One session in an error: its whole id, its age and title.
pub(super) fn candidate(summary: &SessionSummary) -> String {
    let title = summary.title.as_deref().unwrap_or("(no message)");
    format!("{}  {}  {}", summary.session, age(summary.updated_at, clock::now()), look::cut(title, 40))
}

/// The title, and what is to be known beside it, in this many columns.
fn titled(summary: &SessionSummary, state: Option<&str>, room: Option<usize>) -> String {
    let title = summary.title.as_deref().unwrap_or("(no message)");
    let state = state.map_or_else(String::new, |state| format!("[{state}] "));
    let folder = |most| summary.cwd.as_deref().map(|cwd| format!("  [{}]", end_of(cwd, most))).unwrap_or_default();
    let Some(room) = room else { return format!("{state}{title}{}", folder(usize::MAX)) };
    let folder = folder(MOST_FOLDER);
    let left = room.saturating_sub(state.width() + folder.width());
    match left >= LEAST_TITLE {
        true => format!("{state}{}{folder}", look::cut(title, left)),
        false => look::cut(&format!("{state}{title}"), room),
    }
}

/// The end of a path, cut to a number of columns.
fn end_of(path: &str, columns: usize) -> String {
    if path.width() <= columns {
        return path.to_owned();
    }
    let mut from = 0;
    while path[from..].width() >= columns {
        from = path.ceil_char_boundary(from + 1);
    }
    format!("…{}", &path[from..])
}

/// The ids, the generated ones cut to the shortest beginning that only one of all sessions has, without those that work for
/// others: their ids begin as that of their parent, which is then meant.
fn short(sessions: &[SessionSummary], all: &[SessionSummary]) -> Vec<String> {
    let tops = all.iter().filter(|summary| summary.parent.is_none()).chain(sessions);
    let mut sorted: Vec<&str> = tops.map(|summary| summary.session.as_str()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let common =
        |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let mut needed: BTreeMap<&str, usize> = BTreeMap::new();
    for pair in sorted.windows(2) {
        let shared = common(pair[0], pair[1]) + 1;
        for id in pair {
            let most = needed.entry(id).or_default();
            *most = shared.max(*most);
        }
    }
    let cut = |id: &str| match id.len() == GENERATED && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
    {
        true => {
            let end = needed.get(id).copied().unwrap_or(0).clamp(LEAST_ID, id.len());
            // An id that ends in a dash is hard to read, and its next letter costs nothing.
            if id[..end].ends_with('-') { id[..=end].to_owned() } else { id[..end].to_owned() }
        }
        false => id.to_owned(),
    };
    sessions.iter().map(|summary| cut(summary.session.as_str())).collect()
}

/// A time of day in the zone of this machine.
pub(crate) fn time(at: bob::config::Millis) -> String {
    let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// The time since then, in one unit.
fn age(then: bob::config::Millis, now: bob::config::Millis) -> String {
    let since = Duration::from_millis(u64::try_from(now.saturating_sub(then)).unwrap_or(0)).as_secs();
    match since {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min", since / 60),
        3_600..86_400 => format!("{} h", since / 3_600),
        86_400..172_800 => "1 day".to_owned(),
        _ => format!("{} days", since / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, title: &str, cwd: Option<&str>) -> SessionSummary {
        let mut summary = SessionSummary::bare(SessionId::parse(id).unwrap(), clock::now() - 7_200_000, 1);
        summary.title = Some(title.into());
        summary.cwd = cwd.map(Into::into);
        summary
    }

    #[test]
    fn generated_ids_are_as_short_as_they_can_be_and_chosen_ones_are_whole() {
        let all = [
            session("01a20425-934c-739d-9131-5ddc0d65aef1", "a", None),
            session("01a20425-934c-739d-9fff-5ddc0d65aef1", "b", None),
            session("01b20425-934c-739d-9131-5ddc0d65aef1", "c", None),
            session("a-name-that-a-person-chose", "d", None),
        ];
        assert_eq!(
            short(&all, &[]),
            ["01a20425-934c-739d-91", "01a20425-934c-739d-9f", "01b20425", "a-name-that-a-person-chose"]
        );
        assert_eq!(short(&all[..1], &all), ["01a20425-934c-739d-91"], "also where the others are not shown");
    }

    #[test]
    fn a_row_fits_its_terminal() {
        let all = [
            session(
                "01a20425-934c-739d-9131-5ddc0d65aef1",
                &"a long title ".repeat(6),
                Some("/home/ada/a/deep/folder/of/work"),
            ),
            session("01a20425-934d-739d-9131-5ddc0d65aef1", &"another one ".repeat(6), None),
            session("notes", "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字", None),
        ];
        let none = BTreeSet::new();
        for columns in [120, 80, 40] {
            for first in [First::Time, First::Number] {
                for row in rows(&all, Some(&all), &none, first, Some(columns)) {
                    assert!(row.width() <= columns, "{columns}: {row}");
                }
            }
        }
        assert_eq!(rows(&all, Some(&all), &none, First::Time, Some(40))[1], "     2 h  01a20425-934d  another one an…");
        assert!(
            rows(&all, None, &none, First::Time, None)[1].contains("  01a20425-934d-739d-9131-5ddc0d65aef1  another")
        );
        let row = &rows(&all[..1], Some(&all[..1]), &none, First::Number, Some(80))[0];
        assert_eq!(row, "1       2 h  01a20425  a long title a long title a …  […a/a/deep/folder/of/work]");
        let interrupted = BTreeSet::from([all[2].session.clone()]);
        let row = &rows(&all[2..], Some(&all[2..]), &interrupted, First::Time, Some(40))[0];
        assert_eq!(row, "     2 h  notes  [interrupted] 漢字漢字…");
    }
}
