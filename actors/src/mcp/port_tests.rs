//! The port to a tool server keeps the rules of tools.

use super::*;
use crate::child::testing::soon;
use crate::mcp::connection_end::EndSender;
use crate::mcp::rmcp::{Connection, Handler, ToolFilter};
use crate::mcp::testing::FarEnd;
use crate::tools::contract::{invocation, tools};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinHandle;

#[tokio::test]
async fn the_tools_of_a_server_keep_the_rules() {
    let (port, _end, _open, server) = port("Says it again.", true).await;
    let port = Arc::new(port);
    let name = "mcp/far/echo";
    let make = || -> Arc<dyn ToolPort> { Arc::clone(&port) as _ };
    tools(make, &[(name, json!({"text": "hi"}))], Path::new("/")).await.assert();
    server.abort();
}

/// The first server may have run the call before its session was lost.
#[tokio::test]
async fn a_call_that_was_sent_is_unknown_when_its_tool_has_changed_meanwhile() {
    for sent in [false, true] {
        let (first, end, _open, server) = port("Says it again.", false).await;
        let (next, _end, _next_open, next_server) = port("Says something else.", true).await;
        let call = Invocation { may_repeat: true, ..invocation("mcp/far/echo", json!({"text": "hi"}), Path::new("/")) };
        let lost = ConnectionEnd::Reconnected(Arc::new(next));
        let result = if sent {
            // The call is polled first, and is on its way when the session is lost.
            let (result, ()) = soon(async { tokio::join!(first.call_tool(call), async { end.tell(lost) }) }).await;
            result
        } else {
            end.tell(lost);
            soon(first.call_tool(call)).await
        };
        let error = result.expect_err("the tool is another one");
        assert_eq!((error.is_outcome_unknown(), error.is_unavailable()), (sent, !sent), "{error}");
        server.abort();
        next_server.abort();
    }
}

/// A port to a server whose tool has this description, and which answers calls or does not; and what keeps it connected.
async fn port(
    description: &'static str,
    answers: bool,
) -> (ServerPort, EndSender<ServerPort>, Connection, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(near);
    let handler = Handler::new(ServerId::new("far"), Arc::from([]), None, Arc::default());
    let server = tokio::spawn(serve(FarEnd::new(far), description, answers));
    let (connection, _gone) = soon(Connection::open(read, write, handler, None)).await.expect("hands are shaken");
    let filter = ToolFilter { server: ServerId::new("far"), offered: None };
    let listed = soon(connection.list(&filter)).await.expect("a list");
    let (end, told) = EndSender::new();
    let port = ServerPort {
        server: ServerId::new("far"),
        caller: connection.caller(),
        tools: listed.tools,
        end: told,
        signs: HealthSignals::default(),
        is_far: false,
    };
    (port, end, connection, server)
}

/// Lists one tool, and answers every call of it or none; also calls that were cancelled.
async fn serve(mut far: FarEnd, description: &str, answers: bool) {
    far.shake_hands().await;
    loop {
        let asked = far.next().await;
        let result = match asked["method"].as_str() {
            Some("tools/list") => json!({"tools": [{
                "name": "echo",
                "description": description,
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
                "annotations": {"readOnlyHint": true},
            }]}),
            Some("tools/call") if !answers => continue,
            Some("tools/call") => json!({"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}),
            _notification => continue,
        };
        far.answer(&asked, result).await;
    }
}
