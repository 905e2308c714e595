//! What is said into a running turn, on its way to the sessions supervisor and over a restart of it.

use super::runtime::{Runtime, refuse_oversized};
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::input::Steer;
use bob_messages::reply::Reply;
use bob_messages::submission::SessionsMessage;
use ractor::ActorRef;
use std::time::Duration;

/// How long it waits for the supervisor to be started again.
const RETURNS_WITHIN: Duration = Duration::from_secs(2);

/// Says it, and once more when the supervisor ended with it: the request's name lets it be taken only once.
pub(super) async fn steer(
    runtime: &Runtime,
    session: SessionId,
    named: Option<RequestId>,
    parts: Vec<ContentPart>,
) -> Result<bool, AgentError> {
    refuse_oversized(parts.iter().map(ContentPart::bytes).sum())?;
    if parts.iter().all(|part| part.bytes() == 0) {
        return Err(AgentError::Invalid("the message is empty".into()));
    }
    let may_be_known = named.is_some();
    let request_id = named.unwrap_or_else(|| RequestId::new(uuid::Uuid::now_v7().to_string()));
    let steer = Steer { request_id: request_id.clone(), submission: None, parts };
    let (first, asked_of) = ask(runtime, &session, steer.clone()).await;
    let (told, again) = match first {
        Some(told) => (told, false),
        None => {
            let sessions = &runtime.0.tree.rooms.sessions;
            let mut ended = runtime.ended();
            tokio::select! {
                biased;
                _ = ended.wait_for(Option::is_some) => {}
                _there_or_not = sessions.successor(asked_of, RETURNS_WITHIN) => {}
            }
            (ask(runtime, &session, steer).await.0.unwrap_or_else(|| Err(runtime.gone())), true)
        }
    };
    match told {
        // The turn that took it may be over by now; the journal knows.
        Ok(false) if (may_be_known || again) && is_kept(runtime, session, &request_id).await? => Ok(true),
        // Whether the supervisor that ended had brought it to a turn cannot be known yet.
        Ok(false) if again => {
            let text = "the supervisor of the sessions was restarted; say it again under the same request id";
            Err(AgentError::Busy(text.into()))
        }
        told => told,
    }
}

/// What the supervisor says, and which one was asked.
async fn ask(
    runtime: &Runtime,
    session: &SessionId,
    steer: Steer,
) -> (Option<Result<bool, AgentError>>, Option<ActorRef<SessionsMessage>>) {
    let (reply, answer) = Reply::channel();
    let mut asked_of = None;
    runtime.0.tree.rooms.sessions.tell_knowing(|actor| {
        asked_of = actor;
        SessionsMessage::Steer { session: session.clone(), steer, reply }
    });
    (answer.await, asked_of)
}

async fn is_kept(runtime: &Runtime, session: SessionId, request: &RequestId) -> Result<bool, AgentError> {
    Ok(runtime.folded(session).await?.steers.contains(request))
}
