//! What a call hands down: a share of what is left, no more than its agent may use, and with what others were promised no more
//! than there is; and to an agent that is not above itself, and not too deep.

use super::Tree;
use super::ledger::Ledger;
use super::plan::PROFILES;
use crate::agent::{MAX_DEPTH, session_of};
use crate::ids::CallId;
use crate::limits::Limits;
use crate::store::{Fact, Record};
use crate::tools::AgentLine;
use std::sync::Arc;

impl Tree {
    /// An actor decides what a call hands down, with these records in its journal.
    pub(super) fn hands_down(
        &mut self,
        actor: u64,
        call: &CallId,
        (limits, line): (&Limits, &AgentLine),
        records: &[Arc<Record>],
    ) {
        let Some(actor) = self.actors.get(&actor) else { return };
        let (session, Some((turn, own))) = (actor.session.clone(), actor.running()) else { return };
        let ledger = Ledger::of(records);
        let (tally, ended) = (ledger.turn(&turn), ledger.ended_calls(&turn));
        let Some(child) = session_of(&session, &turn, call) else { return };

        // Agents.
        let name = ledger.agent_of(call);
        let mut agents = self.watch.lines.get(&session).cloned().unwrap_or_default();
        self.must(!agents.contains(&name), || format!("{name} is above itself in {session}: {agents:?}"));
        agents.push(name.clone());
        for (at, above) in agents.iter().enumerate() {
            let levels = agents.len() - at - 1;
            let most = PROFILES.iter().find(|profile| profile.0 == above).map_or(0, |profile| profile.1 as usize);
            self.must(levels <= most, || format!("{levels} levels are below {above}: {agents:?}"));
        }
        self.must(agents.len() <= MAX_DEPTH as usize, || format!("{agents:?} are too deep"));
        self.must(self.defect.is_some() || line.agents == agents, || format!("{line:?} is not {agents:?}"));
        self.saw(match agents.len() {
            1 => "a child works",
            2 => "a grandchild works",
            _ => "a child works three levels below the root",
        });
        self.watch.lines.insert(child.clone(), agents);

        // Limits.
        let Some(&(_, _, percent, most_steps, most_calls)) = PROFILES.iter().find(|profile| profile.0 == name) else {
            return self.must(false, || format!("{name} is no agent"));
        };
        let all = tally.all();
        let share = |most: u64, used: u64| most.saturating_sub(used) * percent / 100;
        let steps = share(own.max_steps.into(), all.steps.into()).min(most_steps.map_or(u64::MAX, u64::from));
        let calls = share(own.max_tool_calls.into(), all.calls.into()).min(most_calls.map_or(u64::MAX, u64::from));
        let is_bounded = |most: u64, of: u64, used: u64| most == 0 || of > 0 && of <= share(most, used);
        let holds = u64::from(limits.max_steps) <= steps
            && u64::from(limits.max_tool_calls) <= calls
            && is_bounded(own.max_total_tokens, limits.max_total_tokens, all.tokens)
            && is_bounded(own.max_cost.nanos(), limits.max_cost.nanos(), all.nanos)
            && limits.turn_timeout_ms <= own.turn_timeout_ms * percent / 100;
        self.must(holds, || format!("{name} has more than its share in {session}: {limits:?} of {own:?} less {all:?}"));

        // Promises. A child that has begun has what it was given then.
        let given = |child| -> Option<Limits> {
            self.journals.get(&child)?.records.iter().find_map(|record| match &record.fact {
                Fact::Input(input) => Some(input.limits),
                _ => None,
            })
        };
        let mut promised = self.watch.promised.remove(&(session.clone(), turn.clone())).unwrap_or_default();
        let is_again = promised.insert(call.clone(), *limits).is_some();
        promised.retain(|call, _| !ended.contains(call));
        for (call, limits) in &mut promised {
            if let Some(given) = session_of(&session, &turn, call).and_then(given) {
                *limits = given;
            }
        }
        let sum = |part: fn(&Limits) -> u64| promised.values().map(part).sum::<u64>();
        let is_within = |most: u64, used: u64, sum: u64| most == 0 || used + sum <= most;
        // A model call may take more tokens than are left. What was promised before that stays so.
        let is_bound = |most: u64, used: u64, sum: u64| is_again || is_within(most, used, sum);
        let holds = is_within(own.max_steps.into(), all.steps.into(), sum(|limits| limits.max_steps.into()))
            && is_within(own.max_tool_calls.into(), all.calls.into(), sum(|limits| limits.max_tool_calls.into()))
            && is_bound(own.max_total_tokens, all.tokens, sum(|limits| limits.max_total_tokens))
            && is_bound(own.max_cost.nanos(), all.nanos, sum(|limits| limits.max_cost.nanos()));
        let many = promised.len();
        self.must(holds, || {
            format!("{session} promises more than there is behind {call}: {promised:?} of {own:?} less {all:?}")
        });
        if many > 1 {
            self.saw("children work beside each other");
        }
        self.watch.promised.insert((session, turn), promised);
    }
}
