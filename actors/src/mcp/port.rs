//! The way from a judged call to its tool server.
//!
//! A [`ServerPort`] is one connection with the tools it had when it was made; the
//! actor's gate stands before it. When the list changes, a new port takes its place.

use super::desk::DeathWatch;
use super::rmcp::{Caller, Failure};
use crate::tools::{Invocation, ToolError, ToolPort};
use bob_messages::ids::{ServerId, ToolName};
use bob_messages::tools::{ToolDescriptor, ToolOutput};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a call whose connection broke waits to learn why.
const REASON_WITHIN: Duration = Duration::from_millis(80);

/// The tools of one server over one connection.
pub(super) struct ServerPort {
    pub(super) server: ServerId,
    pub(super) caller: Caller,
    pub(super) tools: Vec<ToolDescriptor>,
    pub(super) death: DeathWatch,
    /// Told when nothing can be sent any more.
    pub(super) broken: Arc<Notify>,
}

impl ToolPort for ServerPort {
    fn list_tools(&self) -> Vec<ToolDescriptor> {
        self.tools.clone()
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(invocation))
    }
}

impl ServerPort {
    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolError> {
        if let Some(why) = self.death.now() {
            return Err(ToolError::new(format!("not run: the tool server `{}` {why}", self.server)));
        }
        let read_only = self.is_read_only(&invocation.call.name);
        let failure = tokio::select! { biased;
            answer = self.caller.call(&invocation, read_only) => match answer {
                Ok(output) => return Ok(output),
                Err(failure) => failure,
            },
            why = self.death.told() => return Err(self.unknown(&why)),
        };
        match failure {
            Failure::Refused(why) => Err(ToolError::new(format!("the tool server `{}` {why}", self.server))),
            Failure::Broken => {
                self.broken.notify_one();
                let why = timeout(REASON_WITHIN, self.death.told()).await;
                Err(self.unknown(why.as_deref().unwrap_or("broke the connection")))
            }
        }
    }

    fn is_read_only(&self, name: &ToolName) -> bool {
        self.tools.iter().any(|tool| tool.id == *name && tool.read_only)
    }

    fn unknown(&self, why: &str) -> ToolError {
        ToolError::outcome_unknown(format!("the tool server `{}` {why} during the call", self.server))
    }
}
