//! The tool port of a tape: in front of a real one while it records, instead of all of them while it replays.

use super::Tape;
use super::entry::CalledEnd;
use super::recorder::{Recorder, Seen};
use super::side::{Noting, Side};
use crate::tools::{Concern, Invocation, ToolError, ToolPort};
use bob_messages::chat::{ServerWait, ToolCall};
use bob_messages::ids::SessionId;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput};
use futures_util::future::BoxFuture;
use std::future::ready;
use std::sync::Arc;
use tokio::sync::watch;

/// A tool port that records another one, or replays a tape.
///
/// It is below the gate: policy, grants and clocks are those of the runtime. A replay starts no tool and no server.
#[derive(Debug)]
pub struct TapeTools(Side<dyn ToolPort>);

impl TapeTools {
    /// Records this port.
    pub fn recording(recorder: Recorder, port: Arc<dyn ToolPort>) -> Self {
        Self(Side::Recording(recorder, port))
    }

    /// Offers all tools of this tape under their names, and replays their results.
    pub fn replaying(tape: Tape) -> Self {
        Self(Side::Replaying(tape))
    }
}

impl Recorder {
    /// The tools behind this port, with every call on the tape.
    pub fn tools(&self, port: Arc<dyn ToolPort>) -> Arc<dyn ToolPort> {
        Arc::new(TapeTools::recording(self.clone(), port))
    }
}

impl Tape {
    /// The tools of the tape, those of tool servers included.
    pub fn tools(&self) -> Arc<dyn ToolPort> {
        Arc::new(TapeTools::replaying(self.clone()))
    }
}

impl ToolPort for TapeTools {
    fn concern(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        match &self.0 {
            Side::Recording(_, port) => port.concern(call, context),
            // Nothing is run, so nothing is touched; decisions are on the tape.
            Side::Replaying(_) => None,
        }
    }

    fn limit_ms(&self, call: &ToolCall, ruled_ms: Option<u64>) -> Option<u64> {
        match &self.0 {
            Side::Recording(_, port) => port.limit_ms(call, ruled_ms),
            Side::Replaying(_) => None,
        }
    }

    fn give_up(&self, wait: &Arc<ServerWait>) {
        if let Side::Recording(_, port) = &self.0 {
            port.give_up(wait);
        }
    }

    fn host_ended(&self) {
        if let Side::Recording(_, port) = &self.0 {
            port.host_ended();
        }
    }

    fn session_ended(&self, session: &SessionId) {
        if let Side::Recording(_, port) = &self.0 {
            port.session_ended(session);
        }
    }

    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        match &self.0 {
            Side::Recording(recorder, port) => Box::pin(async move {
                let tools = port.list_tools().await;
                recorder.tell(Seen::Offered(tools.clone()));
                tools
            }),
            Side::Replaying(tape) => Box::pin(ready(tape.offered())),
        }
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        match &self.0 {
            Side::Recording(_, port) => port.changes(),
            Side::Replaying(_) => None,
        }
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        match &self.0 {
            Side::Recording(recorder, port) => {
                let (session, call) = (invocation.context.session.clone(), Arc::clone(&invocation.call));
                let entry = |began, end| Seen::Called { began, session, call, end };
                let mut noting = Noting::begin(recorder, entry, || match std::thread::panicking() {
                    true => CalledEnd::Panicked,
                    false => CalledEnd::Abandoned,
                });
                Box::pin(async move {
                    let result = port.call_tool(invocation).await;
                    noting.end(match &result {
                        Ok(output) => CalledEnd::Returned(output.clone()),
                        Err(error) => {
                            CalledEnd::Failed { text: error.to_string(), unknown: error.is_outcome_unknown() }
                        }
                    });
                    result
                })
            }
            Side::Replaying(tape) => {
                let end = tape.called(&invocation.context.session, &invocation.call);
                Box::pin(async move {
                    match end? {
                        CalledEnd::Returned(output) => Ok(output),
                        CalledEnd::Failed { text, unknown: false } => Err(ToolError::new(text)),
                        CalledEnd::Failed { text, unknown: true } => {
                            let why = text.strip_prefix("outcome unknown: ").unwrap_or(&text);
                            Err(ToolError::outcome_unknown(why))
                        }
                        CalledEnd::Abandoned => std::future::pending().await,
                        // The host catches it, as it caught the first one. Nothing is printed for this one.
                        CalledEnd::Panicked => std::panic::resume_unwind(Box::new("as it did when it was recorded")),
                    }
                })
            }
        }
    }
}
