//! Questions to a person about a call, and what the person decides.

use super::calls::denied;
use super::state::{Calling, Slot, State};
use super::{Effect, Turn};
use crate::chat::{CallStatus, ToolCall};
use crate::event::AgentEvent;
use crate::ids::ApprovalId;
use crate::session::ApprovalsMode;
use crate::sessions::{Decision, TurnNews};
use crate::store::Fact;
use crate::tools::{CheckRequest, Risk, ToolReturn};
use std::sync::Arc;

/// What a person may answer.
pub(crate) const CHOICES: [&str; 5] = ["allow_once", "allow_session", "allow_always", "edit", "deny"];

impl Turn {
    /// A person decided about a call.
    pub(super) fn decided(
        &mut self,
        mut calling: Calling,
        approval: &ApprovalId,
        decision: Decision,
        effects: &mut Vec<Effect>,
    ) {
        let at = calling.slots.iter().position(|slot| *slot == Slot::Asking(approval.clone()));
        let (Some((at, call)), Some(context)) =
            (at.and_then(|at| Some((at, self.call_at(at)?))), calling.context.clone())
        else {
            self.state = State::CallTool(calling);
            return;
        };
        let decision = understood(decision);
        let allowed = self.record_decision(approval, &decision);
        self.emit(effects, || super::calls::decided(approval.clone(), &call, allowed));
        calling.slots[at] = match decision {
            Decision::Deny { reason } | Decision::DenyAlways { reason } => {
                self.answer(&call, ToolReturn::note(CallStatus::Denied, denied(&reason)), effects)
            }
            Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways | Decision::Edit { .. } => {
                let ticket = self.ticket();
                // Read again: the person may have changed the arguments.
                let call = self.call_at(at).unwrap_or(call);
                let check = CheckRequest { call, approved: Some(approval.clone()), run: false };
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
    pub(super) fn record_decision(&mut self, approval: &ApprovalId, decision: &Decision) -> bool {
        let (allowed, arguments, reason) = match decision {
            Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways => (true, None, ""),
            Decision::Edit { arguments } => (true, Some(arguments.clone()), ""),
            Decision::Deny { reason } | Decision::DenyAlways { reason } => (false, None, reason.as_str()),
        };
        let (approval, reason) = (approval.clone(), reason.to_owned());
        self.record_in_turn(Fact::ApprovalDecided { approval, allowed, arguments, reason });
        allowed
    }

    /// A person must decide: asked in the turn, at its end, or not at all.
    pub(super) fn ask(&mut self, call: &Arc<ToolCall>, risk: Risk, reason: String, effects: &mut Vec<Effect>) -> Slot {
        if self.approvals() == ApprovalsMode::Deny {
            let text = format!("denied: it needs a person's approval ({reason}) and nobody can give it here");
            return self.answer(call, ToolReturn::note(CallStatus::Denied, text), effects);
        }
        let approval = ApprovalId::new(self.owned(format!("{}-{}", self.id, call.id)));
        self.record_in_turn(Fact::ApprovalAsked { approval: approval.clone(), call: call.id.clone(), risk });
        self.ask_person(&approval, call, risk, reason, effects);
        Slot::Asking(approval)
    }

    /// The actor that asked is gone: whoever watches the new one is asked as well.
    pub(super) fn ask_again(&self, at: usize, effects: &mut Vec<Effect>) {
        let Some(open) = self.open_calls().get(at) else { return };
        if let Some(asked) = &open.approval {
            let reason = "the question is still open".to_owned();
            self.ask_person(&asked.id, &open.call, asked.risk, reason, effects);
        }
    }

    fn ask_person(
        &self,
        approval: &ApprovalId,
        call: &Arc<ToolCall>,
        risk: Risk,
        reason: String,
        effects: &mut Vec<Effect>,
    ) {
        self.emit(effects, || AgentEvent::ApprovalRequested {
            approval_id: approval.clone(),
            call: Arc::clone(call),
            risk,
            reason,
            choices: CHOICES.map(str::to_owned).to_vec(),
        });
        if let Some(submission) = self.submission().filter(|_| self.approvals() == ApprovalsMode::Wait) {
            effects.push(Effect::Report(TurnNews::Paused { submission, approval: approval.clone() }));
        }
    }
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
