//! `sessions`: reads and changes the store directly; starts no tree and no server.
//!
//! - `find`: sessions by the beginning of their ids; `rows`: lists of sessions; `family`: those that work for others
//! - `show`, `markdown`: a conversation as text; `search`: text in all of them
//! - `change`: options and titles; `fork`: a copy up to a turn; `take`: from its owner; `undo`: files as they were

mod change;
mod family;
pub(crate) mod find;
pub(crate) mod fork;
mod markdown;
pub(crate) mod rows;
mod search;
mod show;
mod take;
pub(crate) mod undo;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use bob::SessionId;
use bob::sessions::{Change, OptionsPatch, SessionPage, SessionSummary};
use bob::store::{Glance, Record, Session, SessionStore};
use bob_config::Config;
use bob_config::assemble;
use serde_json::json;

use crate::arguments::SessionsAction;
use crate::commands::file_changes::{self, Which};
use crate::commands::rewind;
use crate::exit::{Exit, Failure};
use crate::runtime::trust;
use crate::terminal::print;
use crate::terminal::screen::look::Look;
pub(crate) use change::title;
use find::{Listing, Newest};
use rows::First;
use show::Seen;

/// Performs an action on stored sessions. Errors: when there is no such session, or the store fails.
pub(crate) async fn sessions(action: &SessionsAction, config: &Config) -> Result<Exit, Failure> {
    let store = assemble::store(config, false, trust::recorder(config))?;
    let listing = Listing::Store(&*store);
    match action {
        SessionsAction::List { limit, children, json } => {
            let most = match limit.unwrap_or(if *json { 0 } else { MOST_LISTED }) {
                0 => usize::MAX,
                most => most,
            };
            let Newest { page, is_all } = listing.newest(if *children { usize::MAX } else { most }).await?;
            let all = is_all.then(|| page.sessions.clone());
            let mut page = SessionPage { sessions: family::ordered(page.sessions, *children, *json), ..page };
            let interrupted = find::interrupted(&*store, page.sessions.iter().take(most)).await;
            if *json {
                page.sessions.truncate(most);
                print::json(&as_json(&page, &interrupted))?;
            } else {
                table(&page, all.as_deref(), &interrupted, most)?;
            }
        }
        SessionsAction::Search { text, limit, json } => {
            let page = listing.all(None).await?;
            search::search(&*store, &page.sessions, &text.join(" "), *limit, *json).await?;
        }
        SessionsAction::Show { id, json } => {
            let id = listing.find(id).await?;
            let records = read(&*store, &id).await?;
            let waiting = match store.inbox() {
                Some(inbox) => inbox.take(&id).await?.len(),
                None => 0,
            };
            let root = show::answered_at(&*store, &id, &records).await;
            let session = Session::fold(id, &records);
            let changes = match session.last.as_deref().filter(|_| *json) {
                Some(last) => file_changes::of_outcome(&*store, last).await,
                None => Vec::new(),
            };
            let mode = config.policy.rules.default_mode();
            let mut glance = Glance::default();
            records.iter().for_each(|record| glance.note(record));
            let state = match find::is_interrupted(&*store, &session.id, Some(glance.state)).await {
                true => rows::INTERRUPTED,
                false => glance.state.as_str(),
            };
            let title = glance.title.as_deref();
            let seen = Seen { title, state, records: records.len(), inbox: waiting, root: root.as_ref() };
            show::show(&session, &seen, mode, json.then_some(changes))?;
        }
        SessionsAction::Export { id, markdown, .. } => {
            let id = listing.find(id).await?;
            let records = read(&*store, &id).await?;
            match markdown {
                true => print::text(&markdown::of(&id, &records))?,
                false => records.iter().try_for_each(|record| print::json(&**record))?,
            }
        }
        SessionsAction::Set { id, model, cwd, instructions, mode, pool, clear, submit, json } => {
            let id = listing.find(id).await?;
            let (model, cwd, mode) = (model.as_deref(), cwd.as_deref(), mode.map(Into::into));
            let patch = change::patch(model, cwd, instructions.as_deref(), mode, pool.as_ref(), clear, config)?;
            let made = match submit {
                true => json!({ "request_id": change::submitted(&store, &id, patch, config).await? }),
                false => json!({ "options": change::set(&*store, &id, &patch).await? }),
            };
            match json {
                true => print::json(&with_id(&id, made))?,
                false => print::note(&format!("changed {id}, from its next turn on")),
            }
        }
        SessionsAction::Rename { id, title, submit, json } => {
            let id = listing.find(id).await?;
            let title = change::title(&title.join(" "))?;
            let patch = OptionsPatch { title: Change::Set(title.clone()), ..OptionsPatch::default() };
            let mut made = json!({ "title": title });
            match submit {
                true => made["request_id"] = json!(change::submitted(&store, &id, patch, config).await?),
                false => drop(change::set(&*store, &id, &patch).await?),
            }
            match json {
                true => print::json(&with_id(&id, made))?,
                false => print::note(&format!("{id} is now called: {title}")),
            }
        }
        SessionsAction::Fork { id, at, json } => {
            let id = listing.find(id).await?;
            let forked = fork::fork(&*store, &id, &read(&*store, &id).await?, *at).await?;
            match json {
                true => print::json(&json!({ "session_id": forked.id, "of": id, "turns": forked.turns }))?,
                false => {
                    print::line(forked.id.as_str())?;
                    let turns = print::counted(forked.turns, "turn");
                    print::note(&format!(
                        "a copy of {turns} of {id}; cli-agent chat --resume {} continues it",
                        forked.id
                    ));
                }
            }
        }
        SessionsAction::Diff { id, turn, json } => {
            let id = listing.find(id).await?;
            let which = turn.map_or(Which::All, Which::Turn);
            let records = read(&*store, &id).await?;
            undo::diff(&*store, (&id, &records), config, which, *json).await?;
        }
        SessionsAction::Undo { id, turn, all, force, json } => {
            let id = listing.find(id).await?;
            let which = if *all { Which::All } else { turn.map_or(Which::Last, Which::Turn) };
            let records = read(&*store, &id).await?;
            undo::undo(&store, (&id, &records), config, (which, *force), *json).await?;
        }
        SessionsAction::Rewind { id, to, only, force, json } => {
            let id = listing.find(id).await?;
            let records = read(&*store, &id).await?;
            rewind::rewind(&store, (&id, &records), config, (*to, *only), (*force, *json)).await?;
        }
        SessionsAction::Take { id, json } => {
            let id = listing.find(id).await?;
            take::take(&*store, &id, *json).await?;
        }
        SessionsAction::Delete { id, json } => {
            let id = listing.find(id).await?;
            let from = &*store;
            let list = |filter, cursor: Option<String>| async move { from.list(&filter, cursor.as_deref()).await };
            let below = bob::store::below(&id, list).await?;
            if !store.delete(&id).await? {
                return Err(no_such(&id));
            }
            let mut with_it = 0_usize;
            for below in below {
                match store.delete(&below).await {
                    Ok(was_there) => with_it += usize::from(was_there),
                    Err(error) => {
                        print::note(&format!("warning: {below}, the session of a sub-agent, is left: {error}"));
                    }
                }
            }
            match (json, with_it) {
                (true, _) => print::json(&json!({ "deleted": id }))?,
                (false, 0) => print::note(&format!("deleted {id}")),
                (false, with_it) => {
                    let below = print::counted(with_it as u64, "session");
                    print::note(&format!("deleted {id}, with {below} of its sub-agents"));
                }
            }
        }
    }
    Ok(Exit::Success)
}

fn with_id(id: &SessionId, mut made: serde_json::Value) -> serde_json::Value {
    made["session_id"] = json!(id);
    made
}

/// How many sessions are listed by default.
const MOST_LISTED: usize = 30;

/// The width of lists: that of the terminal. Nothing is cut for a program.
fn columns() -> Option<usize> {
    io::stdout().is_terminal().then(|| Look::now().columns)
}

async fn read(store: &dyn SessionStore, id: &SessionId) -> Result<Vec<Arc<Record>>, Failure> {
    let records = store.load(id).await?;
    if records.is_empty() { Err(no_such(id)) } else { Ok(records) }
}

pub(crate) fn no_such(id: &SessionId) -> Failure {
    Failure::usage(format!("there is no session {id}; `cli-agent sessions list` lists them"))
}

fn table(
    page: &SessionPage,
    every: Option<&[SessionSummary]>,
    interrupted: &BTreeSet<SessionId>,
    most: usize,
) -> Result<(), Failure> {
    let all = page.sessions.len();
    for row in rows::rows(&page.sessions, every, interrupted, First::Time, columns()).iter().take(most) {
        print::line(row)?;
    }
    for (name, reason) in &page.quarantined {
        print::note(&format!("damaged, left unchanged: {name}: {reason}"));
    }
    match all {
        0 if page.quarantined.is_empty() => print::note("no sessions yet"),
        _ if every.is_none() => print::note(&format!("the last {most} of many sessions; --limit 0 lists all")),
        _ if all > most => print::note(&format!("{most} of {all} sessions; --limit 0 lists all")),
        _all_of_them => {}
    }
    Ok(())
}

fn as_json(page: &SessionPage, interrupted: &BTreeSet<SessionId>) -> serde_json::Value {
    let sessions = page.sessions.iter().map(|summary| {
        let state = match interrupted.contains(&summary.session) {
            true => json!(rows::INTERRUPTED),
            false => json!(summary.state),
        };
        json!({
            "session_id": summary.session, "updated_at": summary.updated_at, "bytes": summary.bytes,
            "title": summary.title, "state": state, "turns": summary.turns, "parent": summary.parent,
            "cwd": summary.cwd, "created_at": summary.created_at,
        })
    });
    let damaged = page.quarantined.iter().map(|(name, reason)| json!({"name": name, "reason": reason}));
    json!({"sessions": sessions.collect::<Vec<_>>(), "quarantined": damaged.collect::<Vec<_>>()})
}
