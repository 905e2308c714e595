//! Every mode of the start, the list and the calls behaves as described; and every mode has a test.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::peer::{Peer, printed, until};
use crate::pipes;

/// The test of a mode.
type Story = fn();

const STORIES: &[(&str, Story)] = &[
    ("healthy", || Peer::ready(&["--mode", "healthy"]).ping()),
    ("slow-start", || {
        let started = Instant::now();
        Peer::ready(&["--mode", "slow-start=300"]);
        assert!(started.elapsed() >= Duration::from_millis(300));
    }),
    ("silent-init", || assert_eq!(unanswered(&["--mode", "silent-init"]), 0)),
    ("late-init", || {
        let mut peer = Peer::start(&["--mode", "late-init=300"]);
        let init = peer.put("initialize", json!({}));
        peer.ping();
        assert_eq!(peer.aside.len(), 0, "it is late");
        assert_eq!(peer.answer(init)["result"]["protocolVersion"], "2025-11-25");
    }),
    ("junk-init", || {
        let mut peer = Peer::start(&["--mode", "junk-init"]);
        peer.put("initialize", json!({}));
        assert!(serde_json::from_slice::<Value>(&peer.line().unwrap()).is_err());
        peer.ping();
        assert_eq!(peer.aside.len(), 0);
    }),
    ("error-init", || assert!(Peer::start(&["--mode", "error-init"]).initialize()["error"]["code"].is_i64())),
    ("wrong-protocol", || assert_eq!(agreed("wrong-protocol", "2025-11-25"), "1999-01-01")),
    ("protocol-echo", || assert_eq!(agreed("protocol-echo", "2031-01-01"), "2031-01-01")),
    ("exit-init", || {
        let mut peer = Peer::start(&["--mode", "exit-init=7"]);
        peer.put("initialize", json!({}));
        assert_eq!((peer.line(), peer.end().code()), (None, Some(7)));
    }),
    ("init-exit", || assert_eq!(Peer::ready(&["--mode", "init-exit"]).end().code(), Some(0))),
    ("silent-list", || {
        let mut peer = Peer::ready(&["--mode", "silent-list"]);
        peer.put("tools/list", json!({}));
        assert_eq!(peer.text("echo", json!({ "text": "here" })), "here");
        assert_eq!(peer.aside.len(), 0);
    }),
    ("changed-storm", || {
        let mut peer = Peer::ready(&["--mode", "changed-storm=0"]);
        (0..100).for_each(|_| drop(peer.told("notifications/tools/list_changed")));
        peer.ping();
    }),
    ("many-tools", || {
        let pages = Peer::ready(&["--mode", "many-tools=1200"]).pages();
        assert_eq!((pages.len(), pages.concat().len()), (3, 1_218));
    }),
    ("big-schema", || {
        let tools = Peer::ready(&["--mode", "big-schema=100000"]).pages().concat();
        assert_eq!(tools.last().unwrap()["inputSchema"].to_string().len(), 100_000);
    }),
    ("deep-schema", || {
        let tools = Peer::ready(&["--mode", "deep-schema=40"]).pages().concat();
        let mut schema = &tools.last().unwrap()["inputSchema"];
        let mut levels = 0;
        while schema["properties"].is_object() {
            (schema, levels) = (&schema["properties"]["a"], levels + 1);
        }
        assert_eq!(levels, 40);
        // Deeper than this test could parse.
        let mut peer = Peer::ready(&["--mode", "deep-schema=100000", "--page", "100"]);
        peer.put("tools/list", json!({}));
        assert!(peer.line().unwrap().len() > 3_000_000);
    }),
    ("ref-cycle", || {
        let tools = Peer::ready(&["--mode", "ref-cycle"]).pages().concat();
        assert_eq!(tools.last().unwrap()["inputSchema"]["$defs"]["b"]["$ref"], "#/$defs/a");
    }),
    ("endless-pages", || assert_eq!(cursors("endless-pages"), ["round", "round", "round"])),
    ("fresh-pages", || assert_eq!(cursors("fresh-pages"), ["1", "2", "3"])),
    ("silent-call", || {
        let mut peer = Peer::ready(&["--mode", "silent-call"]);
        peer.put_call("echo", json!({ "text": "x" }));
        peer.ping();
        assert_eq!((peer.aside.len(), peer.events("call").len()), (0, 1));
    }),
    ("late-reply", || {
        let mut peer = Peer::ready(&["--mode", "late-reply"]);
        let call = peer.put_call("sleep", json!({ "ms": 50 }));
        peer.tell("notifications/cancelled", json!({ "requestId": call }));
        assert_eq!(peer.answer(call)["result"]["content"][0]["text"], "slept 50 ms");
        assert_eq!(peer.events("cancelled").len(), 1);
    }),
    ("progress-flood", || {
        let mut peer = Peer::ready(&["--mode", "progress-flood=0"]);
        let params = json!({ "name": "echo", "arguments": { "text": "x" }, "_meta": { "progressToken": "p" } });
        let call = peer.put("tools/call", params);
        (0..100).for_each(|_| assert_eq!(peer.told("notifications/progress")["params"]["progressToken"], "p"));
        peer.ping();
        assert!(peer.aside.iter().all(|message| message["id"] != call));
    }),
    ("bigline", || {
        let mut peer = Peer::ready(&["--mode", "bigline=1000001"]);
        assert_eq!(peer.text("echo", json!({})).len(), 1_000_001);
    }),
    ("stderr-flood", || {
        let mut peer = Peer::ready(&["--mode", "stderr-flood=200000"]);
        assert_eq!(peer.text("echo", json!({ "text": "x" })), "x");
        until("all of stderr is read", || peer.stderr.load(Ordering::Relaxed) == 200_000);
    }),
    ("trickle", || {
        let mut peer = Peer::ready(&["--mode", "trickle=2"]);
        let started = Instant::now();
        assert_eq!(peer.text("echo", json!({ "text": "x".repeat(100) })).len(), 100);
        assert!(started.elapsed() >= Duration::from_millis(200));
    }),
    ("crash-on", || {
        let mut peer = Peer::ready(&["--mode", "crash-on=2"]);
        assert_eq!(peer.text("echo", json!({ "text": "x" })), "x");
        peer.put_call("echo", json!({ "text": "x" }));
        assert_eq!((peer.line(), peer.end().code()), (None, Some(101)));
    }),
    ("spin", pipes::spin),
    ("deaf", pipes::deaf),
    ("ignore-term", pipes::ignore_term),
    ("launcher", pipes::launcher),
    ("grandchild", pipes::grandchild),
    ("grandchild-setsid", pipes::grandchild_setsid),
    ("close-stdout", pipes::close_stdout),
];

#[test]
fn every_mode_does_what_its_line_says() {
    let (list, _, _) = printed(&["--list-modes"]);
    let names: BTreeSet<&str> = list.lines().filter_map(|line| line.split([' ', '=']).next()).collect();
    assert_eq!(names, STORIES.iter().map(|(name, _)| *name).collect(), "each mode has a story");
    for (name, story) in STORIES {
        println!("{name}");
        story();
    }
}

#[test]
fn modes_can_be_given_together() {
    let mut peer = Peer::ready(&["--mode", "protocol-echo", "--mode", "silent-list", "--mode", "crash-on=1"]);
    peer.put("tools/list", json!({}));
    peer.put_call("echo", json!({ "text": "x" }));
    assert_eq!((peer.line(), peer.end().code()), (None, Some(101)));
}

/// How many answers an `initialize` gets before a ping that was sent after it.
fn unanswered(arguments: &[&str]) -> usize {
    let mut peer = Peer::start(arguments);
    peer.put("initialize", json!({}));
    peer.ping();
    peer.aside.len()
}

fn agreed(mode: &str, revision: &str) -> Value {
    Peer::start(&["--mode", mode]).ask("initialize", json!({ "protocolVersion": revision }))["result"]["protocolVersion"]
        .take()
}

/// The cursors of three pages, each requested with the previous one.
fn cursors(mode: &str) -> Vec<String> {
    let mut peer = Peer::ready(&["--mode", mode]);
    let mut cursor = json!({});
    (0..3)
        .map(|_| {
            let next = peer.ask("tools/list", cursor.clone())["result"]["nextCursor"].as_str().unwrap().to_owned();
            cursor = json!({ "cursor": next });
            next
        })
        .collect()
}
