//! Signals: the turn is cancelled, the outcome is told, the session is saved, and the code says which signal it was.

use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

use crate::home::{Home, the_line};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn x2_an_interrupt_in_the_middle_of_a_model_call_is_an_outcome() {
    let provider = FakeProvider::repeating([Reply::Silence]);
    let home = Home::served_by(&provider);
    let running = home.agent(["run", "--output", "json", "--session", "s", "hi"]).spawn();
    assert!(provider.asked_within(1, SOON), "the model was asked");
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let line = the_line(&run);
    assert_eq!((&line["finish_reason"], &line["saved"]), (&json!("cancelled"), &json!(true)), "{line}");
    assert!(provider.closed_early_within(1, SOON), "the provider's connection was closed");
    let shown = home.run(["sessions", "show", "s"]);
    assert!(shown.stdout.contains("you: hi"), "{shown:?}");
    assert!(shown.stderr.contains("cancelled"), "{shown:?}");
}

#[test]
fn x1_the_other_signals_have_their_codes() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let provider = FakeProvider::repeating([Reply::Silence]);
        let home = Home::served_by(&provider);
        let run = home.agent(["run", "--output", "json", "hi"]).env("BOB__RUNTIME__SHUTDOWN_GRACE_MS", "100").spawn();
        assert!(provider.asked_within(1, SOON), "the model was asked");
        run.signal(signal);
        let run = run.finish();
        assert_eq!(run.code, Some(code), "{run:?}");
        assert_eq!(the_line(&run)["finish_reason"], "cancelled");
    }
}

#[test]
fn x2_an_interrupt_before_the_prompt_was_read_is_told_as_well() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let running = home.agent(["run", "--output", "json", "--session", "s", "-"]).open_stdin();
    let running = running.env("BOB__LOG__LEVEL", "debug").spawn();
    running.wait_stderr("reading the prompt");
    running.signal(Signal::INT);
    // Its stdin stays open until it has answered the signal.
    running.wait_stdout("cancelled");
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let line = the_line(&run);
    assert_eq!((&line["finish_reason"], &line["turn_id"]), (&json!("cancelled"), &json!(null)));
}

#[test]
fn x2_a_piped_chat_ends_on_an_interrupt() {
    let provider = FakeProvider::repeating([Reply::Silence]);
    let home = Home::served_by(&provider);
    let mut running = home.agent(["chat", "--session", "s"]).open_stdin().spawn();
    running.type_line("hi");
    assert!(provider.asked_within(1, SOON), "the model was asked");
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    assert!(home.run(["sessions", "show", "s"]).stdout.contains("you: hi"));
}
