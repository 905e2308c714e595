//! Very many sessions and a very long one: how many and how long, and what is asked of a
//! listing. The sizes can be told by the environment, to measure.

use super::{record, session};
use crate::store::SessionStore;
use bob_messages::chat::ContentPart;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Fact, SessionFilter};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// `BOB_TEST_STORE_SESSIONS`, or some thousand.
pub fn sessions() -> usize {
    told("BOB_TEST_STORE_SESSIONS", 3_000)
}

fn told(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |told| told.parse().expect("it is a number"))
}

/// An append of as many megabytes as `BOB_TEST_STORE_MEGABYTES` says, or of one.
pub fn long(one: &SessionId, epoch: u64) -> Append {
    let records = (1..=told("BOB_TEST_STORE_MEGABYTES", 1) as u64 * 100).map(|version| {
        let mut long = record(one, epoch, version, "long").as_ref().clone();
        long.fact =
            Fact::Steered { parts: vec![ContentPart::text("x".repeat(10_000))], request_id: None, behind: false };
        Arc::new(long)
    });
    Append { session: one.clone(), epoch, expected_version: 0, records: records.collect() }
}

/// Resident memory of this process, in bytes; 0 where the system does not tell.
pub fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or_default() * 1024
}

/// All of [`sessions`], named `s<number>`, are listed once each, on pages that are no longer
/// than they may be, and nothing is kept of a page that was given. Answers what it took.
pub async fn are_listed(store: &Arc<dyn SessionStore>) -> String {
    let (before, began) = (resident(), Instant::now());
    let filter = SessionFilter { limit: 500, ..SessionFilter::default() };
    let first = store.list(&filter, None).await.expect("it lists");
    let (took, grown) = (began.elapsed(), resident().saturating_sub(before));
    assert_eq!(first.sessions.len(), sessions().min(500));
    let (mut found, mut pages, mut page) = (BTreeSet::new(), 1, first);
    // Of very many only the first pages: a store may look at all of them for each.
    while pages < 10 {
        assert!(page.sessions.len() <= 500);
        for one in &page.sessions {
            assert!(found.insert(one.session.clone()), "{} is listed twice", one.session);
        }
        let Some(cursor) = page.cursor.take() else { break };
        page = store.list(&filter, Some(&cursor)).await.expect("it lists on");
        pages += 1;
    }
    let all = Instant::now();
    let filter = SessionFilter { limit: sessions(), ..SessionFilter::default() };
    let whole = store.list(&filter, None).await.expect("it lists");
    let took_all = all.elapsed();
    assert_eq!(whole.sessions.len(), sessions());
    assert!(whole.cursor.is_none(), "there are no more");
    let named = whole.sessions.iter().map(|one| one.session.clone()).collect::<BTreeSet<_>>();
    assert!(found.is_subset(&named) && named.len() == sessions());
    assert!(named.contains(&session(&format!("s{}", sessions() - 1))));
    format!(
        "{} sessions: a page of 500 in {took:?} with {grown} bytes more in memory, all on one page in {took_all:?}",
        sessions()
    )
}
