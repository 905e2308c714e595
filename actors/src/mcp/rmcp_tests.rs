//! The messages of a connection, line by line. The test plays the server.

use super::tools::is_within;
use super::*;
use crate::approvals::ApprovalPort;
use crate::child::testing::soon;
use crate::mcp::{Answer, Question, testing::FarEnd};
use crate::tools::local::fixture::{Workspace, call};
use bob_messages::chat::ContentPart;
use bob_messages::ids::ServerId;
use bob_messages::tools::{Risk, ToolKind};
use bob_messages::trace;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

#[path = "rmcp_tests/first_output.rs"]
mod first_output;
#[path = "rmcp_tests/refusals.rs"]
mod refusals;

struct Line {
    far: FarEnd,
    connection: Connection,
    gone: Gone,
    changed: Arc<Notify>,
    hello: Value,
}

async fn line(elicit: Option<Arc<dyn ApprovalPort>>) -> Line {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(near);
    let changed = Arc::new(Notify::new());
    let roots = Arc::from(["/tmp/a folder".to_owned()]);
    let handler = Handler::new(ServerId::new("far"), roots, elicit, Arc::clone(&changed));
    let mut far = FarEnd::new(far);
    let (opened, hello) = tokio::join!(soon(Connection::open(read, write, handler, None)), far.shake_hands());
    let (connection, gone) = opened.expect("hands are shaken");
    Line { far, connection, gone, changed, hello }
}

fn invocation(tool: &str, arguments: Value) -> Invocation {
    let context = Arc::new(Workspace::new().context());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    Invocation {
        call: call(&format!("mcp/far/{tool}"), arguments),
        context,
        deadline,
        may_repeat: false,
        progress: crate::tools::ProgressRoom::unread(),
    }
}

fn filter() -> ToolFilter {
    ToolFilter { server: ServerId::new("far"), offered: None }
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

async fn list(filter: ToolFilter, pages: Vec<Value>) -> Listed {
    let mut line = line(None).await;
    let listed =
        tokio::spawn(async move { line.connection.list(&filter).await.map(|listed| (listed, line.connection)) });
    for page in pages {
        let asked = line.far.expect("tools/list").await;
        line.far.answer(&asked, page).await;
    }
    soon(listed).await.expect("it ends").expect("a list").0
}

fn names(listed: &Listed) -> Vec<&str> {
    listed.tools.iter().map(|tool| tool.id.as_str()).collect()
}

#[tokio::test]
async fn the_handshake_offers_the_last_version_that_has_one_and_only_what_we_do() {
    let line = line(None).await;
    let said = &line.hello["params"];
    assert_eq!(said["protocolVersion"], "2025-11-25");
    assert_eq!(said["capabilities"], json!({"roots": {}, "elicitation": {"form": {}}}));
    assert_eq!(said["clientInfo"]["name"], "bob");
    assert_eq!(line.connection.server().as_deref(), Some("far 2"));
}

#[tokio::test]
async fn a_call_says_what_to_run_under_which_trace_and_which_key() {
    let mut line = line(None).await;
    let caller = line.connection.caller();
    let caller_of_turn = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let mut invocation = invocation("add", json!({"a": 1}));
    let context = Arc::make_mut(&mut invocation.context);
    (context.traceparent, context.tracestate) = (caller_of_turn.into(), Some("vendor=1".into()));
    let key = invocation.idempotency_key();
    for read_only in [false, true] {
        let (caller, call) = (caller.clone(), invocation.clone());
        let running = tokio::spawn(async move { caller.call(&call, read_only).await });
        let asked = line.far.expect("tools/call").await;
        assert_eq!((&asked["params"]["name"], &asked["params"]["arguments"]), (&json!("add"), &json!({"a": 1})));
        let meta = &asked["params"]["_meta"];
        let header = meta["traceparent"].as_str().expect("a trace");
        let span = trace::call_span(&invocation.context.turn, invocation.call.id.as_str());
        assert_eq!(header, format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{span}-00"), "its own span, and not sampled");
        assert_eq!(meta["tracestate"], "vendor=1");
        assert_eq!(meta[IDEMPOTENCY_KEY].as_str(), (!read_only).then_some(key.as_str()));
        line.far.answer(&asked, json!({"content": [{"type": "text", "text": "2"}]})).await;
        assert_eq!(soon(running).await.expect("it ends").expect("an output").plain(), "2");
    }
}

#[tokio::test]
async fn everything_a_result_holds_is_kept() {
    let mut line = line(None).await;
    let caller = line.connection.caller();
    let running = tokio::spawn(async move { caller.call(&invocation("all", json!({})), true).await });
    let asked = line.far.expect("tools/call").await;
    let result = json!({
        "content": [
            {"type": "text", "text": "words"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ],
        "structuredContent": {"sum": 3}, "isError": true,
    });
    line.far.answer(&asked, result).await;
    let output = soon(running).await.expect("it ends").expect("an output");
    let (image, audio) = ("image/png".to_owned(), "audio/wav".to_owned());
    let data = || "aGk=".to_owned();
    assert_eq!(
        output.parts,
        [
            ContentPart::text("words"),
            ContentPart::Image { mime_type: image, data: data() },
            ContentPart::Audio { mime_type: audio, data: data() },
            ContentPart::Resource {
                uri: "file:///a".into(),
                mime_type: Some("text/plain".into()),
                text: Some("inside".into()),
                blob: None
            },
            ContentPart::Resource { uri: "file:///b".into(), mime_type: None, text: None, blob: Some(data()) },
            ContentPart::ResourceLink { uri: "file:///c".into(), name: "c".into(), mime_type: None },
        ]
    );
    assert_eq!((output.structured, output.is_error), (Some(json!({"sum": 3})), true));
}

#[tokio::test]
async fn b5_structured_content_is_bounded_in_depth_and_size() {
    let mut line = line(None).await;
    let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
    for structured in [deep, json!("x".repeat((1 << 20) + 1))] {
        let caller = line.connection.caller();
        let running = tokio::spawn(async move { caller.call(&invocation("deep", json!({})), true).await });
        let asked = line.far.expect("tools/call").await;
        line.far.answer(&asked, json!({"content": [], "structuredContent": structured})).await;
        let output = soon(running).await.expect("it ends").expect("an output");
        assert_eq!(output.structured, None);
        assert!(output.plain().contains("is left out"), "{:?}", output.parts);
    }
    assert!(is_within(&json!([[1]]), 2) && !is_within(&json!([[[1]]]), 2));
}

#[tokio::test]
async fn c4_an_abandoned_call_is_taken_back() {
    let mut line = line(None).await;
    let caller = line.connection.caller();
    let running = tokio::spawn(async move { caller.call(&invocation("slow", json!({})), true).await });
    let asked = line.far.expect("tools/call").await;
    running.abort();
    let taken_back = line.far.expect("notifications/cancelled").await;
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
}

#[tokio::test]
async fn what_a_server_says_of_its_progress_is_told_of_the_call() {
    let feed = crate::feed::Feed::new(Vec::new());
    let mut line = line(None).await;
    let mut invocation = invocation("slow", json!({}));
    invocation.progress = crate::tools::ProgressRoom::of(Some(Arc::clone(&feed)));
    let mut reader = feed.subscribe(&invocation.context.session);
    let (caller, call) = (line.connection.caller(), invocation.call.id.clone());
    let running = tokio::spawn(async move { caller.call(&invocation, true).await });
    let asked = line.far.expect("tools/call").await;
    let token = asked["params"]["_meta"]["progressToken"].clone();
    let says = |token: &Value, progress: Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": progress, "total": 10, "message": "half"}})
    };
    line.far.write(&says(&json!("somebody else's"), json!(1)).to_string()).await;
    line.far.write(&says(&token, json!(5)).to_string()).await;
    let told = soon(reader.next()).await.expect("it is told");
    let bob_messages::event::AgentEvent::ToolCalled { call: of, progress: Some(progress), .. } = &told.event else {
        panic!("{told:?}")
    };
    assert_eq!(
        (&of.id, progress.done, progress.total, progress.message.as_deref()),
        (&call, 5.0, Some(10.0), Some("half"))
    );
    let result =
        json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": [{"type": "text", "text": "done"}]}});
    line.far.write(&result.to_string()).await;
    assert_eq!(soon(running).await.expect("it ends").expect("an output").plain(), "done");
    // A notification after the response belongs to no call.
    line.far.write(&says(&token, json!(9)).to_string()).await;
    assert!(tokio::time::timeout(Duration::from_millis(200), reader.next()).await.is_err());
}

#[tokio::test]
async fn noise_between_the_lines_harms_nothing() {
    let mut line = line(None).await;
    let huge = format!("\"{}\"", "x".repeat(100_000));
    let noise = [
        "Server listening",
        "\u{1b}[31mred\u{1b}[0m",
        "\u{feff}",
        "",
        "   ",
        "{",
        "{\"jsonrpc\":",
        "[]",
        "7",
        "null",
        "\"text\"",
        "{}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":424242,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"text\",\"error\":{\"code\":1,\"message\":\"m\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nobody/knows\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"nobody/knows\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":99,\"progress\":1}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}",
        "\r",
        "\u{0}\u{1}\u{2}",
        &huge,
    ];
    for noise in noise {
        line.far.write(noise).await;
        let caller = line.connection.caller();
        let running = tokio::spawn(async move { caller.call(&invocation("well", json!({})), true).await });
        let asked = line.far.expect("tools/call").await;
        line.far.answer(&asked, json!({"content": []})).await;
        // The second response is ignored.
        line.far.answer(&asked, json!({"content": []})).await;
        soon(running).await.expect("it ends").unwrap_or_else(|failure| panic!("{noise:?}: {failure:?}"));
    }
}

#[tokio::test]
async fn annotations_tell_how_a_tool_may_be_run() {
    let page = json!({"tools": [
        {"name": "look", "title": "Look around", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true, "idempotentHint": true, "title": "Wipe"}},
        {"name": "plain", "description": "Does it", "inputSchema": {"type": "object"}},
    ]});
    let listed = list(filter(), vec![page]).await;
    let seen: Vec<_> =
        listed.tools.iter().map(|t| (t.title.as_str(), t.risk, t.read_only, t.idempotent, t.kind)).collect();
    assert_eq!(
        seen,
        [
            ("Look around", Risk::Low, true, true, ToolKind::Read),
            ("Wipe", Risk::High, false, true, ToolKind::Other),
            ("plain", Risk::High, false, false, ToolKind::Other),
        ]
    );
}

#[tokio::test]
async fn all_pages_are_read_but_not_for_ever() {
    let pages = vec![
        json!({"tools": [tool("a")], "nextCursor": "1"}),
        json!({"tools": [tool("b")], "nextCursor": "2"}),
        json!({"tools": [tool("c")]}),
    ];
    assert_eq!(names(&list(filter(), pages).await), ["mcp/far/a", "mcp/far/b", "mcp/far/c"]);

    let again = json!({"tools": [tool("a")], "nextCursor": "1"});
    let listed = list(filter(), vec![again.clone(), again]).await;
    assert_eq!(names(&listed), ["mcp/far/a"]);
    assert!(listed.left_out.contains("repeats a page"), "{}", listed.left_out);

    let endless =
        (0..MAX_PAGES).map(|page| json!({"tools": [tool(&format!("t{page}"))], "nextCursor": page.to_string()}));
    let listed = list(filter(), endless.collect()).await;
    assert_eq!(listed.tools.len(), MAX_PAGES);
    assert!(listed.left_out.contains("more than 128 pages"), "{}", listed.left_out);

    let many: Vec<Value> = (0..600).map(|number| tool(&format!("t{number}"))).collect();
    let listed = list(filter(), vec![json!({"tools": many, "nextCursor": "more"})]).await;
    assert_eq!(listed.tools.len(), 512);
    assert!(listed.left_out.contains("more than 512"), "{}", listed.left_out);
}

#[tokio::test]
async fn g8_a_tool_that_cannot_be_offered_is_left_out_and_named() {
    let deep = (0..70).fold(json!({}), |inner, _| json!({"properties": inner}));
    let page = json!({"tools": [
        tool("fine"), tool("FINE"), tool("a/b"), tool(""), tool("a b"), tool("x\u{1b}[2J"), tool(&"x".repeat(1024)),
        tool("finе"), tool("fine\u{200b}"), tool("a:b"), tool("fine "),
        {"name": "deep", "inputSchema": deep},
        {"name": "large", "inputSchema": {"description": "x".repeat(300_000)}},
    ]});
    let listed = list(filter(), vec![page]).await;
    assert_eq!(names(&listed), ["mcp/far/fine"]);
    assert!(
        listed.left_out.contains("\"FINE\" is there twice") && listed.left_out.contains("and 7 more"),
        "{}",
        listed.left_out
    );
    assert!(listed.left_out.len() < 1000 && !listed.left_out.contains('\u{1b}'));
}

#[tokio::test]
async fn only_the_wanted_tools_are_offered() {
    let filter = ToolFilter { offered: Some(vec!["b".to_owned(), "gone".to_owned()]), ..filter() };
    let listed = list(filter, vec![json!({"tools": [tool("a"), tool("b")]})]).await;
    assert_eq!(names(&listed), ["mcp/far/b"]);
    assert_eq!(listed.left_out, "it has no \"gone\"");
}

#[tokio::test]
async fn a_change_of_the_list_is_heard() {
    let mut line = line(None).await;
    line.far.write(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
    soon(line.changed.notified()).await;
}

#[tokio::test]
async fn the_server_is_told_the_folders_and_a_ping_is_answered() {
    let mut line = line(None).await;
    line.far.write(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#).await;
    assert_eq!(
        line.far.next().await["result"],
        json!({"roots": [{"uri": "file:///tmp/a%20folder", "name": "a folder"}]})
    );
    line.far.write(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
    assert_eq!(line.far.next().await["result"], json!({}));
    line.far
        .write(r#"{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#)
        .await;
    assert!(line.far.next().await["error"]["code"].is_i64());
}

struct Person(Answer);

impl ApprovalPort for Person {
    fn elicit(&self, question: Question) -> BoxFuture<'_, Answer> {
        assert_eq!((question.server.as_str(), question.message.as_str()), ("far", "who?"));
        assert_eq!(question.schema["properties"]["name"]["type"], "string");
        assert_eq!((question.session, question.context), (None, None), "all sessions share it");
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[tokio::test]
async fn a_question_goes_to_a_person_and_is_declined_without_one() {
    let asks = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 36}}}}});
    let form = json!({"name": "Ada"}).as_object().cloned().expect("an object");
    for (person, answer) in [
        (Some(Answer::Accept(form)), json!({"action": "accept", "content": {"name": "Ada", "age": 36}})),
        (Some(Answer::Cancel), json!({"action": "cancel"})),
        (Some(Answer::Decline), json!({"action": "decline"})),
        (None, json!({"action": "decline"})),
    ] {
        let elicit = person.map(|answer| -> Arc<dyn ApprovalPort> { Arc::new(Person(answer)) });
        let mut line = line(elicit).await;
        line.far.write(&asks.to_string()).await;
        assert_eq!(line.far.next().await["result"], answer);
    }
}
