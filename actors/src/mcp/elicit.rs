//! Forms that a tool server requests from the user.
//!
//! A server may request one during a call, through [`ApprovalPort::elicit`](crate::approvals::ApprovalPort::elicit); without a port it is declined. Nothing here
//! depends on a terminal or waits for one.

pub use bob_messages::mcp::{Elicitation as Question, ElicitationAnswer as Answer};

use serde_json::{Map, Value};

/// Fills in the schema's defaults for missing fields.
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
