//! The fold of tasks: calls of sub-agents that work in the background.
//!
//! A task begins with the first result of its call and ends with the second one. It is kept until its turn has ended or, if
//! it outlives the turn, until its result was read in a turn that has ended, or has begun one. What it used counts once:
//! in its turn, in the turn that read the result, or in the one that the result has begun.

use super::{OpenTurn, Session};
use crate::agent::{Delegation, Task, TaskQuestion};
use crate::chat::{CallStatus, Delegated, FinishReason, ToolCall, ToolResult};
use crate::ids::{CallId, SessionId, TurnId};
use crate::input::TurnInput;
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
        let (call, child) = (Arc::clone(call), Arc::clone(child));
        // Its media would be kept beyond what the session keeps of them.
        let caller = Arc::new(TurnInput { parts: Vec::new(), ..(**caller).clone() });
        let task = Task { call, caller, child, result: None, used: None, left: None, is_read: false };
        self.0.get_or_insert_default().push(task);
    }

    /// A call was answered like this. If the answer is the result of a task, the model has read that; returns what the task
    /// used if no turn has counted it.
    pub(super) fn read(&mut self, call: &ToolCall, how: CallStatus) -> Option<Box<Delegated>> {
        if self.is_empty() || call.name.as_str() != crate::agent::RESULT {
            return None;
        }
        let asked = TaskQuestion::of(call)?;
        // A call that was refused or cancelled has another status.
        let is_it = |task: &&mut Task| task.result.as_ref().is_some_and(|result| result.status == how);
        let task = self.iter_mut().filter(is_it).find(|task| task.call.id == asked.task)?;
        task.is_read = true;
        task.used.take()
    }

    /// A turn has ended: results that were read are dropped, and its tasks, but for those that outlive it. What it has left
    /// is for the turns that their results begin. Returns the children that have not ended with it.
    pub(super) fn turn_ended(&mut self, turn: &OpenTurn, how: FinishReason) -> Vec<(SessionId, TurnId)> {
        let is_its = |task: &Task| task.caller.turn == turn.input.turn;
        let left = self.iter().filter(|task| task.ends_with(&turn.input.turn, how));
        let left = left.map(|task| (task.child.session.clone(), task.child.input.turn.clone())).collect();
        self.retain(|task| !task.is_read && (!is_its(task) || task.outlives(how)));
        let among = u32::try_from(self.iter().filter(|task| is_its(task)).count()).unwrap_or(u32::MAX);
        if among > 0 {
            let limits = turn.limits();
            let part = turn.spent.left_of(limits, limits.turn_timeout_ms).part(among, limits);
            self.iter_mut().filter(|task| is_its(task)).for_each(|task| task.left = Some(Box::new(part)));
        }
        left
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
    /// A second result of a call is the end of its task. What it used counts at once, if its turn has not ended.
    pub(super) fn task_ended(&mut self, result: &Arc<ToolResult>, used: Option<Box<Delegated>>) {
        let running = |task: &&mut Task| task.call.id == result.call && task.result.is_none();
        let Some(task) = self.tasks.iter_mut().find(running) else { return };
        task.result = Some(Arc::clone(result));
        // It may have been closed by a program that stopped before those below it were closed.
        let failed = result.status == CallStatus::Error && used.is_some();
        let given_up = failed.then(|| (task.child.session.clone(), task.child.input.turn.clone()));
        match self.open.as_mut().filter(|turn| turn.input.turn == task.caller.turn) {
            Some(turn) => turn.count(used.as_deref()),
            None => task.used = used,
        }
        self.gives_up_all(given_up, true);
    }
}
