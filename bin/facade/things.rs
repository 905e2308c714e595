//! Sessions as things: opened, changed, looked at, closed and deleted, without a turn.

use super::options::bounded;
use super::request::{AgentResponse, SessionLook};
use super::runtime::Runtime;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::reply::Reply;
use bob_messages::session::{Change, Configuring, Glance, OptionsPatch, Session, SessionChange, SessionOptions};
use bob_messages::sessions::SessionsMessage;
use bob_messages::store::StoreMessage;
use std::sync::Arc;
use std::time::Duration;

/// How long a change waits for the sessions supervisor to be started again.
const RETURNS_WITHIN: Duration = Duration::from_secs(2);

/// Begins a session with these options, or finds it there with the same.
///
/// # Errors
/// `Invalid` for options a session cannot have, and when it is there with others.
pub(super) async fn open(runtime: &Runtime, session: SessionId, options: SessionOptions) -> Result<(), AgentError> {
    let options = runtime.judged(options)?;
    let take_back = runtime.to_take_back(&session, &options.servers);
    let options = runtime.bring(&session, options)?;
    let asked = Configuring { request_id: new_name(), change: SessionChange::Open(Box::new(options)) };
    let opened = send(runtime, session, asked).await;
    if opened.is_err() {
        take_back();
    }
    opened
}

/// Changes options of a session from its next turn on.
///
/// # Errors
/// `Invalid` for options a session cannot have; what the store says.
pub(super) async fn configure(
    runtime: &Runtime,
    session: SessionId,
    patch: OptionsPatch,
    request_id: Option<RequestId>,
) -> Result<(), AgentError> {
    let patch = runtime.judged_patch(patch)?;
    let (moves, brings) = (patch.cwd != Change::Keep || patch.roots != Change::Keep, patch.servers != Change::Keep);
    let mut take_back = None;
    let stripped = match moves || brings {
        false => patch,
        true => {
            // Where its servers run and what they see follows from all of its options.
            let now = folded(runtime, &session).await?;
            let then = patch.applied_to(now.latest_options());
            bounded(&then)?;
            if brings {
                take_back = Some(runtime.to_take_back(&session, &then.servers));
                let servers = Change::Set(runtime.bring(&session, then)?.servers);
                OptionsPatch { servers, ..patch }
            } else {
                runtime.move_servers(&session, &then)?;
                patch
            }
        }
    };
    let request_id = request_id.unwrap_or_else(new_name);
    let asked = Configuring { request_id, change: SessionChange::Patch(Box::new(stripped)) };
    let changed = send(runtime, session, asked).await;
    if let (Err(_), Some(take_back)) = (&changed, take_back) {
        take_back();
    }
    changed
}

/// One session as its journal tells; `None` when there is none.
pub(super) async fn look(runtime: &Runtime, session: SessionId) -> Result<Option<SessionLook>, AgentError> {
    let records = runtime.journal(session.clone()).await?;
    if records.is_empty() {
        return Ok(None);
    }
    let mut glance = Glance::default();
    records.iter().for_each(|record| glance.note(record));
    let folded = Session::fold(session, &records);
    Ok(Some(SessionLook {
        session: folded.id,
        options: folded.options,
        next_options: folded.next_options.map(|options| *options),
        title: glance.title,
        state: glance.state,
        turns: folded.turns,
        waiting: folded.waiting.len(),
        last: folded.last.as_deref().cloned().map(|last: AgentResponse| Box::new(last)),
    }))
}

/// Lets the session's actor go, and with it what the session brought.
pub(super) async fn close(runtime: &Runtime, session: &SessionId) -> bool {
    let may_go = runtime.let_go(session).await;
    if may_go {
        take_away(runtime, session);
    }
    may_go
}

/// Removes the session and everything that was kept of it.
///
/// # Errors
/// `Busy` while a turn of it runs; what the store says.
pub(super) async fn delete(runtime: &Runtime, session: SessionId) -> Result<bool, AgentError> {
    if !close(runtime, &session).await {
        return Err(AgentError::Busy("a turn of the session runs; cancel it, or wait for its end".into()));
    }
    runtime.ask_store(move |reply| StoreMessage::Delete { session, reply }).await
}

fn take_away(runtime: &Runtime, session: &SessionId) {
    runtime.0.tree.rooms.tools.take_away(session);
}

async fn folded(runtime: &Runtime, session: &SessionId) -> Result<Session, AgentError> {
    let records = runtime.journal(session.clone()).await?;
    Ok(Session::fold(session.clone(), &records))
}

fn new_name() -> RequestId {
    RequestId::new(uuid::Uuid::now_v7().to_string())
}

/// Says it to the sessions supervisor, and a second time when that ended under it: a change
/// has a name and is made once.
async fn send(runtime: &Runtime, session: SessionId, asked: Configuring) -> Result<(), AgentError> {
    let (sessions, asked) = (&runtime.0.tree.rooms.sessions, Arc::new(asked));
    for again in [false, true] {
        if again && sessions.inhabited(RETURNS_WITHIN).await.is_none() {
            break;
        }
        let (reply, told) = Reply::channel();
        let (session, asked, brief) = (session.clone(), Arc::clone(&asked), Arc::clone(runtime.brief()));
        sessions.tell(SessionsMessage::Configure { session, asked, brief, reply });
        if let Some(result) = told.await {
            return result;
        }
    }
    Err(runtime.gone())
}
