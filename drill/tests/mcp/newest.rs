//! Version 2026-07-28 beside 2025-11-25: servers of both are found, listed, called and heard.

use std::time::Duration;

use bob_messages::chat::CallStatus;
use bob_messages::reply::Reply;
use serde_json::json;

use crate::fixture::Fixture;
use crate::process::{soon, until};

async fn offered(fixture: &Fixture) -> Vec<String> {
    let (reply, listed) = Reply::channel();
    fixture.registry.list(None, move |set| reply.send(set));
    soon(listed).await.unwrap().tools().iter().map(|tool| tool.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_both_versions_work_beside_each_other() {
    let fixture = Fixture::new();
    let newest = fixture.ready("newest", &["--newest"]).await;
    let older = fixture.ready("older", &[]).await;
    // Many servers repeat the version that a client names.
    let _echo = fixture.ready("echo", &["--mode", "protocol-echo"]).await;
    let spoken = |id: &str| fixture.status(id).protocol.unwrap();
    assert_eq!([spoken("newest"), spoken("older"), spoken("echo")], ["2026-07-28", "2025-11-25", "2025-11-25"]);
    for id in ["newest", "older", "echo"] {
        fixture.is_well(id).await;
    }
    assert!(newest.events("initialize").is_empty(), "there is no handshake");
    assert_eq!((newest.spawns(), older.spawns()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_list_of_the_newest_version_is_read_again() {
    let fixture = Fixture::new();
    let server = fixture.ready("newest", &["--newest"]).await;
    until("it is listened to", || {
        server.events("received").iter().any(|event| event["method"] == "subscriptions/listen")
    })
    .await;
    let grown = fixture.begin("newest/grow", json!({}), 10_000).await.unwrap();
    assert_eq!(soon(grown).await.unwrap().status, CallStatus::Ok);
    tokio::time::timeout(Duration::from_secs(30), async {
        while !offered(&fixture).await.iter().any(|tool| tool.contains("grown_1")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the new tool is offered");
}

/// Without a person a form is declined, in as many rounds as it is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_result_asks_for_is_answered_in_another_call() {
    let fixture = Fixture::new();
    let server = fixture.ready("newest", &["--newest"]).await;
    for (rounds, words) in [(1, 1), (3, 3)] {
        let asked = fixture.begin("newest/ask", json!({ "rounds": rounds }), 10_000).await.unwrap();
        let returned = soon(asked).await.unwrap();
        assert_eq!(returned.status, CallStatus::Ok, "{returned:?}");
        assert_eq!(returned.output.plain().matches("decline").count(), words, "{returned:?}");
    }
    assert_eq!(server.events("call").len(), 2 + 4);
    let endless = fixture.begin("newest/ask", json!({ "rounds": 1_000 }), 10_000).await.unwrap();
    let returned = soon(endless).await.unwrap();
    assert_eq!(returned.status, CallStatus::Error);
    assert!(returned.output.plain().contains("asked for input more than 10 times"), "{returned:?}");
}
