//! Sends messages into a running turn, across a restart of the sessions supervisor.

use super::bounds::{refuse_oversized, refuse_request_id};
use super::runtime::Runtime;
use bob_actors::address::Again;
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::input::Steer;
use bob_messages::reply::Reply;
use bob_messages::submission::SessionsMessage;

/// Sends the message, and again if the supervisor ended; the request id prevents a second delivery.
pub(super) async fn steer(
    runtime: &Runtime,
    session: SessionId,
    named: Option<RequestId>,
    mut parts: Vec<ContentPart>,
) -> Result<bool, AgentError> {
    named.as_ref().map_or(Ok(()), refuse_request_id)?;
    refuse_oversized(parts.iter().map(ContentPart::bytes).sum())?;
    if parts.iter().all(|part| part.bytes() == 0) {
        return Err(AgentError::Invalid("the message is empty".into()));
    }
    runtime.artifacts().spill_input(&session, &mut parts).await;
    let may_be_known = named.is_some();
    let request_id = named.unwrap_or_else(|| RequestId::new(uuid::Uuid::now_v7().to_string()));
    let steer = Steer { request_id: request_id.clone(), submission: None, parts };
    let (reply, answer) = Reply::channel();
    let of = session.clone();
    runtime.0.tree.rooms.sessions.ask(Again::ONCE, reply, move |reply, asked| {
        let reply = reply.map(move |told| (told, asked > 0));
        SessionsMessage::Steer { session: of, steer, reply }
    });
    let (told, again) = answer.await.unwrap_or_else(|| (Err(runtime.gone()), true));
    match told {
        // The turn that accepted it may have ended; the journal knows.
        Ok(false) if (may_be_known || again) && is_kept(runtime, session, &request_id).await? => Ok(true),
        // Whether the old supervisor had delivered it is not known yet.
        Ok(false) if again => {
            let text = "the supervisor of the sessions was restarted; say it again under the same request id";
            Err(AgentError::busy(text))
        }
        told => told,
    }
}

async fn is_kept(runtime: &Runtime, session: SessionId, request: &RequestId) -> Result<bool, AgentError> {
    Ok(runtime.folded(session).await?.steers.contains(request))
}
