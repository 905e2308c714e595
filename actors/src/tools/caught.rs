//! A port whose panics are caught in everything but its calls and lists, which are caught where they are run.

use super::port::{Concern, Invocation, ToolError, ToolPort};
use crate::panics::Panics;
use bob_messages::chat::{ServerWait, ToolCall};
use bob_messages::ids::SessionId;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use std::sync::Arc;
use tokio::sync::watch;

/// Why a call is not run whose port panicked when it was asked about it.
const FAULT: &str = "the port of its tool panicked when it was asked about the call";

/// The port with its panics caught: then a call is not run about which it was asked, and the other methods are what a port
/// has that does not implement them.
pub fn caught(port: Arc<dyn ToolPort>) -> Arc<dyn ToolPort> {
    Arc::new(Caught { port, panics: Arc::new(Panics::of("tools")) })
}

struct Caught {
    port: Arc<dyn ToolPort>,
    panics: Arc<Panics>,
}

impl ToolPort for Caught {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        self.port.list_tools()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.panics.catch("changes", || self.port.changes()).flatten()
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.port.call_tool(invocation)
    }

    fn concern(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        let unknown = || Some(Concern::Unknown(FAULT.to_owned()));
        let Some(looking) = self.panics.catch("concern", || self.port.concern(call, context)) else {
            return Some(ready(unknown()).boxed());
        };
        let (looking, panics) = (looking?, Arc::clone(&self.panics));
        Some(async move { panics.catch_in("concern", || looking).await.unwrap_or_else(unknown) }.boxed())
    }

    fn limit_ms(&self, call: &ToolCall, ruled_ms: Option<u64>) -> Option<u64> {
        self.panics.catch("limit_ms", || self.port.limit_ms(call, ruled_ms)).flatten()
    }

    fn give_up(&self, wait: &Arc<ServerWait>) {
        let _given_up = self.panics.catch("give_up", || self.port.give_up(wait));
    }

    fn host_ended(&self) {
        let _ended_with_its_host = self.panics.catch("host_ended", || self.port.host_ended());
    }

    fn session_ended(&self, session: &SessionId) {
        let _ended_before = self.panics.catch("session_ended", || self.port.session_ended(session));
    }
}

#[cfg(test)]
#[path = "caught_tests.rs"]
mod tests;
