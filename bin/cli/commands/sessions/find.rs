//! Finds a session by its id, by the beginning of its id, or as the one that was used last.

use std::collections::BTreeSet;

use bob::sessions::{SessionFilter, SessionPage, SessionState, SessionSummary};
use bob::store::SessionStore;
use bob::{AgentRuntime, Runtime, SessionId};

use super::rows;
use crate::exit::Failure;

/// How many sessions an error about an ambiguous id names.
const MOST_NAMED: usize = 8;

/// Page size of listings: a store that lists a folder looks at all of it for each page.
const LARGE_PAGE: usize = 100_000;

/// Page size where the sessions that were used last are looked for, which are mostly on the first page: a database answers that
/// without the others.
const FIRST_PAGE: usize = 1_000;

/// The sessions that were used last.
pub(crate) struct Newest {
    pub(crate) page: SessionPage,
    /// Whether these are all that there are. Where not, those that work for others are left out.
    pub(crate) is_all: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Listing<'a> {
    Store(&'a dyn SessionStore),
    Runtime(&'a Runtime),
}

impl Listing<'_> {
    async fn page(self, filter: SessionFilter, cursor: Option<&str>) -> Result<SessionPage, Failure> {
        Ok(match self {
            Self::Store(store) => store.list(&filter, cursor).await?,
            Self::Runtime(runtime) => runtime.sessions(filter, cursor.map(str::to_owned)).await?,
        })
    }

    /// All sessions whose ids begin so, the last used first, and the journals that cannot be read.
    /// Errors: when the store cannot be read.
    pub(crate) async fn all(self, prefix: Option<&str>) -> Result<SessionPage, Failure> {
        let mut all = SessionPage::default();
        let prefix = prefix.map(str::to_owned);
        let filter = SessionFilter { prefix, limit: LARGE_PAGE, ..SessionFilter::default() };
        let mut cursor: Option<String> = None;
        loop {
            let page = self.page(filter.clone(), cursor.as_deref()).await?;
            all.sessions.extend(page.sessions);
            for damaged in page.quarantined {
                if !all.quarantined.contains(&damaged) {
                    all.quarantined.push(damaged);
                }
            }
            match page.cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// So many sessions at least that do not work for others, the last used first, and all of a small store.
    /// Errors: when the store cannot be read.
    pub(crate) async fn newest(self, least: usize) -> Result<Newest, Failure> {
        let mut newest = SessionPage::default();
        let (mut limit, mut cursor) = (if least < FIRST_PAGE { FIRST_PAGE } else { LARGE_PAGE }, None::<String>);
        loop {
            let filter = SessionFilter { limit, ..SessionFilter::default() };
            let page = self.page(filter, cursor.as_deref()).await?;
            newest.sessions.extend(page.sessions);
            if cursor.is_none() {
                newest.quarantined = page.quarantined;
            }
            let Some(next) = page.cursor else { return Ok(Newest { page: newest, is_all: true }) };
            if newest.sessions.iter().filter(|summary| summary.parent.is_none()).count() >= least {
                newest.sessions.retain(|summary| summary.parent.is_none());
                return Ok(Newest { page: newest, is_all: false });
            }
            (limit, cursor) = (LARGE_PAGE, Some(next));
        }
    }

    /// The session with this id, or the only one whose id begins so. When there is none, the text as an id.
    /// Errors: a text that begins no id, or several of them; when the store cannot be read.
    pub(crate) async fn find(self, text: &str) -> Result<SessionId, Failure> {
        let id = SessionId::parse(text)?;
        let mut found = self.all(Some(text)).await?.sessions;
        // The ids of children begin as that of their parent.
        if found.iter().any(|summary| summary.parent.is_none()) && found.iter().all(|summary| summary.session != id) {
            found.retain(|summary| summary.parent.is_none());
        }
        match found.as_slice() {
            [] => Ok(id),
            [only] => Ok(only.session.clone()),
            several if several.iter().any(|summary| summary.session == id) => Ok(id),
            several => {
                let named = &several[..several.len().min(MOST_NAMED)];
                let mut lines = vec![format!("{} sessions begin with {text}; type more of the id:", several.len())];
                lines.extend(named.iter().map(|summary| format!("  {}", rows::candidate(summary))));
                if several.len() > named.len() {
                    lines.push(format!("  and {} more", several.len() - named.len()));
                }
                Err(Failure::usage(lines.join("\n")))
            }
        }
    }

    /// The session that was used last; where a folder is given, of those that work in it.
    /// Errors: when there is none, or the store cannot be read.
    pub(crate) async fn last(self, folder: Option<&str>) -> Result<SessionId, Failure> {
        let (mut limit, mut cursor) = (FIRST_PAGE, None::<String>);
        loop {
            let filter = SessionFilter { limit, ..SessionFilter::default() };
            let page = self.page(filter, cursor.as_deref()).await?;
            limit = LARGE_PAGE;
            // A child session is continued by its parent.
            let works_here =
                |summary: &SessionSummary| folder.is_none_or(|folder| summary.cwd.as_deref() == Some(folder));
            let mut own = page.sessions.into_iter().filter(|summary| summary.parent.is_none());
            if let Some(last) = own.find(works_here) {
                return Ok(last.session);
            }
            let nothing = || {
                Failure::usage(match folder {
                    None => "there is no session to continue; begin one without --continue".to_owned(),
                    Some(folder) => format!(
                        "there is no session to continue in {folder}; begin one without --continue, or choose one with \
                         `cli-agent chat --resume`"
                    ),
                })
            };
            cursor = Some(page.cursor.ok_or_else(nothing)?);
        }
    }
}

/// Whether a session in this state has an interrupted turn.
pub(crate) async fn is_interrupted(store: &dyn SessionStore, session: &SessionId, state: Option<SessionState>) -> bool {
    let summary = SessionSummary { state, ..SessionSummary::bare(session.clone(), 0, 0) };
    !interrupted(store, [&summary]).await.is_empty()
}

/// Those of the sessions that have an interrupted turn: it has not ended, and no living process has the session.
pub(crate) async fn interrupted<'a>(
    store: &dyn SessionStore,
    sessions: impl IntoIterator<Item = &'a SessionSummary>,
) -> BTreeSet<SessionId> {
    let mut left = BTreeSet::new();
    for summary in sessions {
        if summary.state == Some(SessionState::Running) && matches!(store.owner(&summary.session).await, Ok(None)) {
            left.insert(summary.session.clone());
        }
    }
    if left.is_empty() {
        return left;
    }
    // A turn may have ended since its state was read, and its owner with it.
    let state = Some(SessionState::Running);
    // A store that lists a folder opens the files that the prefix leaves.
    let prefix = left.first().filter(|_| left.len() == 1).map(|only| only.as_str().to_owned());
    let filter = SessionFilter { prefix, state, limit: LARGE_PAGE, ..SessionFilter::default() };
    let (mut running, mut cursor) = (BTreeSet::new(), None::<String>);
    loop {
        let Ok(page) = store.list(&filter, cursor.as_deref()).await else { return BTreeSet::new() };
        running.extend(page.sessions.into_iter().map(|summary| summary.session));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    left.intersection(&running).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::store::{Append, FORMAT, Fact, MemoryStore, Record, RecordId};
    use std::sync::Arc;

    #[tokio::test]
    async fn the_last_ones_are_a_page_of_many_and_all_of_few() {
        let store = MemoryStore::new();
        for number in 0..=FIRST_PAGE {
            let session = SessionId::parse(&format!("s{number}")).unwrap();
            let epoch = store.claim(&session).await.unwrap().epoch;
            let (id, fact) = (RecordId::new(format!("r{number}")), Fact::Options(Arc::default()));
            let record =
                Record { format: FORMAT, id, session: session.clone(), version: 1, epoch, turn: None, at: 1, fact };
            let append = Append { session, epoch, expected_version: 0, records: vec![Arc::new(record)] };
            assert_eq!(store.append(vec![append]).await, [Ok(1)]);
        }
        for (least, expected) in [(30, (FIRST_PAGE, false)), (FIRST_PAGE, (FIRST_PAGE + 1, true))] {
            let newest = Listing::Store(&*store).newest(least).await.unwrap();
            assert_eq!((newest.page.sessions.len(), newest.is_all), expected, "at least {least}");
        }
    }
}
