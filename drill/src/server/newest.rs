//! Revision 2026-07-28: no handshake, no session, and no request from the server.
//!
//! Every request names the revision. What a tool needs from the client is asked for in its result; the client calls it
//! again with the answers and with the state, which holds everything: this server remembers nothing between two calls.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::protocol::{self, Request};
use super::requests::Server;
use super::tasks;

pub(super) const NEWEST: &str = "2026-07-28";

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The subscription of the client, by the id of its request.
#[derive(Default)]
pub(super) struct Subscription(Mutex<Option<Value>>);

impl Subscription {
    fn id(&self) -> MutexGuard<'_, Option<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers what only this revision has, and refuses what it does not have. Returns whether that was all.
pub(super) fn obey(server: &Server, request: &Request) -> bool {
    match request.method.as_str() {
        "server/discover" => server.answer(request, &discovered()),
        "initialize" | "ping" => {
            server.refuse(request, protocol::METHOD_NOT_FOUND, &format!("{NEWEST} has no {}", request.method));
        }
        _ if request.params["_meta"][VERSION] != NEWEST => {
            server.refuse(request, protocol::INVALID_PARAMS, &format!("the request does not name revision {NEWEST}"));
        }
        "subscriptions/listen" => {
            *server.subscription.id() = Some(request.id.clone());
            let told = json!({ "_meta": { SUBSCRIPTION: request.id }, "notifications": { "toolsListChanged": true } });
            server.say(&protocol::notification("notifications/subscriptions/acknowledged", &told));
        }
        "tools/call" if request.params["name"] == "later" => tasks::take(server, request),
        _ => return tasks::obey(server, request),
    }
    true
}

/// Tells the client that the tools changed, if it has subscribed.
pub(super) fn tell_changed(server: &Server) {
    let id = server.subscription.id().clone();
    if let Some(id) = id {
        let told = json!({ "_meta": { SUBSCRIPTION: id } });
        server.say(&protocol::notification("notifications/tools/list_changed", &told));
    }
}

/// A result as text, with the member that this revision requires.
pub(super) fn complete(result: &str) -> String {
    match result.strip_prefix('{') {
        _ if result.contains(r#""resultType":"#) => result.to_owned(),
        Some("}") => r#"{"resultType":"complete"}"#.to_owned(),
        Some(rest) => format!(r#"{{"resultType":"complete",{rest}"#),
        None => result.to_owned(),
    }
}

/// Asks `question` of the client in so many rounds, and then says all answers.
pub(super) fn rounds(request: &Request, rounds: u64, method: &str, params: &Value) -> Value {
    let state =
        request.params["requestState"].as_str().and_then(|state| serde_json::from_str::<Vec<Value>>(state).ok());
    let mut answers = state.unwrap_or_default();
    if let answer @ Value::Object(_) = &request.params["inputResponses"]["question"] {
        answers.push(answer.clone());
    }
    match answers.as_slice() {
        [one] if rounds == 1 => protocol::text(&one.to_string()),
        _ if u64::try_from(answers.len()).is_ok_and(|given| given >= rounds) => {
            protocol::text(&Value::from(answers).to_string())
        }
        _ => json!({
            "resultType": "input_required",
            "inputRequests": { "question": { "method": method, "params": params } },
            "requestState": Value::from(answers).to_string(),
        }),
    }
}

fn discovered() -> String {
    json!({
        "resultType": "complete",
        "supportedVersions": [NEWEST],
        "capabilities": { "tools": { "listChanged": true }, "extensions": { (tasks::EXTENSION): {} } },
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { SERVER: { "name": "drill", "version": env!("CARGO_PKG_VERSION") } },
    })
    .to_string()
}
