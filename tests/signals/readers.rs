//! The reader of stdout closes it: no message, everything is saved, and the exit code is that of SIGPIPE.

use std::time::Duration;

use crate::signals::fixture::{AGENT, Fixture, drill};
use crate::support::program::{Program, Run};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

/// The program before a reader, with the code it ended with on stderr.
fn before(fixture: &Fixture, arguments: &str, reader: &str) -> Run {
    let script = format!("{{ '{AGENT}' --config agent.toml {arguments}; echo code $? >&2; }} | {reader}");
    Program::new("/bin/sh").args(["-c", &script]).dir(fixture.scratch.path()).deadline(Duration::from_secs(30)).run()
}

#[test]
fn x7_a_reader_that_leaves_ends_every_command_quietly_and_everything_is_kept() {
    let long = "word ".repeat(30_000);
    let provider = FakeProvider::repeating([Reply::text(&long)]);
    for (what, arguments, is_whole) in [
        ("text", "run --session s hi", true),
        ("an object", "run --session s --output json hi", true),
        // Missed at the first event, in the middle of the turn, which is cancelled.
        ("events", "run --session s --output stream-json hi", false),
        ("a talk", "chat --session s < lines", true),
        ("a batch", "batch lines.jsonl", true),
    ] {
        let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", &drill("drill", &["launcher"], ""));
        fixture.scratch.write("lines", "hi\n".repeat(3));
        fixture.scratch.write("lines.jsonl", "{\"session\":\"s\",\"prompt\":\"hi\"}\n".repeat(3));
        // More than a pipe holds is written, so that a reader that closed early is noticed.
        let run = before(&fixture, arguments, "head -c 1");
        assert_eq!(run.stderr, "code 141\n", "{what}: 128 and the number of SIGPIPE, and not a word: {run:?}");
        let shown = fixture.agent(["sessions", "show", "s"]).run();
        assert!(shown.stdout.contains("you: hi"), "{what}: {}", shown.stderr);
        assert!(!is_whole || shown.stdout.contains("word word"), "{what}: {}", shown.stderr);
        fixture.assert_nothing_left();
    }
}
