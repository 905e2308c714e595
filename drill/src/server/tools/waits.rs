//! Tools that wait: for time to pass, or for the client to answer a question.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Call, Outcome};
use crate::server::listeners::{Delivery, News};
use crate::server::newest;

/// How long a request to the client stays open; a person may have to answer it.
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits; a cancel notice ends the wait without an answer.
pub(super) fn sleep(call: &Call<'_>, news: &News) -> Result<Outcome, Outcome> {
    let ms = call.number("ms")?;
    match news.recv_timeout(Duration::from_millis(ms)) {
        Err(RecvTimeoutError::Timeout) => Ok(Outcome::text(&format!("slept {ms} ms"))),
        // A response without an open request is ignored.
        Ok(Delivery::Cancelled | Delivery::Answered(_)) | Err(RecvTimeoutError::Disconnected) => Ok(Outcome::Silence),
    }
}

/// Requests one value of each kind that a form supports; each but the last has a default.
pub(super) fn ask(call: &Call<'_>, news: &News) -> Result<Outcome, Outcome> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "title": "Name", "default": "Ada" },
            "count": { "type": "integer", "minimum": 1, "maximum": 9, "default": 3 },
            "share": { "type": "number", "default": 0.5 },
            "sure": { "type": "boolean", "default": true },
            "colour": { "type": "string", "enum": ["red", "green"], "default": "green" },
            "comment": { "type": "string" },
        },
        "required": ["name", "count"],
    });
    let params = json!({ "mode": "form", "message": "What shall the drill use?", "requestedSchema": schema });
    question(call, news, "elicitation/create", &params)
}

pub(super) fn roots(call: &Call<'_>, news: &News) -> Result<Outcome, Outcome> {
    question(call, news, "roots/list", &json!({}))
}

fn question(call: &Call<'_>, news: &News, method: &str, params: &Value) -> Result<Outcome, Outcome> {
    if call.server.is_newest() {
        let rounds = call.argument("rounds").as_u64().unwrap_or(1);
        return Ok(Outcome::Result(newest::rounds(call.request, rounds, method, params)));
    }
    call.server.ask(call.request, method, params);
    match news.recv_timeout(PATIENCE) {
        Ok(Delivery::Answered(answer)) => match (&answer["result"], &answer["error"]) {
            (Value::Null, error) => Err(Outcome::Failed(format!("the client refused: {error}"))),
            (result, _) => Ok(Outcome::text(&result.to_string())),
        },
        Ok(Delivery::Cancelled) => Ok(Outcome::Silence),
        Err(_) => Err(Outcome::Failed(format!("the client did not answer {method}"))),
    }
}
