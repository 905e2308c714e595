//! Replies and actions of any kind.

use super::*;
use proptest::prelude::*;

/// Any JSON value that is no deeper than what is read.
fn values() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| serde_json::Number::from_f64(n).map_or(Value::Null, Value::Number)),
    ];
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, ".{0,12}".prop_map(Value::from)];
    leaf.prop_recursive(6, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,6}", inner, 0..4).prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

fn actions() -> impl Strategy<Value = AgentAction> {
    let arguments = proptest::collection::btree_map(".{0,6}", values(), 0..4);
    prop_oneof![
        ".{0,40}".prop_map(|content| AgentAction::Final { content }),
        (".{0,20}", arguments).prop_map(|(name, arguments)| AgentAction::ToolCall {
            name,
            arguments: Value::Object(Map::from_iter(arguments)),
        }),
        ".{0,40}".prop_map(|question| AgentAction::AskUser { question }),
    ]
}

proptest! {
    #[test]
    fn b4_what_is_printed_is_read_back(action in actions()) {
        let plain = serde_json::to_string(&action).unwrap();
        let pretty = serde_json::to_string_pretty(&action).unwrap();
        prop_assert_eq!(parse_action(&plain), Ok(action.clone()));
        prop_assert_eq!(parse_action(&format!("```json\n{pretty}\n```")), Ok(action));
    }

    #[test]
    fn b4_strict_agrees_with_serde_json_on_values(value in values()) {
        let text = value.to_string();
        prop_assert_eq!(strict::parse(&text).unwrap(), value);
    }

    #[test]
    fn b4_strict_reads_nothing_that_serde_json_does_not(text in "[\\[\\]{}:,\"\\\\a1e.\\- nulltrue]{0,24}") {
        match (strict::parse(&text), serde_json::from_str::<Value>(&text)) {
            (Ok(strict), Ok(plain)) => prop_assert_eq!(strict, plain),
            (Err(_), Err(_)) => {}
            (Err(error), Ok(_)) => prop_assert!(error.to_string().contains(TWICE), "{error}"),
            (Ok(_), Err(error)) => prop_assert!(false, "serde_json says {error}"),
        }
    }

    #[test]
    fn b4_any_reply_is_an_action_or_a_complaint(text in ".{0,200}") {
        prop_assert!(parse_action(&text).is_ok() || parse_action(&text).is_err_and(|told| !told.is_empty()));
    }

    /// An envelope that is damaged somewhere is refused, or says what it says without a doubt: what is read is what
    /// the plain reader of JSON finds there, and a call has an object of arguments.
    #[test]
    fn b4_a_damaged_envelope_is_never_guessed_at(
        action in actions(),
        damages in proptest::collection::vec((any::<proptest::sample::Index>(), 0_usize..4, "[\\PC\u{0}\n{}\\[\\]\",:]{0,3}"), 1..4),
    ) {
        let mut text = serde_json::to_string(&action).unwrap();
        for (at, length, put) in damages {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.ceil_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end, &put);
        }
        for mode in [ToolMode::Native, ToolMode::Json] {
            for given in [answer(&text, &[]), answer("", &[("local__write", &text)]), answer(&text, &[(&text, "{}")])] {
                if let Ok(Understood::Calls(_, calls)) = understood(mode, &given) {
                    prop_assert!(calls.iter().all(|call| call.arguments.is_object()));
                }
            }
        }
        match (parse_action(&text), serde_json::from_str::<AgentAction>(&text)) {
            (Ok(read), Ok(plain)) => prop_assert_eq!(read, plain),
            // Blanks of other scripts, and a fence, are no JSON.
            (Ok(_), Err(_)) => {
                let (trimmed, has_fence) = (text.trim() != text, text.trim_start().starts_with("```"));
                prop_assert!(trimmed || has_fence);
            }
            (Err(told), _) => prop_assert!(!told.is_empty() && told.len() < 700, "{}", told),
        }
    }
}
