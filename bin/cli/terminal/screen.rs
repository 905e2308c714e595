//! Shows a turn: as plain text on a pipe or a dumb terminal, and on any other terminal with rendered Markdown and
//! status lines below.
//!
//! It owns the layout and the cursor and decides nothing about turns: [`crate::terminal::show`] provides the content.
//! Input is sanitised already, or is sanitised here before styles are added.
//!
//! - `live`: the status lines below all other output
//! - `answer`: splits a growing answer into finished and unfinished parts
//! - `markdown`: renders a finished part of Markdown
//! - `look`: width and colours

mod answer;
mod live;
pub(crate) mod look;
#[cfg(feature = "markdown")]
mod markdown;

use std::collections::VecDeque;
use std::io::{self, IsTerminal};

use bob::tools::{CallId, CallStatus};
use bob_config::sanitise;

use crate::terminal::show::Piece;
use crate::terminal::{diff, print};
use answer::Answer;
pub(crate) use live::Live;
use look::Look;

/// How many pieces are held back during a question; beyond that the oldest are shown during it.
const MOST_HELD: usize = 1_000;

/// Whether answers may be shown in more than plain text: both ways out are a terminal that can be drawn on.
pub(crate) fn is_drawn_on() -> bool {
    io::stdout().is_terminal() && print::stderr_is_screen()
}

pub(crate) fn rendered(text: &str, look: Look) -> String {
    if print::is_plain() {
        return format!("{}\n", sanitise::clean(text));
    }
    let mut answer = Answer::default();
    answer.push(&sanitise::clean(text), look) + &answer.finish(look)
}

pub(crate) struct Screen {
    /// The lines below; `None` where everything is plain.
    live: Option<Live>,
    answer: Answer,
    running: Vec<(CallId, String)>,
    /// Pieces held back during a question.
    held: Option<VecDeque<Piece>>,
    /// The last line of the answer, where everything is plain.
    line: Line,
    /// What was told of last, where it is told.
    state: &'static str,
}

/// The last line of an answer in plain text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Ended,
    Open,
    /// It was ended for a question: the end that it has itself is not shown.
    EndedHere,
}

impl Screen {
    pub(crate) fn new(live: Option<&Live>) -> Self {
        live.iter().for_each(|live| live.begin());
        Self {
            live: live.cloned(),
            answer: Answer::default(),
            running: Vec::new(),
            held: None,
            line: Line::Ended,
            state: "",
        }
    }

    pub(crate) fn print(&mut self, pieces: Vec<Piece>) -> io::Result<()> {
        for piece in pieces {
            match &mut self.held {
                None => self.show(piece)?,
                Some(held) => {
                    held.push_back(piece);
                    if held.len() > MOST_HELD
                        && let Some(oldest) = held.pop_front()
                    {
                        self.show(oldest)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Shows how many tokens the turn has used so far; `about` if partly estimated.
    pub(crate) fn tokens(&self, tokens: u64, about: bool) {
        if let Some(live) = &self.live {
            live.change(|below| below.tokens = (tokens, about));
        }
    }

    /// Holds back all output during a question, until [`release`](Self::release). What has arrived before it is shown whole:
    /// it may say what the question is about.
    pub(crate) fn hold(&mut self) -> io::Result<()> {
        if self.held.is_some() {
            return Ok(());
        }
        self.held = Some(VecDeque::new());
        match self.live.clone() {
            Some(live) => self.end_answer(&live, Look::now()),
            None if self.line == Line::Open => {
                self.line = Line::EndedHere;
                print::cleaned("\n")
            }
            None => Ok(()),
        }
    }

    /// Shows the output that was held back.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        let Some(held) = self.held.take() else { return Ok(()) };
        self.print(held.into())
    }

    fn show(&mut self, piece: Piece) -> io::Result<()> {
        let Some(live) = self.live.clone() else {
            return if print::speaks() { self.speak(&piece) } else { self.plain(&piece) };
        };
        let look = Look::now();
        match piece {
            Piece::Answer(text) => {
                let finished = self.answer.push(&text, look);
                live.change(|below| self.answer.unfinished().clone_into(&mut below.tail));
                if !finished.is_empty() {
                    print::cleaned(&finished)?;
                }
            }
            Piece::NewMessage => self.end_answer(&live, look)?,
            Piece::Note(line) => {
                self.end_answer(&live, look)?;
                print::report(&look.note(&line));
            }
            Piece::Change(line) => {
                self.end_answer(&live, look)?;
                print::report(&diff::line(&line, look));
            }
            Piece::Doing(what) => live.change(|below| what.clone_into(&mut below.doing)),
            Piece::Output(line) => live.change(|below| below.output = sanitise::clean(&line).into_owned()),
            Piece::Call { id, line } => {
                live.change(|below| (below.doing, below.output) = (line.clone(), String::new()));
                self.running.push((id, line));
            }
            Piece::Result { id, status, line, name } => {
                let known = self.running.iter().position(|(call, _)| *call == id).map(|at| self.running.remove(at).1);
                // A call that never ran has no start line.
                let known = known.or(name);
                self.end_answer(&live, look)?;
                print::report(&look.call(known.as_deref(), status, &line));
                let others = self.running.last().map(|(_, line)| line.clone());
                let doing = others.unwrap_or_else(|| "thinking".to_owned());
                live.change(|below| (below.doing, below.output) = (doing, String::new()));
            }
            Piece::End => {
                self.end_answer(&live, look)?;
                for (_, line) in std::mem::take(&mut self.running) {
                    print::report(&look.call(Some(&line), CallStatus::Unknown, "not finished"));
                }
            }
        }
        Ok(())
    }

    /// Shows a piece for a screen reader: what goes on is a sentence, told once.
    fn speak(&mut self, piece: &Piece) -> io::Result<()> {
        match piece {
            Piece::Doing("thinking") if self.state != "thinking" => print::note("The model is thinking."),
            Piece::Call { line, .. } => print::note(&format!("A tool is running: {line}")),
            Piece::Result { line, name, .. } => {
                let name = name.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
                print::note(&format!("The result{name}: {line}"));
            }
            another => self.plain(another)?,
        }
        self.state = match piece {
            Piece::Doing(what) => what,
            Piece::Answer(_) | Piece::Result { .. } => "",
            _no_other_state => self.state,
        };
        Ok(())
    }

    /// Shows a piece as plain text: the answer as it arrives, and whole lines.
    fn plain(&mut self, piece: &Piece) -> io::Result<()> {
        match piece {
            Piece::Answer(text) => {
                let was_ended_here = std::mem::replace(&mut self.line, Line::Ended) == Line::EndedHere;
                let text = text.strip_prefix('\n').filter(|_| was_ended_here).unwrap_or(text);
                if !text.is_empty() && !text.ends_with('\n') {
                    self.line = Line::Open;
                }
                print::cleaned(text)?;
            }
            Piece::Note(line) | Piece::Change(line) => print::note(line),
            Piece::Call { line, .. } => print::note(&format!("> {line}")),
            Piece::Result { line, name, .. } => {
                let name = name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
                print::note(&format!("  {name}{line}"));
            }
            Piece::NewMessage | Piece::Doing(_) | Piece::Output(_) | Piece::End => {}
        }
        Ok(())
    }

    fn end_answer(&mut self, live: &Live, look: Look) -> io::Result<()> {
        let rest = self.answer.finish(look);
        live.change(|below| below.tail.clear());
        if rest.is_empty() { Ok(()) } else { print::cleaned(&rest) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.live.iter().for_each(Live::end);
    }
}
