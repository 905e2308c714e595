//! M19: lists of tools that are too long, too large, too deep, too often new, or have no end.

use std::time::{Duration, Instant};

use bob_messages::chat::CallStatus;
use bob_messages::reply::Reply;
use serde_json::json;

use crate::fixture::{Fixture, Server};
use crate::process::{is_run_elsewhere, memory, soon, until};

/// How many tools a drill server has that behaves.
const OWN_TOOLS: usize = 18;

async fn offered(fixture: &Fixture) -> Vec<String> {
    let (reply, listed) = Reply::channel();
    fixture.registry.list(None, move |set| reply.send(set));
    soon(listed).await.unwrap().tools().iter().map(|tool| tool.id.to_string()).collect()
}

fn lists(server: &Server) -> usize {
    server.events("received").iter().filter(|event| event["method"] == "tools/list").count()
}

/// Goal: the list is read at most once a second, however many change notifications arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m19_a_storm_of_changes_is_one_look_a_second() {
    let fixture = Fixture::new();
    let began = Instant::now();
    let server = fixture.ready("mine", &["--mode", "changed-storm=1", "--page", "1000"]).await;
    until("it is looked at again", || lists(&server) >= 4).await;
    let (looks, took) = (lists(&server), began.elapsed());
    println!("figure: M19 {looks} looks in {took:?}");
    // The first one belongs to the start.
    assert!(took >= Duration::from_secs(looks as u64 - 1), "{looks} {took:?}");
    fixture.is_well("mine").await;
}

/// Tools beyond a bound are left out; the rest can be used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m19_a_tool_beyond_the_bounds_is_left_out_alone() {
    for (mode, odd) in [
        ("deep-schema=20", true),
        ("deep-schema=40", false),
        ("deep-schema=100", false),
        ("deep-schema=100000", false),
        ("big-schema=200000", true),
        ("big-schema=5000000", false),
        ("ref-cycle", true),
    ] {
        let fixture = Fixture::new();
        let server = fixture.ready("mine", &["--mode", mode]).await;
        let tools = offered(&fixture).await;
        assert_eq!(tools.len(), OWN_TOOLS + usize::from(odd), "{mode}: {tools:?}");
        fixture.is_well("mine").await;
        assert_eq!(server.spawns(), 1);
        if mode == "ref-cycle" {
            let begun = fixture.begin("mine/cyclic", json!({ "node": 1 }), 10_000).await;
            // The schema cannot be met or cannot be read; either is an answer.
            let settled = match begun {
                Ok(begun) => soon(begun).await.unwrap().status == CallStatus::Ok,
                Err(complaint) => !complaint.is_empty(),
            };
            assert!(settled);
            fixture.is_well("mine").await;
        }
    }
}

/// Goal: 512 tools at most, and pages for as long as they are worth it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m19_pages_come_to_an_end() {
    for (mode, count, most_pages) in [("endless-pages", 1, 2), ("fresh-pages", 128, 128), ("many-tools=10000", 512, 2)]
    {
        let fixture = Fixture::new();
        let server = fixture.ready("mine", &["--mode", mode]).await;
        assert_eq!(offered(&fixture).await.len(), count, "{mode}");
        assert!(lists(&server) <= most_pages, "{mode}: {} pages", lists(&server));
    }
}

/// Goal: memory is bounded by the offer and by one line.
#[test]
fn m19_a_large_list_is_not_kept() {
    if is_run_elsewhere("lists::m19_a_large_list_is_not_kept") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        let _first = fixture.ready("first", &[]).await;
        let (base, _) = memory();
        for (number, mode) in ["many-tools=10000", "big-schema=5000000", "deep-schema=100000"].iter().enumerate() {
            fixture.ready(&format!("large{number}"), &["--mode", mode]).await;
            println!("figure: M19 {mode}: memory {base} MiB before, {} MiB at most", memory().1);
        }
        let (_, peak) = memory();
        assert!(peak <= base + 64, "{base} {peak}");
    });
}
