//! The context of a request, before it is accepted: its bounds, its tenant, and what a child takes over.

use super::request::AgentRequest;
use super::runtime::Runtime;
use bob_messages::context::RequestContext;
use bob_messages::error::AgentError;
use bob_messages::options::{ParentTurn, SessionOptions};
use std::sync::Arc;

impl Runtime {
    /// The context of a request that has none of its own: that of the turn it works for.
    ///
    /// # Errors
    /// `Invalid` when the session it works for belongs to a tenant and the turn is over; errors of the store.
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

/// # Errors
/// `Invalid` for a context that is too large, or that has an invalid name.
pub(super) fn judged(context: Option<Arc<RequestContext>>) -> Result<Option<Arc<RequestContext>>, AgentError> {
    context.iter().try_for_each(|context| context.check()).map_err(AgentError::Invalid)?;
    Ok(context)
}

/// Sets the tenant of the options a request brings.
///
/// # Errors
/// `Invalid` when they name another tenant than the context.
pub(super) fn set_tenant(options: &mut SessionOptions, context: Option<&RequestContext>) -> Result<(), AgentError> {
    let tenant = context.and_then(|context| context.tenant.as_ref());
    if options.tenant.is_some() && options.tenant.as_ref() != tenant {
        let text = "the options and the context of the request name different tenants; give both the same";
        return Err(AgentError::Invalid(text.to_owned()));
    }
    options.tenant = tenant.cloned();
    Ok(())
}
