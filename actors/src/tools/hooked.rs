//! Tools whose calls a hook is asked about.
//!
//! It stands in front of a port: what the hook says before a call is one more [`Concern`] about it, so it is weighed where
//! every call is judged, and what it says after a call is part of the result.

use super::clip::clip;
use super::concerned::PerCall;
use super::hook::{HookedCall, ToolHook};
use super::port::{Concern, Invocation, ToolError, ToolPort};
use crate::panics::Panics;
use bob_messages::chat::{ContentPart, ServerWait, ToolCall};
use bob_messages::ids::{SessionId, ToolName};
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout_at;

/// How much a hook may put behind a result, in bytes.
const MOST_NOTE: usize = 16 * 1024;
/// Why a call is not run about which a hook panicked.
const FAULT: &str = "a hook that is asked about it panicked";
/// How long before the end of a call's time its result is used as it is.
const SPARE: Duration = Duration::from_millis(50);

/// The hooks of a runtime, in the order in which they are asked.
#[derive(Clone, Default)]
pub struct ToolHooks(Vec<Arc<dyn ToolHook>>);

impl ToolHooks {
    /// Adds a hook behind the others.
    pub fn push(&mut self, hook: Arc<dyn ToolHook>) {
        self.0.push(hook);
    }

    /// The tools of this port, whose calls the hooks are asked about.
    pub fn around(&self, port: Arc<dyn ToolPort>) -> Arc<dyn ToolPort> {
        self.0.iter().rev().fold(port, |port, hook| Arc::new(HookedTools::new(port, Arc::clone(hook))))
    }
}

impl fmt::Debug for ToolHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolHooks").field(&self.0.len()).finish()
    }
}

/// A port in front of another one.
pub(super) struct HookedTools {
    port: Arc<dyn ToolPort>,
    hook: Arc<dyn ToolHook>,
    panics: Arc<Panics>,
    tools: Mutex<HashMap<ToolName, Arc<ToolDescriptor>>>,
    asked: Arc<Asked>,
}

/// What the hook said of calls that a person may have been asked about since, with the hash of their arguments.
type Asked = PerCall<(blake3::Hash, Option<Concern>)>;

fn hash(call: &ToolCall) -> Option<blake3::Hash> {
    Some(blake3::hash(&serde_json::to_vec(&*call.arguments).ok()?))
}

impl HookedTools {
    pub(super) fn new(port: Arc<dyn ToolPort>, hook: Arc<dyn ToolHook>) -> Self {
        Self { port, hook, panics: Arc::new(Panics::of("tool hook")), tools: Mutex::default(), asked: Arc::default() }
    }

    fn hooked(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Option<HookedCall> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let tool = Arc::clone(tools.get(&call.name)?);
        Some(HookedCall { tool, call: Arc::clone(call), context: Arc::clone(context) })
    }
}

impl ToolPort for HookedTools {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        let listed = async move {
            let tools = self.port.list_tools().await;
            let by_name = tools.iter().map(|tool| (tool.id.clone(), Arc::new(tool.clone()))).collect();
            *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = by_name;
            tools
        };
        listed.boxed()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.port.changes()
    }

    fn concern(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        let own = self.port.concern(call, context);
        // Of a call that its server has taken, only the result is asked for.
        let hooked = self.hooked(call, context).filter(|_| context.server_wait.is_none());
        let Some(hooked) = hooked else { return own };
        let unknown = || Some(Concern::Unknown(FAULT.to_owned()));
        let before = match self.panics.catch("before_call", || self.hook.before_call(&hooked)) {
            Some(Some(before)) => before,
            Some(None) => return own,
            None => ready(unknown()).boxed(),
        };
        let (asked, hash, panics) = (Arc::clone(&self.asked), hash(call), Arc::clone(&self.panics));
        let (session, call) = (context.session.clone(), call.id.clone());
        let both = async move {
            let own = match own {
                Some(own) => own.await,
                None => None,
            };
            if matches!(own, Some(Concern::Deny(_) | Concern::Unknown(_))) {
                return own;
            }
            let said = match asked.take(&session, &call) {
                Some((of, said)) if Some(of) == hash => said,
                Some(_) | None => {
                    let said = panics.catch_in("before_call", || before).await.unwrap_or_else(unknown);
                    if let (Some(hash), None | Some(Concern::Ask(_))) = (hash, &said) {
                        asked.put(&session, &call, (hash, said.clone()));
                    }
                    said
                }
            };
            Concern::joined(own, said)
        };
        Some(both.boxed())
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let Some(hooked) = self.hooked(&invocation.call, &invocation.context) else {
            return self.port.call_tool(invocation);
        };
        let until = invocation.deadline.checked_sub(SPARE).unwrap_or(invocation.deadline);
        let call = async move {
            let result = self.port.call_tool(invocation).await;
            if matches!(&result, Ok(output) if output.waits_for.is_some()) {
                return result;
            }
            let after = self.panics.catch("after_call", || self.hook.after_call(&hooked, &result)).flatten();
            let Some(after) = after else { return result };
            match timeout_at(until, self.panics.catch_in("after_call", || after)).await {
                Ok(Some(Some(note))) if !note.is_empty() => noted(result, &clip(&note, MOST_NOTE)),
                Ok(_nothing_or_panicked) => result,
                Err(_late) => {
                    tracing::warn!(tool = %hooked.call.name, "a hook was not done when the time of its call was over");
                    result
                }
            }
        };
        call.boxed()
    }

    fn limit_ms(&self, call: &ToolCall, ruled_ms: Option<u64>) -> Option<u64> {
        self.port.limit_ms(call, ruled_ms)
    }

    fn give_up(&self, wait: &Arc<ServerWait>) {
        self.port.give_up(wait);
    }

    fn host_ended(&self) {
        self.port.host_ended();
    }

    fn session_ended(&self, session: &SessionId) {
        self.port.session_ended(session);
    }
}

fn noted(result: Result<ToolOutput, ToolError>, note: &str) -> Result<ToolOutput, ToolError> {
    match result {
        Ok(mut output) => {
            // The structured content is shown only where there is no other.
            if let (true, Some(structured)) = (output.parts.is_empty(), &output.structured) {
                output.parts.push(ContentPart::text(structured.to_string()));
            }
            output.parts.push(ContentPart::text(note));
            Ok(output)
        }
        Err(error) => Err(error.noted(note)),
    }
}

#[cfg(test)]
#[path = "hooked_tests.rs"]
mod tests;
