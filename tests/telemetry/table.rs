//! `[telemetry]` in the configuration: where spans and metrics go, with which key, and what of a turn they have.

use serde_json::json;

use crate::home::Home;
use crate::telemetry::receiver::Receiver;

/// A folder whose configuration names a receiver and the key for it, with more in that table.
fn home(receiver: &Receiver, more: &str) -> Home {
    let tables = format!(
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[prices.\"demo:one\"]\ninput = 1.0\noutput = 2.0\n\
         [telemetry]\notlp_endpoint = \"{}\"\nheaders = {{ x-key = \"Bearer ${{OTLP_KEY}}\" }}\n{more}",
        receiver.address
    );
    let home = Home::with("default_model = \"demo:one\"", &tables);
    home.scratch.write("s.json", json!([{ "replies": [{ "text": "a secret answer" }] }]).to_string());
    home
}

#[test]
fn the_configuration_names_the_receiver_and_its_key_and_contents_stay_here() {
    let receiver = Receiver::start();
    let home = home(&receiver, "");
    let run = home.agent(["run", "a secret question"]).env("OTLP_KEY", "canary-of-otlp").run();
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "a secret answer"), "{}", run.stderr);
    assert_eq!(receiver.spans(2).len(), 2);
    let text = receiver.text("/v1/metrics");
    for name in ["bob.cost", "bob.queue.wait", "gen_ai.client.operation.time_to_first_chunk"] {
        assert!(text.contains(name), "{name} was not sent");
    }
    let text = receiver.text("/v1/traces");
    assert!(text.contains("x-key: Bearer canary-of-otlp"), "the key is in each request");
    assert!(text.contains("bob.cost") && !text.contains("a secret"), "names and counts, no texts");
}

#[test]
fn contents_are_sent_where_the_table_says_so_and_a_variable_names_another_receiver_without_its_key() {
    let (named, other) = (Receiver::start(), Receiver::start());
    let home = home(&named, "capture_content = true\n");
    let run = home.agent(["run", "a secret question"]).env("OTLP_KEY", "canary-of-otlp");
    let run = run.env("OTEL_EXPORTER_OTLP_ENDPOINT", &other.address).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(other.spans(2).len(), 2);
    let text = other.text("/v1/traces");
    assert!(text.contains("a secret question") && text.contains("a secret answer"), "both are asked for");
    assert!(!text.contains("canary"), "a key is for the receiver it was set for");
    assert_eq!(named.text(""), "", "the variable has precedence");
}

#[test]
fn a_found_configuration_that_sends_telemetry_is_asked_about_first() {
    let receiver = Receiver::start();
    let home = home(&receiver, "capture_content = true\n");
    let run = home.found(["run", "hi"]).env("OTLP_KEY", "canary-of-otlp").run();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let told = "would send to the receiver of telemetry, with the texts of messages, arguments and results";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert_eq!(receiver.text(""), "");
}
