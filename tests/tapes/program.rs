//! Tapes and journals through the real binary, as its user meets them.

use std::path::Path;

use bob::store::replay;
use serde_json::Value;

use crate::support::program::Program;
use crate::support::scratch::Scratch;
use crate::tapes::stage::{folder, journals};

const AGENT: &str = env!("CARGO_BIN_EXE_cli-agent");

/// A scripted model and a tool server that is another process.
const CONFIG: &str = r#"
[runtime]
default_model = "demo:one"
[llm]
retry_max = 0
[providers.demo]
kind = "scripted"
script = "script.json"
[prompt]
bootstrap = "Your password is ${TAPE_PASSWORD}."
[[mcp.servers]]
id = "drill"
command = "AGENT"
args = ["drill-server", "--log", "drill.log"]
env = { DRILL_KEY = "${TAPE_KEY}" }
[store]
kind = "json"
path = "sessions"
"#;

const SCRIPT: &str = r#"[{"when": "echo", "replies": [{"calls": [{"name": "mcp/drill/echo", "arguments": {"text": "hear hear, sk-tape-canary-1"}}]}, {"text": "it was heard"}]},
{"replies": [{"text": "hello"}]}]"#;

struct Fixture(Scratch);

impl Fixture {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.agent_toml(&CONFIG.replace("AGENT", AGENT));
        scratch.write("script.json", SCRIPT);
        Self(scratch)
    }

    fn agent(&self, args: &[&str]) -> Program {
        Program::new(AGENT).dir(self.0.path()).args(["--config", "agent.toml"]).args(args.iter().copied())
    }

    fn with_keys(&self, args: &[&str]) -> Program {
        self.agent(args).env("TAPE_PASSWORD", "sk-tape-canary-1").env("TAPE_KEY", "sk-tape-canary-2")
    }
}

#[test]
fn g15_a_run_is_recorded_without_its_keys_and_replayed_without_server_and_keys() {
    let fixture = Fixture::new();
    let run = fixture.with_keys(&["run", "--session", "s", "--tape", "record:some.tape", "echo this"]).run();
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "it was heard"), "{run:?}");
    let tape = fixture.0.read("some.tape");
    assert!(!tape.contains("sk-tape-canary"), "{tape}");
    assert!(tape.contains("Your password is [redacted].") && tape.contains("mcp/drill/echo"), "{tape}");
    let again = fixture.with_keys(&["run", "--tape", "record:some.tape", "echo this"]).run();
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("remove it"), "{}", again.stderr);
    assert_eq!(fixture.0.read("some.tape"), tape, "it is as it was");

    // Neither the server's program nor the script nor a key is there.
    let server = fixture.0.read("agent.toml").replace(AGENT, "no-such-program");
    fixture.0.agent_toml(&server);
    std::fs::remove_file(fixture.0.join("script.json")).unwrap();
    let log = fixture.0.read("drill.log");
    let replayed = fixture.agent(&["run", "--session", "t", "--tape", "replay:some.tape", "echo this"]).run();
    assert_eq!((replayed.code, replayed.stdout.trim()), (Some(0), "it was heard"), "{replayed:?}");
    assert_eq!(fixture.0.read("drill.log"), log, "no server was started");
    let other = fixture.agent(&["run", "--tape", "replay:some.tape", "echo that"]).run();
    assert_eq!(other.code, Some(5), "{other:?}");
    assert!(other.stderr.contains("messages[0].parts[0].text"), "{}", other.stderr);

    let overwritten = fixture.with_keys(&["run", "--tape", "overwrite:some.tape", "hi"]).run();
    assert_eq!(overwritten.code, Some(2), "the script is gone: {overwritten:?}");
    assert_eq!(fixture.0.read("some.tape"), tape, "for a run that does not begin nothing is written over");
    assert_eq!(fixture.with_keys(&["run", "--tape", "record:other.tape", "hi"]).run().code, Some(2));
    assert!(!fixture.0.join("other.tape").exists(), "nor is anything left in the way of the next try");
}

#[test]
fn replay_says_whether_a_journal_would_be_written_again() {
    let fixture = Fixture::new();
    let file = folder().join("calls.journal");
    let text = std::fs::read_to_string(&file).unwrap();
    let same = fixture.agent(&["replay", file.to_str().unwrap()]).run();
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.stdout.contains("the same"), "{same:?}");

    fixture.0.write("other.journal", text.replacen("kept a", "kept nothing", 1));
    let other = fixture.agent(&["replay", "other.journal"]).run();
    assert_eq!(other.code, Some(0), "what a tool returned is an input, not a decision: {other:?}");
    fixture.0.write("other.journal", text.replacen("\"content\":\"done after 2 steps\"", "\"content\":\"else\"", 1));
    let other = fixture.agent(&["replay", "--json", "other.journal"]).run();
    assert_eq!(other.code, Some(1), "{other:?}");
    let told: Value = serde_json::from_str(other.stdout.trim()).unwrap();
    assert_eq!((&told["same"], &told["expected"]["body"]["content"]), (&Value::Bool(false), &"else".into()), "{told}");

    for (name, text) in
        [("empty", String::new()), ("words", "hello\n".to_owned()), ("gap", text.lines().skip(1).collect())]
    {
        fixture.0.write(name, text);
        let refused = fixture.agent(&["replay", name]).run();
        assert_eq!(refused.code, Some(2), "{name}: {refused:?}");
        assert!(!refused.stderr.contains("line 0"), "{refused:?}");
    }
    assert_eq!(fixture.agent(&["replay", "none.journal"]).run().code, Some(2));
    assert_eq!(fixture.with_keys(&["replay", "--session", "nobody"]).run().code, Some(2));
}

/// Each tape of a real model and real servers, through the program and without either.
#[test]
fn what_a_real_model_said_is_replayed_without_it() {
    let real = folder().join("real");
    let mut replayed = 0;
    for entry in std::fs::read_dir(&real).into_iter().flatten().flatten() {
        let file = entry.path();
        if file.extension().is_none_or(|ending| ending != "tape") {
            continue;
        }
        replay_real(&file);
        replayed += 1;
    }
    assert!(replayed > 0, "there are tapes in {}", real.display());
}

fn replay_real(tape: &Path) {
    let scratch = Scratch::new();
    let beside = |ending: &str| std::fs::read_to_string(tape.with_extension(ending)).unwrap();
    scratch.agent_toml(&beside("toml"));
    scratch.write("lines.jsonl", beside("jsonl"));
    let agent = |args: &[&str]| {
        // They were recorded with the limits that this profile has.
        let program = Program::new(AGENT).dir(scratch.path()).env("BOB__RUNTIME__PROFILE", "strict");
        program.args(["--config", "agent.toml"]).args(args.iter().copied()).run()
    };
    let how = format!("replay:{}", tape.display());
    let batch = agent(&["batch", "--quiet", "--concurrency", "1", "--tape", &how, "lines.jsonl"]);
    let journals = journals(&tape.with_extension("journal"));
    assert!(!journals.is_empty(), "{} has a journal", tape.display());
    for recorded in journals {
        let id = recorded[0].session.to_string();
        let exported = agent(&["sessions", "export", &id]);
        let now = replay::read(exported.stdout.lines()).unwrap_or_else(|why| panic!("{why}: {batch:?}"));
        let now = now.into_values().next().unwrap_or_default();
        let difference = replay::difference(&recorded, &now);
        assert!(difference.is_none(), "{} {id}: {} {batch:?}", tape.display(), difference.unwrap());
    }
}
