//! One journal, added up: which turns and calls it has, what each used, and what others used for it.

use crate::agent::RESULT;
use crate::chat::{CallStatus, Delegated, FinishReason, ToolCall, ToolResult, Usage};
use crate::ids::{CallId, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::options::OnParentEnd;
use crate::store::{Fact, Record, StepCost};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was used of limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) steps: u32,
    pub(super) calls: u32,
    pub(super) tokens: u64,
    pub(super) nanos: u64,
}

/// What a turn used, and what was used for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) own: Used,
    pub(super) below: Used,
    /// What of that was used by tasks in the background.
    pub(super) tasks: Used,
    pub(super) bill: Delegated,
    pub(super) usage: Usage,
    pub(super) input: Option<Arc<TurnInput>>,
    /// How it ended for good.
    pub(super) ended: Option<FinishReason>,
    pub(super) begun: u32,
    pub(super) outcomes: u32,
}

impl Tally {
    /// All of it.
    pub(super) fn all(&self) -> Used {
        let (own, below) = (self.own, self.below);
        Used {
            steps: own.steps + below.steps,
            calls: own.calls + below.calls,
            tokens: own.tokens + below.tokens,
            nanos: own.nanos + below.nanos,
        }
    }

    fn spends(&mut self, cost: &StepCost) {
        self.own.steps += 1;
        self.own.tokens += cost.usage.as_ref().map_or(0, |usage| usage.total_tokens);
        cost.usage.iter().for_each(|usage| self.usage.add(usage));
        self.own.nanos += cost.cost.map_or(0, |cost| cost.nanos());
    }

    /// All but what its tasks used, which work beside it and may end at any time.
    pub(super) fn in_line(&self) -> Used {
        let (all, tasks) = (self.all(), self.tasks);
        Used {
            steps: all.steps - tasks.steps,
            calls: all.calls - tasks.calls,
            tokens: all.tokens - tasks.tokens,
            nanos: all.nanos - tasks.nanos,
        }
    }

    fn owes_for_a_task(&mut self, used: &Delegated) {
        let before = self.below;
        self.owes(used);
        self.tasks.steps += self.below.steps - before.steps;
        self.tasks.calls += self.below.calls - before.calls;
        self.tasks.tokens += self.below.tokens - before.tokens;
        self.tasks.nanos += self.below.nanos - before.nanos;
    }

    fn owes(&mut self, used: &Delegated) {
        self.bill.add(used);
        let most = self.input.as_ref().map_or(0, |input| input.limits.max_tool_calls);
        self.below.steps += used.steps;
        // What a limit below refused counts for none above.
        self.below.calls += used.tool_calls.min(most.saturating_sub(self.all().calls));
        self.below.tokens += used.usage.total_tokens;
        self.below.nanos += used.cost.nanos();
    }
}

/// One call, as its journal tells.
#[derive(Debug, Clone)]
pub(super) struct Called {
    pub(super) call: Arc<ToolCall>,
    pub(super) turn: TurnId,
    /// What happens to it at the end of its turn, if it is a task.
    pub(super) task: Option<OnParentEnd>,
    pub(super) limits: Option<Limits>,
    pub(super) results: Vec<(u64, Arc<ToolResult>)>,
    pub(super) brought: u32,
}

/// A journal, added up.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) turns: BTreeMap<TurnId, Tally>,
    pub(super) calls: BTreeMap<CallId, Called>,
    /// What tasks used that have ended behind their turns, while no turn has read it.
    uncounted: BTreeMap<CallId, Delegated>,
}

impl Ledger {
    pub(super) fn of(records: &[Arc<Record>]) -> Self {
        let mut ledger = Self::default();
        records.iter().for_each(|record| ledger.read(record));
        ledger
    }

    pub(super) fn turn(&self, turn: &TurnId) -> Tally {
        self.turns.get(turn).cloned().unwrap_or_default()
    }

    /// The calls of a turn for which no child works any more.
    pub(super) fn ended_calls(&self, turn: &TurnId) -> BTreeSet<CallId> {
        let has_ended = |called: &&Called| {
            let of_child = if called.task.is_some() { 2 } else { 1 };
            let is_no_task = called.results.first().is_some_and(|(_, first)| first.status != CallStatus::Ok);
            called.turn == *turn && (called.results.len() >= of_child || is_no_task)
        };
        self.calls.values().filter(has_ended).map(|called| called.call.id.clone()).collect()
    }

    pub(super) fn agent_of(&self, call: &CallId) -> String {
        let name = self.calls.get(call).map(|called| called.call.name.as_str().to_owned());
        name.as_deref().and_then(|name| name.strip_prefix("agent/")).unwrap_or_default().to_owned()
    }

    fn read(&mut self, record: &Record) {
        let turn = record.turn.clone().unwrap_or_else(|| TurnId::new("none"));
        let tally = self.turns.entry(turn.clone()).or_default();
        match &record.fact {
            Fact::Input(input) => {
                tally.input = Some(Arc::clone(input));
                let of_task = input.labels.get("task").and_then(|task| self.calls.get_mut(&CallId::new(task.as_str())));
                of_task.into_iter().for_each(|called| called.brought += 1);
            }
            Fact::Started { .. } => {
                tally.begun += 1;
                let task = tally.input.as_ref().and_then(|input| input.labels.get("task"));
                let used = task.and_then(|task| self.uncounted.remove(&CallId::new(task.as_str())));
                used.iter().for_each(|used| tally.owes(used));
            }
            Fact::Answered(answered) => {
                tally.spends(&answered.cost);
                let most = tally.input.as_ref().map_or(0, |input| input.limits.max_tool_calls);
                for call in &answered.calls {
                    if tally.all().calls < most {
                        tally.own.calls += 1;
                    }
                    let (call, turn) = (Arc::clone(call), turn.clone());
                    let called = Called { call, turn, task: None, limits: None, results: Vec::new(), brought: 0 };
                    self.calls.insert(called.call.id.clone(), called);
                }
            }
            Fact::Malformed { cost, .. } => tally.spends(cost),
            Fact::Intent { call, task: Some(task), .. } => {
                let parent = task.input.options.as_ref().and_then(|options| options.parent.as_ref());
                if let Some(called) = self.calls.get_mut(call) {
                    called.task = parent.and_then(|parent| parent.on_parent_end);
                    called.limits = Some(task.input.limits);
                }
            }
            Fact::Result(result) => self.result(record.version, &turn, result),
            Fact::Outcome(ended) if ended.finish_reason != FinishReason::Suspended => {
                tally.outcomes += 1;
                tally.ended = Some(ended.finish_reason);
            }
            _ => {}
        }
    }

    fn result(&mut self, version: u64, turn: &TurnId, result: &Arc<ToolResult>) {
        let Some(called) = self.calls.get_mut(&result.call) else { return };
        called.results.push((version, Arc::clone(result)));
        let (of, name, arguments) = (called.turn.clone(), called.call.name.clone(), Arc::clone(&called.call.arguments));
        let (used, is_task) = (result.output.delegated.as_deref().copied(), called.task.is_some());
        let has_ended = self.turns.get(&of).is_some_and(|tally| tally.ended.is_some());
        match used {
            Some(used) if has_ended => drop(self.uncounted.insert(result.call.clone(), used)),
            Some(used) if is_task => self.turns.entry(of).or_default().owes_for_a_task(&used),
            Some(used) => self.turns.entry(of).or_default().owes(&used),
            None if name.as_str() == RESULT => {
                let task = CallId::new(arguments["task"].as_str().unwrap_or_default());
                let ended = self.calls.get(&task).and_then(|task| task.results.get(1));
                if ended.is_some_and(|(_, ended)| ended.status == result.status)
                    && let Some(used) = self.uncounted.remove(&task)
                {
                    // It worked beside the turn that began it, as one that ends within that turn.
                    self.turns.entry(turn.clone()).or_default().owes_for_a_task(&used);
                }
            }
            None => {}
        }
    }
}

impl Ledger {
    /// The turn whose task has begun this one, or that task's turn, and so on.
    pub(super) fn first_of(&self, turn: &TurnId) -> TurnId {
        self.task_of(turn).map_or_else(|| turn.clone(), |caller| self.first_of(&caller.turn))
    }

    /// The task whose result has begun this turn.
    pub(super) fn task_of(&self, turn: &TurnId) -> Option<&Called> {
        let input = self.turns.get(turn)?.input.as_ref()?;
        self.calls.get(&CallId::new(input.labels.get("task")?.as_str()))
    }

    /// What its tasks may use beside a turn. It is held for them before other children, and not before the turn itself, which
    /// does not wait for tasks in the background.
    pub(super) fn held_in(&self, turn: &TurnId) -> Used {
        let tasks =
            self.calls.values().filter(|called| called.turn == *turn).filter_map(|called| called.limits.as_ref());
        let mut held = Used::default();
        for limits in tasks {
            (held.steps, held.calls) = (held.steps + limits.max_steps, held.calls + limits.max_tool_calls);
        }
        held
    }
}
