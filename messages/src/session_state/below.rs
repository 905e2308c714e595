//! The fold of sub-agents that are suspended: what they ask, what was decided, and those whose call has ended without them.

use super::{OpenCall, OpenTurn, Session};
use crate::agent::{Agent, NAMESPACE, child_of};
use crate::approvals::{Decision, Scope};
use crate::chat::{CallStatus, Delegated, ToolResult};
use crate::ids::{ApprovalId, SessionId, TurnId};
use crate::store::AskedBelow;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// For how many turns a session remembers those that were given up.
const REMEMBERED_TURNS: u64 = 3;

/// A call of a sub-agent that is suspended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenBelow {
    /// Who asks, and with how much it goes on.
    pub asked: AskedBelow,
    /// The question, for people.
    pub question: String,
    /// The submission that resumed the turn with a decision, and the decision.
    pub decided: Option<(TurnId, Decision)>,
    /// How often the sub-agent was suspended in this call.
    pub times: u32,
}

/// A turn of a sub-agent whose call has ended without it, or with an error: if it is suspended, or no process runs it, it is to
/// be closed, and so is what works for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// The session of the sub-agent.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// How many turns of the caller had ended then.
    pub(super) at: u64,
    /// It has ended with an error: only what worked for it may be open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) failed: bool,
}

impl OpenCall {
    /// The question about it, or of the sub-agent that works for it, which is not decided.
    pub fn undecided(&self) -> Option<&ApprovalId> {
        if self.result.is_some() {
            return None;
        }
        match &self.below {
            Some(below) => below.decided.is_none().then_some(&below.asked.approval),
            None => self.approval.as_ref().filter(|asked| asked.allowed.is_none()).map(|asked| &asked.id),
        }
    }

    /// A sub-agent was suspended.
    pub(super) fn asks_below(&mut self, asked: &AskedBelow, question: &str) {
        let times = self.below.as_ref().map_or(0, |below| below.times) + 1;
        let below = OpenBelow { asked: asked.clone(), question: question.to_owned(), decided: None, times };
        self.below = Some(Box::new(below));
    }
}

impl OpenCall {
    /// Whether a sub-agent may have begun to work for this call, which waits for it.
    pub(super) fn has_child(&self) -> bool {
        let own = self.call.name.as_str().strip_prefix(NAMESPACE);
        self.intent.is_some() && self.task.is_none() && own.is_some_and(|own| !Agent::is_taken(own))
    }
}

impl OpenTurn {
    /// A person decided about a question of a sub-agent.
    pub(super) fn decide_below(
        &mut self,
        approval: &ApprovalId,
        (allowed, arguments): (bool, Option<&Value>),
        reason: &str,
        scope: Option<Scope>,
    ) {
        let calls = self.step.iter_mut().flat_map(|step| &mut step.calls);
        let mut below = calls.filter_map(|open| open.below.as_mut());
        let asked = below.find(|below| below.asked.approval == *approval && below.decided.is_none());
        if let Some(below) = asked {
            below.decided = Some((self.submission.clone(), Decision::of(allowed, arguments, reason, scope)));
        }
    }

    /// What sub-agents used, also those that are suspended.
    pub(super) fn delegated_so_far(&self) -> Option<Box<Delegated>> {
        let open = self.step.iter().flat_map(|step| &step.calls).filter(|open| open.result.is_none());
        let mut all = self.delegated.as_deref().map(Cow::Borrowed);
        for below in open.filter_map(|open| open.below.as_ref()) {
            all.get_or_insert_with(Cow::default).to_mut().add(&below.asked.child.used);
        }
        all.map(|all| Box::new(all.into_owned()))
    }
}

impl Session {
    /// The question to be decided first, of those that are open in the open turn.
    pub fn first_undecided(&self) -> Option<&OpenCall> {
        let open = self.open.as_ref()?;
        open.step.iter().flat_map(|step| &step.calls).find(|open| open.undecided().is_some())
    }

    /// The sub-agents that are suspended and work for calls of the open turn.
    pub fn suspended_below(&self) -> impl Iterator<Item = &SessionId> {
        let calls = self.open.iter().flat_map(|open| &open.step).flat_map(|step| &step.calls);
        let below = calls.filter(|open| open.result.is_none()).filter_map(|open| open.below.as_ref());
        below.map(|below| &below.asked.child.session)
    }

    /// A call of this turn has its result. Where that is not known, its sub-agent may still be suspended, also if this journal
    /// does not say so: it may have been suspended just before a crash. One that ended without an answer may have been closed by
    /// a program that stopped before those below it were closed as well: it tells which when it is asked.
    pub(super) fn gives_up(&mut self, turn: &TurnId, call: &OpenCall, result: &ToolResult) {
        let worked = result.output.delegated.is_some();
        match result.status {
            CallStatus::Unknown => {}
            CallStatus::Error if worked => {}
            _answered_or_never_begun => return,
        }
        let child = match (call.below.as_deref().map(|below| &below.asked.child), &call.task) {
            (Some(child), _) => Some((child.session.clone(), child.turn.clone())),
            (None, Some(task)) => Some((task.session.clone(), task.input.turn.clone())),
            (None, None) => child_of(&self.id, turn, &call.call.id).filter(|_| call.has_child()),
        };
        self.gives_up_all(child, result.status == CallStatus::Error);
    }

    /// These children may have turns that no process will close: below them, if they have failed; otherwise of themselves,
    /// since a turn with which they end has ended before them.
    pub(super) fn gives_up_all(&mut self, left: impl IntoIterator<Item = (SessionId, TurnId)>, failed: bool) {
        let at = self.turns;
        self.given_up.extend(left.into_iter().map(|(session, turn)| GivenUp { session, turn, at, failed }));
    }

    /// A turn has ended: those that were given up long ago are closed.
    pub(super) fn forget_given_up(&mut self) {
        let turns = self.turns;
        self.given_up.retain(|given_up| given_up.at + REMEMBERED_TURNS > turns);
    }
}
