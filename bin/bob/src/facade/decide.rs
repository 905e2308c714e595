//! A person's decision on its way to its question: in a turn that runs, in one that an earlier process left at the
//! question, or in one that is suspended on it.

use super::runtime::{Inner, Runtime};
use bob_messages::approvals::{Decision, Heard};
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, ResumeToken, SessionId, TurnId};
use bob_messages::input::ResumeReply;
use bob_messages::reply::Reply;
use bob_messages::session_state::{OpenBelow, OpenTurn, Session};
use bob_messages::submission::SessionsMessage;
use bob_messages::turn_config::{OnRestart, TurnConfig};
use futures_util::FutureExt;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::unconstrained;

/// How often a decision is resent after the actor ended before it replied.
const MOST_AGAIN: u32 = 2;

/// How long a decision waits for a turn that is taken up to have its place and its actor.
const LIVE_WITHIN: Duration = Duration::from_secs(5);

/// Delay before a decision is resent.
const SAID_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Runtime {
    /// Has hooks answer questions of this runtime, as long as it is there.
    pub(super) fn refuse_by_hooks(&self, runtime: Weak<Inner>) {
        let Some(hooks) = &self.0.hooks else { return };
        let refuse = move |session: SessionId, approval: ApprovalId, reason: String| {
            let runtime = runtime.upgrade().map(Runtime);
            async move {
                let Some(runtime) = runtime else { return };
                match decide(&runtime, session, approval, Decision::Deny { reason }).await {
                    Ok(true) => {}
                    Ok(false) => tracing::debug!(target: "bob::hook", "a hook's no came after another decision"),
                    Err(error) => tracing::warn!(target: "bob::hook", %error, "a hook's no was not heard"),
                }
            }
            .boxed()
        };
        hooks.refuse_by(Arc::new(refuse));
    }
}

/// Decides; whether the decision counts.
pub(super) async fn decide(
    runtime: &Runtime,
    session: SessionId,
    approval: ApprovalId,
    decision: Decision,
) -> Result<bool, AgentError> {
    match say(runtime, &session, &approval, &decision).await {
        Some(Heard::Counts) => return Ok(true),
        Some(Heard::NotAsked | Heard::NotLive) => {}
        None => return Err(runtime.gone()),
    }
    let folded = runtime.folded(session.clone()).await?;
    let Some(open) = folded.open.as_ref().filter(|open| is_asked(open, &approval)) else { return Ok(false) };
    match &open.suspended {
        Some(_) => match who_resumes(runtime, folded, approval).await? {
            Some((session, token, approval)) => go_on(runtime, session, token, approval, decision).await,
            None => Ok(false),
        },
        None => take_up(runtime, &folded, open, &approval, &decision).await,
    }
}

/// Sends the decision to the session's actor, and again to its successor if the actor ends.
async fn say(runtime: &Runtime, session: &SessionId, approval: &ApprovalId, decision: &Decision) -> Option<Heard> {
    for _again in 0..=MOST_AGAIN {
        let (reply, heard) = Reply::channel();
        let (session, approval, decision) = (session.clone(), approval.clone(), decision.clone());
        runtime.0.tree.rooms.sessions.tell(SessionsMessage::Decide { session, approval, decision, reply });
        if let Some(heard) = heard.await {
            return Some(heard);
        }
    }
    None
}

fn is_asked(open: &OpenTurn, approval: &ApprovalId) -> bool {
    open.step.iter().flat_map(|step| &step.calls).any(|open| open.undecided() == Some(approval))
}

/// The session whose token resumes a turn that is suspended on this question, and the question as that session knows it:
/// of a sub-agent, the one above that works for no other. `None` if another question is to be decided first.
async fn who_resumes(
    runtime: &Runtime,
    asker: Session,
    approval: ApprovalId,
) -> Result<Option<(SessionId, ResumeToken, ApprovalId)>, AgentError> {
    let (mut asker, mut approval) = (asker, approval);
    loop {
        let open = asker.open.as_ref();
        let Some((open, suspension)) = open.and_then(|open| Some((open, open.suspended.as_ref()?))) else {
            return Ok(None);
        };
        let options = open.input.options.as_ref();
        let parent = options.and_then(|options| options.parent.as_ref()).filter(|parent| parent.line.is_some());
        let Some(parent) = parent else { return Ok(Some((asker.id, suspension.token.clone(), approval))) };
        if asker.first_undecided().and_then(|open| open.undecided()) != Some(&approval) {
            return Ok(None);
        }
        let above = runtime.folded(parent.session.clone()).await?;
        let mut calls = above.open.iter().flat_map(|open| &open.step).flat_map(|step| &step.calls);
        let is_its = |below: &OpenBelow| below.asked.child.token == suspension.token;
        let asked = calls.find(|open| open.below.as_deref().is_some_and(is_its));
        let Some(question) = asked.and_then(|open| open.undecided()).cloned() else { return Ok(None) };
        (asker, approval) = (above, question);
    }
}

/// Recovers a turn that an earlier process left at its question, and delivers the decision.
async fn take_up(
    runtime: &Runtime,
    folded: &Session,
    open: &OpenTurn,
    approval: &ApprovalId,
    decision: &Decision,
) -> Result<bool, AgentError> {
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*runtime.turn_config_now()).clone() });
    let input = super::finish::as_owed(open);
    runtime.settle_tenant(folded.tenant.as_ref()).await?;
    let mut owed = runtime.hand_in(folded.id.clone(), input, turn_config);
    let mut said = pin!(say_when_live(runtime, &folded.id, approval, decision));
    let waits = || AgentError::busy("the turn waits for its place; decide again when it has one");
    let heard = tokio::select! {
        biased;
        heard = tokio::time::timeout(LIVE_WITHIN, &mut said) => heard.map_err(|_late| waits())?,
        ended = &mut owed => match ended {
            Some(Err(refused)) => return Err(refused),
            // The effect of a decision is told before the outcome of its turn. Without one, the turn ended before.
            Some(Ok(_)) | None => unconstrained(said).now_or_never().unwrap_or(Some(Heard::NotAsked)),
        },
    };
    // The turn continues without a waiting caller.
    drop(owed);
    heard.map(|heard| heard == Heard::Counts).ok_or_else(|| runtime.gone())
}

/// Sends the decision once the session has an actor: the turn may be queued, or an old actor may be ending.
async fn say_when_live(
    runtime: &Runtime,
    session: &SessionId,
    approval: &ApprovalId,
    decision: &Decision,
) -> Option<Heard> {
    loop {
        match say(runtime, session, approval, decision).await {
            Some(Heard::NotLive) => tokio::time::sleep(SAID_AGAIN_AFTER).await,
            heard => return heard,
        }
    }
}

/// Resumes a suspended turn with the decision, if it waits for decisions and none came first. The decision applies to
/// the question that it names, whichever question the suspension is about.
async fn go_on(
    runtime: &Runtime,
    session: SessionId,
    token: ResumeToken,
    approval: ApprovalId,
    decision: Decision,
) -> Result<bool, AgentError> {
    let submission = TurnId::new(uuid::Uuid::now_v7().to_string());
    let said = ResumeReply::Decided { approval, decision };
    let mut turn = super::resume::stream_of(runtime, session, submission, token, said).await?;
    // The first event shows that the turn was resumed.
    if turn.next_event().await.is_some() {
        return Ok(true);
    }
    match turn.ended() {
        Some(Err(AgentError::Invalid(_somebody_was_first))) => Ok(false),
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(_)) | None => Err(runtime.gone()),
    }
}
