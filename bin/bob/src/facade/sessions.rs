//! Opens, configures, inspects, closes and deletes sessions, without a turn.

use super::options::bounded;
use super::request::{AgentResponse, SessionLook};
use super::runtime::Runtime;
use bob_actors::address::Again;
use bob_actors::store::below;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::options::{Change, Configuring, OptionsPatch, SessionChange, SessionOptions};
use bob_messages::reply::Reply;
use bob_messages::store::{Glance, Part, Record, SessionState, StoreMessage};
use bob_messages::submission::SessionsMessage;
use std::sync::Arc;

/// How many of the first records are read at a time for a title.
const FIRST_RECORDS: usize = 32;

/// Opens a session with these options, or checks that it exists with equal ones.
/// Errors: `Invalid` for invalid options, or when the session exists with other options.
pub(super) async fn open(runtime: &Runtime, session: SessionId, options: SessionOptions) -> Result<(), AgentError> {
    let options = runtime.judged(options)?;
    runtime.refuse_foreign_servers(&session, Some(&options), None).await?;
    let take_back = runtime.to_take_back(&session, &options.servers);
    let options = runtime.bring(&session, options)?;
    let asked = Configuring { request_id: new_name(), change: SessionChange::Open(Box::new(options)) };
    let opened = send(runtime, session, asked).await;
    if opened.is_err() {
        take_back();
    }
    opened
}

/// Changes options of a session from its next turn on. Errors: `Invalid` for invalid options; errors of the store.
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
            // The folders and environment of its servers depend on all options.
            let now = runtime.folded(session.clone()).await?;
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

/// Reads one session from its journal; `None` if there is none.
pub(super) async fn look(runtime: &Runtime, session: SessionId) -> Result<Option<SessionLook>, AgentError> {
    let newest = runtime.part(session.clone(), Part::Latest).await?;
    if newest.is_empty() {
        return Ok(None);
    }
    let glance = glance(runtime, &session, &newest).await?;
    let folded = runtime.folded_of(session, &newest).await?;
    // One that was given between its beginning and the last snapshot was not looked at.
    let title = folded.latest_options().title.clone().or(glance.title);
    Ok(Some(SessionLook {
        session: folded.id,
        options: Arc::unwrap_or_clone(folded.options),
        next_options: folded.next_options.map(Arc::unwrap_or_clone),
        title,
        state: glance.state,
        turns: folded.turns,
        waiting: folded.waiting.len(),
        last: folded.last.as_deref().cloned().map(|last: AgentResponse| Box::new(last)),
    }))
}

pub(super) async fn close(runtime: &Runtime, session: &SessionId) -> bool {
    let may_go = runtime.let_go(session).await;
    if may_go {
        take_away(runtime, session);
    }
    may_go
}

/// Deletes the session with everything stored for it, and the sessions of its sub-agents. Errors: `Busy` while a turn
/// of it is running; errors of the store, also where its sub-agents cannot be listed: nothing is deleted then.
pub(super) async fn delete(runtime: &Runtime, session: SessionId) -> Result<bool, AgentError> {
    if !close(runtime, &session).await {
        return Err(AgentError::busy("a turn of the session runs; cancel it, or wait for its end"));
    }
    let list = |filter, cursor| runtime.ask_store(move |reply| StoreMessage::List { filter, cursor, reply });
    let below = below(&session, list).await?;
    let is_deleted = runtime.ask_store(move |reply| StoreMessage::Delete { session, reply }).await?;
    for session in below {
        let name = session.clone();
        let deleted = match close(runtime, &session).await {
            true => runtime.ask_store(move |reply| StoreMessage::Delete { session, reply }).await.map(drop),
            false => Err(AgentError::busy("a turn of the session runs")),
        };
        if let Err(error) = deleted {
            tracing::warn!(session = %name, %error, "the session of a sub-agent is left behind one that was deleted");
        }
    }
    Ok(is_deleted)
}

fn take_away(runtime: &Runtime, session: &SessionId) {
    runtime.0.tree.rooms.tools.take_away(session);
    #[cfg(feature = "mcp")]
    runtime.0.tool_servers.session_ended(session);
    runtime.0.ports.iter().for_each(|port| port.session_ended(session));
}

/// Computes a session's listing entry from its newest records. The title is at the beginning of the journal.
async fn glance(runtime: &Runtime, session: &SessionId, newest: &[Arc<Record>]) -> Result<Glance, AgentError> {
    let mut glance = Glance::default();
    let begins = newest.first().map_or(1, |first| first.version);
    let mut behind = 0;
    while glance.title.is_none() && behind + 1 < begins {
        let page = runtime.part(session.clone(), Part::Page { behind, most: FIRST_RECORDS }).await?;
        let Some(last) = page.last() else { break };
        behind = last.version;
        page.iter().for_each(|record| glance.note(record));
    }
    if begins > 1 {
        // A snapshot is written while a turn runs.
        glance.state = SessionState::Running;
    }
    newest.iter().for_each(|record| glance.note(record));
    Ok(glance)
}

pub(super) fn new_name() -> RequestId {
    RequestId::new(uuid::Uuid::now_v7().to_string())
}

/// Sends a change to the sessions supervisor, and again if that restarts: a change has an id and is made once.
pub(super) async fn send(runtime: &Runtime, session: SessionId, asked: Configuring) -> Result<(), AgentError> {
    let (asked, turn_config) = (Arc::new(asked), runtime.turn_config_now());
    let (reply, answer) = Reply::channel();
    let question = move |reply, _asked| SessionsMessage::Configure { session, asked, turn_config, reply };
    runtime.0.tree.rooms.sessions.ask(Again::ONCE, reply, question);
    answer.await.unwrap_or_else(|| Err(runtime.gone()))
}
