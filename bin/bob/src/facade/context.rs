//! The context of a request, before it is accepted: its bounds, its tenant, and what a child takes over.

use super::request::AgentRequest;
use super::runtime::{Inner, Runtime};
use bob_actors::tools::Invocation;
use bob_messages::context::RequestContext;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::limits::Limits;
use bob_messages::models::Cost;
use bob_messages::options::{ParentTurn, SessionOptions};
use std::sync::Arc;

impl Runtime {
    /// The runtime that makes this call; `None` of a call of the step-by-step runner, and once the runtime was dropped. A
    /// tool that keeps it keeps the runtime alive.
    pub fn of(call: &Invocation) -> Option<Self> {
        call.runtime::<Inner>().map(Self)
    }

    /// The context of a request that has none of its own: that of the turn it works for.
    /// Errors: `Invalid` when the session it works for belongs to a tenant and the turn is over; errors of the store.
    pub(super) async fn inherit_context(&self, request: &mut AgentRequest) -> Result<(), AgentError> {
        let parent = request.options.as_ref().and_then(|options| options.parent.as_ref());
        if let (None, Some(parent)) = (&request.context, parent) {
            // Boxed, since it is rare and its future is large.
            request.context = Box::pin(self.context_of(parent.clone())).await?;
        }
        Ok(())
    }

    async fn context_of(&self, parent: ParentTurn) -> Result<Option<Arc<RequestContext>>, AgentError> {
        let above = self.folded(parent.session.clone()).await?;
        match above.open.filter(|open| open.input.turn == parent.turn) {
            Some(open) => Ok(open.input.context.clone()),
            None if above.tenant.is_none() => Ok(None),
            None => Err(AgentError::Invalid(format!(
                "the session {} belongs to a tenant, and its turn {} is over; give the request a context",
                parent.session, parent.turn
            ))),
        }
    }
}

impl AgentRequest {
    /// A message of a tool's call to another session, which works for the call. The request has the call's context, trace,
    /// approvals mode, permission mode, tools and folders, and what is left of its turn's limits. Its id is that of the
    /// call: a call that is repeated after a crash gets the first outcome, if it names the same session.
    ///
    /// A session belongs to the tenant of its first request. Where there are several tenants, a name that is made of the
    /// session's and the call's can be guessed, and taken by another tenant before the call is made, which then fails.
    ///
    /// ```
    /// use bob::tools::{Invocation, ToolError};
    /// use bob::{AgentRequest, AgentRuntime, Runtime, SessionId};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Task { task: String }
    ///
    /// async fn research(task: Task, call: Invocation) -> Result<String, ToolError> {
    ///     if call.context.depth >= 2 {
    ///         return Err(ToolError::new("agents are nested too deeply; do it yourself"));
    ///     }
    ///     let runtime = Runtime::of(&call).ok_or_else(|| ToolError::new("the runtime has ended"))?;
    ///     // The id of a turn is a UUID: no other tenant can guess the name and take it first.
    ///     let session = SessionId::parse(&format!("{}.{}", call.context.turn, call.call.id))?;
    ///     let result = runtime.run(AgentRequest::for_call(&call, session, task.task)).await?;
    ///     Ok(result.response().content.clone())
    /// }
    /// # let _ = bob::tools::tool("agent/research", "Finds something out.", research);
    /// ```
    pub fn for_call(call: &Invocation, session: SessionId, text: impl Into<String>) -> Self {
        let of = &call.context;
        let limits = Limits {
            max_steps: of.left.steps,
            max_tool_calls: of.left.tool_calls,
            // 0 is no bound.
            max_total_tokens: of.left.tokens.map_or(0, |tokens| tokens.max(1)),
            max_cost: of.left.cost.map_or(Cost::ZERO, |cost| cost.max(Cost::from_nanos(1))),
            turn_timeout_ms: of.left.time_ms,
            tool_timeout_ms: of.tool_timeout_ms,
            ..Limits::default()
        };
        let options = SessionOptions {
            cwd: of.roots.first().cloned(),
            roots: of.roots.iter().skip(1).cloned().collect(),
            parent: Some(ParentTurn::of(of, &call.call.id)),
            ..SessionOptions::default()
        };
        Self {
            context: of.context.clone(),
            request_id: Some(RequestId::new(call.idempotency_key())),
            traceparent: Some(of.call_traceparent(&call.call.id)),
            tracestate: of.tracestate.as_deref().map(str::to_owned),
            approvals: of.approvals,
            mode: of.mode,
            allow_tools: of.allow.as_ref().map(|allowed| allowed.to_vec()),
            limits: Some(limits),
            options: Some(options),
            ..Self::text(session, text)
        }
    }
}

/// # Errors
/// `Invalid` for a context that is too large, or that has an invalid name.
pub(super) fn judged(context: Option<Arc<RequestContext>>) -> Result<Option<Arc<RequestContext>>, AgentError> {
    context.iter().try_for_each(|context| context.check())?;
    Ok(context)
}

/// Sets the tenant of the options a request brings. Errors: `Invalid` when they name another tenant than the context.
pub(super) fn set_tenant(options: &mut SessionOptions, context: Option<&RequestContext>) -> Result<(), AgentError> {
    let tenant = context.and_then(|context| context.tenant.as_ref());
    if options.tenant.is_some() && options.tenant.as_ref() != tenant {
        let text = "the options and the context of the request name different tenants; give both the same";
        return Err(AgentError::Invalid(text.to_owned()));
    }
    options.tenant = tenant.cloned();
    Ok(())
}
