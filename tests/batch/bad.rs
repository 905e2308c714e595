//! Lines that are none, turns that fail, and a batch that cannot begin.

use serde_json::{Value, json};

use crate::batch::lines::{home, line, numbers, results};
use crate::home::Home;

#[test]
fn a_bad_line_is_a_result_of_its_own_and_the_rest_goes_on() {
    let home = home();
    let large = line("s", &"x".repeat(1 << 20));
    let text =
        ["nonsense\n", &line("s", "one"), "{\"session\":\"s\"}\n", &line("no/id", "hi"), &large, &line("s", "two")];
    let run = home.agent(["batch", "-"]).stdin(text.concat()).run();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let mut results = results(&run);
    results.sort_by_key(|result| result["line"].as_u64());
    assert_eq!(
        results.iter().map(|result| result["line"].as_u64()).collect::<Vec<_>>(),
        (1..=6).map(Some).collect::<Vec<_>>()
    );
    for (at, what) in
        [(0, "line 1: "), (2, "missing field `prompt`"), (3, "line 4: "), (4, "larger than 1048576 bytes")]
    {
        let error = &results[at]["error"];
        assert_eq!((&error["kind"], &error["retryable"]), (&json!("invalid"), &json!(false)), "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(what)), "{what}: {error}");
        assert_eq!(results[at]["finish_reason"], "error");
    }
    assert_eq!((&results[2]["session_id"], &results[4]["session_id"]), (&json!("s"), &Value::Null));
    assert_eq!((&results[1]["content"], &results[5]["content"]), (&json!("hello"), &json!("hello")));
    assert!(
        run.stderr.contains("finished 2, limited 0, suspended 0, cancelled 0, failed 4 (invalid 4)"),
        "{}",
        run.stderr
    );
    for told in ["error: line 1: ", "error: line 3: missing field `prompt`", "error: line 4: ", "error: line 5: larger"]
    {
        assert!(run.stderr.contains(told), "a result may be in a file: {}", run.stderr);
    }
    let many = home.agent(["batch", "-"]).stdin("nonsense\n".repeat(9)).run();
    assert!(many.stderr.contains("error: line 5: ") && !many.stderr.contains("error: line 6: "), "{}", many.stderr);
    assert!(many.stderr.contains("error: further lines are invalid; their results say why"), "{}", many.stderr);
}

#[test]
fn the_exit_code_is_that_of_the_worst_line() {
    let home = home();
    let code = |text: &str| home.agent(["batch", "--quiet", "-"]).stdin(text).run().code;
    assert_eq!(code(""), Some(0));
    let guarded = line("g", "list") + &line("s", "hi");
    assert_eq!(code(&guarded), Some(3));
    assert_eq!(code(&(guarded.clone() + "nonsense")), Some(2));
    assert_eq!(code(&(guarded + &line("f", "break") + "nonsense")), Some(5));
}

#[test]
fn a_failed_line_does_not_end_its_session() {
    let home = home();
    let text = line("s", "break") + &line("s", "hi");
    let run = home.agent(["batch", "-"]).stdin(text).run();
    assert_eq!((run.code, numbers(&run)), (Some(5), vec![1, 2]), "{}", run.stderr);
    let results = results(&run);
    assert_eq!((&results[0]["error"]["kind"], &results[1]["content"]), (&json!("llm"), &json!("hello")));
}

#[test]
fn what_cannot_begin_says_why_and_prints_no_result() {
    let home = home();
    home.scratch.folder("folder");
    for (args, what) in [
        (&["batch", "missing.jsonl"][..], "missing.jsonl"),
        (&["batch", "folder"], "it is a folder"),
        (&["batch"], "FILE"),
        (&["batch", "--concurrency", "0", "-"], "--concurrency"),
        (&["batch", "--model", "nobody:m", "-"], "nobody"),
    ] {
        let run = home.run(args.iter().copied());
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(what), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_line_may_name_a_model_and_an_unknown_one_fails_alone() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let named = |model: &str| format!("{}\n", json!({ "session": "s", "prompt": "hi", "model": model }));
    let run = home.agent(["batch", "-"]).stdin(named("demo:two") + &named("nobody:m") + &named("two")).run();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let mut results = results(&run);
    results.sort_by_key(|result| result["line"].as_u64());
    assert_eq!((&results[0]["model"], &results[0]["finish_reason"]), (&json!("demo:two"), &json!("final")));
    assert_eq!((&results[1]["error"]["kind"], &results[2]["error"]["kind"]), (&json!("llm"), &json!("invalid")));
}
