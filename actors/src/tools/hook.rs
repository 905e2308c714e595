//! The port through which a program has a say in calls: before they run, and after.

use super::port::{Concern, ToolError};
use bob_messages::chat::ToolCall;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// A port: what is said of calls beside policy, mode and people.
///
/// A hook narrows and never widens: it is asked about a call that they leave possible, and what it says is another reason
/// to deny the call or to ask a person. The actor that performs the call asks it, in a task, once for each call; a call that
/// waits for a person is not asked about again when it was approved, unless its arguments were edited, and once more when a
/// lasting decision about other calls of its tool may cover it.
pub trait ToolHook: Send + Sync + 'static {
    /// Before a call. The outer `None`, and the default, is for calls that it is not about. `None` inside: as policy and
    /// mode say. [`Concern::Ask`] asks a person in every mode; the reason of [`Concern::Deny`] is what the model reads;
    /// after [`Concern::Unknown`] the call is not run, and a question that a person looks at stays open.
    ///
    /// The method itself is called in the actor and must neither block nor look at a disk; its future may wait. A panic
    /// counts as [`Concern::Unknown`].
    fn before_call(&self, _call: &HookedCall) -> Option<BoxFuture<'static, Option<Concern>>> {
        None
    }

    /// After a call that returned. The text is put behind the result, where the model reads it, up to 16 KiB.
    ///
    /// It counts for the time of the call: when that is over, the result is used without it. A call that was cancelled, took
    /// too long or waits for a result from outside has none. After a panic the result is used as it is.
    fn after_call(
        &self,
        _call: &HookedCall,
        _result: &Result<ToolOutput, ToolError>,
    ) -> Option<BoxFuture<'static, Option<String>>> {
        None
    }
}

/// A call that a hook is asked about.
#[derive(Debug, Clone)]
pub struct HookedCall {
    /// The tool, as its port describes it.
    pub tool: Arc<ToolDescriptor>,
    /// The call.
    pub call: Arc<ToolCall>,
    /// Whose call, and where.
    pub context: Arc<CallContext>,
}
