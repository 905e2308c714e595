//! The rules that need many: sessions, writers, odd names.

use super::{append, claim, record, session, store_one, stored};
use crate::store::SessionStore;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, SessionFilter, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Ids that fall together on a file system that folds case are kept apart.
pub async fn ids_that_differ_by_case_are_two_sessions(store: Arc<dyn SessionStore>) {
    let ids = ["abc", "Abc", "aBc", "ABC", "abC"];
    check_apart(&store, &ids.map(str::to_owned)).await;
}

/// Ids of every length, of every character, and with names that systems reserve.
pub async fn s9_the_longest_and_oddest_ids_are_sessions(store: Arc<dyn SessionStore>) {
    let mut ids: Vec<String> = ["con", "NUL", "com1.log", "a.", "a..", "a-", "a_", "0", "a.jsonl", "a.jsonl.corrupt-1"]
        .map(str::to_owned)
        .to_vec();
    ids.extend(["x", "X"].map(|one| one.repeat(SessionId::MAX_BYTES)));
    ids.push("xX".repeat(SessionId::MAX_BYTES / 2));
    ids.push("Xx".repeat(SessionId::MAX_BYTES / 2));
    check_apart(&store, &ids).await;
}

async fn check_apart(store: &Arc<dyn SessionStore>, ids: &[String]) {
    for (count, id) in (1..).zip(ids) {
        let one = session(id);
        let claimed = store.claim(&one).await.expect("it can be claimed");
        assert_eq!(claimed.version, 0, "{id} was not written before");
        assert_eq!(store_one(store, append(&one, claimed.epoch, 0, count)).await, Ok(count));
    }
    for (count, id) in (1..).zip(ids) {
        assert_eq!(stored(store, &session(id)).await.len() as u64, count, "{id} has its own records");
    }
    let page = store.list(&SessionFilter::default(), None).await.expect("it lists");
    let listed: BTreeSet<_> = page.sessions.iter().map(|one| one.session.as_str().to_owned()).collect();
    assert_eq!(listed, ids.iter().cloned().collect());
}

/// Many sessions in one batch, each with its answer at its place.
pub async fn a_thousand_sessions_go_in_one_batch(store: Arc<dyn SessionStore>) {
    let sessions: Vec<_> = (0..1000).map(|index| session(&format!("s{index}"))).collect();
    let mut batch = Vec::new();
    for (index, one) in (0..).zip(&sessions) {
        let epoch = claim(&store, one).await;
        batch.push(append(one, epoch, 0, 1 + index % 3));
    }
    let answers = store.append(batch).await;
    for (index, (one, answer)) in (0..).zip(sessions.iter().zip(answers)) {
        assert_eq!(answer, Ok(1 + index % 3), "{one}");
    }
    assert_eq!(stored(&store, &sessions[998]).await.len(), 3);
    let filter = SessionFilter { limit: 5000, ..SessionFilter::default() };
    assert_eq!(store.list(&filter, None).await.expect("it lists").sessions.len(), 1000);
}

/// Batches at the same time do not lose or mix records.
pub async fn concurrent_appends_to_many_sessions_all_arrive(store: Arc<dyn SessionStore>) {
    const ROUNDS: u64 = 20;
    let mut writers = tokio::task::JoinSet::new();
    for index in 0..16 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let one = session(&format!("s{index}"));
            let epoch = claim(&store, &one).await;
            for version in 0..ROUNDS {
                assert_eq!(store_one(&store, append(&one, epoch, version, 1)).await, Ok(version + 1));
            }
            one
        });
    }
    while let Some(written) = writers.join_next().await {
        let one = written.expect("the writer ended well");
        assert_eq!(stored(&store, &one).await.len() as u64, ROUNDS);
    }
}

/// Writers that believe to be the only one: every accepted record is there once,
/// every other writer was told.
pub async fn s6_of_eight_writers_no_record_is_lost_or_doubled(store: Arc<dyn SessionStore>) {
    let one = session("contended");
    let epoch = claim(&store, &one).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (store, one) = (Arc::clone(&store), one.clone());
        writers.spawn(async move {
            let (mut accepted, mut version) = (Vec::new(), 0);
            while accepted.len() < 10 {
                let fact = record(&one, epoch, version + 1, &format!("w{writer}"));
                let id = fact.id.to_string();
                let attempt = Append { session: one.clone(), epoch, expected_version: version, records: vec![fact] };
                match store_one(&store, attempt).await {
                    Ok(new) => {
                        accepted.push(id);
                        version = new;
                    }
                    Err(StoreError::Conflict { version: true_version }) => version = true_version,
                    Err(other) => panic!("neither stored nor a conflict: {other}"),
                }
            }
            accepted
        });
    }
    let mut accepted = BTreeSet::new();
    while let Some(written) = writers.join_next().await {
        accepted.extend(written.expect("the writer ended well"));
    }
    assert_eq!(accepted.len(), 80);
    let stored = stored(&store, &one).await;
    assert_eq!(stored.len(), 80);
    assert_eq!(stored.into_iter().collect::<BTreeSet<_>>(), accepted);
}
