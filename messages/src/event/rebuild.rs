//! Rebuilds a session's events from its journal. Pure.
//!
//! The result equals the live events as far as the journal has the data. Live-only are: text deltas, `prompt.built`,
//! `history.condensed`, `skills.selected`, `llm.requested`, `llm.retried`, `actor.restarted`, and the states of
//! `tool.called` after `proposed`. Fields of available tools and servers are empty. Journals of older versions lack
//! reasoning and tool titles. Numbers increase by one within each run of a turn, and times are those of the records.

use super::{AgentEvent, CallState, Envelope, StepEvent, message};
use crate::approvals::choices;
use crate::chat::{FinishReason, complaint};
use crate::error::AgentError;
use crate::ids::{ApprovalId, SessionId, TenantId, TurnId};
use crate::outcome::{SuspendReason, TurnOutcome};
use crate::session_state::{OpenCall, Session, withdrawn};
use crate::store::{Answered, Ended, Fact, Record};
use std::sync::Arc;

/// Converts records to events.
#[derive(Debug, Clone)]
pub struct Rebuild {
    session: Session,
    /// The number of the last event of the run that is read.
    seq: u64,
    /// The trace context of the request that began it.
    traceparent: Option<String>,
    tenant: Option<TenantId>,
    /// A suspended turn is closed because its user continued with another input; no event is sent for that.
    is_closing: bool,
    /// A turn was resumed by a decision, which is in the next record.
    is_deciding: bool,
    /// Questions about calls offer decisions that apply to later sessions.
    offers_always: bool,
}

/// All events of a journal, oldest first.
pub fn rebuild<'a>(session: &SessionId, records: impl IntoIterator<Item = &'a Arc<Record>>) -> Vec<Envelope> {
    let mut rebuild = Rebuild::new(session.clone());
    records.into_iter().flat_map(|record| rebuild.read(record)).collect()
}

struct Before {
    step: u32,
    limit: u64,
    was_understood: bool,
}

impl Rebuild {
    /// Nothing was read yet.
    pub fn new(session: SessionId) -> Self {
        Self::behind(Session::new(session))
    }

    /// Continues after the records that this session was folded from. Events of a run that began before them are
    /// numbered differently.
    pub fn behind(session: Session) -> Self {
        let (seq, traceparent, tenant, is_closing, is_deciding) = (0, None, None, false, false);
        Self { session, seq, traceparent, tenant, is_closing, is_deciding, offers_always: true }
    }

    /// Whether the questions offer decisions that apply to later sessions, which is the default. The journal has the
    /// question and not its choices, since the policy of the runtime that takes the decision settles what it may be.
    pub fn offering_always(self, offers_always: bool) -> Self {
        Self { offers_always, ..self }
    }

    /// The session, as far as it was read.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the events of the next record, in order. A record that does not fit yields none.
    pub fn read(&mut self, record: &Record) -> Vec<Envelope> {
        let waiting = self.session.waiting.iter().find(|input| Some(&input.turn) == record.turn.as_ref());
        let taken_out = waiting
            .filter(|_| record.fact == Fact::Withdrawn)
            .map(|input| Box::new(TurnOutcome { saved: true, ..withdrawn(input, &self.session.id) }));
        let before = self.before(&record.fact);
        let resumed = self.resumes(&record.fact);
        // A second result of a call is the end of its sub-agent, which has events of its own.
        let is_second = matches!(&record.fact, Fact::Result(result) if self.session.tasks.get(&result.call).is_some());
        self.session.apply(record);
        let mut told = Vec::new();
        match &record.fact {
            Fact::Started { .. } => self.started(&mut told),
            Fact::Resumed { .. } if !self.is_closing => {
                self.started(&mut told);
                self.is_deciding = resumed == Some(SuspendReason::ApprovalRequired);
                if !self.is_deciding {
                    self.calls_again(&mut told);
                }
            }
            Fact::ApprovalDecided { .. } if self.is_deciding => {
                self.is_deciding = false;
                self.calls_again(&mut told);
            }
            Fact::ApprovalDecided { approval, allowed, .. } => {
                let is_it = |open: &&OpenCall| open.approval.as_ref().is_some_and(|asked| asked.id == *approval);
                told.extend(self.calls().iter().find(is_it).map(|open| decided(approval, open, *allowed)));
            }
            Fact::Answered(answered) => self.answered(answered, &mut told),
            Fact::Steered { parts, request_id, .. } => {
                let turn = self.session.running().map(|open| &open.input.turn);
                let said = turn.map(|turn| message::steered(turn, request_id.as_ref(), record.version, parts));
                told.extend(said.map(StepEvent::from));
            }
            Fact::Malformed { cost, .. } => {
                let message = self.session.history.iter().rev().find_map(|message| complaint(message));
                let complaint = message.unwrap_or_default().to_owned();
                let step = self.step();
                told.push(message::completed(step, cost));
                told.push(AgentEvent::ActionMalformed { complaint }.in_step(step));
            }
            Fact::Result(result) if !self.is_closing && !is_second => {
                told.push(AgentEvent::ToolCompleted { result: Arc::clone(result) }.in_step(self.step()));
            }
            Fact::ApprovalAsked { call, .. } => {
                told.extend(self.calls().iter().find(|open| open.call.id == *call).and_then(|open| self.asked(open)));
            }
            Fact::Outcome(ended) if !self.is_closing => self.ended(ended, before, &mut told),
            Fact::Outcome(_) => self.is_closing = false,
            Fact::Withdrawn => told.extend(taken_out.map(|outcome| AgentEvent::TurnFinished { outcome }.into())),
            Fact::Options(_)
            | Fact::Input(_)
            | Fact::Intent { .. }
            | Fact::Resumed { .. }
            | Fact::Result(_)
            | Fact::Condensed(_)
            | Fact::SkillsSelected(_)
            | Fact::SkillsReselected(_)
            | Fact::Waits { .. }
            | Fact::LimitAsked { .. }
            | Fact::LimitDecided { .. }
            | Fact::Snapshot(_)
            | Fact::Configured { .. } => {}
        }
        let Some(turn) = &record.turn else { return Vec::new() };
        let is_apart = record.fact == Fact::Withdrawn;
        told.into_iter().map(|event| self.envelope(turn, record, event, is_apart)).collect()
    }

    /// Remembers the reason of the suspension that a resumption ends.
    fn resumes(&mut self, fact: &Fact) -> Option<SuspendReason> {
        let Fact::Resumed { submission, .. } = fact else { return None };
        let open = self.session.open.as_ref()?;
        // An abandoned turn is closed under the submission that received the question.
        self.is_closing = open.submission == *submission;
        open.suspended.as_ref().map(|suspended| suspended.reason)
    }

    fn before(&self, fact: &Fact) -> Option<Before> {
        let (Fact::Outcome(ended), Some(open)) = (fact, self.session.running()) else { return None };
        Some(Before {
            step: open.spent.steps + 1,
            limit: ended.guard_reason.map_or(0, |guard| open.limits().of(guard)),
            was_understood: open.malformed_in_a_row < 2,
        })
    }

    fn envelope(&mut self, turn: &TurnId, record: &Record, event: StepEvent, is_apart: bool) -> Envelope {
        if is_apart {
            return Envelope::of_turn(&self.session.id, turn, record.at, 1, None, event);
        }
        if let AgentEvent::TurnStarted { traceparent, context, .. } = &event.event {
            self.seq = 0;
            self.traceparent.clone_from(traceparent);
            self.tenant = context.as_ref().and_then(|context| context.tenant.clone());
        }
        self.seq += 1;
        let traceparent = self.traceparent.as_deref();
        let envelope = Envelope::of_turn(&self.session.id, turn, record.at, self.seq, traceparent, event);
        Envelope { tenant: self.tenant.clone(), epoch: Some(record.epoch), ..envelope }
    }

    fn step(&self) -> u32 {
        // The last result of a step closes it, and the turn is still open then.
        self.session.open.as_ref().map_or(0, |open| open.spent.steps)
    }

    fn calls(&self) -> &[OpenCall] {
        let step = self.session.running().and_then(|open| open.step.as_ref());
        step.map_or(&[], |step| step.calls.as_slice())
    }

    fn started(&self, told: &mut Vec<StepEvent>) {
        let Some(open) = self.session.running() else { return };
        let began = AgentEvent::TurnStarted {
            submission: open.submission.clone(),
            model: open.model.clone(),
            cwd: self.session.options.cwd.clone(),
            traceparent: open.input.traceparent.clone(),
            tracestate: open.input.tracestate.clone(),
            agent: self.session.options.agent.clone(),
            tools: Vec::new(),
            servers: Vec::new(),
            parent: self.session.options.parent.clone(),
            context: open.input.context.clone(),
        };
        told.extend([began].into_iter().chain(message::began(open)).map(StepEvent::from));
    }

    fn answered(&self, answered: &Answered, told: &mut Vec<StepEvent>) {
        let step = self.step();
        let is_question = !answered.calls.is_empty() && answered.calls.iter().all(|call| call.name.is_ask_user());
        let action = match (answered.calls.is_empty(), is_question) {
            (true, _) => "final",
            (false, true) => "ask_user",
            (false, false) => "tool_call",
        };
        told.push(message::completed(step, &answered.cost));
        let tools = answered.calls.iter().map(|call| call.name.clone()).collect();
        told.push(AgentEvent::ActionParsed { action: action.to_owned(), tools }.in_step(step));
        let turn = self.session.running().map(|open| &open.input.turn);
        told.extend(turn.and_then(|turn| message::answered(turn, step, answered)));
        told.extend(self.calls().iter().map(|open| proposed(step, open)));
    }

    /// A resumed run repeats its open calls, with their decisions or open questions.
    fn calls_again(&self, told: &mut Vec<StepEvent>) {
        let step = self.step();
        for open in self.calls() {
            told.push(proposed(step, open));
            let judged = open.approval.as_ref().filter(|_| open.result.is_none());
            told.extend(judged.and_then(|asked| Some(decided(&asked.id, open, asked.allowed?))));
        }
        let undecided = |open: &&OpenCall| open.approval.as_ref().is_some_and(|asked| asked.allowed.is_none());
        told.extend(self.calls().iter().filter(undecided).filter_map(|open| self.asked(open)));
    }

    fn asked(&self, open: &OpenCall) -> Option<StepEvent> {
        let asked = open.approval.as_ref()?;
        let requested = AgentEvent::ApprovalRequested {
            approval_id: asked.id.clone(),
            call: Arc::clone(&open.call),
            risk: asked.risk,
            reason: asked.why.clone(),
            choices: choices(self.offers_always),
            changes: asked.tool.as_ref().and_then(|tool| tool.changes.clone()),
        };
        Some(requested.into())
    }

    fn ended(&self, ended: &Ended, before: Option<Before>, told: &mut Vec<StepEvent>) {
        let (Some(before), Some(last)) = (before, &self.session.last) else { return };
        if let (FinishReason::Error, Some(error @ AgentError::Llm(_)), true) =
            (ended.finish_reason, &ended.error, before.was_understood)
        {
            told.push(AgentEvent::LlmFailed { error: error.clone() }.in_step(before.step));
        }
        told.extend(message::interrupted(&last.turn_id, before.step, ended));
        told.extend(ended.guard_reason.map(|guard| AgentEvent::GuardTripped { guard, limit: before.limit }.into()));
        told.push(AgentEvent::TurnFinished { outcome: Box::new((**last).clone()) }.into());
    }
}

fn proposed(step: u32, open: &OpenCall) -> StepEvent {
    let (call, title, kind) = (Arc::clone(&open.call), open.tool.title.clone(), open.tool.kind);
    AgentEvent::ToolCalled { call, title, kind, state: CallState::Proposed, progress: None }.in_step(step)
}

fn decided(approval: &ApprovalId, open: &OpenCall, allowed: bool) -> StepEvent {
    let (approval_id, call_id) = (approval.clone(), open.call.id.clone());
    AgentEvent::ApprovalDecided { approval_id, call_id, allowed }.into()
}
