//! How a call is sent to its tool, and comes back with its one result or without one.

use super::server_waits::given_up;
use super::state::{Calling, Running, Slot};
use super::{Effect, Turn, agents};
use crate::chat::{CallStatus, ServerWait, ToolCall, ToolResult};
use crate::event::{AgentEvent, CallState};
use crate::ids::Ticket;
use crate::store::Fact;
use crate::tools::{Grant, ToolReturn};
use std::sync::Arc;

impl Turn {
    pub(super) fn run(
        &mut self,
        calling: &Calling,
        call: Arc<ToolCall>,
        grant: Grant,
        (read_only, doubted): (bool, bool),
        effects: &mut Vec<Effect>,
    ) -> Slot {
        if let Some(answer) = self.known_of_task(&call) {
            return self.answer(&call, answer, effects);
        }
        if let Some(task) = self.child_in_background(&call) {
            return self.begin_task(&task, &call, doubted, effects);
        }
        let (context, holds) = match self.handed_down(calling, &call) {
            Ok(context) => context,
            Err(why) => return self.not_handed_down(&call, &why, doubted, effects),
        };
        let ticket = self.ticket();
        self.called(&call, CallState::Running, effects);
        effects.push(Effect::Call { ticket, call, grant, context });
        match self.running(ticket, read_only, doubted) {
            Slot::Running(running) => Slot::Running(Running { holds, ..running }),
            slot => slot,
        }
    }

    pub(super) fn running(&self, ticket: Ticket, read_only: bool, doubted: bool) -> Slot {
        Slot::Running(Running { ticket, read_only, doubted, since_ms: self.now.lasted_ms, output: None, holds: None })
    }

    /// A call that is not sent to its tool gets its result.
    pub(super) fn refuse_call(&mut self, call: &ToolCall, why: ToolReturn, effects: &mut Vec<Effect>) -> Slot {
        let open = self.open_call(&call.id);
        if open.is_some_and(|open| open.intent.is_some() && agents::is_agent(call)) {
            // The child that it began before a crash gets no further.
            self.tell_orphan(call, effects);
        }
        let (given_up, returned) = (self.open_call(&call.id).and_then(given_up), self.not_run(call, why));
        let slot = self.answer(call, returned, effects);
        self.give_up(given_up);
        slot
    }

    /// A call came back: with its result, or without one that comes from outside.
    pub(super) fn came_back(&mut self, call: &Arc<ToolCall>, returned: ToolReturn, effects: &mut Vec<Effect>) -> Slot {
        let mut returned = self.still_waits(&call.id, returned);
        let server = ServerWait::of(&returned.output);
        if let Some(answer) = self.skill_asked(call).filter(|_| returned.status == CallStatus::Ok) {
            return self.answer(call, answer, effects);
        }
        match returned.output.waits_for.take().filter(|_| returned.status == CallStatus::Ok) {
            Some(what) => self.waits(call, (what, server), effects),
            None => {
                let returned = self.task_asked(call).unwrap_or(returned);
                self.answer(call, returned, effects)
            }
        }
    }

    pub(super) fn answer(&mut self, call: &ToolCall, returned: ToolReturn, effects: &mut Vec<Effect>) -> Slot {
        let result = Arc::new(ToolResult {
            call: call.id.clone(),
            name: call.name.clone(),
            status: returned.status,
            output: returned.output,
            duration_ms: returned.duration_ms,
        });
        let step = self.open_turn().map_or(0, |open| open.spent.steps);
        self.record_in_turn(Fact::Result(Arc::clone(&result)));
        self.emit(effects, || AgentEvent::ToolCompleted { result }.in_step(step));
        Slot::Finished
    }

    pub(super) fn called(&self, call: &Arc<ToolCall>, state: CallState, effects: &mut Vec<Effect>) {
        let step = self.open_turn().map_or(0, |open| open.spent.steps);
        let tool = self.open_call(&call.id).map(|open| &open.tool);
        self.emit(effects, || {
            let (title, kind) = tool.map(|tool| (tool.title.clone(), tool.kind)).unwrap_or_default();
            AgentEvent::ToolCalled { call: Arc::clone(call), title, kind, state, progress: None }.in_step(step)
        });
    }
}
