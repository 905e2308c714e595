//! Pages of a listing, for the stores that list from memory or a folder.

use bob_messages::Millis;
use bob_messages::ids::SessionId;
use bob_messages::store::{SessionFilter, SessionPage, SessionSummary, StoreError};

/// How many sessions a page has when the filter does not say.
const DEFAULT_LIMIT: usize = 100;

pub(super) fn wanted(filter: &SessionFilter, session: &str) -> bool {
    filter.prefix.as_deref().is_none_or(|prefix| session.starts_with(prefix))
}

/// Whether the filter asks for more than a name.
pub(super) fn looks(filter: &SessionFilter) -> bool {
    filter.state.is_some() || filter.parent.is_some() || filter.tenant.is_some()
}

pub(super) fn wants(filter: &SessionFilter, summary: &SessionSummary) -> bool {
    filter.state.is_none_or(|state| summary.state == Some(state))
        && filter.parent.as_ref().is_none_or(|parent| summary.parent.as_ref() == Some(parent))
        && filter.tenant.as_ref().is_none_or(|tenant| summary.tenant.as_ref() == Some(tenant))
}

/// Orders the wanted sessions, the last written first, and cuts out the page behind the cursor. A cursor names the last
/// session of its page and when that was written, so that it stays good when the session is gone.
pub(super) fn page(
    mut sessions: Vec<SessionSummary>,
    filter: &SessionFilter,
    cursor: Option<&str>,
) -> Result<SessionPage, StoreError> {
    let more = cut(&mut sessions, filter, cursor, |one| (one.updated_at, &one.session))?;
    Ok(page_of_cut(sessions, more))
}

/// As [`page`], of anything that a summary can be made of once the page is cut out: `key` is when it was written last,
/// and its id. Whether there are more behind the page.
pub(super) fn cut<T>(
    sessions: &mut Vec<T>,
    filter: &SessionFilter,
    cursor: Option<&str>,
    key: impl for<'a> Fn(&'a T) -> (Millis, &'a SessionId),
) -> Result<bool, StoreError> {
    if let Some((at, id)) = after(cursor)? {
        sessions.retain(|one| {
            let (updated_at, session) = key(one);
            updated_at < at || (updated_at == at && session.as_str() > id)
        });
    }
    let limit = limit(filter);
    let newest_first = |a: &T, b: &T| {
        let ((a_at, a), (b_at, b)) = (key(a), key(b));
        b_at.cmp(&a_at).then_with(|| a.cmp(b))
    };
    let more = sessions.len() > limit;
    if more {
        // Only the page itself is sorted, so that a hundred thousand sessions list quickly.
        sessions.select_nth_unstable_by(limit, newest_first);
        sessions.truncate(limit);
    }
    sessions.sort_unstable_by(newest_first);
    Ok(more)
}

pub(super) fn page_of_cut(sessions: Vec<SessionSummary>, more: bool) -> SessionPage {
    let cursor = sessions.last().filter(|_| more).map(behind);
    SessionPage { sessions, cursor, quarantined: Vec::new() }
}

/// How many sessions a page has at most.
pub(super) fn limit(filter: &SessionFilter) -> usize {
    if filter.limit == 0 { DEFAULT_LIMIT } else { filter.limit }
}

/// When the last session of the page before was written, and its id.
pub(super) fn after(cursor: Option<&str>) -> Result<Option<(Millis, &str)>, StoreError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let read = cursor.split_once(':').and_then(|(at, id)| Some((at.parse().ok()?, id)));
    let unknown = || StoreError::Unavailable(format!("the cursor {cursor:?} is of no page of this store"));
    read.map(Some).ok_or_else(unknown)
}

pub(super) fn behind(last: &SessionSummary) -> String {
    format!("{}:{}", last.updated_at, last.session)
}

/// The page of a listing that the filter and the cursor ask for, the last written first: for a store that has all its
/// sessions at hand.
///
/// # Errors
/// `Unavailable` for a cursor that no such page ended with.
pub fn page_of(
    sessions: impl IntoIterator<Item = SessionSummary>,
    filter: &SessionFilter,
    cursor: Option<&str>,
) -> Result<SessionPage, StoreError> {
    let is_wanted = |summary: &SessionSummary| wanted(filter, summary.session.as_str()) && wants(filter, summary);
    page(sessions.into_iter().filter(is_wanted).collect(), filter, cursor)
}
