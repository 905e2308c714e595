//! What a journal may say, told independently of the fold: an oracle that reads each
//! record once it is stored and says what is wrong with it.

use super::tally::Tally;
use crate::chat::{CallStatus, FinishReason, GuardReason};
use crate::ids::{ApprovalId, CallId, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::outcome::SuspendReason;
use crate::store::{Answered, Ended, Fact, Record, Suspension};
use crate::tools::CallTraits;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A call of the open step, as the journal tells of it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) intent: Option<(u64, CallTraits)>,
    pub(super) approval: Option<(ApprovalId, Option<bool>)>,
    /// How often a person was asked about it.
    asked: u32,
    refused: bool,
    /// Whether it came back without its result.
    waits: bool,
    result: Option<CallStatus>,
}

/// The turn that has begun and not ended.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) turn: TurnId,
    pub(super) suspended: Option<Suspension>,
    pub(super) calls: Vec<Call>,
    answered: bool,
    steered: bool,
    /// Whether its skills were chosen, and whether the model was heard.
    chosen: bool,
    heard: bool,
    tally: Tally,
    /// The question about a limit that is open, and whether one was answered with a no.
    limit: Option<(ApprovalId, GuardReason)>,
    is_over: bool,
}

/// A journal so far.
#[derive(Debug, Default)]
pub(super) struct Grammar {
    pub(super) inputs: BTreeMap<TurnId, TurnInput>,
    pub(super) waiting: Vec<TurnId>,
    pub(super) open: Option<Open>,
    pub(super) ended: BTreeSet<TurnId>,
    pub(super) withdrawn: BTreeSet<TurnId>,
    pub(super) resumed: BTreeSet<TurnId>,
    version: u64,
    epoch: u64,
    calls: BTreeSet<CallId>,
    approvals: BTreeSet<ApprovalId>,
}

/// Fails with a sentence where something does not hold.
fn must(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

impl Grammar {
    /// Reads one more record, stored while `owner` was the newest epoch. The limits are
    /// those the turn was asked with.
    pub(super) fn read(
        &mut self,
        record: &Record,
        owner: u64,
        limits: impl Fn(&TurnId) -> Option<Limits>,
    ) -> Result<(), String> {
        self.version += 1;
        must(record.version == self.version, || format!("record {} has version {}", self.version, record.version))?;
        must(record.epoch >= self.epoch, || "an older owner writes behind a newer one".to_owned())?;
        must(record.epoch == owner, || format!("an owner of epoch {} writes in epoch {owner}", record.epoch))?;
        self.epoch = record.epoch;
        let turn = record.turn.as_ref();
        match &record.fact {
            Fact::Options(_) | Fact::Configured { .. } => Ok(()),
            Fact::Input(input) => {
                must(turn == Some(&input.turn), || "an input is of its own turn".to_owned())?;
                let known = self.inputs.insert(input.turn.clone(), (**input).clone());
                must(known.is_none(), || format!("{} is accepted twice", input.turn))?;
                self.waiting.push(input.turn.clone());
                Ok(())
            }
            Fact::Started { .. } => {
                must(self.open.is_none(), || "a turn begins inside another one".to_owned())?;
                let next = self.waiting.first().cloned();
                must(next.is_some() && next.as_ref() == turn, || "a turn begins out of order".to_owned())?;
                self.waiting.remove(0);
                self.open = next.map(|turn| Open {
                    tally: Tally::new(limits(&turn).unwrap_or_default()),
                    turn,
                    suspended: None,
                    calls: Vec::new(),
                    answered: false,
                    steered: false,
                    chosen: false,
                    heard: false,
                    limit: None,
                    is_over: false,
                });
                Ok(())
            }
            Fact::Withdrawn => {
                let at = self.waiting.iter().position(|waiting| Some(waiting) == turn);
                let turn = self.waiting.remove(at.ok_or("an input is taken out that does not wait")?);
                self.withdrawn.insert(turn);
                Ok(())
            }
            Fact::Resumed { submission, reply, .. } => self.resumed(turn, submission, reply),
            Fact::Outcome(ended) => self.ended(turn, ended),
            Fact::Answered(answered) => self.answered(turn, answered),
            Fact::Malformed { cost, .. } => {
                let open = self.running(turn)?;
                open.heard = true;
                must(open.calls.is_empty() && !open.answered, || "the model answers out of place".to_owned())?;
                open.tally.model_call(cost.usage)?;
                open.tally.malformed += 1;
                open.steered = false;
                Ok(())
            }
            Fact::Intent { call, traits, .. } => self.intent(turn, call, *traits, record.epoch),
            Fact::ApprovalAsked { approval, call, .. } => {
                let is_new = self.approvals.insert(approval.clone());
                must(is_new, || format!("{approval} is the name of two questions"))?;
                let call = self.running(turn)?.call(call)?;
                // Who allowed it is asked again when its tool is another one by then.
                let again = call.approval.as_ref().is_none_or(|(_, allowed)| *allowed == Some(true));
                must(again && call.asked < 3, || format!("a person is asked too often about {}", call.id))?;
                must(call.intent.is_none(), || format!("a person is asked about {}, which may have run", call.id))?;
                call.asked += 1;
                call.approval = Some((approval.clone(), None));
                Ok(())
            }
            Fact::ApprovalDecided { approval, allowed, arguments, .. } => {
                let calls = &mut self.running(turn)?.calls;
                let asked = calls.iter_mut().find(|call| call.approval == Some((approval.clone(), None)));
                let call = asked.ok_or_else(|| format!("{approval} is decided and not asked"))?;
                call.approval = Some((approval.clone(), Some(*allowed)));
                call.arguments = arguments.as_deref().unwrap_or(&call.arguments).clone();
                Ok(())
            }
            Fact::Result(result) => {
                let open = self.running(turn)?;
                let call = open.call(&result.call)?;
                must(!call.refused || result.status == CallStatus::Cancelled, || {
                    format!("{} ran beyond a limit", call.id)
                })?;
                let may_have_run = call.intent.is_some_and(|(_, traits)| !traits.read_only);
                must(!may_have_run || result.status != CallStatus::Cancelled, || {
                    format!("{} may have run and is said to be cancelled", call.id)
                })?;
                call.result = Some(result.status);
                open.close_step();
                Ok(())
            }
            Fact::Condensed(condensed) => {
                let open = self.running(turn)?;
                must(open.calls.is_empty() && !open.answered, || "a history is condensed inside a step".to_owned())?;
                must(condensed.attempts <= 2, || format!("{} attempts at a summary", condensed.attempts))?;
                must(condensed.attempts > 0 || condensed.summary.is_none(), || "a summary of nobody".to_owned())?;
                open.tally.summary(condensed.usage)
            }
            Fact::Steered { behind, .. } => {
                let open = self.running(turn)?;
                // What comes while the model is asked is heard after its answer, if a step is left.
                open.steered |= *behind;
                open.answered = false;
                Ok(())
            }
            Fact::Waits { call, .. } => {
                let call = self.running(turn)?.call(call)?;
                must(!call.refused && !call.waits, || format!("{} comes back and did not run", call.id))?;
                call.waits = true;
                Ok(())
            }
            Fact::Snapshot(_) => {
                let open = self.running(turn)?;
                must(open.calls.is_empty() && !open.answered, || "a snapshot is taken inside a step".to_owned())
            }
            Fact::LimitAsked { question, guard } => {
                let is_new = self.approvals.insert(question.clone());
                must(is_new, || format!("{question} is the name of two questions"))?;
                let open = self.running(turn)?;
                must(open.limit.is_none() && !open.is_over, || "a person is asked about a limit again".to_owned())?;
                let reached = open.tally.reached();
                let is_met = *guard == GuardReason::NoProgress || reached == Some(*guard);
                must(is_met, || format!("a person is asked about {guard:?}, and {reached:?} is reached"))?;
                open.limit = Some((question.clone(), *guard));
                Ok(())
            }
            Fact::LimitDecided { question, goes_on } => {
                let open = self.running(turn)?;
                let asked = open.limit.take().filter(|(asked, _)| asked == question);
                let (_, guard) = asked.ok_or_else(|| format!("{question} is decided and not asked"))?;
                open.is_over = !goes_on;
                if *goes_on {
                    open.goes_on(guard);
                }
                Ok(())
            }
            Fact::SkillsSelected(_) => {
                let open = self.running(turn)?;
                must(!open.chosen, || "the skills of one turn are chosen twice".to_owned())?;
                must(!open.heard, || "skills are chosen after the model was heard".to_owned())?;
                open.chosen = true;
                Ok(())
            }
            Fact::SkillsReselected(_) => {
                let open = self.running(turn)?;
                must(open.chosen, || "skills are chosen again that were not chosen".to_owned())?;
                must(open.calls.is_empty() && !open.answered, || "skills are chosen again inside a step".to_owned())
            }
        }
    }

    /// The turn that runs, which must be this one.
    fn running(&mut self, turn: Option<&TurnId>) -> Result<&mut Open, String> {
        let open = self.open.as_mut().filter(|open| open.suspended.is_none() && Some(&open.turn) == turn);
        open.ok_or_else(|| format!("a record of {turn:?}, which does not run"))
    }

    fn answered(&mut self, turn: Option<&TurnId>, answered: &Answered) -> Result<(), String> {
        let open = self.running(turn)?;
        open.heard = true;
        must(open.calls.is_empty() && !open.answered, || "the model answers out of place".to_owned())?;
        open.tally.model_call(answered.cost.usage)?;
        open.tally.malformed = 0;
        let goes_on = std::mem::take(&mut open.steered) && open.tally.tripped().is_none();
        open.answered = answered.calls.is_empty() && !goes_on;
        for call in &answered.calls {
            let refused = !call.name.is_ask_user() && !open.tally.may_call(call.name.as_str(), &call.arguments);
            open.calls.push(Call {
                id: call.id.clone(),
                name: call.name.as_str().to_owned(),
                arguments: Value::clone(&call.arguments),
                intent: None,
                approval: None,
                asked: 0,
                refused,
                waits: false,
                result: None,
            });
        }
        for call in &answered.calls {
            must(self.calls.insert(call.id.clone()), || format!("{} is the name of two calls", call.id))?;
        }
        Ok(())
    }

    fn intent(&mut self, turn: Option<&TurnId>, call: &CallId, traits: CallTraits, epoch: u64) -> Result<(), String> {
        let call = self.running(turn)?.call(call)?;
        let asked = call.approval.as_ref();
        must(asked.is_none_or(|(_, allowed)| *allowed == Some(true)), || format!("{} runs unapproved", call.id))?;
        must(!call.refused, || format!("{} runs beyond a limit", call.id))?;
        must(!call.waits, || format!("{} runs again after it came back", call.id))?;
        let again =
            call.intent.is_none_or(|(before, traits)| before < epoch && (traits.idempotent || traits.read_only));
        must(again, || format!("{} runs a second time", call.id))?;
        call.intent = Some((epoch, traits));
        Ok(())
    }

    fn resumed(&mut self, turn: Option<&TurnId>, submission: &TurnId, reply: &str) -> Result<(), String> {
        let open =
            self.open.as_mut().filter(|open| Some(&open.turn) == turn).ok_or("a turn is resumed that is not open")?;
        let suspended = open.suspended.take().ok_or("a turn is resumed that is not suspended")?;
        open.answered = false;
        if suspended.reason == SuspendReason::AskUser {
            let asked = |call: &&mut Call| call.name == "ask_user" && call.result.is_none();
            open.calls.iter_mut().find(asked).ok_or("an answer without a question")?.result = Some(CallStatus::Ok);
            open.close_step();
        } else if let Some(at) = self.waiting.iter().position(|waiting| waiting == submission) {
            return Err(format!("{submission} waits at {at} and decides about a call with {reply:?}"));
        }
        self.waiting.retain(|waiting| waiting != submission);
        self.resumed.insert(submission.clone());
        Ok(())
    }

    fn ended(&mut self, turn: Option<&TurnId>, ended: &Ended) -> Result<(), String> {
        let open = self.running(turn)?;
        let is_suspended = ended.suspended.is_some();
        must(is_suspended == (ended.finish_reason == FinishReason::Suspended), || "suspended or not".to_owned())?;
        must(is_suspended != open.calls.is_empty(), || "a turn ends with calls that have no result".to_owned())?;
        match (ended.finish_reason, ended.guard_reason) {
            (FinishReason::Final, None) => must(open.answered, || "a final outcome without an answer".to_owned())?,
            (FinishReason::GuardExceeded, Some(GuardReason::TurnTimeout | GuardReason::NoProgress)) => {}
            (FinishReason::GuardExceeded, Some(guard)) => {
                let tripped = open.tally.tripped();
                must(tripped == Some(guard), || format!("{guard:?} is said to have tripped, and {tripped:?} has"))?;
            }
            (FinishReason::Cancelled | FinishReason::Suspended | FinishReason::Error, None) => {}
            (reason, guard) => return Err(format!("an outcome of {reason:?} with {guard:?}")),
        }
        if is_suspended {
            open.suspended.clone_from(&ended.suspended);
        } else {
            let turn = open.turn.clone();
            self.open = None;
            must(self.ended.insert(turn), || "a turn ends twice".to_owned())?;
        }
        Ok(())
    }
}

impl Open {
    /// A call of the open step that has no result yet.
    pub(super) fn call(&mut self, id: &CallId) -> Result<&mut Call, String> {
        let open = self.calls.iter_mut().find(|call| call.id == *id && call.result.is_none());
        open.ok_or_else(|| format!("{id} is not open"))
    }

    /// A person lets the turn have more of a limit: the calls that were one too many are counted anew.
    fn goes_on(&mut self, guard: GuardReason) {
        self.tally.raise(guard);
        for call in self.calls.iter_mut().filter(|call| call.refused && call.result.is_none()) {
            call.refused = call.name != "ask_user" && !self.tally.may_call(&call.name, &call.arguments);
        }
    }

    fn close_step(&mut self) {
        if self.calls.iter().all(|call| call.result.is_some()) {
            for call in self.calls.drain(..) {
                // A person's no is no failure.
                if !matches!(call.approval, Some((_, Some(false)))) {
                    self.tally.result(call.result);
                }
            }
            self.tally.close_step();
        }
    }
}
