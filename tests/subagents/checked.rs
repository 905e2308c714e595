//! The journals of a tree of agents, judged by what must hold of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bob::SessionId;
use bob::sessions::TurnId;
use bob::store::{Fact, Record};
use bob::tools::agents::MAX_DEPTH;
use bob::tools::{CallId, CallStatus};
use bob_messages::agent::{RESULT, child_of, outcome_of};
use bob_messages::chat::{Delegated, FinishReason, ToolResult};
use bob_messages::options::{OnParentEnd, ParentTurn};
use bob_messages::session_state::Session;

/// What a run has left.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) journals: BTreeMap<SessionId, Vec<Arc<Record>>>,
    /// The keys under which a tool changed something.
    pub(crate) side_effects: Vec<String>,
}

impl House {
    fn session(&self, id: &SessionId) -> Session {
        Session::fold(id.clone(), &self.journals[id])
    }

    /// The sessions in which something is still open: a turn, an input, or a task that has not brought its result.
    pub(crate) fn open(&self) -> Vec<String> {
        let open = |id: &SessionId| {
            let session = self.session(id);
            let tasks: Vec<_> = session.tasks.iter().map(|task| (task.call.id.to_string(), task.state())).collect();
            let turn = session.open.as_ref().map(|open| &open.input.turn);
            let waiting = session.waiting.len();
            let is_open = turn.is_some() || waiting > 0 || !tasks.is_empty();
            let kinds: Vec<_> = self.journals[id].iter().map(|record| (record.epoch, kind(&record.fact))).collect();
            is_open.then(|| format!("{id}: turn {turn:?}, {waiting} waiting, tasks {tasks:?}, {kinds:?}"))
        };
        self.journals.keys().filter_map(open).collect()
    }

    /// The corners of what there is that this run has reached.
    pub(crate) fn reached(&self) -> Vec<String> {
        let mut reached = Vec::new();
        for records in self.journals.values() {
            for record in records {
                match &record.fact {
                    Fact::Input(input) => {
                        reached.extend(input.labels.keys().map(|_| "result brought".to_owned()));
                        if let Some(parent) = parent(input) {
                            reached.extend(parent.line.iter().filter_map(|line| line.agents.last().cloned()));
                            reached.push(format!("depth {}", parent.depth));
                        }
                    }
                    Fact::Outcome(ended) if ended.finish_reason == FinishReason::Cancelled => {
                        reached.push("cancelled".to_owned());
                    }
                    Fact::Result(result)
                        if result.name.as_str() == "agent/result" && result.output.plain().ends_with("is done") =>
                    {
                        reached.push("result read".to_owned());
                    }
                    _another => {}
                }
            }
            if records.last().is_some_and(|record| record.epoch > 1) {
                reached.push("crashed".to_owned());
            }
        }
        reached
    }
}

fn kind(fact: &Fact) -> String {
    let json = serde_json::to_value(fact).unwrap_or_default();
    json["kind"].as_str().unwrap_or_default().to_owned()
}

fn parent(input: &bob_messages::input::TurnInput) -> Option<&ParentTurn> {
    input.options.as_ref()?.parent.as_ref()
}

/// What does not hold.
pub(crate) fn faults(house: &House) -> Vec<String> {
    let mut faults = Vec::new();
    for (id, records) in &house.journals {
        let count = |is_it: fn(&Fact) -> bool| records.iter().filter(|record| is_it(&record.fact)).count();
        let (inputs, begun) =
            (count(|fact| matches!(fact, Fact::Input(_))), count(|fact| matches!(fact, Fact::Started { .. })));
        let outcomes = count(|fact| matches!(fact, Fact::Outcome(_)));
        let withdrawn = count(|fact| matches!(fact, Fact::Withdrawn));
        if inputs < begun {
            faults.push(format!("{id}: {inputs} inputs were begun twice: {begun}"));
        }
        if begun != outcomes || inputs != begun + withdrawn {
            faults.push(format!("{id}: {inputs} inputs, {begun} begun, {outcomes} outcomes"));
        }
        results(id, records, &mut faults);
        tasks(id, records, &mut faults);
        if let Some(parent) = records.iter().find_map(|record| match &record.fact {
            Fact::Input(input) => parent(input).map(|parent| (parent.clone(), input.limits)),
            _another => None,
        }) {
            child(house, id, parent, &mut faults);
        }
        bill(house, id, &mut faults);
        bills(house, id, &mut faults);
    }
    let mut keys = house.side_effects.clone();
    keys.sort();
    faults.extend(keys.windows(2).filter(|two| two[0] == two[1]).map(|two| format!("a side effect twice: {}", two[0])));
    faults
}

/// Each call has one result, and that of a task a second one at most.
fn results(id: &SessionId, records: &[Arc<Record>], faults: &mut Vec<String>) {
    let (mut calls, mut of_tasks, mut counts) = (Vec::new(), Vec::new(), BTreeMap::<CallId, usize>::new());
    for record in records {
        match &record.fact {
            Fact::Answered(answered) => calls.extend(answered.calls.iter().map(|call| call.id.clone())),
            Fact::Intent { call, task: Some(_), .. } => of_tasks.push(call.clone()),
            Fact::Result(result) => *counts.entry(result.call.clone()).or_default() += 1,
            _another => {}
        }
    }
    for call in calls {
        let count = counts.get(&call).copied().unwrap_or_default();
        let most = if of_tasks.contains(&call) { 2 } else { 1 };
        if count == 0 || count > most {
            faults.push(format!("{id}: {count} results of {call}"));
        }
    }
}

/// A result of a task that outlived its turn is read once: it was asked for, or brought.
fn tasks(id: &SessionId, records: &[Arc<Record>], faults: &mut Vec<String>) {
    let mut session = Session::new(id.clone());
    let mut due = Vec::new();
    for record in records {
        session.apply(record);
        if matches!(record.fact, Fact::Outcome(_)) {
            let is_due = |task: &&bob_messages::agent::Task| task.on_parent_end() == OnParentEnd::Continue;
            due.extend(session.tasks.iter().filter(is_due).map(|task| task.result_turn()));
        }
    }
    due.sort_unstable_by_key(ToString::to_string);
    due.dedup();
    for turn in due {
        let brought = records
            .iter()
            .filter(|record| matches!(record.fact, Fact::Input(_)) && record.turn.as_ref() == Some(&turn));
        match (brought.count(), was_read(id, records, &turn)) {
            (1, false) | (0, true) => {}
            (0, false) => faults.push(format!("{id}: the result {turn} was not brought")),
            (1, true) => faults.push(format!("{id}: the result {turn} was read and came again")),
            (more, _) => faults.push(format!("{id}: the result {turn} was brought {more} times")),
        }
    }
}

/// Whether a call of `agent/result` was answered with the result that this turn would bring.
fn was_read(id: &SessionId, records: &[Arc<Record>], turn: &TurnId) -> bool {
    let is_its = |record: &Record, call: &CallId| {
        let named = record.turn.as_ref().and_then(|of| child_of(id, of, call));
        named.is_some_and(|(_, child)| turn.as_str() == format!("{child}-result"))
    };
    let intent = records.iter().find_map(|record| match &record.fact {
        Fact::Intent { call, task: Some(_), .. } if is_its(record, call) => Some(call),
        _another => None,
    });
    let Some(task) = intent else { return false };
    let results = |of: &CallId| {
        let of = of.clone();
        records.iter().filter_map(move |record| match &record.fact {
            Fact::Result(result) if result.call == of => Some((record.version, Arc::clone(result))),
            _another => None,
        })
    };
    let Some((ended, result)) = results(task).nth(1) else { return false };
    let asking = records.iter().flat_map(|record| match &record.fact {
        Fact::Answered(answered) => answered.calls.as_slice(),
        _another => &[],
    });
    let mut asking = asking.filter(|call| call.name.as_str() == RESULT && call.arguments["task"] == task.as_str());
    asking.any(|call| {
        let is_it = |(version, told): (u64, Arc<ToolResult>)| {
            version > ended && told.status == result.status && told.output.plain() == result.output.plain()
        };
        results(&call.id).any(is_it)
    })
}

/// A child works for a call of its parent, within what it was given.
fn child(house: &House, id: &SessionId, (parent, limits): (ParentTurn, bob::config::Limits), faults: &mut Vec<String>) {
    let Some(above) = house.journals.get(&parent.session) else {
        return faults.push(format!("{id}: its parent has no journal"));
    };
    let called = above.iter().any(|record| match &record.fact {
        Fact::Intent { call, .. } => *call == parent.call && record.turn.as_ref() == Some(&parent.turn),
        _another => false,
    });
    let named = child_of(&parent.session, &parent.turn, &parent.call).map(|(session, _)| session);
    if !called || named.as_ref() != Some(id) {
        faults.push(format!("{id}: it works without a call {}", parent.call));
    }
    is_billed(house, id, &parent, faults);
    let turns = house.session(id).turns;
    if turns > 1 {
        faults.push(format!("{id}: it has {turns} turns, and its caller waits for one"));
    }
    let line = parent.line.clone().unwrap_or_default();
    let mut agents = line.agents.clone();
    agents.sort();
    agents.dedup();
    if agents.len() != line.agents.len() {
        faults.push(format!("{id}: one of its agents is above itself: {:?}", line.agents));
    }
    let of_parent = house.session(&parent.session).options.parent.as_ref().map_or(0, |parent| parent.depth);
    if parent.depth != of_parent + 1 || parent.depth > MAX_DEPTH || parent.depth as usize > line.agents.len() {
        faults.push(format!("{id}: it is {} levels below, its parent {of_parent}", parent.depth));
    }
    let of_turn = above.iter().find_map(|record| match &record.fact {
        Fact::Input(input) if input.turn == parent.turn => Some(input.limits),
        _another => None,
    });
    if of_turn.is_none_or(|above| limits.max_steps > above.max_steps / 2 + 1) {
        faults.push(format!("{id}: its limits are not those of a share: {}", limits.max_steps));
    }
    let steps = house.journals[id].iter().filter(|record| matches!(record.fact, Fact::Answered(_))).count();
    if steps > limits.max_steps as usize {
        faults.push(format!("{id}: it used more than its limits: {steps}"));
    }
}

/// What the results of agents count is what their children used.
fn bill(house: &House, id: &SessionId, faults: &mut Vec<String>) {
    for record in &house.journals[id] {
        let Fact::Result(result) = &record.fact else { continue };
        let Some(counted) = result.output.delegated.as_deref() else { continue };
        let turns = house.journals[id].iter().filter_map(|record| record.turn.clone());
        let mut children = turns.filter_map(|turn| child_of(id, &turn, &result.call)).map(|(session, _)| session);
        // One that was cancelled before its input was kept has no journal, and has used nothing.
        let nothing = Delegated { sessions: 1, ..Delegated::default() };
        let Some(child) = children.find(|child| house.journals.contains_key(child)) else {
            if *counted == nothing {
                continue;
            }
            faults.push(format!("{id}: {} is on the bill and has no child", result.call));
            continue;
        };
        let outcome = house.session(&child).last;
        let used = outcome.and_then(|last| outcome_of("agent", &last).delegated).map_or(nothing, |used| *used);
        if result.status != CallStatus::Unknown && used != *counted {
            faults.push(format!("{id}: {counted:?} is on the bill for {}, which used {used:?}", result.call));
        }
    }
}

/// What the outcomes of a session count is what the results of its agents say, each once.
fn bills(house: &House, id: &SessionId, faults: &mut Vec<String>) {
    let mut session = Session::new(id.clone());
    let (mut counted, mut owed) = (Delegated::default(), Delegated::default());
    for record in &house.journals[id] {
        session.apply(record);
        match &record.fact {
            // A suspended turn counts when it has ended.
            Fact::Outcome(ended) if ended.finish_reason != FinishReason::Suspended => {
                session.last.iter().filter_map(|last| last.delegated.as_deref()).for_each(|used| counted.add(used));
            }
            Fact::Result(result) => result.output.delegated.iter().for_each(|used| owed.add(used)),
            _another => {}
        }
    }
    if counted != owed {
        faults.push(format!("{id}: its outcomes count {counted:?}, its agents used {owed:?}"));
    }
}

/// A child whose caller's turn has ended by itself is on the bill.
fn is_billed(house: &House, id: &SessionId, parent: &ParentTurn, faults: &mut Vec<String>) {
    let above = &house.journals[&parent.session];
    let has_ended = above.iter().any(|record| match &record.fact {
        Fact::Outcome(ended) => {
            ended.finish_reason == FinishReason::Final && record.turn.as_ref() == Some(&parent.turn)
        }
        _another => false,
    });
    let is_known = |result: &ToolResult| result.output.delegated.is_some() || result.status == CallStatus::Unknown;
    let is_counted = above.iter().any(|record| match &record.fact {
        Fact::Result(result) => result.call == parent.call && is_known(result),
        _another => false,
    });
    if has_ended && !is_counted {
        faults.push(format!("{id}: it is on no bill"));
    }
}
