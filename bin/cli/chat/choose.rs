//! A list of which a person chooses one: by its number, or by text that narrows the list.

use bob::sessions::{SessionFilter, SessionSummary};
use bob::{AgentRuntime, ModelName, SessionId};

use super::{Input, Source, alive};
use crate::commands::sessions::rows::{self, First};
use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::signals::Signals;
use crate::terminal::print;
use crate::terminal::screen::look::Look;

/// How many entries are shown at once.
const MOST_SHOWN: usize = 15;

/// How many sessions can be chosen; others are resumed by their id.
const MOST_SESSIONS: usize = 500;

pub(super) enum Chosen<T> {
    This(T),
    Nothing,
    /// A signal ends the program.
    Ended(Exit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Session,
    Model,
}

/// Asks which session to continue.
pub(super) async fn session(
    opened: &OpenRuntime,
    source: &mut Source,
    signals: &mut Signals,
) -> Result<Chosen<SessionId>, Failure> {
    let filter = SessionFilter { limit: MOST_SESSIONS, ..SessionFilter::default() };
    let mut sessions = opened.runtime.sessions(filter, None).await?.sessions;
    // A child session is continued by its parent.
    sessions.retain(|summary| summary.parent.is_none());
    if sessions.is_empty() {
        return Err(Failure::usage("no sessions yet"));
    }
    let interrupted = alive::interrupted(opened, &sessions).await;
    let list = |shown: &[&SessionSummary]| {
        let shown: Vec<SessionSummary> = shown.iter().copied().cloned().collect();
        rows::rows(&shown, Some(&sessions), &interrupted, First::Number, Some(Look::now().columns))
    };
    Ok(match one_of(&sessions, list, is_about, source, signals).await? {
        Chosen::This(summary) => Chosen::This(summary.session.clone()),
        Chosen::Nothing => Chosen::Nothing,
        Chosen::Ended(exit) => Chosen::Ended(exit),
    })
}

/// Whether the id of a session begins with this, or its title or folder has it. Within an id digits say nothing.
fn is_about(summary: &SessionSummary, line: &str) -> bool {
    let mut texts = [&summary.title, &summary.cwd].into_iter().flatten();
    summary.session.as_str().to_lowercase().starts_with(line) || texts.any(|text| text.to_lowercase().contains(line))
}

pub(super) async fn model(
    models: &[String],
    now: &ModelName,
    source: &mut Source,
    signals: &mut Signals,
) -> Result<Chosen<String>, Failure> {
    print::note(&format!("model {now}; /model PROVIDER:MODEL uses any model of a configured provider"));
    if models.len() < 2 {
        return Ok(Chosen::Nothing);
    }
    let list = |shown: &[&String]| {
        let row = |(at, model): (usize, &&String)| format!("{:>2}  {model}", at + 1);
        shown.iter().enumerate().map(row).collect()
    };
    Ok(
        match one_of(models, list, |model: &String, line| model.to_lowercase().contains(line), source, signals).await? {
            Chosen::This(model) => Chosen::This(model.clone()),
            Chosen::Nothing => Chosen::Nothing,
            Chosen::Ended(exit) => Chosen::Ended(exit),
        },
    )
}

async fn one_of<'a, T>(
    all: &'a [T],
    list: impl Fn(&[&T]) -> Vec<String>,
    is_about: impl Fn(&T, &str) -> bool,
    source: &mut Source,
    signals: &mut Signals,
) -> Result<Chosen<&'a T>, Failure> {
    let Source::Person(editor) = source else {
        return Err(Failure::usage("a list can be chosen from at a terminal only; name what you mean"));
    };
    let mut fits: Vec<&T> = all.iter().collect();
    loop {
        let shown = &fits[..fits.len().min(MOST_SHOWN)];
        list(shown).iter().for_each(|row| print::note(row));
        if fits.len() > shown.len() {
            print::note(&format!("and {} more", fits.len() - shown.len()));
        }
        let input = tokio::select! {
            input = editor.answer("number, or text to search> ", "") => input,
            caught = signals.next() => return Ok(Chosen::Ended(caught.exit())),
        };
        let Input::Line(line) = input else { return Ok(Chosen::Nothing) };
        let line = String::from_utf8_lossy(&line).trim().to_lowercase();
        match meant(&line, shown.len(), &fits, &is_about) {
            Meant::Nothing => return Ok(Chosen::Nothing),
            Meant::Number(at) => return Ok(Chosen::This(fits[at])),
            Meant::Fewer(found) => match found.as_slice() {
                [] => {
                    print::note(&format!("nothing contains {line}"));
                    fits = all.iter().collect();
                }
                [only] => return Ok(Chosen::This(only)),
                _ => fits = found,
            },
            Meant::Beyond(found) if found.is_empty() => {
                print::note(&format!("{line} is not in the list: 1 to {}, or text to search", shown.len()));
            }
            Meant::Beyond(found) => fits = found,
        }
    }
}

enum Meant<'a, T> {
    Nothing,
    Number(usize),
    Fewer(Vec<&'a T>),
    /// A number that is not in the list, and what has it as text: this chooses nothing, since a slip of the finger may.
    Beyond(Vec<&'a T>),
}

/// A number of the list chooses; any other text, also a larger number, narrows it.
fn meant<'a, T>(line: &str, shown: usize, fits: &[&'a T], is_about: &impl Fn(&T, &str) -> bool) -> Meant<'a, T> {
    if line.is_empty() {
        return Meant::Nothing;
    }
    let found = || fits.iter().copied().filter(|one| is_about(one, line)).collect();
    match line.parse::<usize>() {
        Ok(number) if (1..=shown).contains(&number) => Meant::Number(number - 1),
        Ok(_) => Meant::Beyond(found()),
        Err(_) => Meant::Fewer(found()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_chooses_and_text_narrows() {
        let all = ["Fix the build", "Write 12 tests", "build a boat"];
        let fits: Vec<&&str> = all.iter().collect();
        let is_about = |one: &&str, line: &str| one.to_lowercase().contains(line);
        let meant = |line: &str| match meant(line, 3, &fits, &is_about) {
            Meant::Nothing => "nothing".to_owned(),
            Meant::Number(at) => format!("number {at}"),
            Meant::Fewer(found) | Meant::Beyond(found) => found.into_iter().copied().collect::<Vec<_>>().join(","),
        };
        assert_eq!((meant("2").as_str(), meant("").as_str()), ("number 1", "nothing"));
        assert_eq!((meant("build").as_str(), meant("12").as_str()), ("Fix the build,build a boat", "Write 12 tests"));
        assert_eq!((meant("0").as_str(), meant("xyz").as_str()), ("", ""));
    }

    #[test]
    fn a_number_beyond_the_list_chooses_nothing_that_has_its_digits() {
        let all = ["room 99"];
        let fits: Vec<&&str> = all.iter().collect();
        let found = |line: &str| meant(line, 1, &fits, &|one: &&str, line: &str| one.contains(line));
        assert!(matches!(found("99"), Meant::Beyond(found) if found.len() == 1));
        assert!(matches!(found("77"), Meant::Beyond(found) if found.is_empty()));
        assert!(matches!(found("room"), Meant::Fewer(found) if found.len() == 1));
    }
}
