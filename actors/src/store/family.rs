//! The sessions of sub-agents below one.

use bob_messages::ids::SessionId;
use bob_messages::store::{SessionFilter, SessionPage, SessionSummary};

/// The sessions of sub-agents below a session, at all levels, which are deleted with it. `list` answers the pages of a
/// [`SessionStore::list`](super::SessionStore::list).
///
/// # Errors
/// The first of `list`: some may be missing then.
pub async fn below<E, F>(
    session: &SessionId,
    list: impl Fn(SessionFilter, Option<String>) -> F,
) -> Result<Vec<SessionId>, E>
where
    F: Future<Output = Result<SessionPage, E>>,
{
    let mut all = vec![session.clone()];
    let mut at = 0;
    while let Some(parent) = all.get(at).cloned() {
        at += 1;
        let (filter, mut cursor) = (SessionFilter { parent: Some(parent), ..SessionFilter::default() }, None);
        loop {
            let page = list(filter.clone(), cursor).await?;
            let agents = page.sessions.into_iter().filter(SessionSummary::is_of_agent).map(|below| below.session);
            let new: Vec<_> = agents.filter(|below| !all.contains(below)).collect();
            all.extend(new);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(all.split_off(1))
}
