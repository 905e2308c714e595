//! Rules of reading a part of a journal, and of what is remembered of the rest.

use super::{append, claim, record, session, store_one};
use crate::store::SessionStore;
use bob_messages::store::{Append, Fact, Part, Record, SessionFilter, Snapshot, latest};
use std::sync::Arc;

/// A snapshot made of this record; a store does not look into it.
fn snapshot(record: &Record) -> Arc<Record> {
    let fact = Fact::Snapshot(Snapshot { form: 1, session: "{\"so\": \"it was\"}".into() });
    Arc::new(Record { fact, ..record.clone() })
}

/// Twenty records with a snapshot at the version 8 and another one at 13.
async fn written(store: &Arc<dyn SessionStore>) -> Vec<Arc<Record>> {
    let one = session("one");
    let epoch = claim(store, &one).await;
    let mut all = append(&one, epoch, 0, 20);
    for at in [8, 13] {
        all.records[at - 1] = snapshot(&record(&one, epoch, at as u64, "r"));
    }
    for part in all.records.chunks(6) {
        let expected_version = part[0].version - 1;
        let part = Append { expected_version, records: part.to_vec(), ..all.clone() };
        assert_eq!(store_one(store, part).await, Ok(expected_version + 6).map(|end: u64| end.min(20)));
    }
    all.records
}

/// A claim and a load of the newest part have everything from the last snapshot on; a store
/// that does not look for it gives more.
pub async fn what_is_read_of_the_end_begins_before_the_last_snapshot(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let all = written(&store).await;
    for _ in 0..2 {
        let part = store.load_part(&one, Part::Latest).await.expect("the session can be read");
        assert_eq!(latest(&part), &all[12..]);
        let claim = store.claim_latest(&one).await.expect("the session can be read");
        assert_eq!((latest(&claim.records), claim.version), (&all[12..], 20));
        store.release(&one, claim.epoch).await;
    }
    assert_eq!(store.claim(&one).await.expect("the session can be read").records, all, "a whole claim has everything");
    assert_eq!(store.load(&one).await.expect("the session can be read"), all);
    assert_eq!(store.load_part(&session("nobody"), Part::Latest).await, Ok(Vec::new()));
}

/// A claim and a load of the newest part read nothing before the last snapshot. A rule for stores that know where it is.
pub async fn nothing_before_the_last_snapshot_is_read(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let all = written(&store).await;
    for _ in 0..2 {
        assert_eq!(store.load_part(&one, Part::Latest).await.expect("the session can be read"), all[12..]);
        let claim = store.claim_latest(&one).await.expect("the session can be read");
        assert_eq!(claim.records, all[12..]);
        store.release(&one, claim.epoch).await;
        tokio::task::yield_now().await;
    }
}

/// An owner that read only the end of a journal goes on as one that read all of it, and lists show the same.
pub async fn an_owner_that_read_the_end_goes_on(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let all = written(&store).await;
    let listed = async || {
        let page = store.list(&SessionFilter::default(), None).await.expect("the session can be read");
        page.sessions.into_iter().map(|seen| (seen.title, seen.state, seen.turns, seen.parent)).collect::<Vec<_>>()
    };
    let before = listed().await;
    let owner = store.claim_latest(&one).await.expect("the session can be read");
    let more = append(&one, owner.epoch, 20, 3);
    assert_eq!(store_one(&store, more.clone()).await, Ok(23));
    assert_eq!(listed().await, before);
    assert_eq!(store_one(&store, more.clone()).await, Ok(23), "the same again");
    let old = Append { epoch: owner.epoch, expected_version: 4, records: all[4..].to_vec(), ..more.clone() };
    assert_eq!(store_one(&store, old).await, Ok(20), "what it did not read is known all the same");
    assert_eq!(store.load(&one).await.expect("the session can be read"), [&all[..], &more.records[..]].concat());
}

/// Pages are read one behind the other until there are none.
pub async fn pages_come_to_the_whole(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let all = written(&store).await;
    for most in [1, 7, 20, 100] {
        let mut read: Vec<Arc<Record>> = Vec::new();
        loop {
            let behind = read.last().map_or(0, |last| last.version);
            let page = store.load_part(&one, Part::Page { behind, most }).await.expect("the session can be read");
            assert!(page.len() <= most);
            if page.is_empty() {
                break;
            }
            read.extend(page);
        }
        assert_eq!(read, all, "by {most}");
    }
    let part = Part::Page { behind: 99, most: 1 };
    assert_eq!(store.load_part(&one, part).await, Ok(Vec::new()), "behind its end");
    assert_eq!(store.load_part(&session("nobody"), part).await, Ok(Vec::new()));
}

/// However much is sent again, and however long ago it was stored, nothing is stored twice.
pub async fn more_than_is_remembered_may_be_sent_again(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let first = append(&one, epoch, 0, 900);
    let then = append(&one, epoch, 900, 700);
    assert_eq!(store_one(&store, first.clone()).await, Ok(900));
    assert_eq!(store_one(&store, then.clone()).await, Ok(1_600));
    assert_eq!(store_one(&store, first.clone()).await, Ok(900), "all of it is there");
    let more = append(&one, epoch, 1_600, 5);
    let records = [first.records, then.records, more.records].concat();
    let again = Append { expected_version: 0, records: records.clone(), ..first };
    assert_eq!(store_one(&store, again).await, Ok(1_605), "what is new of it is stored");
    let foreign = Append { records: vec![record(&one, epoch, 3, "foreign")], expected_version: 2, ..more };
    assert!(store_one(&store, foreign).await.is_err(), "another record is no repetition");
    assert_eq!(store.load(&one).await.expect("the session can be read"), records);
}
