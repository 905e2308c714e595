//! Setups for the tests of the machine: what is the same for a whole run.

use super::world::model;
use super::{Brief, Limits, OnRestart};
use crate::llm::ToolModeChoice;
use crate::session::ApprovalsMode;
use crate::skills::SkillRules;
use proptest::prelude::*;

/// What is the same for a whole run.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) limits: Limits,
    pub(super) approvals: ApprovalsMode,
    pub(super) mode: ToolModeChoice,
    pub(super) on_restart: OnRestart,
    pub(super) max_waiting: usize,
    pub(super) max_history: usize,
    pub(super) reads_files: bool,
    /// Whether there are skills.
    pub(super) skills: bool,
    /// Whether answers must fit a schema.
    pub(super) schema: bool,
}

impl Setup {
    pub(super) fn brief(&self) -> Brief {
        let (tool_mode, on_restart, max_waiting) = (self.mode, self.on_restart, self.max_waiting);
        let max_history_messages = self.max_history;
        let (reads_files, skills) = (self.reads_files, self.skills.then(SkillRules::default));
        Brief { tool_mode, on_restart, max_waiting, max_history_messages, reads_files, skills, ..Brief::new(model()) }
    }
}

pub(super) fn limits() -> impl Strategy<Value = Limits> {
    let tokens = prop_oneof![3 => Just(0_u64), 1 => 1_u64..60];
    (1_u32..=5, 0_u32..=4, 1_u32..=3, 1_u32..=3, tokens).prop_map(|(steps, calls, errors, identical, tokens)| Limits {
        max_steps: steps,
        max_tool_calls: calls,
        max_consecutive_errors: errors,
        max_identical_calls: identical,
        max_total_tokens: tokens,
        ..Limits::default()
    })
}

pub(super) fn setups() -> impl Strategy<Value = Setup> {
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
