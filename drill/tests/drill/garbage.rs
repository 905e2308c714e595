//! Garbage: every kind precedes the response, and the response is as described.

use serde_json::{Value, json};

use crate::peer::{Peer, printed};

/// The lines up to the answer to a ping, all bytes in one.
fn said_before_pong(peer: &mut Peer) -> Vec<u8> {
    let id = peer.put("ping", Value::Null);
    peer.put("tools/list", json!({ "cursor": "end" }));
    let mut said = Vec::new();
    loop {
        let line = peer.line().unwrap();
        if serde_json::from_slice::<Value>(&line).is_ok_and(|message| message["id"] == id + 1) {
            return said;
        }
        said.extend(line);
    }
}

#[test]
fn every_kind_of_garbage_stands_around_an_answer() {
    let (list, _, _) = printed(&["--list-garbage"]);
    assert!(list.lines().count() >= 25, "{list}");
    for line in list.lines() {
        let kind = line.split_whitespace().next().unwrap();
        let mut peer = Peer::ready(&["--garbage", kind, "--garbage-on", "ping", "--garbage-times", "1"]);
        let said = said_before_pong(&mut peer);
        let pong = json!({ "jsonrpc": "2.0", "id": 2, "result": {} });
        let is_pong = |line: &&[u8]| serde_json::from_slice::<Value>(line).is_ok_and(|said| said == pong);
        let whole = said.split(|byte| *byte == b'\n').filter(is_pong).count();
        let expected = match kind {
            _ if line.ends_with("(damages the answer)") => 0,
            "duplicate-id" => 2,
            _ => 1,
        };
        assert_eq!(whole, expected, "{kind}: {}", String::from_utf8_lossy(&said));
        let clean = format!("{pong}\n");
        assert_ne!(said, clean.as_bytes(), "{kind} adds nothing");
        // Only once, as configured.
        assert_eq!(said_before_pong(&mut peer), clean.replace(":2,", ":4,").as_bytes(), "{kind}");
    }
}

#[test]
fn garbage_can_be_kept_to_one_method() {
    let mut peer = Peer::ready(&["--garbage", "banner", "--garbage-on", "tools/call"]);
    peer.put_call("echo", json!({ "text": "x" }));
    assert!(peer.line().unwrap().starts_with(b"Drill server"));
}
