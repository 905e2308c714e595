//! The real process: its message about a refusal, and a suspension during a stream.

use crate::home::Home;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;
use rustix::process::Signal;
use std::time::Duration;

const KEY: &str = "sk-canary-0815-never-shown";

fn home(provider: &FakeProvider, timeout_ms: u64) -> Home {
    let tables = format!(
        "[llm]\nretry_max = 0\ntimeout_ms = {timeout_ms}\n[providers.fake]\nkind = \"openai\"\nbase_url = \"{}\"\n\
         api_key = \"${{CANARY_KEY}}\"\ncapabilities = {{ native_tools = true, context_tokens = 32000 }}\n",
        provider.base_url()
    );
    Home::with("default_model = \"fake:model\"", &tables)
}

#[test]
fn l10_a_refused_key_is_one_request_and_is_nowhere_to_be_read() {
    for (code, kind) in [(401, "unauthorized"), (403, "unauthorized"), (404, "unknown_model")] {
        let body = Some(format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#));
        let provider = FakeProvider::repeating([Reply::Status { code, headers: Vec::new(), body }]);
        let home = home(&provider, 10_000);
        let agent = home.agent(["run", "--output", "json", "--session", "s", "hi"]).env("CANARY_KEY", KEY);
        let run = agent.env("BOB__LOG__LEVEL", "trace").run();
        assert_eq!(run.code, Some(if code == 404 { 2 } else { 5 }), "{code} {kind}: {run:?}");
        assert_eq!(provider.requests().len(), 1);
        let authorization = provider.requests()[0].header("authorization").map(str::to_owned);
        assert_eq!(authorization, Some(format!("Bearer {KEY}")), "the key did go where it belongs");
        let kept = home.run(["sessions", "export", "s"]).stdout;
        for text in [&run.stdout, &run.stderr, &kept] {
            assert!(!text.contains(KEY), "{code}: {text}");
        }
        assert!(run.stdout.contains("; it said: Incorrect API key provided: [hidden]"), "{code}: {}", run.stdout);
    }
}

/// Deadlines use the monotonic clock: after a suspension the process is late by at most one deadline.
#[test]
fn l12_a_suspension_in_the_middle_of_a_stream_ends_in_time() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let provider = FakeProvider::repeating([Reply::text("Once upon a time").stall_after(3)]);
    let home = home(&provider, 2_000);
    let running = home.agent(["run", "--output", "stream-json", "hi"]).env("CANARY_KEY", KEY).spawn();
    running.wait_stdout("llm.stream.chunk");
    running.signal(Signal::STOP);
    std::thread::sleep(TIMEOUT + Duration::from_secs(1));
    let continued = Stopwatch::start();
    running.signal(Signal::CONT);
    let run = running.finish();
    let took = continued.assert_within(TIMEOUT + Duration::from_secs(1), "the end");
    println!("L12: ended {took:?} after it went on");
    assert_eq!(run.code, Some(5), "{run:?}");
    assert!(run.stdout.contains("was silent in the middle"), "{}", run.stdout);
}

/// Data that arrived during a suspension is read afterwards: only a silent provider times out.
#[test]
fn l12_an_answer_that_came_during_a_suspension_is_an_answer() {
    let provider = FakeProvider::repeating([Reply::text("Once upon a time").paced(Duration::from_millis(100))]);
    let home = home(&provider, 10_000);
    let running = home.agent(["run", "hi"]).env("CANARY_KEY", KEY).spawn();
    assert!(provider.asked_within(1, Duration::from_secs(30)), "the request");
    running.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::CONT);
    let run = running.finish();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Once upon a time\n"), "{run:?}");
}

/// The result names the model that answered, not the requested one.
#[test]
fn the_result_names_the_fallback_that_answered() {
    let down = FakeProvider::repeating([Reply::status(503)]);
    let other = FakeProvider::repeating([Reply::text("Hello.")]);
    let table = |name: &str, provider: &FakeProvider| {
        format!(
            "[providers.{name}]\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"none\"\n\
             capabilities = {{ native_tools = true, context_tokens = 32000 }}\n",
            provider.base_url()
        )
    };
    let tables =
        "[llm]\nretry_max = 0\nfallback = [\"other:m\"]\n".to_owned() + &table("down", &down) + &table("other", &other);
    let home = Home::with("default_model = \"down:m\"", &tables);
    let (code, line) = home.json(["--session", "s", "hi"]);
    assert_eq!((code, line["content"].as_str()), (Some(0), Some("Hello.")), "{line}");
    assert_eq!(line["model"], "other:m-2024-07-18", "as its provider calls it: {line}");
}
