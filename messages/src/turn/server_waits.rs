//! Calls that their tool server has taken, and not answered with their result.
//!
//! What the server gave instead of the result is journaled. The result of a task is asked for then: at once, for as long as a
//! call may take, and again each time that the turn is resumed or recovered. The tool is not called again. When there is
//! no result by then, or the server cannot be asked, the turn is suspended. A call that ends without its server has the
//! task given up.
//!
//! A server that asks for something suspends the turn. With the reply the tool is called again, so the intent of that is
//! journaled before, as that of any call.

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
        context: &Arc<CallContext>,
        effects: &mut Vec<Effect>,
    ) -> Slot {
        let server = server.filter(|_| is_of_server(&call.name)).map(Arc::new);
        let is_first = server.as_ref().is_some_and(|wait| wait.is_task()) && !self.is_task(&call.id);
        if self.is_sub_agent() && !is_first {
            self.give_up_wait(&call.id, effects);
            return self.answer(call, ToolReturn::note(CallStatus::Error, agents::NOTHING_OUTSIDE), effects);
        }
        what.truncate(what.floor_char_boundary(MOST_WORDS_BYTES));
        self.record_in_turn(Fact::Waits { call: call.id.clone(), what, child: None, server });
        if is_first { self.follow(call, context, effects) } else { Slot::Waiting }
    }

    /// Asks for the result of a call. The host of the tool judges the call as if it were to run.
    fn follow(&mut self, call: &Arc<ToolCall>, context: &Arc<CallContext>, effects: &mut Vec<Effect>) -> Slot {
        let (ticket, run) = (self.ticket(), self.only_reads(call));
        let at = self.open_calls().iter().position(|open| open.call.id == call.id);
        let Some(check) = at.and_then(|at| self.check_of(at, run)) else { return Slot::Waiting };
        effects.push(Effect::Check { ticket, check, context: self.context_of(&call.id, context) });
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

    /// A call ends without its server, whose task is given up.
    pub(super) fn give_up_wait(&self, call: &CallId, effects: &mut Vec<Effect>) {
        effects.extend(self.open_call(call).and_then(given_up));
    }

    /// All open calls end without their servers.
    pub(super) fn give_up_waits(&self, effects: &mut Vec<Effect>) {
        let open = self.session.as_ref().and_then(|session| session.open.as_ref());
        let calls = open.and_then(|open| open.step.as_ref()).into_iter().flat_map(|step| &step.calls);
        effects.extend(calls.filter_map(given_up));
    }
}

/// What the server gave, if nothing is sent to it by now that could change something.
fn held(open: &OpenCall) -> Option<&Arc<ServerWait>> {
    let wait = open.server_wait()?;
    let is_sent = open.outside.as_ref().is_some_and(|outside| outside.sent);
    (wait.is_task() || !is_sent).then_some(wait)
}

fn given_up(open: &OpenCall) -> Option<Effect> {
    let wait = Arc::clone(open.server_wait().filter(|wait| wait.is_task())?);
    Some(Effect::GiveUp { tool: open.call.name.clone(), wait })
}

fn is_of_server(tool: &ToolName) -> bool {
    tool.as_str().starts_with("mcp/")
}
