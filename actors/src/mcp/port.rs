//! Runs permitted calls on a tool server.
//!
//! A [`ServerPort`] is one connection with its list of tools, behind the actor's gate. When the list changes, it is
//! replaced by a new port.
//!
//! A call whose session was lost is repeated once over the next connection, if it was not sent or may be repeated. No
//! other call is repeated.

use super::connection_end::{ConnectionEnd, EndReceiver, HealthSignals};
use super::rmcp::{Caller, Failure};
use crate::tools::{Invocation, ToolError, ToolPort};
use bob_messages::chat::ServerWait;
use bob_messages::ids::{ServerId, ToolName};
use bob_messages::tools::{ToolDescriptor, ToolOutput};
use futures_util::future::BoxFuture;
use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a call whose connection broke waits to learn why.
const REASON_WITHIN: Duration = Duration::from_millis(80);

/// Text of a call whose session was lost.
const SESSION_OVER: &str = "no longer knows the session";

pub(super) struct ServerPort {
    pub(super) server: ServerId,
    pub(super) caller: Caller,
    pub(super) tools: Vec<ToolDescriptor>,
    pub(super) end: EndReceiver<ServerPort>,
    pub(super) signs: HealthSignals,
    /// Whether an abandoned call triggers a health check: for servers whose end cannot be observed.
    pub(super) is_far: bool,
}

/// How a call went over one connection.
enum Went {
    Over(Result<ToolOutput, ToolError>),
    /// It was not sent over this connection, for this reason.
    NotSent(String),
    /// Its session was lost before there was a result.
    SessionLost,
}

impl ToolPort for ServerPort {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        Box::pin(ready(self.tools.clone()))
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(invocation))
    }

    fn give_up(&self, wait: &Arc<ServerWait>) {
        self.caller.give_up_in_background(wait);
    }
}

impl ServerPort {
    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolError> {
        let is_sent = match self.end.now() {
            Some(ConnectionEnd::Died(why)) => return Err(self.not_run(why)),
            Some(ConnectionEnd::Reconnected(_)) => false,
            None => match self.go(&invocation).await {
                Went::Over(result) => return result,
                Went::NotSent(why) => return Err(self.not_run(why)),
                Went::SessionLost => true,
            },
        };
        // Asking for the result of a task changes nothing.
        let may_repeat =
            invocation.may_repeat || invocation.context.server_wait.as_ref().is_some_and(|wait| wait.is_task());
        if is_sent && !may_repeat {
            return Err(self.unknown(SESSION_OVER));
        }
        let next = match self.end.told().await {
            ConnectionEnd::Died(why) if is_sent => return Err(self.unknown(&why)),
            ConnectionEnd::Died(why) => return Err(self.not_run(why)),
            ConnectionEnd::Reconnected(next) => next,
        };
        let name = &invocation.call.name;
        if self.tool(name) != next.tool(name) {
            if is_sent {
                return Err(self.unknown(SESSION_OVER));
            }
            return Err(self.not_run(format_args!("{SESSION_OVER}, and {name} has changed since; call it again")));
        }
        match next.go(&invocation).await {
            Went::Over(result) => result,
            // The first connection may have had it run.
            Went::NotSent(_why) if is_sent => Err(self.unknown(SESSION_OVER)),
            Went::NotSent(why) => Err(next.not_run(why)),
            Went::SessionLost => Err(next.unknown(SESSION_OVER)),
        }
    }

    async fn go(&self, invocation: &Invocation) -> Went {
        let read_only = self.tool(&invocation.call.name).is_some_and(|tool| tool.read_only);
        let mut abandoned = Abandoned(self.is_far.then_some(&*self.signs.suspect));
        let failure = tokio::select! { biased;
            answer = self.caller.call(invocation, read_only) => answer,
            word = self.end.told() => {
                abandoned.0 = None;
                return self.interrupted(&word);
            }
        };
        abandoned.0 = None;
        Went::Over(match failure {
            Ok(output) => Ok(output),
            Err(Failure::SessionLost) => {
                self.signs.lost.notify_one();
                return Went::SessionLost;
            }
            Err(Failure::Refused(why)) => Err(ToolError::new(format!("the tool server `{}` {why}", self.server))),
            Err(Failure::NotSent(why)) => {
                self.signs.suspect.notify_one();
                return Went::NotSent(why);
            }
            Err(Failure::Doubtful(why)) => {
                // The pipes of a process tell of its end.
                if self.is_far {
                    self.signs.suspect.notify_one();
                }
                Err(self.unknown(&why))
            }
            Err(Failure::Broken) => {
                self.signs.suspect.notify_one();
                match timeout(REASON_WITHIN, self.end.told()).await {
                    Ok(word) => return self.interrupted(&word),
                    Err(_nobody_knows) => Err(self.unknown("broke the connection")),
                }
            }
        })
    }

    /// A call was on its way when its connection ended.
    fn interrupted(&self, word: &ConnectionEnd<ServerPort>) -> Went {
        match word {
            ConnectionEnd::Died(why) => Went::Over(Err(self.unknown(why))),
            ConnectionEnd::Reconnected(_) => Went::SessionLost,
        }
    }

    fn tool(&self, name: &ToolName) -> Option<&ToolDescriptor> {
        self.tools.iter().find(|tool| tool.id == *name)
    }

    fn not_run(&self, why: impl fmt::Display) -> ToolError {
        ToolError::unavailable(format_args!("the tool server `{}` {why}", self.server))
    }

    fn unknown(&self, why: &str) -> ToolError {
        ToolError::outcome_unknown(format!("the tool server `{}` {why} during the call", self.server))
    }
}

/// Triggers a health check when a call is abandoned: it may have timed out because the server is gone.
struct Abandoned<'a>(Option<&'a Notify>);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(suspect) = self.0 {
            suspect.notify_one();
        }
    }
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
