//! The server as it should be.

use serde_json::{Value, json};

use crate::peer::{Peer, printed};

#[test]
fn a_healthy_server_shakes_hands_lists_calls_and_leaves() {
    let mut peer = Peer::start(&[]);
    let answer = peer.initialize();
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer["result"]["capabilities"], json!({ "tools": { "listChanged": true } }));
    peer.tell("notifications/initialized", json!({}));
    peer.ping();
    let pages = peer.pages();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 2]);
    let echo = &pages[0][0];
    assert_eq!((&echo["name"], &echo["annotations"]["readOnlyHint"]), (&json!("echo"), &json!(true)));
    assert_eq!(peer.text("echo", json!({ "text": "hé" })), "hé");
    peer.close_stdin();
    assert_eq!(peer.end().code(), Some(0));
    assert_eq!(peer.events("start").len(), 1);
    assert_eq!(peer.events("call")[0]["arguments"], json!({ "text": "hé" }));
    assert_eq!(peer.events("exit")[0]["code"], 0);
}

#[test]
fn an_older_revision_is_agreed_to_and_an_unknown_one_is_not() {
    for (asked, agreed) in [("2025-06-18", "2025-06-18"), ("2031-01-01", "2025-11-25")] {
        let mut peer = Peer::start(&[]);
        assert_eq!(peer.ask("initialize", json!({ "protocolVersion": asked }))["result"]["protocolVersion"], agreed);
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let mut peer = Peer::ready(&[]);
    assert_eq!(peer.ask("prompts/list", json!({}))["error"]["code"], -32_601);
    assert_eq!(peer.ask("tools/list", json!({ "cursor": "from-999" }))["error"]["code"], -32_602);
    assert_eq!(peer.ask("tools/call", json!({ "name": "none" }))["error"]["code"], -32_602);
    assert_eq!(peer.call("echo", json!({ "text": 1 }))["isError"], true);
    peer.send("{ no json");
    peer.ping();
    assert_eq!(peer.aside[0]["error"]["code"], -32_700);
}

#[test]
fn every_plain_tool_answers_as_it_says() {
    let mut peer = Peer::ready(&[]);
    assert_eq!(peer.text("add", json!({ "a": 2, "b": 3 })), "5");
    assert_eq!(peer.text("add", json!({ "a": 0.5, "b": 1 })), "1.5");
    assert_eq!(peer.text("big", json!({ "bytes": 1_000_000 })).len(), 1_000_000);
    assert_eq!(peer.call("blocks", json!({ "n": 3 }))["content"].as_array().unwrap().len(), 3);
    assert_eq!(peer.call("image", json!({}))["content"][0]["mimeType"], "image/png");
    let structured = peer.call("structured", json!({}));
    let text = structured["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured["structuredContent"]);
    let resource = peer.call("resource", json!({}));
    assert_eq!(resource["content"][0]["resource"]["text"], "a note");
    assert_eq!(resource["content"][1]["type"], "resource_link");
    assert_eq!(peer.call("fail", json!({}))["isError"], true);
    assert_eq!(peer.text("pid", json!({})), peer.pid().to_string());
    let environment: Value = serde_json::from_str(&peer.text("env", json!({}))).unwrap();
    assert_eq!(environment["DRILL_CANARY"], "sings");
    let with_meta = json!({ "name": "meta", "arguments": {}, "_meta": { "a/b": 7 } });
    assert_eq!(peer.ask("tools/call", with_meta)["result"]["content"][0]["text"], r#"{"a/b":7}"#);
}

#[test]
fn an_appended_line_is_on_the_disk_with_its_key() {
    let mut peer = Peer::ready(&[]);
    let path = peer.file("effects");
    assert_eq!(peer.text("append", json!({ "path": path, "line": "one" })), "appended");
    let arguments = json!({ "path": path, "line": "two" });
    let meta = json!({ "example.org/idempotencyKey": "s/t/c" });
    peer.ask("tools/call", json!({ "name": "append", "arguments": arguments, "_meta": meta }));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\ts/t/c\n");
    assert_eq!(peer.call("append", json!({ "path": "/nowhere/at/all", "line": "" }))["isError"], true);
}

#[test]
fn a_cancelled_call_is_never_answered_and_the_notice_is_logged() {
    let mut peer = Peer::ready(&[]);
    assert_eq!(peer.text("sleep", json!({ "ms": 1 })), "slept 1 ms");
    let call = peer.put_call("sleep", json!({ "ms": 200 }));
    peer.tell("notifications/cancelled", json!({ "requestId": call, "reason": "enough" }));
    // A later sleep of equal length would end after it.
    peer.text("sleep", json!({ "ms": 200 }));
    assert_eq!(peer.aside.len(), 0, "{:?}", peer.aside);
    let notice = &peer.events("cancelled")[0];
    assert_eq!((&notice["id"], &notice["reason"]), (&json!(call), &json!("enough")));
    assert!(notice["at_ms"].is_u64() && notice["wall_ms"].as_u64().unwrap() > 1_500_000_000_000, "{notice}");
}

#[test]
fn questions_to_the_client_come_back_as_results() {
    let mut peer = Peer::ready(&[]);
    let call = peer.put_call("roots", json!({}));
    let question = peer.told("roots/list");
    peer.ping();
    let roots = json!({ "roots": [{ "uri": "file:///tmp" }] });
    peer.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": roots }).to_string());
    assert_eq!(peer.answer(call)["result"]["content"][0]["text"], roots.to_string());

    let call = peer.put_call("ask", json!({}));
    let question = peer.told("elicitation/create");
    assert_eq!(question["params"]["requestedSchema"]["properties"]["count"]["default"], 3);
    let refusal = json!({ "code": -32_600, "message": "no" });
    peer.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "error": refusal }).to_string());
    assert_eq!(peer.answer(call)["result"]["isError"], true);
}

#[test]
fn tools_come_and_change_and_the_client_is_told() {
    let mut peer = Peer::ready(&[]);
    let grown = peer.text("grow", json!({}));
    peer.told("notifications/tools/list_changed");
    assert_eq!(peer.pages().concat().last().unwrap()["name"], *grown);
    assert_eq!(peer.text(&grown, json!({})), grown);
    let before = peer.pages()[0][0].clone();
    peer.text("drift", json!({}));
    peer.told("notifications/tools/list_changed");
    let after = peer.pages()[0][0].clone();
    assert_eq!(after["name"], "echo");
    assert_ne!((&before["description"], &before["inputSchema"]), (&after["description"], &after["inputSchema"]));
}

#[test]
fn crash_ends_the_server_without_an_answer() {
    let mut peer = Peer::ready(&[]);
    peer.put_call("crash", json!({}));
    assert_eq!(peer.line(), None);
    assert_eq!(peer.end().code(), Some(101));
}

#[test]
fn wrong_arguments_are_refused_and_help_is_given() {
    for (arguments, complaint) in [
        (["--mode", "odd"], "no mode `odd`"),
        (["--mode", "healthy=3"], "takes no number"),
        (["--mode", "slow-start=x"], "needs a whole number"),
        (["--garbage", "odd"], "no garbage `odd`"),
        (["--page", "x"], "needs a whole number"),
        (["--help", "--odd"], ""),
        (["--odd", "1"], "unknown argument `--odd`"),
    ] {
        let (stdout, stderr, code) = printed(&arguments);
        assert_eq!(code, Some(if complaint.is_empty() { 0 } else { 2 }), "{arguments:?}");
        assert!(stderr.contains(complaint) && stdout.is_empty() != complaint.is_empty(), "{arguments:?}: {stderr}");
    }
    assert_eq!(printed(&["--log", "/nowhere/at/all"]).2, Some(2));
    assert_eq!(printed(&["--log"]).2, Some(2));
}
