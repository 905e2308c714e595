//! All journals in the end: nothing is open, each turn is within its limits, and each bill is what the journals below add up to.

use super::Tree;
use super::ledger::{Called, Ledger, Used};
use super::person::Person;
use crate::agent::{RESULT, session_of};
use crate::chat::{CallStatus, Delegated, FinishReason, ToolResult};
use crate::ids::{SessionId, TurnId};
use crate::options::OnParentEnd;
use crate::session_state::Session;
use crate::store::{Fact, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Tree {
    /// Whether the session works for a call and has reported an end that the store did not accept, or one above it has.
    fn is_unsaved(&self, session: &SessionId) -> bool {
        let mut at = Some(session);
        while let Some(session) = at.filter(|session| **session != Person::root()) {
            if self.watch.unsaved.contains(session) {
                return true;
            }
            at = self.watch.parents.get(session).map(|parent| &parent.session);
        }
        false
    }

    fn records(&self, session: &SessionId) -> &[Arc<Record>] {
        self.journals.get(session).map_or(&[], |journal| &journal.records)
    }

    /// What is still open in the journals.
    pub(super) fn open_in_journals(&self) -> Vec<String> {
        let open = self.journals.iter().filter_map(|(id, journal)| {
            let session = Session::fold(id.clone(), &journal.records);
            let tasks: Vec<_> = session.tasks.iter().map(|task| task.call.id.to_string()).collect();
            let open = session.open.as_ref().map(|open| (open.input.turn.to_string(), open.suspended.is_some()));
            let waiting = session.waiting.len();
            // The end of a turn that the store did not take is reported as unsaved, and the turn is left for the next caller.
            let is_open = (open.is_some() || waiting > 0 || !tasks.is_empty()) && !self.is_unsaved(id);
            is_open.then(|| format!("{id} is open for ever: {open:?}, {waiting} waiting, tasks {tasks:?}"))
        });
        open.collect()
    }

    /// What must hold of all journals when nothing is open.
    pub(super) fn adds_up(&mut self) {
        let ledgers: BTreeMap<_, _> =
            self.journals.iter().map(|(id, journal)| (id.clone(), Ledger::of(&journal.records))).collect();
        let mut by_call = BTreeMap::new();
        for (id, ledger) in &ledgers {
            if let Some(parent) = self.watch.parents.get(id).cloned() {
                let begun: u32 = ledger.turns.values().map(|tally| tally.begun).sum();
                self.must(begun <= 1, || format!("{id} works for a call and begins {begun} turns"));
                let known = by_call.insert((parent.session, parent.turn, parent.call), id.clone());
                self.must(known.is_none(), || format!("{id} and {known:?} are begun by one call"));
            }
            self.turns_add_up(id, ledger);
            self.calls_add_up(id, ledger, &ledgers);
            self.bills_add_up(id, ledger);
        }
        self.families_add_up(&ledgers);
    }

    /// Each turn that began has one end, and stays within its limits with all that worked for it.
    fn turns_add_up(&mut self, id: &SessionId, ledger: &Ledger) {
        for (turn, tally) in &ledger.turns {
            let Some(input) = &tally.input else { continue };
            let (begun, outcomes, used, limits) = (tally.begun, tally.outcomes, tally.in_line(), input.limits);
            let has_ended = begun == outcomes || self.is_unsaved(id);
            self.must(has_ended && begun <= 1, || format!("{id}: {turn} has {begun} begins, {outcomes} ends"));
            // What tasks used beside it is within their own limits.
            let holds = used.steps <= limits.max_steps && used.calls <= limits.max_tool_calls;
            self.must(holds, || format!("{id}: {turn} used {used:?} of {limits:?}"));
        }
    }

    /// Each call has its result, and what it says was used is what was used below it.
    fn calls_add_up(&mut self, id: &SessionId, ledger: &Ledger, ledgers: &BTreeMap<SessionId, Ledger>) {
        for (call, called) in &ledger.calls {
            let (count, is_task) = (called.results.len(), called.task.is_some());
            let holds = count == 1 || count == 2 && is_task || count == 0 && self.is_unsaved(id);
            self.must(holds, || format!("{id}: {call} has {count} results"));
            let is_agent = session_of(id, &called.turn, call).filter(|_| !ledger.agent_of(call).is_empty());
            let Some(child) = is_agent else { continue };
            let used = ledgers.get(&child).map(used_by).unwrap_or(Delegated { sessions: 1, ..Delegated::default() });
            // The first result of a task says that it has begun.
            let begins = |number: usize, result: &ToolResult| is_task && number == 0 && result.status == CallStatus::Ok;
            for (number, (_, result)) in called.results.iter().enumerate() {
                let counted = result.output.delegated.as_deref();
                let holds = match (counted, result.status) {
                    // Its journal ends before it does.
                    (Some(_), _) if self.is_unsaved(&child) => true,
                    (Some(counted), CallStatus::Unknown) => {
                        let parts =
                            |sum: &Delegated| [u64::from(sum.steps), u64::from(sum.tool_calls), sum.usage.total_tokens];
                        parts(counted).iter().zip(parts(&used)).all(|(counted, used)| *counted <= used)
                    }
                    (Some(counted), _) => *counted == used,
                    (None, CallStatus::Ok) => {
                        begins(number, result) || ["status", "result"].contains(&ledger.agent_of(call).as_str())
                    }
                    (None, CallStatus::Unknown) => true,
                    (None, _) => used.steps == 0,
                };
                self.must(holds, || format!("{id}: {counted:?} is on the bill for {call}, which used {used:?}"));
            }
            self.task_adds_up(id, ledger, called);
        }
    }

    /// The result of a task that outlived its turn is read once.
    fn task_adds_up(&mut self, id: &SessionId, ledger: &Ledger, called: &Called) {
        if called.task != Some(OnParentEnd::Continue) {
            return;
        }
        let tally = ledger.turn(&called.turn);
        // A first result with a bill is the answer: the child had ended when the next program asked for it.
        let begins = |first: &ToolResult| first.status == CallStatus::Ok && first.output.delegated.is_none();
        let has_begun = called.results.first().is_some_and(|(_, first)| begins(first));
        let is_due = has_begun && tally.ended.is_some_and(|how| how != FinishReason::Cancelled);
        let is_read = called.results.get(1).is_some_and(|(ended, result)| {
            let asks = |other: &&Called| {
                other.call.name.as_str() == RESULT && other.call.arguments["task"] == called.call.id.as_str()
            };
            let mut told = ledger.calls.values().filter(asks).flat_map(|other| &other.results);
            told.any(|(version, told)| {
                version > ended && told.status == result.status && told.output.plain() == result.output.plain()
            })
        });
        let (brought, call) = (called.brought, &called.call.id);
        if is_due {
            self.saw(if is_read { "the result of a task is read" } else { "the result of a task begins a turn" });
        }
        let expected = u32::from(is_due && !is_read);
        self.must(brought == expected, || {
            format!("{id}: the result of {call} was brought {brought} times, due {is_due}, read {is_read}")
        });
    }

    /// The outcomes say what the journal says.
    fn bills_add_up(&mut self, id: &SessionId, ledger: &Ledger) {
        let mut session = Session::new(id.clone());
        for record in self.records(id).to_vec() {
            session.apply(&record);
            let (Fact::Outcome(ended), Some(turn)) = (&record.fact, &record.turn) else { continue };
            let Some(last) = session.last.as_deref().filter(|_| ended.finish_reason != FinishReason::Suspended) else {
                continue;
            };
            let tally = ledger.turn(turn);
            let told = (last.steps, last.usage.total_tokens, last.cost.nanos(), last.delegated.as_deref().copied());
            let bill = (tally.bill != Delegated::default()).then_some(tally.bill);
            let counted = (tally.own.steps, tally.own.tokens, tally.own.nanos, bill);
            self.must(told == counted, || format!("{id}: the bill of {turn} is {told:?}, it used {counted:?}"));
        }
    }

    /// A turn of the root, with the turns that its tasks begin and all that worked for them, stays within its limits. To read
    /// a result one model call is added.
    fn families_add_up(&mut self, ledgers: &BTreeMap<SessionId, Ledger>) {
        let root = Person::root();
        let Some(ledger) = ledgers.get(&root) else { return };
        let mut families: BTreeMap<TurnId, (Used, Used)> = BTreeMap::new();
        for (turn, tally) in &ledger.turns {
            let first = ledger.first_of(turn);
            let family = families.entry(first).or_default();
            let held = ledger.held_in(turn);
            family.1.steps += u32::from(ledger.task_of(turn).is_some());
            add(&mut family.1, &held);
            add(&mut family.0, &tally.own);
        }
        for (id, below) in ledgers {
            let mut above = id.clone();
            let (mut of, mut is_billed) = (None, true);
            while let Some(parent) = self.watch.parents.get(&above) {
                let called = ledgers.get(&parent.session).and_then(|ledger| ledger.calls.get(&parent.call));
                let mut results = called.into_iter().flat_map(|called| &called.results);
                // Where the outcome of a call is not known, what it used is not.
                is_billed &= results.any(|(_, result)| result.output.delegated.is_some());
                (of, above) = (Some(parent.turn.clone()), parent.session.clone());
            }
            let Some(turn) = of.filter(|_| above == root && is_billed) else { continue };
            let family = families.entry(ledger.first_of(&turn)).or_default();
            let ran = ran_in(below);
            for (turn, tally) in &below.turns {
                add(&mut family.0, &Used { calls: 0, ..tally.own });
                // What is held for tasks is held beside each turn, whichever level it is on.
                add(&mut family.1, &below.held_in(turn));
            }
            family.0.calls += ran;
        }
        // What each turn used is in the log of a seed that is repeated.
        let lines = ledgers.iter().flat_map(|(id, ledger)| {
            ledger.turns.iter().filter_map(move |(turn, tally)| {
                let limits = tally.input.as_ref()?.limits;
                let (steps, calls) = (limits.max_steps, limits.max_tool_calls);
                Some(format!(
                    "{id} {turn}: {:?} and {:?} of {steps} and {calls}, {:?}",
                    tally.own, tally.below, tally.ended
                ))
            })
        });
        self.note(|| lines.collect::<Vec<_>>().join("\n"));
        for (turn, (used, more)) in families {
            let Some(input) = ledger.turn(&turn).input else { continue };
            let (steps, calls) = (input.limits.max_steps + more.steps, input.limits.max_tool_calls + more.calls);
            let holds = used.steps <= steps && used.calls <= calls;
            self.must(holds, || format!("all for {turn} used {used:?} of {steps} steps and {calls} calls"));
        }
    }
}

fn add(sum: &mut Used, used: &Used) {
    (sum.steps, sum.calls) = (sum.steps + used.steps, sum.calls + used.calls);
}

/// What a session used that works for a call, with those below it.
fn used_by(ledger: &Ledger) -> Delegated {
    let mut all = Delegated { sessions: 1, ..Delegated::default() };
    for tally in ledger.turns.values() {
        all.steps += tally.own.steps;
        all.usage.add(&tally.usage);
        all.cost = all.cost.plus(crate::cost::Cost::from_nanos(tally.own.nanos));
        all.add(&tally.bill);
    }
    all.tool_calls += ran_in(ledger);
    all
}

/// How many calls of a session ran. What was not run is no call that counts above.
fn ran_in(ledger: &Ledger) -> u32 {
    let ran = |called: &&Called| {
        let first = called.results.first();
        first.is_some_and(|(_, result)| result.status != CallStatus::Cancelled || result.duration_ms > 0)
    };
    u32::try_from(ledger.calls.values().filter(ran).count()).unwrap_or(u32::MAX)
}
