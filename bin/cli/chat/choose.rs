//! A list of which a person chooses one: by its number, or by text that narrows the list.

use bob::sessions::{SessionFilter, SessionSummary};
use bob::{AgentRuntime, ModelName, Runtime, SessionId};

use super::{Input, Source};
use crate::commands::sessions::rows::{self, First};
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::terminal::print;
use crate::terminal::screen::look::Look;

/// How many entries are shown at once.
const MOST_SHOWN: usize = 15;

/// How many sessions can be chosen; others are resumed by their id.
const MOST_SESSIONS: usize = 500;

/// What a person chose.
pub(super) enum Chosen<T> {
    This(T),
    Nothing,
    /// A signal ends the program.
    Ended(Exit),
}

/// What the next line chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Session,
    Model,
}

/// Asks which session to continue.
pub(super) async fn session(
    runtime: &Runtime,
    source: &mut Source,
    signals: &mut Signals,
) -> Result<Chosen<SessionId>, Failure> {
    let filter = SessionFilter { limit: MOST_SESSIONS, ..SessionFilter::default() };
    let mut sessions = runtime.sessions(filter, None).await?.sessions;
    // A child session is continued by its parent.
    sessions.retain(|summary| summary.parent.is_none());
    if sessions.is_empty() {
        return Err(Failure::usage("no sessions yet"));
    }
    let list = |shown: &[&SessionSummary]| {
        let shown: Vec<SessionSummary> = shown.iter().copied().cloned().collect();
        rows::rows(&shown, &sessions, First::Number, Some(Look::now().columns))
    };
    let searched = |summary: &SessionSummary| {
        let [title, cwd] = [&summary.title, &summary.cwd].map(|text| text.as_deref().unwrap_or_default());
        format!("{} {title} {cwd}", summary.session)
    };
    Ok(match one_of(&sessions, list, searched, source, signals).await? {
        Chosen::This(summary) => Chosen::This(summary.session.clone()),
        Chosen::Nothing => Chosen::Nothing,
        Chosen::Ended(exit) => Chosen::Ended(exit),
    })
}

/// Asks which of these models to use.
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
    Ok(match one_of(models, list, String::clone, source, signals).await? {
        Chosen::This(model) => Chosen::This(model.clone()),
        Chosen::Nothing => Chosen::Nothing,
        Chosen::Ended(exit) => Chosen::Ended(exit),
    })
}

async fn one_of<'a, T>(
    all: &'a [T],
    list: impl Fn(&[&T]) -> Vec<String>,
    searched: impl Fn(&T) -> String,
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
        match meant(&line, shown.len(), &fits, &searched) {
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
        }
    }
}

enum Meant<'a, T> {
    Nothing,
    Number(usize),
    Fewer(Vec<&'a T>),
}

/// A number of the list chooses; any other text, also a larger number, narrows it.
fn meant<'a, T>(line: &str, shown: usize, fits: &[&'a T], searched: &impl Fn(&T) -> String) -> Meant<'a, T> {
    if line.is_empty() {
        return Meant::Nothing;
    }
    match line.parse::<usize>() {
        Ok(number) if (1..=shown).contains(&number) => Meant::Number(number - 1),
        Ok(_) | Err(_) => {
            Meant::Fewer(fits.iter().copied().filter(|one| searched(one).to_lowercase().contains(line)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_chooses_and_text_narrows() {
        let all = ["Fix the build", "Write 12 tests", "build a boat"];
        let fits: Vec<&&str> = all.iter().collect();
        let meant = |line: &str| match meant(line, 3, &fits, &|one: &&str| (*one).to_owned()) {
            Meant::Nothing => "nothing".to_owned(),
            Meant::Number(at) => format!("number {at}"),
            Meant::Fewer(found) => found.into_iter().copied().collect::<Vec<_>>().join(","),
        };
        assert_eq!((meant("2").as_str(), meant("").as_str()), ("number 1", "nothing"));
        assert_eq!((meant("build").as_str(), meant("12").as_str()), ("Fix the build,build a boat", "Write 12 tests"));
        assert_eq!((meant("0").as_str(), meant("xyz").as_str()), ("", ""));
    }
}
