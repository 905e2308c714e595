//! Setups for the tests of the machine: what is the same for a whole run.

use super::world::model;
use crate::input::ApprovalsMode;
use crate::limits::Limits;
use crate::llm::ToolModeChoice;
use crate::models::Cost;
use crate::skills::SkillRules;
use crate::turn_config::{OnRestart, TurnConfig};
use proptest::prelude::*;

/// What is the same for a whole run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) limits: Limits,
    pub(crate) approvals: ApprovalsMode,
    pub(crate) mode: ToolModeChoice,
    pub(crate) on_restart: OnRestart,
    pub(crate) max_waiting: usize,
    pub(crate) max_history: usize,
    pub(crate) reads_files: bool,
    /// Whether there are skills.
    pub(crate) skills: bool,
    /// Whether answers must fit a schema.
    pub(crate) schema: bool,
}

impl Setup {
    pub(crate) fn turn_config(&self) -> TurnConfig {
        let (tool_mode, on_restart, max_waiting) = (self.mode, self.on_restart, self.max_waiting);
        let max_history_messages = self.max_history;
        let (reads_files, skills) = (self.reads_files, self.skills.then(SkillRules::default));
        // In some runs snapshots are close together, in some there are none.
        let snapshot_every = [11, 0, 3, 40][max_waiting % 4];
        let rest = TurnConfig { snapshot_every, skills, ..TurnConfig::new(model()) };
        TurnConfig { tool_mode, on_restart, max_waiting, max_history_messages, reads_files, ..rest }
    }
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    let tokens = prop_oneof![3 => Just(0_u64), 1 => 1_u64..60];
    let cost = prop_oneof![3 => Just(0_u64), 1 => 1_u64..60_000].prop_map(Cost::from_nanos);
    let all = (1_u32..=5, 0_u32..=4, 1_u32..=3, 1_u32..=3, tokens, cost);
    all.prop_map(|(steps, calls, errors, identical, tokens, max_cost)| Limits {
        max_cost,
        max_steps: steps,
        max_tool_calls: calls,
        max_consecutive_errors: errors,
        max_identical_calls: identical,
        max_total_tokens: tokens,
        ..Limits::default()
    })
}

pub(crate) fn setups() -> impl Strategy<Value = Setup> {
    let approvals = prop_oneof![Just(ApprovalsMode::Deny), Just(ApprovalsMode::Wait), Just(ApprovalsMode::Suspend)];
    let mode = prop_oneof![Just(ToolModeChoice::Native), Just(ToolModeChoice::Json)];
    let on_restart = prop_oneof![Just(OnRestart::Report), Just(OnRestart::Resume)];
    (limits(), approvals, mode, on_restart, 0_usize..4).prop_map(
        |(limits, approvals, mode, on_restart, max_waiting)| Setup {
            limits,
            approvals,
            mode,
            on_restart,
            max_waiting,
            max_history: 50,
            reads_files: false,
            skills: false,
            schema: false,
        },
    )
}
