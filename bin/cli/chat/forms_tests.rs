//! Forms filled in by a person who types these lines.

use super::*;
use serde_json::json;

/// The answer for this input, and the prompts.
fn typed(schema: &Value, lines: &[&str]) -> (ElicitationAnswer, Vec<String>) {
    let mut prompts = Vec::new();
    let mut lines = lines.iter();
    let mut next = async |prompt: String| {
        prompts.push(prompt);
        lines.next().map_or(Input::End, |line| Input::Line(line.as_bytes().to_vec()))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(fill_in(schema, &mut next));
    (answer, prompts)
}

fn accepted(form: &Value) -> ElicitationAnswer {
    ElicitationAnswer::Accept(form.as_object().cloned().unwrap())
}

#[test]
fn every_kind_of_field_is_asked_for_and_understood() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "title": "Your name"},
        "b": {"type": "integer", "minimum": 1, "maximum": 9},
        "c": {"type": "number"},
        "d": {"type": "boolean"},
        "e": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        "f": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "g": {"type": "array", "items": {"type": "string", "enum": ["x", "y", "z"]}},
    }});
    let (answer, prompts) = typed(&schema, &["Ada", "7", "1.5", "Yes", "green", "l", "x, z"]);
    let form = json!({"a": "Ada", "b": 7, "c": 1.5, "d": true, "e": "g", "f": "l", "g": ["x", "z"]});
    assert_eq!(answer, accepted(&form));
    assert_eq!(
        prompts,
        [
            "Your name> ",
            "b (a whole number)> ",
            "c (a number)> ",
            "d (yes | no)> ",
            "e (Red | Green)> ",
            "f (Small | Large)> ",
            "g (x | y | z)> ",
        ]
    );
}

#[test]
fn an_empty_line_takes_the_default_leaves_out_what_may_be_left_out_and_declines_otherwise() {
    let schema = json!({"properties": {
        "a": {"type": "string", "default": "Ada"}, "b": {"type": "boolean", "default": true}, "c": {"type": "string"},
    }});
    let (answer, prompts) = typed(&schema, &["", "", ""]);
    assert_eq!(answer, accepted(&json!({"a": "Ada", "b": true})));
    assert_eq!(prompts, ["a [Ada]> ", "b (yes | no) [yes]> ", "c> "]);
    let required = json!({"properties": {"a": {"type": "string"}}, "required": ["a"]});
    assert_eq!(typed(&required, &[""]).0, ElicitationAnswer::Decline);
    assert_eq!(typed(&schema, &["Grace"]).0, ElicitationAnswer::Decline);
}

#[test]
fn what_does_not_fit_is_asked_again() {
    let schema = json!({"properties": {"a": {"type": "integer", "minimum": 3}}});
    let (answer, prompts) = typed(&schema, &["many", "2", "3"]);
    assert_eq!((answer, prompts.len()), (accepted(&json!({"a": 3})), 3));
    let schema = json!({"properties": {"a": {"type": "string", "maxLength": 2}}});
    assert_eq!(typed(&schema, &["åäö", "åä"]).0, accepted(&json!({"a": "åä"})));
    let schema = json!({"properties": {"a": {"type": "string", "enum": ["x"]}}});
    assert_eq!(typed(&schema, &["y", "x"]).0, accepted(&json!({"a": "x"})));
}

#[test]
fn a_form_without_fields_is_a_question_of_yes_or_no() {
    assert_eq!(typed(&json!({"type": "object", "properties": {}}), &["yes"]).0, accepted(&json!({})));
    assert_eq!(typed(&json!({}), &[""]).0, ElicitationAnswer::Decline);
}

#[test]
fn the_words_of_a_server_steer_no_terminal() {
    let schema = json!({"properties": {"a": {"title": "x\u{1b}[31my\u{7}", "default": "\u{202e}z"}}});
    let prompt = typed(&schema, &["ok"]).1.remove(0);
    assert!(prompt.chars().all(sanitise::is_shown), "{prompt:?}");
}
