//! What a tool server asks a person.
//!
//! A server may ask in the middle of a call. The question goes through the port
//! [`Elicit`] to whoever can show it; without one it is declined. Nothing here knows
//! a terminal or waits for one: the port does.

use bob_messages::ids::ServerId;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

/// Answers what tool servers ask a person.
pub trait Elicit: Send + Sync + 'static {
    /// Asks a person. The future is dropped when the server takes its question back,
    /// when it ends, or when nobody has answered for ten minutes.
    fn elicit(&self, question: Question) -> BoxFuture<'_, Answer>;
}

/// A server's question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Who asks.
    pub server: ServerId,
    /// What is asked, in the server's own words: to be cleaned before a terminal
    /// shows it.
    pub message: String,
    /// The JSON schema of the form: a flat object of texts, numbers, flags and choices.
    pub schema: Value,
}

/// What a person says to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The form, filled in. Fields left out get the defaults of the schema.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Nobody decided.
    Cancel,
}

/// The form with the schema's defaults for what was left out.
pub(super) fn with_defaults(mut form: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let (Some(default), false) = (property.get("default"), form.contains_key(name)) {
            form.insert(name.clone(), default.clone());
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_left_out_gets_its_default_and_what_was_said_stays() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "default": "Ada"}, "age": {"type": "integer", "default": 36},
            "sure": {"type": "boolean", "default": false}, "city": {"type": "string"},
        }});
        let said = json!({"name": "Grace"}).as_object().cloned().expect("an object");
        assert_eq!(Value::Object(with_defaults(said, &schema)), json!({"name": "Grace", "age": 36, "sure": false}));
        assert_eq!(with_defaults(Map::new(), &json!(7)), Map::new());
    }
}
