//! Questions to a person about a call, and what the person decides.

use super::news::decision_heard;
use super::state::{Calling, Slot, State};
use super::{Effect, Turn};
use crate::approvals::{ApprovalQuestion, Approved, AskedTool, Decision, Heard, Scope, Standing, choices};
use crate::chat::{CallStatus, ToolCall};
use crate::event::{AgentEvent, CallState};
use crate::ids::{ApprovalId, Ticket};
use crate::input::ApprovalsMode;
use crate::session_state::{OpenApproval, OpenCall};
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::tools::{CheckRequest, Risk, ToolReturn, Verdict};
use std::sync::Arc;

/// How often a person is asked about one call whose tool changes under the question.
const MOST_ASKED: u32 = 3;

impl Turn {
    pub(super) fn approvals(&self) -> ApprovalsMode {
        self.open_turn().map(|open| open.input.approvals).unwrap_or_default()
    }

    /// Reports whether a decision is about an open question of the running turn, and returns it. The first decision
    /// counts.
    pub(super) fn report_decision(
        &self,
        approval: &ApprovalId,
        asker: Option<Ticket>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        // A turn that is being suspended takes decisions with its token only; a turn that was only read takes them when
        // an owner continues it.
        let is_heard = !self.unrecovered && !matches!(self.state, State::Done(_));
        let counts = is_heard && self.is_asked(approval);
        if asker.is_some() || counts {
            effects.push(decision_heard(approval, asker, if counts { Heard::Counts } else { Heard::NotAsked }));
        }
        counts
    }

    fn is_asked(&self, approval: &ApprovalId) -> bool {
        self.is_limit_question(approval)
            || self.open_calls().iter().any(|open| {
                let asked = open.approval.as_ref().filter(|asked| asked.id == *approval && asked.allowed.is_none());
                open.result.is_none() && asked.is_some()
            })
    }

    /// What the principal of the open turn decided about this call's tool beyond single calls.
    pub(super) fn standing(&self, call: &ToolCall) -> Vec<Arc<Standing>> {
        let Some(session) = self.session.as_ref().filter(|session| !session.standing.is_empty()) else {
            return Vec::new();
        };
        let context = session.open.as_ref().and_then(|open| open.input.context.as_deref());
        let applies = |standing: &&Arc<Standing>| standing.tool == call.name && standing.identity.is_of(context);
        session.standing.iter().filter(applies).cloned().collect()
    }

    fn offers_always(&self) -> bool {
        self.turn_config.as_ref().is_none_or(|turn_config| turn_config.offer_always)
    }

    /// A person decided about a call of the open step.
    pub(super) fn decided(
        &mut self,
        mut calling: Calling,
        approval: &ApprovalId,
        decision: Decision,
        effects: &mut Vec<Effect>,
    ) {
        let at = calling.slots.iter().position(|slot| slot.question() == Some(approval));
        let Some((at, call)) = at.and_then(|at| Some((at, self.call_at(at)?))) else {
            self.state = State::CallTool(calling);
            return;
        };
        let decision = understood(decision);
        let allowed = self.record_decision(approval, &decision, effects);
        self.emit(effects, || decided(approval.clone(), &call, allowed));
        let decision_reaches_further = decision.scope().is_some();
        calling.slots[at] = match decision {
            Decision::Deny { reason } | Decision::DenyAlways { reason } => {
                self.refuse_call(&call, ToolReturn::note(CallStatus::Denied, denied(&reason)), effects)
            }
            Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways | Decision::Edit { .. } => {
                let ticket = self.ticket();
                // Read again: the person may have changed the arguments.
                let call = self.call_at(at).unwrap_or_else(|| Arc::clone(&call));
                let asked = self.open_calls().get(at).and_then(|open| open.approval.as_ref());
                let (approved, standing) = (asked.and_then(approved), self.standing(&call));
                let context = self.context_of(&call.id, &calling.context);
                let check = CheckRequest { call, approved, standing, run: false };
                effects.push(Effect::Check { ticket, check, context });
                Slot::Checking { ticket, run: false }
            }
        };
        if decision_reaches_further {
            self.rejudge(&mut calling, &call, effects);
        }
        let still_asked = calling.slots.iter().any(|slot| slot.question().is_some());
        if let Some(submission) = self.submission().filter(|_| !still_asked) {
            effects.push(Effect::Report(TurnNews::Unpaused { submission }));
        }
        self.advance(calling, effects);
    }

    /// The request to check again a call about which a person is asked, by the lasting decisions made meanwhile.
    pub(super) fn recheck_of(&self, at: usize) -> Option<CheckRequest> {
        let call = self.call_at(at)?;
        Some(CheckRequest { approved: None, standing: self.standing(&call), call, run: false })
    }

    /// The slot of a call about which a person is still asked. It is checked again if there are lasting decisions about
    /// its tool, which may have been made while the turn was suspended, or before a crash.
    pub(super) fn asked_before(&self, call: &ToolCall, approval: &ApprovalId, tickets: &mut u64) -> Slot {
        let approval = approval.clone();
        if self.standing(call).is_empty() {
            return Slot::Asking(approval);
        }
        *tickets += 1;
        Slot::Rejudging { approval, ticket: Ticket(*tickets) }
    }

    /// Checks again the other calls of this tool about which a person is asked: a lasting decision may cover them.
    fn rejudge(&mut self, calling: &mut Calling, decided: &ToolCall, effects: &mut Vec<Effect>) {
        for at in 0..calling.slots.len() {
            let Some(approval) = calling.slots[at].question().cloned() else { continue };
            let Some(check) = self.recheck_of(at).filter(|check| check.call.name == decided.name) else { continue };
            let ticket = self.ticket();
            effects.push(Effect::Check { ticket, check, context: Arc::clone(&calling.context) });
            calling.slots[at] = Slot::Rejudging { approval, ticket };
        }
    }

    /// The tools room judged a call anew about which a person is asked: a lasting decision answers the question, or it
    /// stays open.
    pub(super) fn rejudged(
        &mut self,
        mut calling: Calling,
        (at, approval): (usize, ApprovalId),
        verdict: Option<Verdict>,
        effects: &mut Vec<Effect>,
    ) {
        calling.slots[at] = Slot::Asking(approval.clone());
        let decision = match verdict {
            Some(Verdict::Allow { .. }) => Decision::AllowOnce,
            Some(Verdict::Deny { reason }) => Decision::Deny { reason },
            Some(
                Verdict::Ask { .. }
                | Verdict::Invalid { .. }
                | Verdict::Unavailable { .. }
                | Verdict::Running
                | Verdict::Ran(_),
            )
            | None => return self.advance(calling, effects),
        };
        effects.push(decision_heard(&approval, None, Heard::Counts));
        self.decided(calling, &approval, decision, effects);
    }

    /// Journals a decision. Returns whether it allows the call.
    pub(super) fn record_decision(
        &mut self,
        approval: &ApprovalId,
        decision: &Decision,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let (allowed, arguments, reason) = match decision {
            Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways => (true, None, ""),
            Decision::Edit { arguments } => (true, Some(Box::new(arguments.clone())), ""),
            Decision::Deny { reason } | Decision::DenyAlways { reason } => (false, None, reason.as_str()),
        };
        // One that was not offered decides about its call, and about nothing else.
        let scope = decision.scope().filter(|scope| *scope != Scope::Always || self.offers_always());
        let reason = reason.to_owned();
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
            return self.refuse_call(call, ToolReturn::note(CallStatus::Denied, text), effects);
        }
        // What was decided was about another tool of this name.
        let asked = self.open_call(&call.id);
        let times = asked.and_then(|open| open.approval.as_ref()).map_or(0, |asked| asked.times);
        if times >= MOST_ASKED {
            let text = format!("denied: {} changed each time a person was asked about it", call.name);
            return self.refuse_call(call, ToolReturn::note(CallStatus::Denied, text), effects);
        }
        // In another form than the suffix that distinguishes owners.
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
            choices: choices(self.offers_always()),
            changes: changes.clone(),
        });
        let open = self.open_turn();
        if let Some(open) = open.filter(|open| open.input.approvals == ApprovalsMode::Wait) {
            let offered = self.frame.as_ref().and_then(|frame| frame.tools.get(&call.name));
            let question = Box::new(ApprovalQuestion {
                session: self.id.clone(),
                context: open.input.context.clone(),
                turn: open.input.turn.clone(),
                approval_id: approval.clone(),
                call: Arc::clone(call),
                risk,
                reason,
                title: offered.map(|tool| tool.title.clone()).unwrap_or_default(),
                choices: choices(self.offers_always()),
                exact: tool.is_some_and(|tool| tool.exact),
                like: tool.map(|tool| tool.like.clone()).unwrap_or_default(),
                changes,
                timeout_ms: open.input.limits.approval_timeout_ms,
                agents: self.agents_above(),
            });
            effects.push(Effect::Report(TurnNews::Paused { submission: open.submission.clone(), question }));
        }
    }
}

/// The approval of a call, with the tool as the person was shown it, if the person has said yes.
pub(super) fn approved(asked: &OpenApproval) -> Option<Box<Approved>> {
    (asked.allowed == Some(true)).then(|| Box::new(Approved { by: asked.id.clone(), tool: asked.tool.clone() }))
}

/// Turns an edit whose arguments are not an object into a denial.
pub(super) fn understood(decision: Decision) -> Decision {
    match decision {
        Decision::Edit { arguments } if !arguments.is_object() => {
            Decision::Deny { reason: "the changed arguments are not a JSON object".to_owned() }
        }
        decision => decision,
    }
}

pub(super) fn decided(approval_id: ApprovalId, call: &ToolCall, allowed: bool) -> AgentEvent {
    AgentEvent::ApprovalDecided { approval_id, call_id: call.id.clone(), allowed }
}

pub(super) fn denied(reason: &str) -> String {
    if reason.is_empty() { "denied".to_owned() } else { format!("denied: {reason}") }
}
