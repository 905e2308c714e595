//! Replies to suspended turns.

use super::bounds::refuse_oversized;
use super::request::AgentRunResult;
use super::runtime::{Runtime, outcome};
use super::stream::AgentStream;
use bob_messages::error::AgentError;
use bob_messages::ids::{ResumeToken, SessionId, TurnId};
use bob_messages::input::ResumeReply;

/// Resumes the turn and waits for its outcome.
pub(super) async fn resume(
    runtime: &Runtime,
    token: ResumeToken,
    said: ResumeReply,
) -> Result<AgentRunResult, AgentError> {
    let (session, submission) = checked(&token, &said)?;
    let limited = runtime.limited(&session).await?;
    outcome(runtime, runtime.hand_in_reply(session, submission, token, said, limited)).await
}

impl Runtime {
    /// As [`AgentRuntime::resume`](super::AgentRuntime::resume), under this submission id: repeated, it is answered with the
    /// outcome of the first one.
    pub(crate) async fn resume_as(
        &self,
        submission: TurnId,
        token: ResumeToken,
        said: ResumeReply,
    ) -> Result<AgentRunResult, AgentError> {
        let (session, _a_new_one) = checked(&token, &said)?;
        let limited = self.limited(&session).await?;
        outcome(self, self.hand_in_reply(session, submission, token, said, limited)).await
    }
}

/// Resumes a suspended turn and streams its events.
pub(super) async fn resume_stream(
    runtime: &Runtime,
    token: ResumeToken,
    said: ResumeReply,
) -> Result<AgentStream, AgentError> {
    let (session, submission) = checked(&token, &said)?;
    stream_of(runtime, session, submission, token, said).await
}

/// Resumes the turn with this reply, under this submission id.
/// Errors of the store; `Overloaded` when a limit of the tenant's day is used up.
pub(super) async fn stream_of(
    runtime: &Runtime,
    session: SessionId,
    submission: TurnId,
    token: ResumeToken,
    said: ResumeReply,
) -> Result<AgentStream, AgentError> {
    let limited = runtime.limited(&session).await?;
    let events = runtime.0.tree.feed.subscribe(&session);
    let owed = runtime.hand_in_reply(session.clone(), submission.clone(), token, said, limited);
    Ok(AgentStream::new(runtime.clone(), session, submission, events, owed))
}

fn checked(token: &ResumeToken, said: &ResumeReply) -> Result<(SessionId, TurnId), AgentError> {
    if let ResumeReply::Answer(text) = said {
        refuse_oversized(text.len())?;
    }
    let nobodys = || AgentError::Invalid("invalid resume token; copy it in full".into());
    Ok((token.session().ok_or_else(nobodys)?, TurnId::new(uuid::Uuid::now_v7().to_string())))
}
