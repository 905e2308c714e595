//! Converts the events of a turn to text: the growing answer, tool calls, and errors.
//!
//! Owns the wording and the order and prints nothing itself: [`crate::terminal::screen`] shows the pieces. The answer
//! goes to stdout, everything else to stderr.
//!
//! - `remarks`: what is told beside the answer when a turn has ended; `guard`: the words for a limit that ended it
//! - `below`: the lines of sub-agents

mod below;
pub(crate) mod guard;
mod remarks;

use std::time::Duration;

use bob::events::{AgentEvent, CallState, Delta};
use bob::model::{CondenseMethod, ToolResult};
use bob::sessions::{FinishReason, TurnOutcome};
use bob::tools::{CallId, CallStatus, ToolCall};
use bob_config::sanitise::Sanitiser;
use serde_json::Value;

use crate::terminal::{brief, diff, print};
use remarks::remarks;
pub(crate) use remarks::{how_to_resume, is_nothing};

/// How many characters of a call's arguments and of its result are shown, so that they fit a line.
const MOST_ARGUMENTS: usize = 60;
const MOST_RESULT: usize = 66;

/// How many characters are shown of why a call was denied: what to do about it stands at the end.
const MOST_REASON: usize = 400;

/// How many characters are shown of why a model is asked again: two or three lines.
const MOST_REASON_TO_RETRY: usize = 160;

/// The content of a turn that was cancelled before there was any. The model said nothing then.
pub(crate) const NOTHING_YET: &str = "Cancelled before there was an answer.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A part of the answer, cleaned.
    Answer(String),
    /// The next part of the answer belongs to another message.
    NewMessage,
    /// A line beside the answer, not sanitised yet.
    Note(String),
    /// A line of what a call changed. Not sanitised yet.
    Change(String),
    /// A call began. Not sanitised yet.
    Call {
        id: CallId,
        /// Its tool and truncated arguments.
        line: String,
    },
    /// A call has its result. Not cleaned yet.
    Result {
        id: CallId,
        /// The tool, when the line before is not that of this call.
        name: Option<String>,
        status: CallStatus,
        /// Its status, duration, and the first line of its result.
        line: String,
    },
    /// The current activity, for the status line only.
    Doing(&'static str),
    /// The last line of a running call's output. Not sanitised yet.
    Output(String),
    /// The turn has ended, including activities without an end event.
    End,
}

pub(crate) struct Show {
    /// Whether the answer is shown while it is streamed, or at the end.
    grows: bool,
    sanitiser: Sanitiser,
    /// The current message, and its text so far.
    message: String,
    words: String,
    /// Whether the last line of the answer is not ended.
    is_line_open: bool,
    running: Vec<CallId>,
    has_denied: bool,
    /// Whether the last reply was not understood.
    is_malformed: bool,
    /// Whether the next input line belongs to this session.
    is_talk: bool,
    /// Whether it comes from a pipe, so that no person is asked.
    is_on_a_pipe: bool,
    /// The limit of the guard that tripped.
    limit: Option<u64>,
    /// Whether the last question offered decisions that apply to later sessions.
    offers_always: bool,
    is_new: bool,
    /// Whether the events are rebuilt from a journal, which has no moment in which a call begins to run.
    is_rebuilt: bool,
}

impl Show {
    pub(crate) fn new(grows: bool) -> Self {
        Self {
            grows,
            sanitiser: Sanitiser::new(),
            message: String::new(),
            words: String::new(),
            is_line_open: false,
            running: Vec::new(),
            has_denied: false,
            is_malformed: false,
            is_talk: false,
            is_on_a_pipe: false,
            limit: None,
            offers_always: true,
            is_new: false,
            is_rebuilt: false,
        }
    }

    /// Shows a turn as its journal has it: a call is shown when the model has asked for it.
    pub(crate) fn of_journal() -> Self {
        Self { is_rebuilt: true, ..Self::new(false) }
    }

    /// Shows the only turn of a session that has no name.
    pub(crate) fn of_new_session(self) -> Self {
        Self { is_new: true, ..self }
    }

    pub(crate) fn talking(self) -> Self {
        Self { is_talk: true, ..self }
    }

    pub(crate) fn on_a_pipe(self) -> Self {
        Self { is_on_a_pipe: true, ..self }
    }

    pub(crate) fn event(&mut self, event: &AgentEvent, step: Option<u32>) -> Vec<Piece> {
        let line = match event {
            AgentEvent::LlmStreamChunk { message_id, delta, .. } => return self.delta(message_id, delta),
            AgentEvent::ToolCalled { call, state, .. }
                if *state == CallState::Running || (self.is_rebuilt && *state == CallState::Proposed) =>
            {
                // Its result is the plan.
                if brief::is_plan(&call.name) {
                    return Vec::new();
                }
                self.running.push(call.id.clone());
                let piece = Piece::Call { id: call.id.clone(), line: called(call) };
                return self.beside(piece);
            }
            AgentEvent::ToolCalled { progress: Some(progress), .. } => {
                return brief::output(progress).map(Piece::Output).into_iter().collect();
            }
            AgentEvent::ToolCompleted { result, .. } => {
                if let Some(plan) = brief::plan(result) {
                    return plan.into_iter().flat_map(|line| self.note(line)).collect();
                }
                let piece = self.result(result);
                let mut pieces = self.beside(piece);
                let beside = diff::beside(&result.output.changes).into_iter().chain(brief::last_output(result));
                pieces.extend(beside.map(Piece::Change));
                return pieces;
            }
            AgentEvent::LlmRequested { .. } => {
                // Only now is it certain that the model is called again: a guard, or a second malformed reply, ends
                // the turn.
                let again = std::mem::take(&mut self.is_malformed);
                let again = again.then(|| self.note("[the reply was not understood; asking again]".to_owned()));
                return again.into_iter().flatten().chain([Piece::Doing("thinking")]).collect();
            }
            AgentEvent::LlmRetried { attempt, of, delay_ms, reason, model, .. } => {
                let wait = Duration::from_millis(*delay_ms).as_secs_f64();
                Some(format!("[{}; retrying {model} in {wait:.1} s ({attempt}/{of})]", why_again(reason)))
            }
            AgentEvent::ActionMalformed { .. } => {
                self.is_malformed = true;
                None
            }
            AgentEvent::ApprovalRequested { call, reason, choices, .. } => {
                self.offers_always = choices.iter().any(|choice| choice == "allow_always");
                Some(format!("[{}: {reason}]", called(call)))
            }
            AgentEvent::PromptBuilt { cut_layers, .. } if step == Some(1) && !cut_layers.is_empty() => {
                Some(format!("[too long for the prompt and cut: {}]", cut_layers.join(", ")))
            }
            AgentEvent::HistoryCondensed { method, messages_dropped, tokens_before, tokens_after, .. } => {
                let plural = if *messages_dropped == 1 { "" } else { "s" };
                let messages = format!("{messages_dropped} message{plural}");
                let what = match method {
                    CondenseMethod::Summary => "became a summary",
                    CondenseMethod::Truncated => "are left out",
                };
                let size = format!("about {tokens_before} tokens, now {tokens_after}");
                Some(format!("[the conversation is long: its first {messages} {what} ({size})]"))
            }
            AgentEvent::SkillsSelected { dropped, .. } | AgentEvent::SkillsReselected { dropped, .. }
                if !dropped.is_empty() =>
            {
                Some(format!("[no room for these skills, or they are gone: {}]", dropped.join(", ")))
            }
            AgentEvent::ActorRestarted { actor, reason, .. } => Some(format!("[{actor} was started again: {reason}]")),
            // The outcome names the guard.
            AgentEvent::GuardTripped { limit, .. } => {
                self.limit = Some(*limit);
                None
            }
            _others_are_not_shown => None,
        };
        line.map(|line| self.note(line)).unwrap_or_default()
    }

    pub(crate) fn outcome(&mut self, outcome: &TurnOutcome) -> Vec<Piece> {
        let mut pieces = self.end_line();
        let is_said = self.words.trim() == outcome.content.trim();
        // The outcome of a cancelled turn lacks the partial text that was shown.
        let is_shown =
            self.grows && !self.words.is_empty() && (is_said || outcome.finish_reason == FinishReason::Cancelled);
        // In a chat the remark says what the sentence of a guard or of a cancelled turn says.
        let is_remark = self.is_talk
            && (self.limit.is_some() && guard::is_sentence(outcome)
                || outcome.finish_reason == FinishReason::Cancelled && outcome.content == NOTHING_YET);
        if !outcome.content.trim().is_empty() && !is_shown && !is_remark {
            pieces.push(Piece::NewMessage);
            pieces.push(Piece::Answer(format!("{}\n", Sanitiser::new().push(outcome.content.trim_end()))));
        }
        let question = outcome.question.as_deref().filter(|question| question.trim() != outcome.content.trim());
        if let Some(question) = question {
            pieces.push(Piece::NewMessage);
            pieces.push(Piece::Answer(format!("{}\n", Sanitiser::new().push(question))));
        }
        pieces.push(Piece::End);
        let remarks = remarks(self, outcome);
        pieces.extend(remarks.into_iter().map(Piece::Note));
        pieces
    }

    fn delta(&mut self, message_id: &str, delta: &Delta) -> Vec<Piece> {
        match delta {
            Delta::Text(text) if self.grows => {
                let mut pieces = Vec::new();
                if self.message != message_id {
                    pieces = self.end_line();
                    pieces.extend([Piece::NewMessage, Piece::Doing("writing")]);
                    self.begin(message_id);
                }
                self.words.push_str(text);
                let shown = self.sanitiser.push(text);
                if !shown.is_empty() {
                    self.is_line_open = !shown.ends_with('\n');
                    pieces.push(Piece::Answer(shown));
                }
                pieces
            }
            Delta::Reset if self.grows && !self.words.is_empty() => {
                self.begin(message_id);
                self.note("[the answer broke off and begins again]".to_owned())
            }
            Delta::Text(_) | Delta::Reset | Delta::Reasoning(_) => Vec::new(),
        }
    }

    fn begin(&mut self, message_id: &str) {
        message_id.clone_into(&mut self.message);
        self.words.clear();
        self.sanitiser = Sanitiser::new();
    }

    fn result(&mut self, result: &ToolResult) -> Piece {
        let known = self.running.iter().position(|call| *call == result.call);
        let is_alone = self.running.len() == 1 && known.is_some();
        if let Some(at) = known {
            self.running.remove(at);
        }
        let name = (!is_alone).then(|| result.name.to_string());
        let line = self.returned(result);
        Piece::Result { id: result.call.clone(), name, status: result.status, line }
    }

    /// The status of a call, its duration, and the first line of its result.
    fn returned(&mut self, result: &ToolResult) -> String {
        let status = result.status;
        let word = brief::ended(result);
        let most = if status == CallStatus::Denied { MOST_REASON } else { MOST_RESULT };
        let first = || print::first_line(&brief::text(result), most);
        let first = brief::result(result).unwrap_or_else(first);
        let said = if first.is_empty() { String::new() } else { format!(": {first}") };
        self.has_denied |= status == CallStatus::Denied;
        match status {
            // The reason says it.
            CallStatus::Denied if first.starts_with("denied") => first,
            // They did not run.
            CallStatus::Denied | CallStatus::Cancelled => format!("{word}{said}"),
            // Why is clear to the person who interrupted it.
            CallStatus::Unknown if brief::is_interrupted(result) => {
                format!("{word} after {}", took(result.duration_ms))
            }
            CallStatus::Ok | CallStatus::Error | CallStatus::Unknown => {
                format!("{word}, {}{said}", took(result.duration_ms))
            }
        }
    }

    fn note(&mut self, line: String) -> Vec<Piece> {
        self.beside(Piece::Note(line))
    }

    fn beside(&mut self, piece: Piece) -> Vec<Piece> {
        let mut pieces = self.end_line();
        pieces.push(piece);
        pieces
    }

    fn end_line(&mut self) -> Vec<Piece> {
        match std::mem::take(&mut self.is_line_open) {
            true => vec![Piece::Answer("\n".to_owned())],
            false => Vec::new(),
        }
    }
}

pub(crate) fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ if ms % 60_000 < 1_000 => format!("{} min", ms / 60_000),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// Why a model is asked again: the beginning of a long reason, which is told whole if the call fails in the end.
fn why_again(reason: &str) -> String {
    print::on_one_line(&reason.replacen(": try again later", "", 1), MOST_REASON_TO_RETRY)
}

fn called(call: &ToolCall) -> String {
    one_line(call.name.as_str(), &call.arguments)
}

fn one_line(name: &str, arguments: &Value) -> String {
    format!("{name} {}", print::first_line(&arguments.to_string(), MOST_ARGUMENTS))
}

#[cfg(test)]
#[path = "show_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "show_error_tests.rs"]
mod error_tests;
