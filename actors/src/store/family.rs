//! The sessions of sub-agents below one.

use bob_messages::agent::name_below;
use bob_messages::ids::SessionId;
use bob_messages::store::{SessionFilter, SessionPage, SessionSummary};

/// How many sessions are listed at once: a store that lists a folder looks at all of it for each page.
const LARGE_PAGE: usize = 100_000;

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
    // The dot keeps out those whose names only begin alike, which may be most of a store.
    let prefix = Some(format!("{}.", name_below(session)));
    let filter = SessionFilter { prefix, limit: LARGE_PAGE, ..SessionFilter::default() };
    let (mut agents, mut cursor) = (Vec::new(), None);
    loop {
        let page = list(filter.clone(), cursor).await?;
        agents.extend(page.sessions.into_iter().filter(SessionSummary::is_of_agent));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    let mut all = vec![session.clone()];
    let mut at = 0;
    while let Some(parent) = all.get(at).cloned() {
        at += 1;
        let children = agents.extract_if(.., |agent| agent.parent.as_ref() == Some(&parent)).map(|agent| agent.session);
        let new: Vec<_> = children.filter(|child| !all.contains(child)).collect();
        all.extend(new);
    }
    Ok(all.split_off(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob_messages::agent::session_of;
    use bob_messages::ids::{CallId, TurnId};
    use std::cell::Cell;
    use std::convert::Infallible;

    #[tokio::test]
    async fn all_levels_are_found_in_one_listing() {
        let agent = |parent: &SessionId, call: &str| {
            let session = session_of(parent, &TurnId::new("t"), &CallId::new(call)).unwrap();
            SessionSummary { parent: Some(parent.clone()), ..SessionSummary::bare(session, 1, 1) }
        };
        // The name of a long one is cut in the names of those below it.
        for top in ["top".to_owned(), "long".repeat(32)] {
            let top = SessionId::parse(&top).unwrap();
            let (one, two) = (agent(&top, "c1"), agent(&top, "c2"));
            let deep = agent(&one.session, "c1");
            let deeper = agent(&deep.session, "c1");
            let other = agent(&SessionId::parse(&format!("{}x", &top.as_str()[..3])).unwrap(), "c1");
            let known = [&deeper, &other, &two, &deep, &one].map(Clone::clone).to_vec();
            let listings = Cell::new(0);
            let list = |filter: SessionFilter, cursor: Option<String>| {
                listings.set(listings.get() + 1);
                let page = super::super::listing::page_of(known.clone(), &filter, cursor.as_deref()).unwrap();
                std::future::ready(Ok::<_, Infallible>(page))
            };
            let below = below(&top, list).await.unwrap();
            let mut sorted = below.clone();
            sorted.sort_unstable();
            let mut expected = [&one, &two, &deep, &deeper].map(|agent| agent.session.clone());
            expected.sort_unstable();
            assert_eq!((sorted.as_slice(), listings.get()), (expected.as_slice(), 1), "{top}");
            let at = |of: &SessionSummary| below.iter().position(|id| *id == of.session);
            assert!(at(&one) < at(&deep) && at(&deep) < at(&deeper), "parents stand before their children");
        }
    }
}
