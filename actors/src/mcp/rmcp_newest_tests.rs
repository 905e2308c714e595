//! Version 2026-07-28, line by line: how it is found, and what differs. The test plays the server.

use super::*;
use crate::approvals::ApprovalPort;
use crate::child::testing::soon;
use crate::mcp::elicit::{Answer, Question};
use crate::mcp::testing::FarEnd;
use crate::tools::local::fixture::{Workspace, call};
use bob_messages::context::RequestContext;
use bob_messages::ids::ServerId;
use bob_messages::tools::CallContext;
use serde_json::json;

#[path = "rmcp_newest_tests/left.rs"]
mod left;
#[path = "rmcp_newest_tests/tasks.rs"]
mod tasks;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

type Opening = tokio::task::JoinHandle<Result<(Connection, Gone), Misfit>>;

/// A connection that is being opened, by asking first.
fn opening(elicit: Option<Arc<dyn ApprovalPort>>, discovery: Discovery) -> (FarEnd, Opening, Arc<Notify>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(near);
    let changed = Arc::new(Notify::new());
    let handler = Handler::new(ServerId::new("far"), Arc::from(["/tmp/a".to_owned()]), elicit, Arc::clone(&changed));
    let opening = tokio::spawn(soon(Connection::open(read, write, handler, Some(discovery))));
    (FarEnd::new(far), opening, changed)
}

fn discovery() -> Discovery {
    Discovery::of(Duration::from_secs(30))
}

fn discovered() -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
        "capabilities": {"tools": {"listChanged": true}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "far", "version": "3"}}})
}

async fn newest(elicit: Option<Arc<dyn ApprovalPort>>) -> (FarEnd, Connection, Arc<Notify>) {
    let (mut far, opening, changed) = opening(elicit, discovery());
    let asked = far.next().await;
    assert_eq!(
        (&asked["method"], &asked["params"]["_meta"][VERSION]),
        (&json!("server/discover"), &json!("2026-07-28"))
    );
    far.answer(&asked, discovered()).await;
    let (connection, _gone) = soon(opening).await.expect("it ends").expect("a connection");
    (far, connection, changed)
}

/// For whom the turn of each call is.
fn ours() -> Arc<RequestContext> {
    Arc::new(RequestContext::of_tenant("acme").principal("ann"))
}

fn invocation(arguments: Value) -> Invocation {
    Invocation {
        call: call("mcp/far/ask", arguments),
        context: Arc::new(CallContext { context: Some(ours()), ..Workspace::new().context() }),
        deadline: tokio::time::Instant::now() + Duration::from_secs(60),
        may_repeat: false,
        progress: crate::tools::ProgressRoom::unread(),
    }
}

fn asks(requests: Value, state: &str) -> Value {
    json!({"resultType": "input_required", "inputRequests": requests, "requestState": state})
}

fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string", "default": "Ada"}}});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

/// Writes down what was asked, and gives the number of the question.
#[derive(Default)]
struct Person(std::sync::Mutex<Vec<String>>);

impl ApprovalPort for Person {
    fn elicit(&self, question: Question) -> futures_util::future::BoxFuture<'_, Answer> {
        let mut asked = self.0.lock().expect("no panic while it is held");
        assert_eq!(question.session, Some(Workspace::new().context().session), "the call's");
        assert_eq!(question.context, Some(ours()), "the call's");
        asked.push(question.message);
        let form = json!({"count": asked.len()}).as_object().cloned().expect("an object");
        Box::pin(async { Answer::Accept(form) })
    }
}

#[tokio::test]
async fn the_newest_version_needs_no_handshake_and_is_named_in_every_request() {
    let (mut far, connection, _changed) = newest(None).await;
    assert_eq!(connection.protocol().as_deref(), Some("2026-07-28"));
    assert_eq!(connection.server().as_deref(), Some("far 3"));
    assert!(!connection.has_handshake());
    let filter = ToolFilter { server: ServerId::new("far"), offered: None };
    let listing = tokio::spawn(async move { connection.list(&filter).await.map(|listed| (listed, connection)) });
    let asked = far.next().await;
    assert_eq!((&asked["method"], &asked["params"]["_meta"][VERSION]), (&json!("tools/list"), &json!("2026-07-28")));
    let tools = json!([{"name": "ask", "inputSchema": {"type": "object"}}]);
    far.answer(&asked, json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})).await;
    let (listed, connection) = soon(listing).await.expect("it ends").expect("a list");
    assert_eq!(listed.tools.len(), 1);
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({"a": 1})), false).await });
    let asked = far.next().await;
    let meta = &asked["params"]["_meta"];
    assert_eq!((&asked["method"], &meta[VERSION]), (&json!("tools/call"), &json!("2026-07-28")));
    assert!(meta[IDEMPOTENCY_KEY].is_string() && meta["traceparent"].is_string(), "{meta}");
    far.answer(&asked, json!({"resultType": "complete", "content": [{"type": "text", "text": "2"}]})).await;
    assert_eq!(soon(calling).await.expect("it ends").expect("an output").plain(), "2");
}

/// Whatever a server of an older version does with the question, the handshake follows, and names a version that has one.
#[tokio::test]
async fn whatever_else_a_server_answers_is_followed_by_the_handshake() {
    let error = |code: i64, data: Value| json!({"error": {"code": code, "message": "no", "data": data}});
    for answer in [
        error(-32601, Value::Null),
        error(-32602, Value::Null),
        error(-32022, json!({"supported": ["2025-11-25"]})),
        error(-32020, Value::Null),
        json!({"result": {}}),
        json!({"result": 7}),
        json!({"result": {"protocolVersion": "2026-07-28", "capabilities": {}, "serverInfo": {"name": "e", "version": "1"}}}),
        json!({"result": {"resultType": "complete", "supportedVersions": ["2025-11-25"], "ttlMs": 0,
            "cacheScope": "private", "capabilities": {}}}),
    ] {
        let discovery = discovery();
        let (mut far, opening, _changed) = opening(None, discovery.clone());
        let asked = far.next().await;
        assert_eq!(asked["method"], "server/discover");
        let mut message = answer.clone();
        (message["jsonrpc"], message["id"]) = (json!("2.0"), asked["id"].clone());
        far.write(&message.to_string()).await;
        let hello = far.shake_hands().await;
        assert_eq!(hello["params"]["protocolVersion"], "2025-11-25", "{answer}");
        let (connection, _gone) = soon(opening).await.expect("it ends").expect("hands are shaken");
        assert_eq!(connection.protocol().as_deref(), Some("2025-11-25"), "{answer}");
        assert!(connection.has_handshake() && !discovery.found_newest());
    }
}

#[tokio::test]
async fn silence_is_followed_by_the_handshake_and_a_late_answer_by_nothing() {
    let discovery = Discovery::of(Duration::from_millis(150));
    let (mut far, opening, _changed) = opening(None, discovery.clone());
    let asked = far.next().await;
    let hello = far.expect("initialize").await;
    assert!(!discovery.found_newest());
    far.answer(&asked, discovered()).await;
    let result =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "far", "version": "2"}});
    far.answer(&hello, result).await;
    let (connection, _gone) = soon(opening).await.expect("it ends").expect("hands are shaken");
    assert_eq!(connection.protocol().as_deref(), Some("2025-11-25"));
}

/// One that is slow to start finds both questions, and has decided for the newest version when it reads the second.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_remembered_where_the_handshake_is_refused_and_can_be_waited_for() {
    let slow = discovery();
    let (mut far, open, _changed) = opening(None, slow.clone());
    let asked = far.next().await;
    let hello = far.expect("initialize").await;
    assert!(!slow.was_late());
    far.answer(&asked, discovered()).await;
    let refusal = json!({"code": -32022, "message": "this connection speaks 2026-07-28"});
    far.write(&json!({"jsonrpc": "2.0", "id": hello["id"], "error": refusal}).to_string()).await;
    assert!(soon(open).await.expect("it ends").is_err());
    assert!(slow.was_late() && !slow.found_newest());

    let (mut far, open, _changed) = opening(None, Discovery::alone(Duration::from_secs(30)));
    let asked = far.next().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    far.answer(&asked, discovered()).await;
    let (connection, _gone) = soon(open).await.expect("it ends").expect("a connection");
    assert_eq!(connection.protocol().as_deref(), Some("2026-07-28"));
}

#[tokio::test(start_paused = true)]
async fn where_rmcp_gives_up_first_the_handshake_follows_as_well() {
    let mut discovery = discovery();
    discovery.within = Duration::from_secs(3_600);
    let (mut far, opening, _changed) = opening(None, discovery);
    assert_eq!(far.next().await["method"], "server/discover");
    far.shake_hands().await;
    let (connection, _gone) = soon(opening).await.expect("it ends").expect("hands are shaken");
    assert_eq!(connection.protocol().as_deref(), Some("2025-11-25"));
}

#[tokio::test]
async fn a_changed_list_is_told_over_a_subscription_which_is_renewed() {
    let (mut far, connection, changed) = newest(None).await;
    let watching = Arc::clone(&changed);
    let watched = tokio::spawn(async move { connection.watch(&watching).await });
    for _renewed in [false, true] {
        let asked = far.expect("subscriptions/listen").await;
        assert_eq!(asked["params"]["notifications"], json!({"toolsListChanged": true}));
        let of = json!({"io.modelcontextprotocol/subscriptionId": asked["id"]});
        let said =
            |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let accepted = json!({"_meta": of, "notifications": {"toolsListChanged": true}});
        far.write(&said("notifications/subscriptions/acknowledged", accepted)).await;
        // Changes before a subscription are in no notification: since the tools were listed, or between the two.
        soon(changed.notified()).await;
        far.write(&said("notifications/tools/list_changed", json!({"_meta": of}))).await;
        soon(changed.notified()).await;
        far.answer(&asked, json!({"resultType": "complete", "_meta": of})).await;
    }
    watched.abort();
}

#[tokio::test]
async fn what_a_result_asks_for_is_answered_by_a_person_in_several_rounds() {
    let person = Arc::new(Person::default());
    let (mut far, connection, _changed) = newest(Some(Arc::clone(&person) as Arc<dyn ApprovalPort>)).await;
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({"a": 1})), false).await });
    let first = far.expect("tools/call").await;
    far.answer(&first, asks(json!({"who": form("Who?"), "where": {"method": "roots/list"}}), "one")).await;
    let second = far.expect("tools/call").await;
    assert_eq!(second["params"]["arguments"], json!({"a": 1}));
    assert_eq!(second["params"]["requestState"], "one");
    let answers = &second["params"]["inputResponses"];
    assert_eq!(answers["who"], json!({"action": "accept", "content": {"count": 1, "name": "Ada"}}));
    assert_eq!(answers["where"]["roots"][0]["uri"], "file:///tmp/a");
    far.answer(&second, asks(json!({"sure": form("Sure?")}), "two")).await;
    let third = far.expect("tools/call").await;
    assert_eq!(
        (&third["params"]["requestState"], &third["params"]["inputResponses"]["sure"]["content"]["count"]),
        (&json!("two"), &json!(2))
    );
    assert!(third["params"]["inputResponses"].get("who").is_none(), "answers of an earlier round are not repeated");
    let key = |asked: &Value| asked["params"]["_meta"][IDEMPOTENCY_KEY].clone();
    assert_eq!((key(&second), key(&third)), (key(&first), key(&first)), "it is one call");
    // A round that asks for nothing: the server wants to be called later.
    far.answer(&third, json!({"resultType": "input_required", "requestState": "three"})).await;
    let fourth = far.expect("tools/call").await;
    assert_eq!(fourth["params"]["requestState"], "three");
    assert!(fourth["params"].get("inputResponses").is_none());
    far.answer(&fourth, json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})).await;
    assert_eq!(soon(calling).await.expect("it ends").expect("an output").plain(), "done");
    assert_eq!(*person.0.lock().expect("no panic"), ["Who?", "Sure?"]);
}

#[tokio::test]
async fn without_a_person_a_form_is_declined_and_a_completion_is_refused() {
    let (mut far, connection, _changed) = newest(None).await;
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({})), false).await });
    let asked = far.expect("tools/call").await;
    far.answer(&asked, asks(json!({"who": form("Who?")}), "one")).await;
    let again = far.expect("tools/call").await;
    assert_eq!(again["params"]["inputResponses"], json!({"who": {"action": "decline"}}));
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    far.answer(&again, asks(json!({"thought": sampling}), "two")).await;
    let failure = soon(calling).await.expect("it ends").expect_err("no output");
    assert!(matches!(&failure, Failure::Refused(why) if why.contains("completion of a model")), "{failure:?}");
}

#[tokio::test]
async fn a_form_of_a_result_that_is_refused_is_not_filled_in() {
    let person = Arc::new(Person::default());
    let (mut far, connection, _changed) = newest(Some(Arc::clone(&person) as Arc<dyn ApprovalPort>)).await;
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({})), false).await });
    let asked = far.expect("tools/call").await;
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    far.answer(&asked, asks(json!({"a": form("Who?"), "b": sampling}), "one")).await;
    let failure = soon(calling).await.expect("it ends").expect_err("no output");
    assert!(matches!(&failure, Failure::Refused(why) if why.contains("completion of a model")), "{failure:?}");
    assert!(person.0.lock().expect("no panic").is_empty(), "no form was put to the person");
}

#[tokio::test]
async fn a_server_that_asks_for_ever_is_asked_no_more() {
    let person = Arc::new(Person::default());
    let (mut far, connection, _changed) = newest(Some(Arc::clone(&person) as Arc<dyn ApprovalPort>)).await;
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({})), false).await });
    for _ in 0..=MAX_ROUNDS {
        let asked = far.expect("tools/call").await;
        far.answer(&asked, asks(json!({"who": form("Who?")}), "again")).await;
    }
    let failure = soon(calling).await.expect("it ends").expect_err("no output");
    assert!(matches!(&failure, Failure::Refused(why) if why.contains("more than 10 times")), "{failure:?}");
    assert_eq!(person.0.lock().expect("no panic").len(), 10, "the last question is put to nobody");
}
