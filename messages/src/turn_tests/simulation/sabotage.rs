//! Brings the planted defects about, by changing what machine, store and rooms say to each other.

use super::defect::Defect;
use super::dice::Dice;
use crate::approvals::Decision;
use crate::chat::{CallStatus, Message, ToolCall};
use crate::error::AgentError;
use crate::ids::{RequestId, TurnId};
use crate::input::Steer;
use crate::limits::Limits;
use crate::outcome::TurnOutcome;
use crate::session_state::OpenCall;
use crate::skills::ReselectCause;
use crate::store::{Append, Fact, Record, StoreError};
use crate::submission::TurnNews;
use crate::tools::{CallTraits, Grant, Verdict};
use crate::turn::tests::world::{World, definition, seal};
use crate::turn::{Effect, Turn, TurnMessage};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Brings a defect about.
#[derive(Debug)]
pub(super) struct Sabotage {
    defect: Option<Defect>,
    dice: Dice,
    /// The answer before the last one, to be confused with the next.
    before: Option<TurnMessage>,
    /// The newest append.
    append: Option<Effect>,
    /// Submissions whose ends were told.
    ended: BTreeSet<TurnId>,
}

impl Sabotage {
    pub(super) fn new(defect: Option<Defect>, dice: Dice) -> Self {
        Self { defect, dice, before: None, append: None, ended: BTreeSet::new() }
    }

    /// What the machine hears instead; `None` if it hears nothing.
    pub(super) fn message(&mut self, mut message: TurnMessage, turn: &Turn) -> Option<TurnMessage> {
        let Some(defect) = self.defect else { return Some(message) };
        match (defect, &mut message) {
            (Defect::IgnoresWithdrawal, TurnMessage::Withdrawn { .. }) => return None,
            (Defect::IgnoresStop, TurnMessage::Stopped { .. }) => return None,
            (Defect::ForgetsEnds, TurnMessage::Ended { .. }) => return None,
            (Defect::LosesSteering, TurnMessage::Steered { .. }) => return None,
            (Defect::TakesSteeringTwice, TurnMessage::Steered { steer }) => forget_steer(turn, steer),
            (Defect::LoadsLess, TurnMessage::Loaded { result: Ok(claim), .. }) => {
                claim.records.pop();
                claim.version = claim.records.last().map_or(0, |record| record.version);
            }
            (Defect::SkipsBehindSnapshot, TurnMessage::Loaded { result: Ok(claim), .. })
                if claim.records.len() > 1 && claim.records[0].version > 1 =>
            {
                claim.records.remove(1);
            }
            (Defect::ForgetsSkills, TurnMessage::Loaded { result: Ok(claim), .. }) => {
                for record in &mut claim.records {
                    blank(&mut Arc::make_mut(record).fact, |fact| matches!(fact, Fact::SkillsSelected(_)));
                }
            }
            (Defect::LosesNamedSkill, TurnMessage::SkillsListed { index, .. }) => {
                let open = turn.session().and_then(|session| session.running());
                let named = open.and_then(|open| open.reselecting.as_ref()).map_or(&[][..], |again| &again.named);
                Arc::make_mut(index).skills.retain(|skill| !named.iter().any(|name| name == skill.name()));
            }
            (Defect::RunsAgain, TurnMessage::Start { input, .. }) if self.ended.contains(&input.turn) => {
                let input = Arc::make_mut(input);
                input.turn = TurnId::new(format!("{}{AGAIN}", input.turn));
                input.request_id = None;
            }
            (Defect::TakesMisfit, TurnMessage::OutputChecked { result, .. }) => *result = Ok(()),
            (Defect::KeepsEpoch, TurnMessage::Loaded { result: Ok(claim), .. }) => {
                claim.epoch = claim.records.last().map_or(claim.epoch, |record| record.epoch);
            }
            (Defect::RunsDoubtsAgain, TurnMessage::Checked { verdict: Some(Verdict::Allow { traits, .. }), .. }) => {
                traits.idempotent = true;
            }
            (
                Defect::DispatchesBeforeIntent,
                TurnMessage::Checked { verdict: Some(Verdict::Allow { traits, .. }), .. },
            ) => {
                traits.read_only = true;
            }
            (Defect::RunsDenied, TurnMessage::Checked { ticket, verdict })
                if matches!(verdict, Some(Verdict::Deny { .. })) =>
            {
                *verdict = judged(turn, *ticket).map(|call| allow(&call));
            }
            (Defect::RunsUnasked, TurnMessage::Checked { ticket, verdict })
                if matches!(verdict, Some(Verdict::Ask { .. })) =>
            {
                *verdict = judged(turn, *ticket).map(|call| allow(&call));
            }
            (Defect::WidensScope, TurnMessage::Decided { decision, .. }) if **decision == Decision::AllowOnce => {
                **decision = [Decision::AllowSession, Decision::AllowAlways][self.dice.pick(2)].clone();
            }
            (Defect::RunsRefused, TurnMessage::Decided { decision, .. }) => **decision = Decision::AllowOnce,
            (Defect::ConfusesApprovals, TurnMessage::Decided { approval, .. }) => {
                let step = turn.session().and_then(|session| session.running()).and_then(|open| open.step.as_ref());
                let asked = |open: &OpenCall| open.approval.clone().filter(|asked| asked.allowed.is_none());
                let open = step.and_then(|step| step.calls.iter().find_map(asked));
                *approval = open.map_or_else(|| approval.clone(), |open| open.id);
            }
            (Defect::ConfusesTokens, TurnMessage::Resume { token, .. }) => {
                let open = turn.session().and_then(|session| session.open.as_ref());
                let suspended = open.and_then(|open| open.suspended.as_ref());
                *token = suspended.map_or_else(|| token.clone(), |suspended| suspended.token.clone());
            }
            (Defect::ConfusesTickets, TurnMessage::ToolReturned { ticket, .. }) => {
                if let Some(TurnMessage::ToolReturned { returned: old, .. }) = &self.before {
                    message = TurnMessage::ToolReturned { ticket: *ticket, returned: old.clone() };
                } else {
                    self.before = Some(message.clone());
                }
            }
            (Defect::TakesStaleAnswer, TurnMessage::ParseAction { ticket, .. }) => {
                let ticket = *ticket;
                let before = self.before.replace(message.clone());
                if let Some(TurnMessage::ParseAction { result, .. }) = before {
                    message = TurnMessage::ParseAction { ticket, result };
                }
            }
            (Defect::TakesStaleSummary, TurnMessage::Condensed { ticket, .. }) => {
                let ticket = *ticket;
                let before = self.before.replace(message.clone());
                if let Some(TurnMessage::Condensed { result, .. }) = before {
                    message = TurnMessage::Condensed { ticket, result };
                }
            }
            (_, TurnMessage::Start { input, .. }) => {
                let limits = bounds(defect, input.limits);
                if limits != input.limits {
                    Arc::make_mut(input).limits = limits;
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Changes what the machine of this world asks for when it is told this.
    pub(super) fn effects(&mut self, effects: &mut Vec<Effect>, told: &TurnMessage, world: &World) {
        let Some(defect) = self.defect else { return };
        let changes = world.tool_changes;
        if defect == Defect::InsistsOnStore {
            let append = effects.iter().find(|effect| matches!(effect, Effect::Append { .. })).cloned();
            if append.is_none() && matches!(told, TurnMessage::Saved { result: Err(_), .. }) {
                effects.extend(self.append.clone());
            }
            self.append = append.or(self.append.take());
        }
        let all = std::mem::take(effects);
        for mut effect in all {
            let mut again = None;
            match (defect, &mut effect) {
                (Defect::SkipsAppend, Effect::Append { .. }) if self.dice.rarely(8) => continue,
                (Defect::ReleasesNothing, Effect::Release { .. }) => continue,
                (Defect::DropsOutcome, Effect::Report(TurnNews::Finished { .. })) if self.dice.rarely(3) => continue,
                (Defect::KeepsClockStopped, Effect::Report(TurnNews::Unpaused { .. })) => continue,
                (Defect::BeginsSilently, Effect::Report(TurnNews::Began { .. })) => continue,
                (Defect::ForgetsReaders, Effect::Report(TurnNews::Flushed)) => continue,
                (Defect::DropsSteering, Effect::Report(TurnNews::Steered { .. })) => continue,
                (Defect::TakesSteeringTwice, Effect::Report(TurnNews::Steered { request_id, .. })) => {
                    remember(request_id)
                }
                (Defect::TellsSteeringEarly, Effect::Append { append, .. }) => {
                    let steers = append.records.iter().filter_map(|record| match &record.fact {
                        Fact::Steered { request_id, .. } => request_id.clone(),
                        _ => None,
                    });
                    let told = |request_id| Effect::Report(TurnNews::Steered { request_id, result: Ok(true) });
                    effects.extend(steers.map(told));
                }
                (Defect::TellsTwice, Effect::Report(TurnNews::Finished { .. })) => again = Some(effect.clone()),
                (Defect::RunsAgain, Effect::Report(TurnNews::Finished { submission, .. })) => {
                    let own = TurnId::new(submission.as_str().trim_end_matches(AGAIN));
                    self.ended.insert(own.clone());
                    *submission = own;
                }
                (Defect::SaysRetryable, Effect::Report(TurnNews::Finished { outcome, .. })) => {
                    outcome.error.iter_mut().for_each(retryable);
                }
                (Defect::SaysRetryable, Effect::Report(TurnNews::Refused { error, .. })) => retryable(error),
                (Defect::DispatchesTwice, Effect::Call { .. }) => again = Some(effect.clone()),
                (Defect::SaysSaved, Effect::Report(TurnNews::Finished { outcome, .. })) => outcome.saved = true,
                (Defect::TellsOutcomeEarly, Effect::Append { append, .. }) => {
                    let ends = append.records.iter().any(|record| matches!(record.fact, Fact::Outcome(_)));
                    let last = world.turn.session().and_then(|session| session.last.as_ref()).filter(|_| ends);
                    effects.extend(last.map(|last| {
                        let outcome = Box::new(TurnOutcome { saved: true, ..(**last).clone() });
                        Effect::Report(TurnNews::Finished { submission: last.turn_id.clone(), outcome })
                    }));
                }
                (Defect::TellsChangeEarly, Effect::Append { append, .. }) => {
                    let changes = append.records.iter().filter_map(|record| match &record.fact {
                        Fact::Configured { request_id, .. } => Some(request_id.clone()),
                        _ => None,
                    });
                    let told = |request_id| Effect::Report(TurnNews::Configured { request_id, result: Ok(()) });
                    effects.extend(changes.map(told));
                }
                (Defect::IgnoresDefinition, Effect::Check { check, .. }) => {
                    if let Some(tool) = check.approved.as_mut().and_then(|approved| approved.tool.as_mut()) {
                        Arc::make_mut(tool).definition = definition(changes);
                    }
                }
                (Defect::ForgetsStanding, Effect::Check { check, .. }) => check.standing.clear(),
                (Defect::ForgetsForever, Effect::Remember(_)) => continue,
                (Defect::WidensTools, Effect::Check { context, .. }) => Arc::make_mut(context).allow = None,
                (Defect::ChangesArguments, Effect::Call { call, grant, .. }) => {
                    *call =
                        Arc::new(ToolCall { arguments: serde_json::json!({"all": true}).into(), ..(**call).clone() });
                    *grant = granted(call, changes);
                }
                (Defect::LeavesCallUnpaired, Effect::Infer { request, .. }) => {
                    let request = Arc::make_mut(request);
                    let at = request.messages.iter().position(|message| matches!(**message, Message::Tool { .. }));
                    at.map(|at| request.messages.remove(at));
                }
                (Defect::LeavesSummaryOut, Effect::Infer { request, .. }) => {
                    let summary = |message: &Message| matches!(message, Message::User { parts } if parts.iter().any(|part| part.as_text().starts_with("[Summary")));
                    Arc::make_mut(request).messages.retain(|message| !summary(message));
                }
                (Defect::LosesPrompt, Effect::Infer { request, .. }) => {
                    let request = Arc::make_mut(request);
                    let at = request.messages.iter().rposition(|message| matches!(**message, Message::User { .. }));
                    at.filter(|_| request.messages.len() > 1).map(|at| request.messages.remove(at));
                }
                _ => {}
            }
            effects.push(effect);
            effects.extend(again);
        }
    }

    /// Whether the book reads what an actor had said before it says again what it owes.
    pub(super) fn reads_before_it_sends(&self) -> bool {
        self.defect != Some(Defect::SendsBeforeReading)
    }

    /// Whether a call reaches its tool, whose grant is good or not.
    pub(super) fn lets_through(&self, is_good: bool) -> bool {
        is_good || self.defect == Some(Defect::IgnoresDrift)
    }

    /// Stores an append, as the store does that has the defect.
    pub(super) fn store(&mut self, append: &Append, world: &mut World) -> Result<u64, StoreError> {
        let Some(defect) = self.defect else { return world.store(append) };
        let mut append = append.clone();
        match defect {
            Defect::ConfirmsWithoutStoring if self.dice.rarely(6) => {
                return Ok(append.expected_version + append.records.len() as u64);
            }
            Defect::IgnoresEpoch => {
                let (version, known) = (world.stored.len() as u64, world.epoch);
                if append.epoch < known && append.expected_version == version {
                    world.stored.extend(append.records.iter().cloned());
                    return Ok(world.stored.len() as u64);
                }
            }
            Defect::StoresTwice => {
                let known = append.records.iter().any(|new| world.stored.iter().any(|old| old.id == new.id));
                if known && append.epoch == world.epoch {
                    world.stored.extend(append.records.iter().cloned());
                    return Ok(world.stored.len() as u64);
                }
            }
            Defect::KeepsEpoch => append.epoch = append.epoch.max(world.epoch),
            Defect::ReordersRecords if append.records.len() > 1 => {
                let facts: Vec<_> =
                    append.records.iter().rev().map(|record| (record.fact.clone(), record.turn.clone())).collect();
                for (record, (fact, turn)) in append.records.iter_mut().zip(facts) {
                    *record = Arc::new(Record { fact, turn, ..(**record).clone() });
                }
            }
            Defect::ForgetsResult => change(&mut append, |fact| blank(fact, |fact| matches!(fact, Fact::Result(_)))),
            Defect::CallsItCancelled => change(&mut append, |fact| {
                if let Fact::Result(result) = fact
                    && result.output.plain().starts_with(crate::turn::INTERRUPTED)
                {
                    Arc::make_mut(result).status = CallStatus::Cancelled;
                }
            }),
            Defect::ForgetsOutcome => change(&mut append, |fact| blank(fact, |fact| matches!(fact, Fact::Outcome(_)))),
            Defect::ForgetsChange => {
                change(&mut append, |fact| blank(fact, |fact| matches!(fact, Fact::Configured { .. })));
            }
            Defect::ForgetsReselection => {
                change(&mut append, |fact| blank(fact, |fact| matches!(fact, Fact::SkillsReselected(_))));
            }
            Defect::ReselectsAgain => change(&mut append, |fact| {
                if let Fact::SkillsReselected(again) = fact {
                    let more = [ReselectCause::Condensed, ReselectCause::Steered];
                    again.causes.extend(more.into_iter().find(|cause| !again.causes.contains(cause)));
                }
            }),
            Defect::LosesInput if self.dice.rarely(3) => {
                change(&mut append, |fact| blank(fact, |fact| matches!(fact, Fact::Input(_))));
            }
            Defect::LosesSummary => change(&mut append, |fact| {
                if let Fact::Condensed(condensed) = fact {
                    condensed.summary = None;
                }
            }),
            Defect::CutsElsewhere => change(&mut append, |fact| {
                if let Fact::Condensed(condensed) = fact {
                    condensed.keeps += 1;
                }
            }),
            _ => {}
        }
        world.store(&append)
    }
}

/// What a store says that has taken nothing.
fn retryable(error: &mut AgentError) {
    if let AgentError::Kept(why) | AgentError::Store(why @ StoreError::InDoubt(_)) = error {
        *error = AgentError::Store(StoreError::Unavailable(why.to_string()));
    }
}

fn bounds(defect: Defect, limits: Limits) -> Limits {
    match defect {
        Defect::OneStepMore => Limits { max_steps: limits.max_steps + 1, ..limits },
        Defect::OneStepLess => Limits { max_steps: limits.max_steps.saturating_sub(1), ..limits },
        Defect::OneCallMore => Limits { max_tool_calls: limits.max_tool_calls + 1, ..limits },
        Defect::OneErrorMore => Limits { max_consecutive_errors: limits.max_consecutive_errors + 1, ..limits },
        Defect::OneRepeatMore => Limits { max_identical_calls: limits.max_identical_calls + 1, ..limits },
        Defect::ForgetsTokens => Limits { max_total_tokens: 0, ..limits },
        _ => limits,
    }
}

/// The call this ticket asks about.
fn judged(turn: &Turn, ticket: crate::ids::Ticket) -> Option<Arc<ToolCall>> {
    use crate::turn::state::{Slot, State};
    let State::CallTool(calling) = &turn.state else { return None };
    let is = |slot: &Slot| matches!(slot, Slot::Checking { ticket: of, .. } if *of == ticket);
    turn.call_at(calling.slots.iter().position(is)?)
}

/// What the session knows by its name gets another one.
fn forget_steer(turn: &Turn, steer: &mut Steer) {
    if turn.session().is_some_and(|session| session.steers.contains(&steer.request_id)) {
        steer.request_id = RequestId::new(format!("{}{AGAIN}", steer.request_id));
    }
}

/// Whoever said it hears of it by the name they gave it.
fn remember(request_id: &mut RequestId) {
    let own = request_id.as_str().trim_end_matches(AGAIN).to_owned();
    *request_id = RequestId::new(own);
}

/// What stands behind a name that is forgotten.
const AGAIN: &str = "-again";

fn granted(call: &ToolCall, changes: u32) -> Grant {
    Grant { call: call.id.clone(), seal: seal(call, changes) }
}

fn allow(call: &ToolCall) -> Verdict {
    Verdict::Allow { grant: granted(call, 0), traits: CallTraits::default() }
}

fn change(append: &mut Append, how: impl Fn(&mut Fact)) {
    for record in &mut append.records {
        how(&mut Arc::make_mut(record).fact);
    }
}

/// Something else in place of the records of a kind: nothing, as far as a fold can tell.
fn blank(fact: &mut Fact, is: impl Fn(&Fact) -> bool) {
    if is(fact) {
        *fact = Fact::Options(Arc::default());
    }
}
