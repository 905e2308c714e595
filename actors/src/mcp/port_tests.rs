//! The port to a tool server keeps the rules of tools.

use super::*;
use crate::child::testing::soon;
use crate::mcp::connection_end::EndSender;
use crate::mcp::rmcp::{Connection, Handler, ToolFilter};
use crate::mcp::testing::FarEnd;
use crate::tools::contract::tools;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

#[tokio::test]
async fn the_tools_of_a_server_keep_the_rules() {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(near);
    let handler = Handler::new(ServerId::new("far"), Arc::from([]), None, Arc::default());
    let server = tokio::spawn(serve(FarEnd::new(far)));
    let (connection, _gone) = soon(Connection::open(read, write, handler, None)).await.expect("hands are shaken");
    let filter = ToolFilter { server: ServerId::new("far"), offered: None };
    let listed = soon(connection.list(&filter)).await.expect("a list");
    let (_end, told) = EndSender::new();
    let port = Arc::new(ServerPort {
        server: ServerId::new("far"),
        caller: connection.caller(),
        tools: listed.tools,
        end: told,
        signs: HealthSignals::default(),
        is_far: false,
    });
    let name = "mcp/far/echo";
    let make = || -> Arc<dyn ToolPort> { Arc::clone(&port) as _ };
    tools(make, &[(name, json!({"text": "hi"}))], Path::new("/")).await.assert();
    server.abort();
}

/// Lists one tool, and answers every call of it; also calls that were cancelled.
async fn serve(mut far: FarEnd) {
    far.shake_hands().await;
    loop {
        let asked = far.next().await;
        let result = match asked["method"].as_str() {
            Some("tools/list") => json!({"tools": [{
                "name": "echo",
                "description": "Says it again.",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
                "annotations": {"readOnlyHint": true},
            }]}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}),
            _notification => continue,
        };
        far.answer(&asked, result).await;
    }
}
