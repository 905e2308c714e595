//! Questions that are left to a later reply, without a person to ask and in a turn that may be suspended.

use super::*;
use bob_messages::approvals::ApprovalsMode;
use bob_messages::chat::ServerWait;

fn suspending(wait: Option<ServerWait>) -> Invocation {
    let first = invocation(json!({"a": 1}));
    let context =
        CallContext { approvals: ApprovalsMode::Suspend, server_wait: wait.map(Arc::new), ..(*first.context).clone() };
    Invocation { context: Arc::new(context), ..first }
}

fn left(reply: Option<&str>) -> ServerWait {
    let questions = json!({"who": form("Who?"), "where": {"method": "roots/list"}});
    ServerWait::Asks { questions: Arc::new(questions), state: Some("one".into()), reply: reply.map(Arc::from) }
}

#[tokio::test]
async fn a_reply_to_several_forms_is_about_each_of_them() {
    let questions = json!({"who": form("Who?"), "sure": form("Sure?"), "where": {"method": "roots/list"}});
    let wait = |reply: &str| ServerWait::Asks {
        questions: Arc::new(questions.clone()),
        state: Some("one".into()),
        reply: Some(reply.into()),
    };
    let (_far, connection, _changed) = newest(None).await;
    for reply in [
        "{\"name\": \"Grace\"}",
        "{}",
        "{\"who\": {}}",
        "{\"who\": {}, \"sure\": 1}",
        "{\"who\": {}, \"sure\": {}, \"name\": \"Grace\"}",
    ] {
        let output = soon(calling(&connection, Some(wait(reply)))).await.expect("it ends").expect("an output");
        let what = output.waits_for.expect("it waits");
        assert!(what.contains("Reply with a JSON object that has, for each of these names, an object"), "{what}");
        assert!(what.ends_with("\"decline\", for each of sure, who"), "{reply}: {what}");
    }
    let (accepted, declined) =
        (json!({"action": "accept", "content": {"name": "Grace"}}), json!({"action": "decline"}));
    for (reply, who) in [("{\"who\": {\"name\": \"Grace\"}, \"sure\": \"decline\"}", &accepted), ("decline", &declined)]
    {
        let (mut far, connection, _changed) = newest(None).await;
        let calling = calling(&connection, Some(wait(reply)));
        let asked = far.expect("tools/call").await;
        let answers = &asked["params"]["inputResponses"];
        assert_eq!((&answers["who"], &answers["sure"]), (who, &declined), "{reply}");
        calling.abort();
    }
}

type Calling = tokio::task::JoinHandle<Result<ToolOutput, Failure>>;

fn calling(connection: &Connection, wait: Option<ServerWait>) -> Calling {
    let caller = connection.caller();
    tokio::spawn(async move { caller.call(&suspending(wait), false).await })
}

#[tokio::test]
async fn a_form_is_left_to_a_reply_and_the_call_ends() {
    let (mut far, connection, _changed) = newest(None).await;
    let calling = calling(&connection, None);
    let asked = far.expect("tools/call").await;
    far.answer(&asked, asks(json!({"who": form("Who?"), "where": {"method": "roots/list"}}), "one")).await;
    let output = soon(calling).await.expect("it ends").expect("an output");
    let what = output.waits_for.expect("it waits");
    assert!(what.contains("who: Who? (name)"), "{what}");
    let kept = output.structured.expect("what is kept");
    assert_eq!((&kept["server"]["asks"]["state"], &kept["server"]["asks"]["reply"]), (&json!("one"), &Value::Null));
}

#[tokio::test]
async fn the_reply_is_sent_with_the_state_and_another_question_is_left_again() {
    for (reply, answer) in [
        ("{\"name\": \"Grace\"}", json!({"action": "accept", "content": {"name": "Grace"}})),
        ("{}", json!({"action": "accept", "content": {"name": "Ada"}})),
        ("decline", json!({"action": "decline"})),
        ("", json!({"action": "decline"})),
    ] {
        let (mut far, connection, _changed) = newest(None).await;
        let calling = calling(&connection, Some(left(Some(reply))));
        let asked = far.expect("tools/call").await;
        assert_eq!(
            (&asked["params"]["requestState"], &asked["params"]["arguments"]),
            (&json!("one"), &json!({"a": 1}))
        );
        let answers = &asked["params"]["inputResponses"];
        assert_eq!(
            (&answers["who"], &answers["where"]["roots"][0]["uri"]),
            (&answer, &json!("file:///tmp/a")),
            "{reply}"
        );
        far.answer(&asked, asks(json!({"sure": form("Sure?")}), "two")).await;
        let output = soon(calling).await.expect("it ends").expect("an output");
        assert!(output.waits_for.is_some_and(|what| what.contains("sure: Sure?")), "{reply}");
    }
}

#[tokio::test]
async fn a_reply_that_is_no_form_is_asked_for_again_and_nothing_is_sent() {
    let (mut far, connection, _changed) = newest(None).await;
    let output = soon(calling(&connection, Some(left(Some("Grace"))))).await.expect("it ends").expect("an output");
    let what = output.waits_for.expect("it waits");
    assert!(what.ends_with("neither a JSON object nor decline"), "{what}");
    assert!(!output.structured.expect("what is kept").to_string().contains("Grace"));
    let next = calling(&connection, None);
    let asked = far.next().await;
    assert_eq!(
        (&asked["method"], asked["params"].get("requestState")),
        (&json!("tools/call"), None),
        "the first message"
    );
    next.abort();
}
