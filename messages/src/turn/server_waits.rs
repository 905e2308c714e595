//! Calls that their tool server has taken, and not answered with their result.
//!
//! What the server gave instead of the result is journaled. The result of a task is asked for then: at once, for as long as a
//! call may take, and again each time that the turn is resumed or recovered. The tool is not called again. When there is
//! no result by then, or the server cannot be asked, the turn is suspended. A call that ends without its server has the
//! task given up.
//!
//! A server that asks for something suspends the turn. With the reply the tool is called again, so the intent of that is
//! journaled before, as that of any call.

use super::acks::Ack;
use super::state::Slot;
use super::{Effect, Turn, agents};
use crate::chat::{CallStatus, ServerWait, ToolCall};
use crate::ids::{CallId, ToolName};
use crate::session_state::OpenCall;
use crate::store::Fact;
use crate::tools::{CallContext, ToolReturn};
use std::sync::Arc;

/// The most bytes of a description of what a call waits for.
pub(super) const MOST_WORDS_BYTES: usize = 4 * 1024;

impl Turn {
    /// A call came back without its result.
    pub(super) fn waits(
        &mut self,
        call: &Arc<ToolCall>,
        (mut what, server): (String, Option<ServerWait>),
        effects: &mut Vec<Effect>,
    ) -> Slot {
        let server = server.filter(|_| is_of_server(&call.name)).map(Arc::new);
        let is_first = server.as_ref().is_some_and(|wait| wait.is_task()) && !self.is_task(&call.id);
        if self.is_sub_agent() && !is_first {
            let why = ToolReturn::note(CallStatus::Error, agents::NOTHING_OUTSIDE);
            return match self.is_task(&call.id) {
                true => self.refuse_call(call, why, effects),
                false => self.answer(call, why, effects),
            };
        }
        what.truncate(what.floor_char_boundary(MOST_WORDS_BYTES));
        self.record_in_turn(Fact::Waits { call: call.id.clone(), what, child: None, server });
        if is_first { Slot::Noting { until: self.await_durable() } } else { Slot::Waiting }
    }

    /// Asks for the result of the call of this number. The host of the tool judges the call as if it were to run.
    pub(super) fn follow(&mut self, at: usize, context: &Arc<CallContext>, effects: &mut Vec<Effect>) -> Slot {
        let run = self.call_at(at).is_some_and(|call| self.only_reads(&call));
        let Some(check) = self.check_of(at, run) else { return Slot::Waiting };
        let (ticket, context) = (self.ticket(), self.context_of(&check.call.id, context));
        effects.push(Effect::Check { ticket, check, context });
        Slot::Checking { ticket, run }
    }

    /// Whether the server works on the call, so that only its result is asked for.
    pub(super) fn is_task(&self, call: &CallId) -> bool {
        self.open_call(call).and_then(OpenCall::server_wait).is_some_and(|wait| wait.is_task())
    }

    /// Whether the server has taken the call, and nothing is sent to it by now that could change something.
    pub(super) fn is_held(&self, call: &CallId) -> bool {
        self.open_call(call).and_then(held).is_some()
    }

    /// The context of the step's calls, for this one.
    pub(super) fn context_of(&self, call: &CallId, context: &Arc<CallContext>) -> Arc<CallContext> {
        let open = self.open_call(call);
        let Some(wait) = open.and_then(OpenCall::server_wait) else { return Arc::clone(context) };
        let reply = open.and_then(|open| open.outside.as_ref()?.came.as_deref());
        let server_wait = Some(Arc::new(wait.replied(reply)));
        Arc::new(CallContext { server_wait, ..(**context).clone() })
    }

    /// What came back of a call whose server could not be asked for the result: the result is still waited for. Everything
    /// else is returned unchanged.
    pub(super) fn still_waits(&self, call: &CallId, returned: ToolReturn) -> ToolReturn {
        let was_not_asked = matches!(returned.status, CallStatus::Unknown | CallStatus::Cancelled);
        match self.open_call(call).and_then(held).filter(|_| was_not_asked) {
            Some(wait) => ToolReturn {
                status: CallStatus::Ok,
                output: wait.output(&returned.output.for_model()),
                duration_ms: returned.duration_ms,
            },
            None => returned,
        }
    }

    /// Calls have ended without their servers, which are told once that is durable: until then another owner of the session
    /// may go on with the tasks.
    pub(super) fn give_up(&mut self, tasks: impl IntoIterator<Item = Ack>) {
        tasks.into_iter().for_each(|task| self.acknowledge(task));
    }
}

/// What the server gave, if nothing is sent to it by now that could change something.
fn held(open: &OpenCall) -> Option<&Arc<ServerWait>> {
    let wait = open.server_wait()?;
    let is_sent = open.outside.as_ref().is_some_and(|outside| outside.sent);
    (wait.is_task() || !is_sent).then_some(wait)
}

/// What is to be told when this call ends without its server.
pub(super) fn given_up(open: &OpenCall) -> Option<Ack> {
    let wait = Arc::clone(open.server_wait().filter(|wait| wait.is_task())?);
    Some(Ack::GivenUp { tool: open.call.name.clone(), wait })
}

fn is_of_server(tool: &ToolName) -> bool {
    tool.as_str().starts_with("mcp/")
}
