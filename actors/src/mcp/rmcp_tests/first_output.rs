//! What a server says before it is one, and what it leaves unsaid of its tools.

use super::*;
use bob_messages::tools::RiskSource;

/// The defaults of the protocol: a tool that does not say that it only reads writes, and one that does not say that it
/// destroys nothing may.
#[tokio::test]
async fn g20_a_tool_that_says_nothing_of_what_it_does_is_of_high_risk() {
    let (says, unsaid) = (|name: &str, value| RiskSource::Annotation { name: name.into(), value }, RiskSource::Default);
    let cases = [
        (None, Risk::High, unsaid.clone()),
        (Some(json!({})), Risk::High, unsaid.clone()),
        (Some(json!({"title": "Pay", "idempotentHint": true, "openWorldHint": false})), Risk::High, unsaid.clone()),
        (Some(json!({"readOnlyHint": false})), Risk::High, unsaid),
        (Some(json!({"destructiveHint": true})), Risk::High, says("destructiveHint", true)),
        (Some(json!({"readOnlyHint": false, "destructiveHint": true})), Risk::High, says("destructiveHint", true)),
        (Some(json!({"destructiveHint": false})), Risk::Medium, says("destructiveHint", false)),
        (Some(json!({"readOnlyHint": false, "destructiveHint": false})), Risk::Medium, says("destructiveHint", false)),
        (Some(json!({"readOnlyHint": true})), Risk::Low, says("readOnlyHint", true)),
        // Of a tool that reads the other hint means nothing.
        (Some(json!({"readOnlyHint": true, "destructiveHint": true})), Risk::Low, says("readOnlyHint", true)),
    ];
    let offers = cases.iter().enumerate().map(|(at, (annotations, ..))| {
        let mut offer = tool(&format!("t{at}"));
        if let Some(annotations) = annotations {
            offer["annotations"] = annotations.clone();
        }
        offer
    });
    let listed = list(filter(), vec![json!({"tools": offers.collect::<Vec<_>>()})]).await;
    assert_eq!(listed.tools.len(), cases.len());
    for (tool, (annotations, risk, from)) in listed.tools.iter().zip(&cases) {
        assert_eq!((tool.risk, &tool.risk_from), (*risk, from), "{annotations:?}");
    }
}

/// What a server says before it answers the handshake, one kind after the other and all of them together.
#[tokio::test]
async fn m20_what_comes_before_the_answer_to_the_handshake_is_passed_over() {
    let kinds = [
        "starting up, please wait",
        "\u{1b}[32mready\u{1b}[0m on stdio",
        "\u{feff}{\"level\":\"info\"}",
        "\u{0}\u{1}\u{2}\u{7f}",
        "",
        "[1,2,{\"id\":0}]",
        "\"a text\"",
        "null",
        "{\"level\":30,\"msg\":\"listening\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"parse error\"}}",
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"no id\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"not asked\"}}",
    ];
    let together = kinds.join("\n");
    for noise in kinds.into_iter().chain([together.as_str()]) {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(near);
        let handler = Handler::new(ServerId::new("far"), Arc::from([]), None, Arc::default());
        let mut far = FarEnd::new(far);
        let opening = tokio::spawn(soon(Connection::open(read, write, handler, None)));
        far.write(noise).await;
        far.shake_hands().await;
        assert!(soon(opening).await.expect("it ends").is_ok(), "{noise:?}");
    }
}
