//! What is an action and what is not, as tables.

mod any;

use super::action::{AgentAction, Understood, parse_action, understand};
use super::strict;
use crate::chat::StopReason;
use crate::llm::{LlmAnswer, ToolMode};
use crate::turn::tests::world::{answer, tools};
use serde_json::{Map, Value, json};

fn final_(content: &str) -> AgentAction {
    AgentAction::Final { content: content.to_owned() }
}

fn call(arguments: Value) -> AgentAction {
    AgentAction::ToolCall { name: "t".to_owned(), arguments }
}

fn ask(question: &str) -> AgentAction {
    AgentAction::AskUser { question: question.to_owned() }
}

#[test]
fn b4_what_is_an_action() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let rows: Vec<(String, AgentAction)> = [
        (r#"{"type":"final","content":"hi"}"#, final_("hi")),
        (r#"{"content":"hi","type":"final"}"#, final_("hi")),
        (r#"{"type":"final","content":""}"#, final_("")),
        ("  {\"type\":\"final\",\"content\":\"hi\"}\n\t", final_("hi")),
        ("\u{a0}{\"type\":\"final\",\"content\":\"hi\"}", final_("hi")),
        ("```\n{\"type\":\"final\",\"content\":\"hi\"}\n```", final_("hi")),
        ("```json\n{\"type\":\"final\",\"content\":\"hi\"}\n```", final_("hi")),
        ("```json\r\n{\"type\":\"final\",\"content\":\"hi\"}\r\n```", final_("hi")),
        ("\n```JSON \n{\"type\":\"final\",\"content\":\"hi\"}```\n", final_("hi")),
        (r#"{"type":"final","content":"```\nlet x;\n```"}"#, final_("```\nlet x;\n```")),
        (r#"{"type":"final","content":"{\"type\":\"final\"}"}"#, final_("{\"type\":\"final\"}")),
        (r#"{"\u0074ype":"final","content":"h\u0069"}"#, final_("hi")),
        (r#"{"type":"final","content":"\ud83d\ude00"}"#, final_("😀")),
        (r#"{"type":"final","content":"\u0000"}"#, final_("\0")),
        (r#"{"type":"tool_call","name":"t","arguments":{}}"#, call(json!({}))),
        (r#"{"type":"tool_call","name":"t","arguments":{"type":"final"}}"#, call(json!({"type": "final"}))),
        (
            r#"{"type":"tool_call","name":"t","arguments":{"a":{"b":1},"b":{"b":1}}}"#,
            call(json!({"a":{"b":1},"b":{"b":1}})),
        ),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":18446744073709551615}}"#, call(json!({"n": u64::MAX}))),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":-9223372036854775808}}"#, call(json!({"n": i64::MIN}))),
        // Beyond 64 bits a number is a fraction, as everywhere in JSON; nothing wraps round.
        (
            r#"{"type":"tool_call","name":"t","arguments":{"n":18446744073709551616}}"#,
            call(json!({"n": 18446744073709551616.0})),
        ),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":1e308}}"#, call(json!({"n": 1e308}))),
        (
            r#"{"type":"tool_call","name":"t","arguments":{"n":null,"b":[true,false]}}"#,
            call(json!({"n":null,"b":[true,false]})),
        ),
        (
            r#"{"type":"tool_call","name":"","arguments":{}}"#,
            AgentAction::ToolCall { name: String::new(), arguments: json!({}) },
        ),
        (r#"{"type":"ask_user","question":"which?"}"#, ask("which?")),
    ]
    .map(|(text, action)| (text.to_owned(), action))
    .into_iter()
    .collect();
    for (text, action) in rows {
        assert_eq!(parse_action(&text), Ok(action), "{text}");
    }
    let arguments = format!(r#"{{"type":"tool_call","name":"t","arguments":{{"d":{}}}}}"#, deep(strict::MAX_DEPTH - 2));
    assert!(parse_action(&arguments).is_ok());
}

/// What the complaint about a row must contain; each word stands for one kind of error.
const JSON: &str = "not one JSON object";
const TWICE: &str = "there twice";
const MISSING: &str = "is missing";
const WRONG: &str = "must be a";
const UNKNOWN: &str = "is unknown";
const FOREIGN: &str = "does not belong";
const NO_OBJECT: &str = "JSON but not an object";
const DEEP: &str = "nested deeper";

#[test]
fn b4_what_is_no_action_is_said_precisely() {
    let rows: &[(&str, &str)] = &[
        ("", JSON),
        (" \n\t ", JSON),
        ("hello", JSON),
        ("{", JSON),
        ("}", JSON),
        (r#"{"type":"final","content":"hi""#, JSON),
        (r#"{"type":"final","content":"hi"#, JSON),
        (r#"{"type":"final","content":"hi",}"#, JSON),
        (r#"{"type":"final" "content":"hi"}"#, JSON),
        (r#"{type:"final",content:"hi"}"#, JSON),
        (r#"{'type':'final','content':'hi'}"#, JSON),
        (r#"Sure! {"type":"final","content":"hi"}"#, JSON),
        (r#"{"type":"final","content":"hi"} Done."#, JSON),
        ("Here:\n```json\n{\"type\":\"final\",\"content\":\"hi\"}\n```", JSON),
        ("```json\n{\"type\":\"final\",\"content\":\"hi\"}\n```\nDone.", JSON),
        ("```json\n{\"type\":\"final\",\"content\":\"hi\"}\n", JSON),
        ("```js on\n{\"type\":\"final\",\"content\":\"hi\"}\n```", JSON),
        ("```", JSON),
        ("``````", JSON),
        (r#"{"type":"final","content":"a"}{"type":"final","content":"b"}"#, JSON),
        ("{\"type\":\"final\",\"content\":\"a\"}\n{\"type\":\"final\",\"content\":\"b\"}", JSON),
        ("{\"type\":\"final\",\"content\":\"a\nb\"}", JSON),
        (r#"{"type":"final","content":"\ud83d"}"#, JSON),
        (r#"{"type":"final","content":"\ude00"}"#, JSON),
        (r#"{"type":"final","content":"\ud83d\ud83d"}"#, JSON),
        (r#"{"type":"final","content":"\x41"}"#, JSON),
        ("\u{feff}{\"type\":\"final\",\"content\":\"hi\"}", JSON),
        ("// yes\n{\"type\":\"final\",\"content\":\"hi\"}", JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":NaN}}"#, JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":Infinity}}"#, JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":1e999}}"#, JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":-1e999}}"#, JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":01}}"#, JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":.5}}"#, JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":+1}}"#, JSON),
        (r#"{"type":"tool_call","name":"t","arguments":{"n":0x10}}"#, JSON),
        (r#"{"type":"final","type":"final","content":"hi"}"#, TWICE),
        (r#"{"type":"final","content":"a","content":"b"}"#, TWICE),
        (r#"{"type":"final","\u0074ype":"tool_call","content":"a"}"#, TWICE),
        (r#"{"type":"tool_call","name":"t","arguments":{"a":1,"a":2}}"#, TWICE),
        (r#"{"type":"tool_call","name":"t","arguments":{"a":1,"\u0061":2}}"#, TWICE),
        (r#"{"type":"tool_call","name":"t","arguments":{"l":[{"a":{"b":1,"b":1}}]}}"#, TWICE),
        (r#"{"type":"tool_call","name":"t","arguments":{"":1,"":2}}"#, TWICE),
        ("{}", MISSING),
        (r#"{"content":"hi"}"#, MISSING),
        (r#"{"Type":"final","content":"hi"}"#, MISSING),
        (r#"{"type":"final"}"#, MISSING),
        (r#"{"type":"ask_user"}"#, MISSING),
        (r#"{"type":"tool_call","arguments":{}}"#, MISSING),
        (r#"{"type":"tool_call","name":"t"}"#, MISSING),
        (r#"{"type":7,"content":"hi"}"#, WRONG),
        (r#"{"type":null,"content":"hi"}"#, WRONG),
        (r#"{"type":["final"],"content":"hi"}"#, WRONG),
        (r#"{"type":"final","content":7}"#, WRONG),
        (r#"{"type":"final","content":null}"#, WRONG),
        (r#"{"type":"final","content":{"text":"hi"}}"#, WRONG),
        (r#"{"type":"ask_user","question":["a"]}"#, WRONG),
        (r#"{"type":"tool_call","name":7,"arguments":{}}"#, WRONG),
        (r#"{"type":"tool_call","name":"t","arguments":"{}"}"#, WRONG),
        (r#"{"type":"tool_call","name":"t","arguments":[]}"#, WRONG),
        (r#"{"type":"tool_call","name":"t","arguments":null}"#, WRONG),
        (r#"{"type":"tool_call","name":"t","arguments":7}"#, WRONG),
        (r#"{"type":"answer","content":"hi"}"#, UNKNOWN),
        (r#"{"type":"Final","content":"hi"}"#, UNKNOWN),
        (r#"{"type":"fіnal","content":"a Cyrillic letter"}"#, UNKNOWN),
        (r#"{"type":"","content":"hi"}"#, UNKNOWN),
        (r#"{"type":"final","content":"hi","mood":"glad"}"#, FOREIGN),
        (r#"{"type":"final","content":"hi","name":"t"}"#, FOREIGN),
        (r#"{"type":"tool_call","name":"t","arguments":{},"content":"x"}"#, FOREIGN),
        (r#"{"type":"ask_user","question":"q","arguments":{}}"#, FOREIGN),
        ("[]", NO_OBJECT),
        (r#"[{"type":"final","content":"hi"}]"#, NO_OBJECT),
        (r#""final""#, NO_OBJECT),
        ("null", NO_OBJECT),
        ("true", NO_OBJECT),
        ("42", NO_OBJECT),
    ];
    let kinds = [JSON, TWICE, MISSING, WRONG, UNKNOWN, FOREIGN, NO_OBJECT, DEEP];
    for (text, expected) in rows {
        let complaint = parse_action(text).expect_err(text);
        assert!(complaint.contains(expected), "{text}\n  expected {expected:?}, was told {complaint:?}");
        // Why a text is no JSON is said in the parser's own words.
        let told: Vec<_> = kinds.iter().filter(|kind| complaint.contains(*kind)).collect();
        let alone = told.len() == 1 || told.first() == Some(&&JSON);
        assert!(alone, "{text}\n  one error, not several: {complaint:?}");
        assert!(complaint.len() < 300, "short enough to be said to a model: {complaint}");
    }
}

#[test]
fn b5_what_is_nested_too_deeply_is_refused_and_nothing_overflows() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let test = move || {
        for levels in [strict::MAX_DEPTH + 1, 127, 128, 129, 100_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let nested = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                let cut = open.repeat(levels);
                for text in [nested, cut] {
                    assert!(parse_action(&text).is_err(), "{levels} levels of {open}");
                    let envelope = format!(r#"{{"type":"tool_call","name":"t","arguments":{{"d":{text}}}}}"#);
                    assert!(parse_action(&envelope).is_err(), "{levels} levels of {open} in an envelope");
                    let called = answer("", &[("local__read", &text)]);
                    assert!(understood(ToolMode::Native, &called).is_err(), "{levels} levels of {open} in a call");
                }
            }
        }
        assert!(parse_action(&"[".repeat(10_000_000)).is_err());
        let deepest = strict::parse(&deep(strict::MAX_DEPTH)).expect("it is not too deep");
        let copied = serde_json::to_string(&deepest.clone()).expect("it can be written");
        assert_eq!((copied.len(), format!("{deepest:?}").is_empty()), (2 * strict::MAX_DEPTH + 1, false));
        drop(deepest);
        let error = strict::parse(&deep(strict::MAX_DEPTH + 1)).expect_err("one level more");
        assert!(error.to_string().contains(DEEP), "{error}");
    };
    // As small as the stack of any thread of ours.
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(test).expect("a thread");
    thread.join().expect("nothing overflows and nothing panics");
}

#[test]
fn b4_a_megabyte_of_anything_is_read() {
    let padded = |fill: &str, between: &str, most: usize| {
        let mut text = String::new();
        let mut number = 0_u32;
        while text.len() < most {
            if number > 0 {
                text.push_str(between);
            }
            text.push_str(&fill.replace('#', &number.to_string()));
            number += 1;
        }
        text
    };
    let most = 1 << 20;
    for (name, arguments) in [
        ("keys", format!("{{{}}}", padded("\"key #\":1", ",", most))),
        ("items", format!("{{\"l\":[{}]}}", padded("1", ",", most))),
        ("empty objects", format!("{{\"l\":[{}]}}", padded("{}", ",", most))),
        ("escapes", format!("{{\"t\":\"{}\"}}", padded("\\u00e9", "", most))),
        ("a number", format!("{{\"n\":1.{}}}", padded("7", "", most))),
        ("blanks", format!("{{{}}}", " ".repeat(most))),
    ] {
        let text = format!(r#"{{"type":"tool_call","name":"t","arguments":{arguments}}}"#);
        // No clock is read in this crate; work that grew with the square would take minutes.
        assert!(parse_action(&text).is_ok(), "{name}: {} KiB", text.len() / 1024);
    }
}

fn understood(mode: ToolMode, answer: &LlmAnswer) -> Result<Understood, String> {
    understand(mode, answer, &tools(), false)
}

fn calls_of(understood: &Understood) -> Vec<(String, Value)> {
    let Understood::Calls(_, calls) = understood else { return Vec::new() };
    calls.iter().map(|call| (call.name.to_string(), call.arguments.clone())).collect()
}

#[test]
fn native_replies() {
    let text = |text: &str| understood(ToolMode::Native, &answer(text, &[]));
    let words = |text: &str| Ok(Understood::Final(text.to_owned()));
    assert_eq!(text("hello"), words("hello"));
    assert_eq!(text(r#"{"type":"final","content":"hi"}"#), words("hi"));
    assert_eq!(text("```json\n{\"type\":\"final\",\"content\":\"hi\"}\n```"), words("hi"));
    // Only a whole envelope is one; everything else is what the model wanted to say.
    for said in
        [r#"see {"type":"final","content":"hi"}"#, r#"{"type":"final"}"#, r#"{"city":"Bern"}"#, "[1]", "```\nx\n```"]
    {
        assert_eq!(text(said), words(said));
    }
    assert_eq!(text(""), Err("the reply was empty".into()));
    assert_eq!(text(" \n"), Err("the reply was empty".into()));
    let enveloped = text(r#"{"type":"tool_call","name":"local/read","arguments":{"a":1}}"#).expect("a call");
    assert_eq!(calls_of(&enveloped), [("local/read".to_owned(), json!({"a": 1}))]);
    let asked = text(r#"{"type":"ask_user","question":"which?"}"#).expect("a question");
    assert_eq!(calls_of(&asked), [("ask_user".to_owned(), json!({"question": "which?"}))]);
}

#[test]
fn b4_native_calls() {
    let calls = |list: &[(&str, &str)]| understood(ToolMode::Native, &answer("", list));
    let one = |name: &str, arguments: &str| calls(&[(name, arguments)]).map(|got| calls_of(&got)[0].clone());
    let read = |arguments: Value| Ok(("local/read".to_owned(), arguments));
    assert_eq!(one("local__read", r#"{"a":1}"#), read(json!({"a": 1})));
    assert_eq!(one("local/read", r#"{"a":1}"#), read(json!({"a": 1})));
    assert_eq!(one("local__read", ""), read(json!({})));
    assert_eq!(one("local__read", " \n"), read(json!({})));
    // What no tool is called stays as it was said; the tools room answers it.
    assert_eq!(one("lоcal__read", "{}"), Ok(("lоcal__read".to_owned(), json!({}))));
    assert_eq!(one("", "{}"), Ok((String::new(), json!({}))));
    for (arguments, complaint) in [
        ("{\"a\":", "are not JSON"),
        (r#"{"a":1,"a":2}"#, "is there twice"),
        (r#"{"a":1}{"a":1}"#, "are not JSON"),
        (r#"{"a":1e999}"#, "are not JSON"),
        ("[1]", "are not a JSON object"),
        ("null", "are not a JSON object"),
        ("\"{}\"", "are not a JSON object"),
    ] {
        let told = one("local__read", arguments).expect_err(arguments);
        assert!(told.contains(complaint) && told.contains("local__read"), "{arguments}: {told}");
        // One bad call makes the whole reply unusable: nothing of it runs.
        assert!(calls(&[("local__write", "{}"), ("local__read", arguments)]).is_err());
    }
    assert_eq!(one("ask_user", r#"{"question":"which?"}"#), Ok(("ask_user".to_owned(), json!({"question": "which?"}))));
    assert!(one("ask_user", "{}").expect_err("no question").contains("`question`"));
    assert!(one("ask_user", r#"{"question":7}"#).expect_err("no text").contains("`question`"));
    assert_eq!(calls(&[("local__read", "{}"), ("local__read", "{}")]).map(|got| calls_of(&got).len()), Ok(2));
}

#[test]
fn b4_cut_and_declined_replies() {
    let stopped = |stop_reason, text: &str, calls: &[(&str, &str)]| LlmAnswer { stop_reason, ..answer(text, calls) };
    let words = |text: &str| Ok(Understood::Final(text.to_owned()));
    let cut_call = stopped(StopReason::MaxTokens, "", &[("local__write", r#"{"a":1}"#)]);
    for mode in [ToolMode::Native, ToolMode::Json] {
        assert!(understood(mode, &cut_call).expect_err("cut").contains("cut at the token limit"));
        for declined in [StopReason::Refusal, StopReason::ContentFilter] {
            assert_eq!(understood(mode, &stopped(declined, "no", &[])), words("no"));
            assert_eq!(understood(mode, &stopped(declined, "", &[("local__write", "{}")])), words(""));
        }
    }
    let cut = |text| stopped(StopReason::MaxTokens, text, &[]);
    assert_eq!(understood(ToolMode::Native, &cut("so far")), words("so far"));
    assert_eq!(understood(ToolMode::Native, &cut("")), words(""));
    assert_eq!(understood(ToolMode::Json, &cut(r#"{"type":"final","content":"hi"}"#)), words("hi"));
    let told = understood(ToolMode::Json, &cut(r#"{"type":"final","content":"h"#)).expect_err("cut");
    assert!(told.contains("cut at the token limit"), "{told}");
    assert!(understood(ToolMode::Json, &answer("plain words", &[])).expect_err("no envelope").contains(JSON));
}
