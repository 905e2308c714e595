//! What a seed draws before its run: agents, limits, which faults there are; and what the models say.

use crate::agent::Agent;
use crate::chat::Usage;
use crate::cost::Cost;
use crate::ids::SessionId;
use crate::input::ApprovalsMode;
use crate::limits::Limits;
use crate::llm::{LlmAnswer, LlmRequest};
use crate::options::OnParentEnd;
use crate::trace::fnv64;
use crate::turn::tests::simulation::Dice;
use crate::turn::tests::world::{answer, model};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

/// What is the same for a whole run.
pub(super) struct Plan {
    seed: u64,
    pub(super) approvals: ApprovalsMode,
    pub(super) limits: Limits,
    pub(super) inputs: u32,
    pub(super) finishes: bool,
    pub(super) kills: bool,
    pub(super) ends_programs: bool,
    pub(super) loses: bool,
    pub(super) cancels: bool,
    pub(super) times_out: bool,
    pub(super) refuses: bool,
    pub(super) rests: bool,
    pub(super) late: bool,
    config: TurnConfig,
}

/// An agent as the oracle of its limits knows it: name, levels below it, share in percent, own limits.
pub(super) type Profile = (&'static str, u32, u64, Option<u32>, Option<u32>);

pub(super) const PROFILES: [Profile; 5] = [
    ("planner", 2, 60, None, None),
    ("reader", 1, 50, Some(4), Some(5)),
    ("leaf", 0, 30, None, Some(3)),
    ("ends", 1, 40, None, None),
    ("outlives", 1, 50, Some(5), None),
];

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let agent = |(name, depth, percent, steps, calls): Profile| {
            let agent = Agent::new(name).max_depth(depth).budget_ratio(percent as f64 / 100.0);
            let agent = steps.into_iter().fold(agent, Agent::max_steps);
            let agent = calls.into_iter().fold(agent, Agent::max_tool_calls);
            match name {
                "ends" => agent.in_background(OnParentEnd::Cancel),
                "outlives" => agent.in_background(OnParentEnd::Continue),
                _inline => agent,
            }
        };
        let limits = Limits {
            max_steps: [6, 14, 40][dice.pick(3)],
            max_tool_calls: [8, 16, 60][dice.pick(3)],
            max_total_tokens: [0, 0, 400, 1_500][dice.pick(4)],
            max_cost: [Cost::ZERO, Cost::ZERO, Cost::from_nanos(3_000)][dice.pick(3)],
            max_consecutive_errors: 50,
            max_identical_calls: 1_000,
            suspend_timeout_ms: 0,
            ..Limits::default()
        };
        let config = TurnConfig {
            subagents: PROFILES.map(agent).to_vec().into(),
            max_parallel_subagents: 1 + dice.pick(4),
            snapshot_every: [0, 5, 40][dice.pick(3)],
            ..TurnConfig::new(model())
        };
        let approvals = if dice.rarely(3) { ApprovalsMode::Deny } else { ApprovalsMode::Suspend };
        let mut some = |often| dice.rarely(often);
        Self {
            seed,
            approvals,
            limits,
            finishes: some(2),
            kills: some(2),
            ends_programs: some(2),
            loses: some(4),
            cancels: some(2),
            times_out: some(4),
            refuses: some(4),
            rests: some(3),
            late: some(3),
            inputs: 1 + u32::from(some(2)),
            config,
        }
    }

    /// How turns are run in this program.
    pub(super) fn turn_config(&self, on_restart: OnRestart) -> Arc<TurnConfig> {
        Arc::new(TurnConfig { on_restart, ..self.config.clone() })
    }

    /// A number that follows from the seed and these words.
    fn drawn(&self, words: &str) -> usize {
        Dice::new(fnv64(format!("{}/{words}", self.seed).as_bytes()), 3).pick(1 << 16)
    }

    /// What the model says in a session of this depth; the same whenever it is asked the same.
    pub(super) fn says(&self, request: &LlmRequest, depth: u32) -> LlmAnswer {
        let LlmRequest { session, turn, step, .. } = request;
        let draw = |what: &str| self.drawn(&format!("{session}/{turn}/{step}/{what}"));
        let most_steps = [4, 3, 3, 2][depth.min(3) as usize];
        let is_brought = turn.as_str().ends_with("-result") || turn.as_str().starts_with("last");
        let said = if is_brought || *step >= most_steps || *step > 1 && draw("ends") % 4 == 0 {
            answer(&format!("{session} is done"), &[])
        } else {
            let calls: Vec<_> =
                (0..=draw("calls") % 3).map(|number| self.call(session, depth, number, &draw)).collect();
            let calls: Vec<_> = calls.iter().map(|(name, arguments)| (*name, arguments.as_str())).collect();
            answer("", &calls)
        };
        let input_tokens = 10 + draw("tokens") as u64 % 30;
        let usage = Usage { input_tokens, output_tokens: 5, total_tokens: input_tokens + 5, ..Usage::default() };
        LlmAnswer { usage: Some(usage), cost: Some(Cost::from_nanos(input_tokens * 3)), ..said }
    }

    fn call(
        &self,
        session: &SessionId,
        depth: u32,
        number: usize,
        draw: &impl Fn(&str) -> usize,
    ) -> (&'static str, String) {
        // A key of its own, by which a question to a person is known.
        let key = format!("{session}:{:x}:{number}", draw("key"));
        let task = format!("{{\"task\":\"{key}\"}}");
        let own = format!("{{\"key\":\"{key}\"}}");
        let of_task = |wait: usize| format!("{{\"task\":\"c{:08}\",\"wait_ms\":{wait}}}", 1 + draw("task") % 4);
        // Fewer agents the deeper it is.
        let kinds = if depth == 0 { 12 } else { 15 };
        match draw(&format!("call {number}")) % kinds {
            0 | 1 => ("agent__planner", task),
            2 => ("agent__reader", task),
            3 => ("agent__leaf", task),
            4 => ("agent__ends", task),
            5 => ("agent__outlives", task),
            6 => ("agent__result", of_task(draw("wait") % 2 * 500)),
            7 if draw("follows").is_multiple_of(4) => ("agent__status", of_task(0)),
            7 | 8 | 12 => ("local__write", own),
            9 | 13 => ("local__read", own),
            _ => ("local__ask", own),
        }
    }
}
