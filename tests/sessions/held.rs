//! The append of one session is held by its store: nothing of another session waits for it.

use std::sync::Arc;

use bob::events::{AgentEvent, EventsFrom};
use bob::store::{FileStore, MemoryStore, SessionStore, StoreOptions};
use bob::{AgentRequest, AgentRuntime};

use crate::support::runtime::{build, session, turn, within};
use crate::support::scratch::Scratch;
use crate::support::stuck::{Places, Wait};

/// A store of each kind that needs no database.
fn stores(scratch: &Scratch) -> Vec<Arc<dyn SessionStore>> {
    let options = StoreOptions::default;
    let json: Arc<dyn SessionStore> = FileStore::open(&scratch.join("journals"), options()).expect("a store");
    let memory: Arc<dyn SessionStore> = MemoryStore::new();
    let mut all = vec![json, memory];
    #[cfg(feature = "sqlite")]
    all.push(bob::store::SqliteStore::open(&scratch.join("sessions.db"), options()).expect("a store"));
    all
}

#[tokio::test]
async fn an_append_that_is_held_holds_up_neither_readers_nor_health_nor_other_sessions() {
    let scratch = Scratch::new();
    for store in stores(&scratch) {
        let places = Places::new();
        let runtime = build(places.builder(store)).await;
        let stuck = {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.run(Wait::Input.request(0)).await })
        };
        within(places.until(&Wait::Input.session(0))).await;
        for round in 0..3 {
            let other = session(&format!("other{round}"));
            // Its claim and its appends, a reader of its journal, and a look at everything.
            let said = turn(&runtime, AgentRequest::text(other.clone(), "go on")).await;
            assert_eq!(said.content, "fine");
            let mut events = within(runtime.subscribe(other.clone(), EventsFrom::Beginning)).await.expect("a reader");
            let is_end = |event: &AgentEvent| matches!(event, AgentEvent::TurnFinished { .. });
            while !is_end(&within(events.next()).await.expect("it runs").expect("it can be read").event) {}
            let health = within(runtime.health()).await;
            assert_eq!(health.running_turns, 1, "the one that is held");
            within(runtime.close(other)).await;
        }
        assert!(!stuck.is_finished(), "it was held all the time");
        places.open(true);
        within(stuck).await.expect("it ends").expect("it is taken");
        within(runtime.shutdown()).await;
    }
}
