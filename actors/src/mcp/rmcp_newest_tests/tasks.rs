//! Tasks: the server takes the call, is asked for the result, and hears when the task is given up.

mod task_errors;

use super::*;
use bob_messages::chat::ServerWait;

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn wait() -> ServerWait {
    ServerWait::Task { id: "t-1".into() }
}

/// A call whose task is known, with this much time left.
fn followed(within: Duration) -> Invocation {
    let first = invocation(json!({"a": 1}));
    let context = CallContext { server_wait: Some(Arc::new(wait())), ..(*first.context).clone() };
    Invocation { context: Arc::new(context), deadline: tokio::time::Instant::now() + within, ..first }
}

fn task(status: &str, more: Value) -> Value {
    let mut task = json!({"resultType": "complete", "taskId": "t-1", "status": status, "createdAt": "then",
        "lastUpdatedAt": "then", "ttlMs": null, "pollIntervalMs": 20, "statusMessage": format!("it is {status}")});
    task.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    task
}

fn following(connection: &Connection, within: Duration) -> tokio::task::JoinHandle<Result<ToolOutput, Failure>> {
    let caller = connection.caller();
    tokio::spawn(async move { caller.call(&followed(within), false).await })
}

#[tokio::test]
async fn a_call_that_becomes_a_task_returns_with_its_name() {
    let (mut far, connection, _changed) = newest(None).await;
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({"a": 1})), false).await });
    let asked = far.expect("tools/call").await;
    let can = &asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(can["extensions"][TASKS].is_object(), "{can}");
    far.answer(&asked, task("working", json!({"resultType": "task"}))).await;
    let output = soon(calling).await.expect("it ends").expect("an output");
    assert_eq!(output.waits_for.as_deref(), Some("the result of the tool server's task t-1: it is working"));
    assert_eq!(output.structured, Some(json!({"server": {"task": {"id": "t-1"}}})));
}

#[tokio::test]
async fn a_task_is_asked_about_until_it_has_a_result_and_the_tool_is_not_called() {
    let (mut far, connection, _changed) = newest(None).await;
    let following = following(&connection, Duration::from_secs(60));
    for _still in 0..3 {
        let asked = far.next().await;
        assert_eq!((&asked["method"], &asked["params"]["taskId"]), (&json!("tasks/get"), &json!("t-1")));
        far.answer(&asked, task("working", json!({}))).await;
    }
    let asked = far.next().await;
    let result = json!({"content": [{"type": "text", "text": "42"}], "isError": false});
    far.answer(&asked, task("completed", json!({"result": result}))).await;
    assert_eq!(soon(following).await.expect("it ends").expect("an output").plain(), "42");
}

#[tokio::test]
async fn what_a_task_asks_for_is_answered_once() {
    let person = Arc::new(Person::default());
    let (mut far, connection, _changed) = newest(Some(Arc::clone(&person) as Arc<dyn ApprovalPort>)).await;
    let following = following(&connection, Duration::from_secs(60));
    let open = json!({"inputRequests": {"who": form("Who?")}});
    let asked = far.expect("tasks/get").await;
    far.answer(&asked, task("input_required", open.clone())).await;
    let given = far.next().await;
    assert_eq!((&given["method"], &given["params"]["taskId"]), (&json!("tasks/update"), &json!("t-1")));
    assert_eq!(given["params"]["inputResponses"]["who"]["content"], json!({"count": 1, "name": "Ada"}));
    far.answer(&given, json!({"resultType": "complete"})).await;
    // The server has not taken the answer in yet.
    let asked = far.next().await;
    far.answer(&asked, task("input_required", open)).await;
    let asked = far.next().await;
    assert_eq!(asked["method"], "tasks/get", "it is not answered again");
    far.answer(&asked, task("completed", json!({"result": {"content": []}}))).await;
    assert!(soon(following).await.expect("it ends").is_ok());
    assert_eq!(*person.0.lock().expect("no panic"), ["Who?"]);
}

#[tokio::test]
async fn tasks_that_end_without_a_result_say_how() {
    let cases = [
        (
            task("failed", json!({"error": {"code": -1, "message": "no paper"}})),
            "failed the task of the call: no paper",
        ),
        (task("cancelled", json!({})), "cancelled the task of the call"),
        (task("completed", json!({"result": {"content": 7}})), "something else than a result"),
    ];
    for (state, expected) in cases {
        let (mut far, connection, _changed) = newest(None).await;
        let following = following(&connection, Duration::from_secs(60));
        let asked = far.expect("tasks/get").await;
        far.answer(&asked, state).await;
        let failure = soon(following).await.expect("it ends").expect_err("no output");
        assert!(matches!(&failure, Failure::Refused(why) if why.contains(expected)), "{expected}: {failure:?}");
    }
    let (mut far, connection, _changed) = newest(None).await;
    let following = following(&connection, Duration::from_secs(60));
    let asked = far.expect("tasks/get").await;
    let error = json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602, "message": "no task t-1"}});
    far.write(&error.to_string()).await;
    let failure = soon(following).await.expect("it ends").expect_err("no output");
    assert!(matches!(&failure, Failure::Refused(why) if why.contains("whose outcome is unknown: no task t-1")));
}

#[tokio::test(start_paused = true)]
async fn when_the_time_of_the_call_is_nearly_over_it_still_waits() {
    let (mut far, connection, _changed) = newest(None).await;
    let following = following(&connection, Duration::from_secs(10));
    let asked = far.expect("tasks/get").await;
    far.answer(&asked, task("working", json!({"pollIntervalMs": 60_000}))).await;
    let output = soon(following).await.expect("it ends").expect("an output");
    assert_eq!(output.waits_for.as_deref(), Some("the result of the tool server's task t-1: it is working"));
}

#[tokio::test]
async fn a_task_that_is_given_up_is_cancelled_and_one_that_is_left_is_not() {
    let (mut far, connection, _changed) = newest(None).await;
    let following = following(&connection, Duration::from_secs(60));
    far.expect("tasks/get").await;
    following.abort();
    assert_eq!(far.next().await["method"], "notifications/cancelled", "the question, and not the task");
    let caller = connection.caller();
    let given_up = tokio::spawn(async move { caller.give_up(&wait()).await });
    let asked = far.next().await;
    assert_eq!((&asked["method"], &asked["params"]["taskId"]), (&json!("tasks/cancel"), &json!("t-1")));
    far.answer(&asked, json!({"resultType": "complete"})).await;
    soon(given_up).await.expect("it ends");
}

#[tokio::test]
async fn the_end_of_the_connection_waits_until_the_server_has_heard_what_is_given_up() {
    let (mut far, connection, _changed) = newest(None).await;
    connection.caller().give_up_in_background(&Arc::new(wait()));
    let closing = tokio::spawn(connection.close());
    let asked = far.next().await;
    assert_eq!(asked["method"], "tasks/cancel");
    far.answer(&asked, json!({"resultType": "complete"})).await;
    soon(closing).await.expect("it ends");
}

#[tokio::test]
async fn a_task_that_a_server_makes_of_a_cancelled_call_is_given_up() {
    let (mut far, connection, _changed) = newest(None).await;
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({"a": 1})), false).await });
    let asked = far.expect("tools/call").await;
    calling.abort();
    let cancelled = far.next().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &asked["id"])
    );
    far.answer(&asked, task("working", json!({"resultType": "task"}))).await;
    let given_up = far.next().await;
    assert_eq!((&given_up["method"], &given_up["params"]["taskId"]), (&json!("tasks/cancel"), &json!("t-1")));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_without_a_response_is_waited_for_a_moment_only() {
    let (mut far, connection, _changed) = newest(None).await;
    let caller = connection.caller();
    let calling = tokio::spawn(async move { caller.call(&invocation(json!({"a": 1})), false).await });
    let asked = far.expect("tools/call").await;
    calling.abort();
    far.expect("notifications/cancelled").await;
    far.expect("notifications/cancelled").await;
    far.answer(&asked, task("working", json!({"resultType": "task"}))).await;
    let pinged = tokio::spawn(async move { connection.ping().await.map(|()| connection) });
    assert_eq!(far.next().await["method"], "ping");
    pinged.abort();
}
