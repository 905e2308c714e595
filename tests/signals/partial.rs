//! An answer that is interrupted on the screen is in the session.

use rustix::process::Signal;

use crate::signals::fixture::Fixture;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

#[test]
fn what_was_shown_of_an_interrupted_answer_is_kept_and_the_next_prompt_has_it() {
    let provider = FakeProvider::start([Reply::text("one two three four").stall_after(3), Reply::text("and four")]);
    let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", "");
    let running = fixture.agent(["run", "--output", "stream-json", "--session", "s", "count"]).spawn();
    running.wait_stdout("\"llm.stream.chunk\"");
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let events: Vec<serde_json::Value> =
        run.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let chunks = events.iter().filter(|event| event["type"] == "llm.stream.chunk");
    let text = |event: &serde_json::Value| event["delta"]["text"].as_str().map(str::to_owned);
    let shown: String = chunks.filter_map(text).collect();
    let end = events.last().expect("a last event");
    assert!(!shown.is_empty(), "{run:?}");
    assert!(end["content"].as_str().is_some_and(|content| content.starts_with(&shown)), "shown {shown:?}, kept {end}");

    let run = fixture.agent(["sessions", "show", "s"]).run();
    assert!(run.stdout.contains(&shown) && run.stdout.contains("(interrupted)"), "{run:?}");
    let run = fixture.agent(["run", "--session", "s", "go on"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "and four\n"), "{run:?}");
    let asked = provider.requests().pop().expect("a second request").body.to_string();
    assert!(asked.contains(&shown) && asked.contains("(interrupted)"), "the model sees where it stopped: {asked}");
}
