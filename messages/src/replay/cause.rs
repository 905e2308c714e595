use super::driver::{Driver, Owner};
use crate::approvals::Decision;
use crate::chat::{CallStatus, ContentPart, GuardReason};
use crate::ids::{ModelName, RequestId};
use crate::input::{ResumeReply, Steer, TurnInput};
use crate::models::{ModelBook, Recorded};
use crate::options::{Configuring, OptionsPatch, SessionChange};
use crate::outcome::{EndReason, SuspendReason};
use crate::session_state::{OpenTurn, Session};
use crate::store::{Ended, Fact, Record};
use crate::turn::{ENDED_ASKING, INTERRUPTED, NOT_BEGUN, PROGRAM_STOPPED, TurnMessage};
use crate::turn_config::{OnRestart, TurnConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Result of a question that the person skipped.
const NOT_ANSWERED: &str = "(the question was not answered)";

/// Where the next record comes from.
pub(super) enum Cause {
    /// A message from outside; candidates, most likely first.
    Outside(Vec<TurnMessage>),
    /// A message that the machine sent to itself, or a reply to one of its questions.
    Inside,
}

impl Driver<'_> {
    pub(super) fn cause(&self) -> Cause {
        let (Some(next), Some(owner)) = (self.next(), &self.owner) else { return Cause::Inside };
        let Some(session) = owner.turn.session() else { return Cause::Inside };
        match &next.fact {
            Fact::Options(_) if !self.opens_with_its_input() => {
                self.change(next).map_or(Cause::Inside, |change| Cause::Outside(vec![change]))
            }
            Fact::Configured { .. } => self.change(next).map_or(Cause::Inside, |change| Cause::Outside(vec![change])),
            Fact::Options(_) | Fact::Input(_) => {
                self.input().map_or(Cause::Inside, |start| Cause::Outside(vec![start]))
            }
            Fact::Steered { parts, request_id, .. } => {
                let request_id = request_id.clone().unwrap_or_else(|| RequestId::new(next.id.to_string()));
                let steer = Box::new(Steer { request_id, submission: None, parts: parts.clone() });
                Cause::Outside(vec![TurnMessage::Steered { steer }])
            }
            Fact::Withdrawn => match &next.turn {
                Some(turn) => Cause::Outside(vec![
                    TurnMessage::Withdrawn { submission: turn.clone() },
                    TurnMessage::Stopped { reason: EndReason::Cancelled, submission: Some(turn.clone()) },
                ]),
                None => Cause::Inside,
            },
            Fact::ApprovalDecided { approval, allowed, arguments, reason, scope } => {
                let decision = Box::new(Decision::of(*allowed, arguments.as_deref(), reason, *scope));
                let approval = approval.clone();
                Cause::Outside(vec![TurnMessage::Decided { approval, decision, asker: None }])
            }
            Fact::LimitAsked { guard: GuardReason::NoProgress, .. } => Cause::Outside(vec![TurnMessage::Quiet]),
            Fact::LimitDecided { question, goes_on } => {
                let decision = Box::new(Decision::of(*goes_on, None, "", None));
                Cause::Outside(vec![TurnMessage::Decided { approval: question.clone(), decision, asker: None }])
            }
            Fact::Resumed { .. } => {
                let resumes = session.open.as_ref().and_then(|open| self.resume(session, open));
                // A queued input may be the answer to the question; the machine takes it from its queue.
                let is_idle = owner.internal.is_empty();
                resumes.filter(|_| is_idle).map_or(Cause::Inside, |message| Cause::Outside(vec![message]))
            }
            Fact::Result(_) | Fact::Outcome(_) => self.stop(session).map_or(Cause::Inside, Cause::Outside),
            Fact::Started { .. }
            | Fact::Answered(_)
            | Fact::Malformed { .. }
            | Fact::Intent { .. }
            | Fact::ApprovalAsked { .. }
            | Fact::LimitAsked { .. }
            | Fact::Condensed(_)
            | Fact::SkillsSelected(_)
            | Fact::SkillsReselected(_)
            | Fact::Snapshot(_)
            | Fact::Waits { .. } => Cause::Inside,
        }
    }

    /// Whether the first record of options belongs to an input, as it does when the session was not opened explicitly.
    fn opens_with_its_input(&self) -> bool {
        self.ahead().nth(1).is_none_or(|record| matches!(record.fact, Fact::Input(_)))
    }

    /// Returns the message that opened the session or changed its options, if this record was produced by one.
    pub(super) fn change(&self, record: &Record) -> Option<TurnMessage> {
        let (request_id, change) = match &record.fact {
            Fact::Options(options) => {
                (RequestId::new(record.id.to_string()), SessionChange::Open(Box::new((**options).clone())))
            }
            Fact::Configured { request_id, options, notice } => {
                let patch = OptionsPatch { notice: notice.clone(), ..OptionsPatch::to(options) };
                (request_id.clone(), SessionChange::Patch(Box::new(patch)))
            }
            _another => return None,
        };
        let asked = Arc::new(Configuring { request_id, change });
        Some(TurnMessage::Configure { asked, turn_config: self.turn_config(OnRestart::Report) })
    }

    pub(super) fn input(&self) -> Option<TurnMessage> {
        let input = self.ahead().find_map(|record| match &record.fact {
            Fact::Input(input) => Some(Arc::clone(input)),
            _another => None,
        })?;
        Some(TurnMessage::Start { input, turn_config: self.turn_config(OnRestart::Report) })
    }

    /// Reconstructs the rules of turns from the journal.
    pub(super) fn turn_config(&self, on_restart: OnRestart) -> Arc<TurnConfig> {
        let model = self.journal[self.done..].iter().find_map(|record| match &record.fact {
            Fact::Started { model, .. } => Some(model.clone()),
            _another => None,
        });
        let mut turn_config = TurnConfig { snapshot_every: 0, ..TurnConfig::new(model.unwrap_or_else(placeholder)) };
        (turn_config.max_waiting, turn_config.on_restart) = (usize::MAX, on_restart);
        // Texts of prompt files and prompt sizes are not journaled.
        (turn_config.reads_files, turn_config.condense) = (true, None);
        turn_config.models = self.selections();
        (turn_config.subagents, turn_config.max_parallel_subagents) = super::agents::of(self.journal);
        Arc::new(turn_config)
    }

    fn selections(&self) -> Option<Arc<ModelBook>> {
        let recorded = self.journal.iter().filter_map(|record| match (&record.fact, &record.turn) {
            (Fact::Started { model, selected: Some(selected) }, Some(turn)) => {
                Some((turn.clone(), Recorded { model: model.clone(), selected: (**selected).clone() }))
            }
            _another => None,
        });
        let recorded: BTreeMap<_, _> = recorded.collect();
        (!recorded.is_empty()).then(|| Arc::new(ModelBook { recorded, ..ModelBook::closed("it is replayed") }))
    }

    /// Returns the message that resumed or closed a suspended turn.
    pub(super) fn resume(&self, session: &Session, open: &OpenTurn) -> Option<TurnMessage> {
        let mut ahead = self.ahead();
        let Fact::Resumed { submission, reply, request_id, labels } = &ahead.next()?.fact else { return None };
        let is_closed =
            *submission == open.submission && self.ending().is_some_and(|ended| ended.content == NOT_ANSWERED);
        if is_closed {
            // A queued input closes it without a message.
            return if session.waiting.is_empty() { self.input().or_else(|| self.given_up(open)) } else { None };
        }
        let suspension = open.suspended.as_ref()?;
        let (token, is_decided) = (suspension.token.clone(), suspension.reason == SuspendReason::ApprovalRequired);
        if request_id.is_some() || !labels.is_empty() {
            let said = TurnInput {
                turn: submission.clone(),
                request_id: request_id.clone(),
                labels: labels.clone(),
                parts: vec![ContentPart::text(reply)],
                // A resumption with options has a record of them.
                options: None,
                ..(*open.input).clone()
            };
            return Some(TurnMessage::Start {
                input: Arc::new(said),
                turn_config: self.turn_config(OnRestart::Report),
            });
        }
        let said = match ahead.next().map(|record| &record.fact) {
            // Text is not a decision and denies.
            _ if !reply.is_empty() => ResumeReply::Answer(reply.clone()),
            Some(Fact::ApprovalDecided { approval, allowed, arguments, reason, scope }) if is_decided => {
                let decision = Decision::of(*allowed, arguments.as_deref(), reason, *scope);
                ResumeReply::Decided { approval: approval.clone(), decision }
            }
            _no_decision => ResumeReply::Answer(reply.clone()),
        };
        let turn_config = self.turn_config(OnRestart::Report);
        // A turn of a sub-agent is resumed by its caller.
        let parent = open.input.options.as_ref().and_then(|options| options.parent.clone()).map(Box::new);
        Some(TurnMessage::Resume { submission: submission.clone(), token, reply: Box::new(said), parent, turn_config })
    }

    /// The message that closed a suspended turn for which no input came.
    fn given_up(&self, open: &OpenTurn) -> Option<TurnMessage> {
        let turn_config = self.turn_config(OnRestart::Report);
        Some(TurnMessage::GivenUp { turn: open.input.turn.clone(), turn_config })
    }

    /// Returns the message that ended the running turn from outside, if the following records show one.
    fn stop(&self, session: &Session) -> Option<Vec<TurnMessage>> {
        let submission = session.running()?.submission.clone();
        let Some(ended) = self.ending() else {
            // The owner died while the turn was being closed: synthetic results without an outcome.
            let has_end = self.ahead().any(|record| matches!(record.fact, Fact::Outcome(_)));
            let is_result = |next: &&std::sync::Arc<Record>| matches!(next.fact, Fact::Result(_)) && is_settled(next);
            let is_closing = !has_end && self.next().filter(is_result).is_some();
            return is_closing.then(|| vec![TurnMessage::Withdrawn { submission }]);
        };
        if self
            .owner
            .as_ref()
            .and_then(Owner::ends)
            .is_some_and(|ends| *ends == Ended { duration_ms: None, ..ended.clone() })
        {
            return None;
        }
        let reason = EndReason::of(ended.finish_reason, ended.guard_reason)?;
        let words = TurnMessage::Dismissed { words: ended.content.clone() };
        let stopped = TurnMessage::Stopped { reason, submission: None };
        // An owner that continues was not stopped; its input was withdrawn.
        Some(match self.goes_on() {
            true => vec![TurnMessage::Withdrawn { submission }],
            false => vec![stopped, words],
        })
    }

    /// Returns the outcome of the run if only synthetic results precede it.
    pub(super) fn ending(&self) -> Option<&Ended> {
        let end = self.ahead().find(|record| !is_settled(record))?;
        match &end.fact {
            Fact::Outcome(ended) => Some(&**ended),
            // A skipped question is resumed and closed in one append.
            Fact::Resumed { .. } => {
                self.ahead().skip(1).find(|record| !is_settled(record)).and_then(|record| match &record.fact {
                    Fact::Outcome(ended) => Some(&**ended),
                    _goes_on => None,
                })
            }
            _goes_on => None,
        }
    }

    /// Whether the same owner writes after the next outcome.
    fn goes_on(&self) -> bool {
        let mut behind = self.ahead().skip_while(|record| !matches!(record.fact, Fact::Outcome(_))).skip(1);
        behind.next().is_some()
    }
}

/// Whether this is a synthetic result or a change of options; these may occur between any two records.
pub(super) fn is_settled(record: &Record) -> bool {
    if matches!(record.fact, Fact::Configured { .. }) {
        return true;
    }
    let Fact::Result(result) = &record.fact else { return false };
    let text = result.output.plain();
    // The turn ended over the call, after some time and some output, or its program did.
    let texts =
        text.starts_with(NOT_BEGUN) || text.starts_with(INTERRUPTED) || text == PROGRAM_STOPPED || text == ENDED_ASKING;
    texts && matches!(result.status, CallStatus::Cancelled | CallStatus::Unknown)
}

/// The model of turns that never begin.
fn placeholder() -> ModelName {
    // A constant with something on either side of its colon is a model's name.
    ModelName::parse("replay:none").expect("a model's name")
}
