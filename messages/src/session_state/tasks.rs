//! The fold of tasks: calls of sub-agents that work in the background.
//!
//! A task begins with the first result of its call and ends with the second one. It is kept until its turn has ended or, if
//! it outlives the turn, until its result has begun a turn.

use super::Session;
use crate::agent::{Delegation, Task, TaskQuestion};
use crate::chat::{Delegated, FinishReason, ToolCall, ToolResult};
use crate::ids::{CallId, TurnId};
use crate::input::TurnInput;
use crate::options::OnParentEnd;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The tasks of a session, oldest first. In a box, since most sessions have none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[expect(clippy::box_collection, reason = "a session has room for it all the time, and most have none")]
pub struct Tasks(Option<Box<Vec<Task>>>);

impl Tasks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|tasks| tasks.is_empty())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.0.iter().flat_map(|tasks| tasks.iter())
    }

    /// The task of this call.
    pub fn get(&self, call: &CallId) -> Option<&Task> {
        self.iter().find(|task| task.call.id == *call)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.0.iter_mut().flat_map(|tasks| tasks.iter_mut())
    }

    pub(super) fn begin(&mut self, call: &Arc<ToolCall>, caller: &Arc<TurnInput>, child: &Arc<Delegation>) {
        let (call, caller, child) = (Arc::clone(call), Arc::clone(caller), Arc::clone(child));
        self.0.get_or_insert_default().push(Task { call, caller, child, result: None, used: None, is_read: false });
    }

    /// A call was answered. If it asked for the result of a task that has one, the model reads that.
    pub(super) fn read(&mut self, call: &ToolCall) {
        if self.is_empty() || call.name.as_str() != crate::agent::RESULT {
            return;
        }
        let Some(asked) = TaskQuestion::of(call) else { return };
        if let Some(task) = self.iter_mut().find(|task| task.call.id == asked.task && task.result.is_some()) {
            task.is_read = true;
        }
    }

    /// A turn has ended: its tasks are dropped, but for those that outlive it and were not read.
    pub(super) fn turn_ended(&mut self, turn: &TurnId, how: FinishReason) {
        self.retain(|task| {
            let stays = task.on_parent_end() == OnParentEnd::Continue && !task.is_read;
            task.caller.turn != *turn || stays && how != FinishReason::Cancelled
        });
    }

    /// What the task used whose result begins this turn. The task is dropped.
    pub(super) fn take_result(&mut self, turn: &TurnId) -> Option<Box<Delegated>> {
        let task = self.iter().find(|task| task.result_turn() == *turn)?;
        let used = task.used.clone();
        self.retain(|task| task.result_turn() != *turn);
        used
    }

    fn retain(&mut self, keep: impl FnMut(&Task) -> bool) {
        if let Some(tasks) = &mut self.0 {
            tasks.retain(keep);
        }
        if self.is_empty() {
            self.0 = None;
        }
    }
}

impl Session {
    /// A second result of a call is the end of its task. What it used counts, if its turn has not ended.
    pub(super) fn task_ended(&mut self, result: &Arc<ToolResult>, used: Option<Box<Delegated>>) {
        let running = |task: &&mut Task| task.call.id == result.call && task.result.is_none();
        let Some(task) = self.tasks.iter_mut().find(running) else { return };
        (task.result, task.used) = (Some(Arc::clone(result)), used.clone());
        let turn = self.open.as_mut().filter(|turn| turn.input.turn == task.caller.turn);
        if let (Some(turn), Some(used)) = (turn, used) {
            turn.spent.delegate(&used, &turn.input.limits);
            turn.delegated.get_or_insert_default().add(&used);
        }
    }
}
