//! A message as a request to a runtime.

use crate::AgentRequest;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::inbox::SubmitRequest;
use tokio_util::sync::CancellationToken;

/// The request of a message. Its request id makes a repeated one known to the session.
pub(super) fn request(
    session: &SessionId,
    request_id: RequestId,
    submit: SubmitRequest,
    cancel: CancellationToken,
) -> AgentRequest {
    AgentRequest {
        input: submit.parts,
        model: submit.model,
        mode: submit.mode,
        approvals: submit.approvals.unwrap_or_default(),
        limits: submit.limits,
        labels: submit.labels,
        context: submit.context,
        output_schema: submit.output_schema,
        traceparent: submit.traceparent,
        tracestate: submit.tracestate,
        request_id: Some(request_id),
        cancel: Some(cancel),
        ..AgentRequest::text(session.clone(), String::new())
    }
}
