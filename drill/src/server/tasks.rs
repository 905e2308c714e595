//! Tasks of revision 2026-07-28: calls of the tool `later`, each of which is done when a file exists.
//!
//! The name of a task is the path of that file, so this process remembers nothing, and another one knows the task as well.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::protocol::{self, Request};
use super::requests::Server;

/// The extension, as client and server name it.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The tool, which is offered in that revision only.
pub(super) fn offer() -> Value {
    json!({
        "name": "later", "description": "Says what is in a file, as soon as the file is there.",
        "inputSchema": { "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] },
        "annotations": { "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false },
    })
}

pub(super) fn take(server: &Server, request: &Request) {
    let path = request.params["arguments"]["path"].as_str().unwrap_or_default();
    if !request.params["_meta"][CAPABILITIES]["extensions"][EXTENSION].is_object() {
        return server.refuse(request, protocol::INVALID_PARAMS, "the client knows no tasks");
    }
    let mut made = task(path, "working");
    made["resultType"] = "task".into();
    server.answer(request, &made.to_string());
}

/// Answers what is asked of tasks. Returns whether it was about one.
pub(super) fn obey(server: &Server, request: &Request) -> bool {
    let id = request.params["taskId"].as_str().unwrap_or_default();
    match request.method.as_str() {
        "tasks/get" => server.log.write("task asked", json!({ "task": id })),
        "tasks/cancel" => server.log.write("task cancelled", json!({ "task": id })),
        _ => return false,
    }
    let is_known = Path::new(id).parent().is_some_and(Path::is_dir);
    if !is_known {
        server.refuse(request, protocol::INVALID_PARAMS, &format!("no such task: {id}"));
    } else if request.method == "tasks/cancel" {
        match fs::write(cancelled(id), "") {
            Ok(()) => server.answer(request, "{}"),
            Err(error) => server.exit_because(&format!("cannot cancel the task {id}: {error}")),
        }
    } else {
        server.answer(request, &state(id).to_string());
    }
    true
}

fn state(id: &str) -> Value {
    match fs::read_to_string(id) {
        _ if Path::new(&cancelled(id)).exists() => task(id, "cancelled"),
        Ok(text) => {
            let mut done = task(id, "completed");
            done["result"] = protocol::text(&text);
            done
        }
        Err(_not_there) => task(id, "working"),
    }
}

fn task(id: &str, status: &str) -> Value {
    let then = "2026-07-28T00:00:00Z";
    json!({
        "taskId": id, "status": status, "statusMessage": "the file is awaited", "createdAt": then,
        "lastUpdatedAt": then, "ttlMs": null, "pollIntervalMs": 20,
    })
}

fn cancelled(id: &str) -> String {
    format!("{id}.cancelled")
}
