//! The actor that hosts the tools of this process.
//!
//! It publishes what there is on its shelf of the tool plane; turns ask it what may
//! run ([`ToolsMessage::Check`]) and to run it ([`ToolsMessage::Call`]). Each call runs
//! in a task of its own, so the mailbox never waits for a tool. A call that fails,
//! panics or takes too long is answered with an error result: nothing a tool does
//! ends the actor.

use super::gate::{Admitted, Gate, Refusal};
use super::plane::Shelf;
use super::policy::Policy;
use super::port::{Invocation, ToolPort};
use bob_messages::chat::{CallStatus, ToolCall};
use bob_messages::ids::ToolName;
use bob_messages::reply::Reply;
use bob_messages::tools::{CallContext, Grant, ToolOutput, ToolReturn, ToolsMessage};
use futures_util::FutureExt;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// No call runs longer, whatever is configured: a day, in milliseconds. It keeps
/// deadlines inside what a clock can hold.
const LONGEST_CALL_MS: u64 = 24 * 60 * 60 * 1000;

/// Hosts the tools of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolsActor;

/// What the actor is started with; the same again after a crash.
#[derive(Clone, Default)]
pub struct ToolsArguments {
    /// Where the tools come from, in the order they are offered.
    pub ports: Vec<Arc<dyn ToolPort>>,
    /// The rules over them.
    pub policy: Policy,
    /// Where they are published.
    pub shelf: Option<Shelf>,
}

impl fmt::Debug for ToolsArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsArguments").field("ports", &self.ports.len()).field("policy", &self.policy).finish()
    }
}

/// What the actor keeps.
pub struct ToolsState {
    ports: Vec<Arc<dyn ToolPort>>,
    gate: Gate,
}

impl fmt::Debug for ToolsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsState").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Actor for ToolsActor {
    type Msg = ToolsMessage;
    type State = ToolsState;
    type Arguments = ToolsArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<ToolsMessage>,
        arguments: ToolsArguments,
    ) -> Result<ToolsState, ActorProcessingErr> {
        let ToolsArguments { ports, policy, shelf } = arguments;
        let gate = Gate::new(ports.iter().map(|port| port.list_tools()), policy)?;
        if let Some(shelf) = shelf {
            shelf.offer(gate.offered(), None);
        }
        Ok(ToolsState { ports, gate })
    }

    async fn handle(
        &self,
        myself: ActorRef<ToolsMessage>,
        message: ToolsMessage,
        state: &mut ToolsState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ToolsMessage::Check { check, context, reply } => reply.send(state.gate.check(&check, &context)),
            ToolsMessage::Call { call, grant, context, reply } => {
                state.call(call, &grant, context, reply, myself.get_cell());
            }
        }
        Ok(())
    }
}

impl ToolsState {
    fn call(
        &mut self,
        call: Arc<ToolCall>,
        grant: &Grant,
        context: Arc<CallContext>,
        reply: Reply<ToolReturn>,
        owner: ActorCell,
    ) {
        match self.gate.admit(&call, grant, &context) {
            Ok(Admitted { port, timeout_ms, read_only }) => {
                let port = Arc::clone(&self.ports[port]);
                let deadline = Instant::now() + Duration::from_millis(timeout_ms.min(LONGEST_CALL_MS));
                let invocation = Invocation { call, context, deadline };
                tokio::spawn(run(port, invocation, Limit { timeout_ms, read_only }, reply, owner));
            }
            Err(refusal) => reply.send(refusal_result(refusal)),
        }
    }
}

/// How long a call may take, and what is said when it took longer.
struct Limit {
    timeout_ms: u64,
    read_only: bool,
}

/// Runs one call until it is over, unwanted or too late, and answers it.
async fn run(
    port: Arc<dyn ToolPort>,
    invocation: Invocation,
    limit: Limit,
    mut reply: Reply<ToolReturn>,
    owner: ActorCell,
) {
    let started = Instant::now();
    let (name, deadline) = (invocation.call.name.clone(), invocation.deadline);
    let work = AssertUnwindSafe(async { port.call_tool(invocation).await }).catch_unwind();
    let (status, output) = tokio::select! {
        biased;
        () = reply.abandoned() => return,
        // Before the clock, which most tools of this process then never set.
        ended = work => match ended {
            Ok(Ok(output)) if output.is_error => (CallStatus::Error, output),
            Ok(Ok(output)) => (CallStatus::Ok, output),
            Ok(Err(error)) => (CallStatus::Error, ToolOutput::error(error.to_string())),
            Err(_panic) => {
                tracing::error!(tool = %name, "a tool panicked");
                (CallStatus::Error, ToolOutput::error(format!("the tool panicked: {name} has a fault of its own")))
            }
        },
        // The calls of an actor end with it, however it ends; the dropped reply
        // tells the asker.
        _ = owner.wait(None) => return,
        () = tokio::time::sleep_until(deadline) => (CallStatus::Error, ToolOutput::error(limit.too_late(&name))),
    };
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    reply.send(ToolReturn { status, output, duration_ms });
}

impl Limit {
    /// What a model is told of a call that took too long.
    fn too_late(&self, name: &ToolName) -> String {
        let Self { timeout_ms, read_only } = self;
        match read_only {
            true => format!("{name} timed out after {timeout_ms} ms"),
            false => format!("{name} timed out after {timeout_ms} ms; it may have done part of its work"),
        }
    }
}

/// The result of a call that never reached its tool.
fn refusal_result(refusal: Refusal) -> ToolReturn {
    match refusal {
        Refusal::Denied(reason) => ToolReturn::note(CallStatus::Denied, reason),
        Refusal::Invalid(complaint) => ToolReturn::note(CallStatus::Error, complaint),
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
