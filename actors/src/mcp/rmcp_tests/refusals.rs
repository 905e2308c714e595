//! What a server refuses, and what it answers without saying how the call went.

use super::*;

#[tokio::test]
async fn a_refusal_is_the_servers_and_the_end_of_the_line_is_not() {
    let mut line = line(None).await;
    let caller = line.connection.caller();
    let first = tokio::spawn({
        let caller = caller.clone();
        async move { caller.call(&invocation("no", json!({})), true).await }
    });
    let asked = line.far.expect("tools/call").await;
    let refusal =
        json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602, "message": "no\u{1b}[2J such tool"}});
    line.far.write(&refusal.to_string()).await;
    let Err(Failure::Refused(why)) = soon(first).await.expect("it ends") else { panic!("not refused") };
    assert_eq!(why, "refuses the call: no [2J such tool (-32602)");

    let second = tokio::spawn(async move { caller.call(&invocation("no", json!({})), true).await });
    line.far.expect("tools/call").await;
    drop(line.far);
    assert!(matches!(soon(second).await.expect("it ends"), Err(Failure::Broken)));
    soon(line.gone).await;
}

/// A server that answers may have done the call: told as a refusal, it would be made again.
#[tokio::test]
async fn an_answer_that_is_none_of_the_protocol_leaves_the_outcome_unknown() {
    let mut line = line(None).await;
    for answer in [json!({}), json!(null), json!("paid"), json!({"content": "paid"}), json!({"tools": []})] {
        let caller = line.connection.caller();
        let call = tokio::spawn(async move { caller.call(&invocation("pay", json!({})), false).await });
        let asked = line.far.expect("tools/call").await;
        let said = json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer.clone()});
        line.far.write(&said.to_string()).await;
        let ended = soon(call).await.expect("it ends");
        let Err(Failure::Doubtful(why)) = ended else { panic!("{answer}: {ended:?}") };
        assert_eq!(why, "gave an answer that is not of the protocol", "{answer}");
    }
}
