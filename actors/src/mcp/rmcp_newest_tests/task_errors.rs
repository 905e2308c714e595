//! Errors that say nothing of the task: the call still waits for its result.

use super::*;

async fn refuse(far: &mut FarEnd, asked: &Value, code: i64) {
    let error = json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": "not now"}});
    far.write(&error.to_string()).await;
}

async fn done(far: &mut FarEnd) {
    let asked = far.expect("tasks/get").await;
    let result = json!({"content": [{"type": "text", "text": "42"}], "isError": false});
    far.answer(&asked, task("completed", json!({"result": result}))).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_with_too_many_errors_in_a_row_is_asked_no_more_and_the_call_waits() {
    let (mut far, connection, _changed) = newest(None).await;
    let following = following(&connection, Duration::from_secs(60));
    for code in [-32603, -32000] {
        let asked = far.expect("tasks/get").await;
        refuse(&mut far, &asked, code).await;
    }
    let asked = far.expect("tasks/get").await;
    far.answer(&asked, task("working", json!({}))).await;
    for _in_a_row in 0..3 {
        let asked = far.expect("tasks/get").await;
        refuse(&mut far, &asked, -32603).await;
    }
    let failure = soon(following).await.expect("it ends").expect_err("no output");
    let expected = "did not say how the task of the call is doing: not now (-32603)";
    assert!(matches!(&failure, Failure::Doubtful(why) if why == expected), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_about_a_task_that_is_not_answered_is_asked_again() {
    let (mut far, connection, _changed) = newest(None).await;
    let following = following(&connection, Duration::from_secs(600));
    far.expect("tasks/get").await;
    tokio::time::sleep(Duration::from_secs(32)).await;
    done(&mut far).await;
    assert_eq!(soon(following).await.expect("it ends").expect("an output").plain(), "42");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_owes_an_answer_at_the_end_is_suspect() {
    let (mut far, connection, _changed) = newest(None).await;
    let following = following(&connection, Duration::from_secs(10));
    far.expect("tasks/get").await;
    let failure = soon(following).await.expect("it ends").expect_err("no output");
    assert!(matches!(&failure, Failure::Doubtful(why) if why.contains("did not say how")), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_refused_is_not_given_again_and_the_task_goes_on() {
    let person = Arc::new(Person::default());
    let (mut far, connection, _changed) = newest(Some(Arc::clone(&person) as Arc<dyn ApprovalPort>)).await;
    let following = following(&connection, Duration::from_secs(60));
    let open = json!({"inputRequests": {"who": form("Who?")}});
    let asked = far.expect("tasks/get").await;
    far.answer(&asked, task("input_required", open.clone())).await;
    let given = far.expect("tasks/update").await;
    refuse(&mut far, &given, -32602).await;
    let asked = far.next().await;
    assert_eq!(asked["method"], "tasks/get");
    far.answer(&asked, task("input_required", open)).await;
    let asked = far.next().await;
    assert_eq!(asked["method"], "tasks/get", "the answer is not given again");
    let result = json!({"content": [{"type": "text", "text": "42"}], "isError": false});
    far.answer(&asked, task("completed", json!({"result": result}))).await;
    assert_eq!(soon(following).await.expect("it ends").expect("an output").plain(), "42");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_arrive_is_given_again_and_nobody_is_asked_again() {
    let person = Arc::new(Person::default());
    let (mut far, connection, _changed) = newest(Some(Arc::clone(&person) as Arc<dyn ApprovalPort>)).await;
    let following = following(&connection, Duration::from_secs(600));
    let open = json!({"inputRequests": {"who": form("Who?")}});
    let asked = far.expect("tasks/get").await;
    far.answer(&asked, task("input_required", open.clone())).await;
    let first = far.expect("tasks/update").await;
    // It hears of neither.
    tokio::time::sleep(Duration::from_secs(32)).await;
    let asked = far.expect("tasks/get").await;
    far.answer(&asked, task("input_required", open)).await;
    let given = far.expect("tasks/update").await;
    assert_eq!(given["params"]["inputResponses"], first["params"]["inputResponses"]);
    far.answer(&given, json!({"resultType": "complete"})).await;
    done(&mut far).await;
    assert_eq!(soon(following).await.expect("it ends").expect("an output").plain(), "42");
    assert_eq!(*person.0.lock().expect("no panic"), ["Who?"]);
}

#[tokio::test]
async fn a_server_that_speaks_an_older_version_now_is_not_asked_and_the_call_waits() {
    let (mut far, opening, _changed) = opening(None, discovery());
    let asked = far.next().await;
    refuse(&mut far, &asked, -32601).await;
    far.shake_hands().await;
    let (connection, _gone) = soon(opening).await.expect("it ends").expect("hands are shaken");
    let failure = soon(following(&connection, Duration::from_secs(60))).await.expect("it ends").expect_err("no output");
    assert!(matches!(&failure, Failure::Doubtful(why) if why.contains("has no tasks")), "{failure:?}");
    let pinged = tokio::spawn(async move { connection.ping().await.map(|()| connection) });
    assert_eq!(far.next().await["method"], "ping", "nothing was asked before");
    pinged.abort();
}
