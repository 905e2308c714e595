//! Questions to a person about a call, and what the person decides.

use super::calls::denied;
use super::state::{Calling, Slot, State};
use super::{Effect, Turn};
use crate::approvals::{ApprovalQuestion, Approved, AskedTool, CHOICES, Scope, Standing};
use crate::chat::{CallStatus, ToolCall};
use crate::event::{AgentEvent, CallState};
use crate::ids::{ApprovalId, CallId, Ticket};
use crate::session::{ApprovalsMode, OpenApproval, OpenCall, Session};
use crate::sessions::{Decision, TurnNews};
use crate::store::Fact;
use crate::tools::{CheckRequest, Risk, ToolReturn};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How often a person is asked about one call whose tool changes under the question.
const MOST_ASKED: u32 = 3;

/// A decision on its way to its question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Spoken {
    pub(super) approval: ApprovalId,
    pub(super) decision: Decision,
    pub(super) asker: Option<Ticket>,
}

impl Turn {
    /// A person decided about a call. The first decision about an open question counts,
    /// also when its turn is only being taken up again.
    pub(super) fn heard(&mut self, state: State, spoken: Spoken, effects: &mut Vec<Effect>) {
        // What comes by the clock before the journal was read is of an earlier actor's question.
        if self.session.is_none() && matches!(state, State::Start(_)) && spoken.asker.is_some() {
            self.spoken.push(spoken);
            self.state = state;
            return;
        }
        let Spoken { approval, decision, asker } = spoken;
        // A turn that is being suspended is decided by its token, and one that nobody has taken up yet by whoever does.
        let is_heard = !matches!(state, State::Done(_)) && !self.unrecovered;
        let call = self.asked_about(&approval).filter(|_| is_heard);
        if asker.is_some() || call.is_some() {
            let (approval, counts) = (approval.clone(), call.is_some());
            effects.push(Effect::Report(TurnNews::Decided { approval, asker, counts }));
        }
        let decision = understood(decision);
        match (state, call) {
            (State::CallTool(calling), Some(_)) if calling.entered => {
                self.decided(calling, &approval, decision, effects);
            }
            // The calls are looked at later, and find what was decided.
            (state, Some(_)) => {
                self.state = state;
                self.record_decision(&approval, &decision, effects);
            }
            (state, None) => self.state = state,
        }
    }

    /// The journal was read: decisions that came before find their questions or none.
    pub(super) fn hear_spoken(&mut self, effects: &mut Vec<Effect>) {
        for spoken in std::mem::take(&mut self.spoken) {
            let state = std::mem::replace(&mut self.state, State::Idle);
            self.heard(state, spoken, effects);
        }
    }

    /// The call an open question of the running turn is about.
    fn asked_about(&self, approval: &ApprovalId) -> Option<CallId> {
        let is_open = |open: &&OpenCall| {
            let asked = open.approval.as_ref().filter(|asked| asked.id == *approval && asked.allowed.is_none());
            open.result.is_none() && asked.is_some()
        };
        self.open_calls().iter().find(is_open).map(|open| open.call.id.clone())
    }

    /// What people decided about this call's tool beyond single calls.
    pub(super) fn standing(&self, call: &ToolCall) -> Vec<Arc<Standing>> {
        let standing = self.session.as_ref().map_or(&[][..], |session| &session.standing);
        standing.iter().filter(|standing| standing.tool == call.name).cloned().collect()
    }

    fn decided(&mut self, mut calling: Calling, approval: &ApprovalId, decision: Decision, effects: &mut Vec<Effect>) {
        let at = calling.slots.iter().position(|slot| *slot == Slot::Asking(approval.clone()));
        let (Some((at, call)), Some(context)) =
            (at.and_then(|at| Some((at, self.call_at(at)?))), calling.context.clone())
        else {
            self.state = State::CallTool(calling);
            return;
        };
        let allowed = self.record_decision(approval, &decision, effects);
        self.emit(effects, || super::calls::decided(approval.clone(), &call, allowed));
        calling.slots[at] = match decision {
            Decision::Deny { reason } | Decision::DenyAlways { reason } => {
                self.answer(&call, ToolReturn::note(CallStatus::Denied, denied(&reason)), effects)
            }
            Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways | Decision::Edit { .. } => {
                let ticket = self.ticket();
                // Read again: the person may have changed the arguments.
                let call = self.call_at(at).unwrap_or(call);
                let asked = self.open_calls().get(at).and_then(|open| open.approval.as_ref());
                let (approved, standing) = (asked.map(approved), self.standing(&call));
                let check = CheckRequest { call, approved, standing, run: false };
                effects.push(Effect::Check { ticket, check, context });
                Slot::Checking { ticket, run: false }
            }
        };
        let still_asked = calling.slots.iter().any(|slot| matches!(slot, Slot::Asking(_)));
        if let Some(submission) = self.submission().filter(|_| !still_asked) {
            effects.push(Effect::Report(TurnNews::Unpaused { submission }));
        }
        self.advance(calling, effects);
    }

    /// Writes a decision down; whether it allows.
    pub(super) fn record_decision(
        &mut self,
        approval: &ApprovalId,
        decision: &Decision,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let (allowed, arguments, reason) = match decision {
            Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways => (true, None, ""),
            Decision::Edit { arguments } => (true, Some(arguments.clone()), ""),
            Decision::Deny { reason } | Decision::DenyAlways { reason } => (false, None, reason.as_str()),
        };
        let (reason, scope) = (reason.to_owned(), decision.scope());
        let is_it = |open: &&OpenCall| open.approval.as_ref().is_some_and(|asked| asked.id == *approval);
        let shown = self.open_calls().iter().find(is_it).and_then(|open| open.approval.as_ref());
        let is_shown = shown.is_some_and(|asked| asked.tool.is_some());
        self.record_in_turn(Fact::ApprovalDecided { approval: approval.clone(), allowed, arguments, reason, scope });
        let standing = self.session.as_ref().and_then(|session| session.standing.last());
        if let Some(standing) = standing.filter(|_| is_shown && scope == Some(Scope::Always)) {
            effects.push(Effect::Remember(Arc::clone(standing)));
        }
        allowed
    }

    /// A person must decide: asked in the turn, at its end, or not at all.
    pub(super) fn ask(
        &mut self,
        call: &Arc<ToolCall>,
        risk: Risk,
        reason: String,
        tool: Arc<AskedTool>,
        effects: &mut Vec<Effect>,
    ) -> Slot {
        if self.approvals() == ApprovalsMode::Deny {
            let text = format!("denied: it needs a person's approval ({reason}) and nobody can give it here");
            return self.answer(call, ToolReturn::note(CallStatus::Denied, text), effects);
        }
        // What was decided was about another tool of this name.
        let asked = self.open_calls().iter().find(|open| open.call.id == call.id);
        let times = asked.and_then(|open| open.approval.as_ref()).map_or(0, |asked| asked.times);
        if times >= MOST_ASKED {
            let text = format!("denied: {} changed each time a person was asked about it", call.name);
            return self.answer(call, ToolReturn::note(CallStatus::Denied, text), effects);
        }
        // Written otherwise than what tells owners apart.
        let again = if times == 0 { String::new() } else { format!(".{}", times + 1) };
        let approval = ApprovalId::new(self.owned(format!("{}-{}{again}", self.id, call.id)));
        self.record_in_turn(Fact::ApprovalAsked {
            approval: approval.clone(),
            call: call.id.clone(),
            risk,
            reason,
            tool: Some(tool),
        });
        if let Some(at) = self.open_calls().iter().position(|open| open.call.id == call.id) {
            self.ask_person(at, effects);
        }
        Slot::Asking(approval)
    }

    /// Asks about the call of this number; again, when the actor that asked first is gone.
    pub(super) fn ask_person(&self, at: usize, effects: &mut Vec<Effect>) {
        let Some(OpenCall { call, approval: Some(asked), .. }) = self.open_calls().get(at) else { return };
        let (approval, risk, reason) = (&asked.id, asked.risk, asked.why.clone());
        let tool = asked.tool.as_deref();
        let changes = tool.and_then(|tool| tool.changes.clone());
        self.called(call, CallState::AwaitingApproval, effects);
        self.emit(effects, || AgentEvent::ApprovalRequested {
            approval_id: approval.clone(),
            call: Arc::clone(call),
            risk,
            reason: reason.clone(),
            choices: CHOICES.map(str::to_owned).to_vec(),
            changes: changes.clone(),
        });
        let open = self.session.as_ref().and_then(Session::running);
        if let Some(open) = open.filter(|open| open.input.approvals == ApprovalsMode::Wait) {
            let offered = self.frame.as_ref().and_then(|frame| frame.tools.get(&call.name));
            let question = Box::new(ApprovalQuestion {
                session: self.id.clone(),
                turn: open.input.turn.clone(),
                approval_id: approval.clone(),
                call: Arc::clone(call),
                risk,
                reason,
                title: offered.map(|tool| tool.title.clone()).unwrap_or_default(),
                choices: CHOICES.map(str::to_owned).to_vec(),
                exact: tool.is_some_and(|tool| tool.exact),
                changes,
                timeout_ms: open.input.limits.approval_timeout_ms,
            });
            effects.push(Effect::Report(TurnNews::Paused { submission: open.submission.clone(), question }));
        }
    }
}

/// The word of the person who was asked, about the tool as it was shown.
pub(super) fn approved(asked: &OpenApproval) -> Box<Approved> {
    Box::new(Approved { by: asked.id.clone(), tool: asked.tool.clone() })
}

/// Arguments that are no object are no decision, and what is no decision denies.
pub(super) fn understood(decision: Decision) -> Decision {
    match decision {
        Decision::Edit { arguments } if !arguments.is_object() => {
            Decision::Deny { reason: "the changed arguments are not a JSON object".to_owned() }
        }
        decision => decision,
    }
}
