//! `sessions fork`: a new session with the beginning of another one.

use std::collections::BTreeSet;
use std::sync::Arc;

use bob::SessionId;
use bob::approvals::Scope;
use bob::sessions::{SessionOptions, TurnId};
use bob::store::Fact;
use bob::store::{Glance, Record, Session, SessionStore};
use bob::tools::CallId;

use super::change;
use crate::commands::run::new_session;
use crate::exit::Failure;
use crate::terminal::print;

const MARK: &str = " (fork)";

pub(crate) struct Forked {
    pub(crate) id: SessionId,
    pub(crate) turns: usize,
}

/// Copies the first `at` turns of a session, by default all that have ended, into a new one. A turn that is not over,
/// and inputs that wait, are left out. The session itself is only read.
/// Errors: when it has fewer turns than that, or none; errors of the store.
pub(crate) async fn fork(
    store: &dyn SessionStore,
    id: &SessionId,
    records: &[Arc<Record>],
    at: Option<usize>,
) -> Result<Forked, Failure> {
    let (kept, turns) = beginning(records, at).map_err(|ended| {
        let has = print::counted(ended, "turn");
        Failure::usage(match at {
            _ if ended == 0 => format!("the session {id} has no turn that ended; there is nothing to copy"),
            Some(at) => format!("the session {id} has {has} that ended; there is no turn {at}"),
            None => format!("the session {id} has {has}"),
        })
    })?;
    let new = new_session()?;
    let copied = Session::fold(new.clone(), &kept);
    let tasks = copied.tasks.iter().map(|task| &task.call.id).collect();
    let mut facts: Vec<_> =
        kept.iter().map(|record| (record.turn.clone(), record.at, of_a_copy(&record.fact, &tasks))).collect();
    let options = SessionOptions { title: Some(title(&kept)), parent: None, ..copied.latest_options().clone() };
    facts.push((None, bob::config::clock::now(), change::configured(&options, None)));
    let claim = store.claim(&new).await?;
    let named: Vec<_> = facts.iter().flat_map(|(_, _, fact)| fact.artifacts()).map(|one| one.id.clone()).collect();
    let artifacts = store.artifacts().filter(|_| !named.is_empty());
    if let Some(artifacts) = &artifacts {
        artifacts.share(id, &new, &named).await?;
    }
    let stored = change::append(store, &new, claim.epoch, claim.version, facts).await;
    store.release(&new, claim.epoch).await;
    if let (Some(artifacts), Ok(())) = (&artifacts, &stored) {
        artifacts.recorded(&new, &named).await;
    }
    stored?;
    Ok(Forked { id: new, turns })
}

/// The records of the first `at` turns and of the options, and the number of turns. As an error the number of turns
/// there are.
fn beginning(records: &[Arc<Record>], at: Option<usize>) -> Result<(Vec<Arc<Record>>, usize), usize> {
    let is_end = |record: &Record| matches!(&record.fact, Fact::Outcome(ended) if ended.suspended.is_none());
    let ends: Vec<usize> =
        records.iter().enumerate().filter(|(_, record)| is_end(record)).map(|(index, _)| index).collect();
    let turns = at.unwrap_or(ends.len());
    let Some(last) = turns.checked_sub(1).and_then(|last| ends.get(last)) else { return Err(ends.len()) };
    let over: BTreeSet<&TurnId> = ends[..turns].iter().filter_map(|end| records[*end].turn.as_ref()).collect();
    let is_kept = |record: &&Arc<Record>| {
        // A snapshot repeats the records before it, those of other turns included.
        let is_snapshot = matches!(record.fact, Fact::Snapshot(_));
        !is_snapshot && record.turn.as_ref().is_none_or(|turn| over.contains(turn))
    };
    Ok((records[..=*last].iter().filter(is_kept).cloned().collect(), turns))
}

/// A fact without what holds in its own session only: a decision for that session, and a sub-agent that works for it in the
/// background, whose result the copy would bring a second time.
fn of_a_copy(fact: &Fact, tasks: &BTreeSet<&CallId>) -> Fact {
    let mut fact = fact.clone();
    match &mut fact {
        Fact::Intent { call, task, .. } if tasks.contains(call) => *task = None,
        Fact::ApprovalDecided { scope, .. } if *scope == Some(Scope::Session) => *scope = None,
        _copied_whole => {}
    }
    fact
}

fn title(records: &[Arc<Record>]) -> Box<str> {
    let mut glance = Glance::default();
    records.iter().for_each(|record| glance.note(record));
    let title = glance.title.as_deref().unwrap_or("conversation");
    format!("{}{MARK}", title.trim_end_matches(MARK)).into()
}
