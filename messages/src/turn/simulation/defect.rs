//! Planted defects: what a broken machine, store or driver would do, brought about by
//! changing what passes between them. The machine itself is never touched.
//!
//! A new one is a variant of [`Defect`], its place in `ALL` (which the compiler checks by
//! its length), and an arm where it acts. The test of the defects asks that it is found.

use super::dice::Dice;
use crate::chat::{Message, ToolCall};
use crate::ids::RequestId;
use crate::session::OpenCall;
use crate::sessions::{Decision, TurnNews};
use crate::store::{Append, Fact, Record, StoreError};
use crate::tools::{CallTraits, Grant, Verdict};
use crate::turn::world::World;
use crate::turn::{Effect, Limits, Steer, Turn, TurnMessage};
use std::sync::Arc;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// An append is not sent.
    SkipsAppend,
    /// An append is confirmed and not stored.
    ConfirmsWithoutStoring,
    /// The records of an append are stored in another order.
    ReordersRecords,
    /// An append that is sent again is stored again.
    StoresTwice,
    /// A result does not reach the journal.
    ForgetsResult,
    /// An outcome does not reach the journal.
    ForgetsOutcome,
    /// An input does not reach the journal.
    LosesInput,
    /// The fence is down: an owner that was replaced goes on writing.
    IgnoresEpoch,
    /// A claim gives the epoch of the owner before.
    KeepsEpoch,
    /// The last record of a journal is not loaded.
    LoadsLess,
    /// A call is dispatched twice.
    DispatchesTwice,
    /// A call that changes something runs as one that only reads.
    DispatchesBeforeIntent,
    /// After a crash a call in doubt runs again.
    RunsDoubtsAgain,
    /// What the policy denies runs.
    RunsDenied,
    /// What a person denies runs.
    RunsRefused,
    /// A call that needs a person runs without one.
    RunsUnasked,
    /// A call runs with other arguments.
    ChangesArguments,
    /// The results of two calls are confused.
    ConfusesTickets,
    /// A late answer is taken for the one that is awaited.
    TakesStaleAnswer,
    /// A decision about one question decides another.
    ConfusesApprovals,
    /// An old token resumes a new suspension.
    ConfusesTokens,
    /// The end of a turn is not told.
    DropsOutcome,
    /// The end of a turn is told twice.
    TellsTwice,
    /// An outcome is said to be saved while it is not.
    SaysSaved,
    /// An input is accepted before it is stored.
    AcceptsEarly,
    /// A cancel of what waits or runs is not heard.
    IgnoresWithdrawal,
    /// A stop is not heard.
    IgnoresStop,
    /// A session is left and not released.
    ReleasesNothing,
    /// What is said into a turn is lost.
    LosesSteering,
    /// What is said into a turn a second time is taken for something else.
    TakesSteeringTwice,
    /// Whoever said it is told that it is kept before it is.
    TellsSteeringEarly,
    /// Whoever said it is not told.
    DropsSteering,
    /// Whoever reads along is never told.
    ForgetsReaders,
    /// The result of a call is missing from the prompt.
    LeavesCallUnpaired,
    /// The current message is missing from the prompt.
    LosesPrompt,
    /// The clock of a turn never goes on after a question.
    KeepsClockStopped,
    /// A turn that waited begins and nobody is told.
    BeginsSilently,
    /// A store that fails is asked again at once.
    InsistsOnStore,
    /// One model call too many.
    OneStepMore,
    /// One model call too few.
    OneStepLess,
    /// One tool call too many.
    OneCallMore,
    /// One failed call too many.
    OneErrorMore,
    /// One repeated call too many.
    OneRepeatMore,
    /// No bound on tokens.
    ForgetsTokens,
    /// A summary does not reach the journal.
    LosesSummary,
    /// A history is cut elsewhere than was said.
    CutsElsewhere,
    /// A late summary is taken for the one that is awaited.
    TakesStaleSummary,
    /// A summary is missing from the prompt.
    LeavesSummaryOut,
    /// The skills of a turn are not known after a crash.
    ForgetsSkills,
    /// The tools of a turn are not limited by its skills.
    WidensTools,
    /// An answer that does not fit its schema is taken.
    TakesMisfit,
    /// A change of the options does not reach the journal.
    ForgetsChange,
    /// A change of the options is told before it is stored.
    TellsChangeEarly,
}

impl Defect {
    pub(super) const ALL: [Self; 53] = [
        Self::SkipsAppend,
        Self::ConfirmsWithoutStoring,
        Self::ReordersRecords,
        Self::StoresTwice,
        Self::ForgetsResult,
        Self::ForgetsOutcome,
        Self::LosesInput,
        Self::IgnoresEpoch,
        Self::KeepsEpoch,
        Self::LoadsLess,
        Self::DispatchesTwice,
        Self::DispatchesBeforeIntent,
        Self::RunsDoubtsAgain,
        Self::RunsDenied,
        Self::RunsRefused,
        Self::RunsUnasked,
        Self::ChangesArguments,
        Self::ConfusesTickets,
        Self::TakesStaleAnswer,
        Self::ConfusesApprovals,
        Self::ConfusesTokens,
        Self::DropsOutcome,
        Self::TellsTwice,
        Self::SaysSaved,
        Self::AcceptsEarly,
        Self::IgnoresWithdrawal,
        Self::IgnoresStop,
        Self::ReleasesNothing,
        Self::LosesSteering,
        Self::TakesSteeringTwice,
        Self::TellsSteeringEarly,
        Self::DropsSteering,
        Self::ForgetsReaders,
        Self::LeavesCallUnpaired,
        Self::LosesPrompt,
        Self::KeepsClockStopped,
        Self::BeginsSilently,
        Self::InsistsOnStore,
        Self::OneStepMore,
        Self::OneStepLess,
        Self::OneCallMore,
        Self::OneErrorMore,
        Self::OneRepeatMore,
        Self::ForgetsTokens,
        Self::ForgetsChange,
        Self::TellsChangeEarly,
        Self::LosesSummary,
        Self::CutsElsewhere,
        Self::TakesStaleSummary,
        Self::LeavesSummaryOut,
        Self::ForgetsSkills,
        Self::WidensTools,
        Self::TakesMisfit,
    ];
}

/// Brings a defect about.
#[derive(Debug)]
pub(super) struct Sabotage {
    defect: Option<Defect>,
    dice: Dice,
    /// The answer before the last one, to be confused with the next.
    before: Option<TurnMessage>,
    /// The newest append.
    append: Option<Effect>,
}

impl Sabotage {
    pub(super) fn new(defect: Option<Defect>, dice: Dice) -> Self {
        Self { defect, dice, before: None, append: None }
    }

    /// What the machine hears instead; `None` if it hears nothing.
    pub(super) fn message(&mut self, mut message: TurnMessage, turn: &Turn) -> Option<TurnMessage> {
        let Some(defect) = self.defect else { return Some(message) };
        match (defect, &mut message) {
            (Defect::IgnoresWithdrawal, TurnMessage::Withdrawn { .. }) => return None,
            (Defect::IgnoresStop, TurnMessage::Stopped { .. }) => return None,
            (Defect::LosesSteering, TurnMessage::Steered { .. }) => return None,
            (Defect::TakesSteeringTwice, TurnMessage::Steered { steer }) => forget_steer(turn, steer),
            (Defect::LoadsLess, TurnMessage::Loaded { result: Ok(claim), .. }) => {
                claim.records.pop();
                claim.version = claim.records.len() as u64;
            }
            (Defect::ForgetsSkills, TurnMessage::Loaded { result: Ok(claim), .. }) => {
                for record in &mut claim.records {
                    blank(&mut Arc::make_mut(record).fact, |fact| matches!(fact, Fact::SkillsSelected(_)));
                }
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

    /// Changes what the machine asks for when it is told this.
    pub(super) fn effects(&mut self, effects: &mut Vec<Effect>, told: &TurnMessage) {
        let Some(defect) = self.defect else { return };
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
                (Defect::TellsSteeringEarly, Effect::Append { append, .. }) => {
                    let steers = append.records.iter().filter_map(|record| match &record.fact {
                        Fact::Steered { request_id, .. } => request_id.clone(),
                        _ => None,
                    });
                    let told = |request_id| Effect::Report(TurnNews::Steered { request_id, result: Ok(true) });
                    effects.extend(steers.map(told));
                }
                (Defect::TellsTwice, Effect::Report(TurnNews::Finished { .. })) => again = Some(effect.clone()),
                (Defect::DispatchesTwice, Effect::Call { .. }) => again = Some(effect.clone()),
                (Defect::SaysSaved, Effect::Report(TurnNews::Finished { outcome, .. })) => outcome.saved = true,
                (Defect::AcceptsEarly, Effect::Append { append, .. }) => {
                    let inputs = append.records.iter().filter_map(|record| match &record.fact {
                        Fact::Input(input) => Some(input.turn.clone()),
                        _ => None,
                    });
                    effects.extend(inputs.map(|submission| Effect::Report(TurnNews::Accepted { submission })));
                }
                (Defect::TellsChangeEarly, Effect::Append { append, .. }) => {
                    let changes = append.records.iter().filter_map(|record| match &record.fact {
                        Fact::Configured { request_id, .. } => Some(request_id.clone()),
                        _ => None,
                    });
                    let told = |request_id| Effect::Report(TurnNews::Configured { request_id, result: Ok(()) });
                    effects.extend(changes.map(told));
                }
                (Defect::WidensTools, Effect::Check { context, .. }) => Arc::make_mut(context).allow = None,
                (Defect::ChangesArguments, Effect::Call { call, grant, .. }) => {
                    *call = Arc::new(ToolCall { arguments: serde_json::json!({"all": true}), ..(**call).clone() });
                    *grant = seal(call);
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
            Defect::ForgetsOutcome => change(&mut append, |fact| blank(fact, |fact| matches!(fact, Fact::Outcome(_)))),
            Defect::ForgetsChange => {
                change(&mut append, |fact| blank(fact, |fact| matches!(fact, Fact::Configured { .. })));
            }
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
        steer.request_id = RequestId::new(format!("{}-again", steer.request_id));
    }
}

fn seal(call: &ToolCall) -> Grant {
    Grant { call: call.id.clone(), seal: format!("{}{}", call.name, call.arguments) }
}

fn allow(call: &ToolCall) -> Verdict {
    Verdict::Allow { grant: seal(call), traits: CallTraits::default() }
}

fn change(append: &mut Append, how: impl Fn(&mut Fact)) {
    for record in &mut append.records {
        how(&mut Arc::make_mut(record).fact);
    }
}

/// Something else in place of the records of a kind: nothing, as far as a fold can tell.
fn blank(fact: &mut Fact, is: impl Fn(&Fact) -> bool) {
    if is(fact) {
        *fact = Fact::Options(crate::session::SessionOptions::default());
    }
}
