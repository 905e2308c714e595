//! Snapshots of a process: `ps`, and `/ps` of a chat.

use serde_json::Value;

use crate::control::far::{Far, batch, node, runs};
use crate::control::lines::home;
use crate::home::Home;

#[test]
fn ps_shows_every_actor_of_a_running_batch() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall"), ("beta", "stall")]);
    let pid = running.pid();
    let (mut far, greeting) = Far::connect(&home, pid);
    let hello = &greeting["answer"];
    assert_eq!((&greeting["v"], &hello["type"], &hello["command"]), (&1.into(), &"hello".into(), &"batch".into()));
    assert_eq!(hello["pid"], pid);
    // The counter follows the reply.
    let look = far.until("two turns run", |look| runs(2)(look) && look["metrics"]["turns"]["final"] == 1);
    assert_eq!(node(&look, "sessions/alpha").expect("a session")["state"], "running");
    assert!(look["process"]["rss_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{look:#}");

    let run = home.run(["ps"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    assert!(run.stdout.starts_with(&format!("batch (process {pid}), up ")), "{}", run.stdout);
    assert!(run.stdout.contains("turns: 2 running, 0 waiting, 1 ended (1 final)\n"), "{}", run.stdout);
    for name in ["store", "llm", "tools", "local", "sessions", "alpha", "beta"] {
        assert!(
            run.stdout.lines().any(|line| line.contains(name) && line.contains("running")),
            "{name}: {}",
            run.stdout
        );
    }
    assert!(run.stdout.contains("└─ … 1 idle\n"), "{}", run.stdout);
    assert!(home.run(["ps", "--all"]).stdout.contains("first "), "an idle session is named");

    let run = home.run(["ps", "--json"]);
    let seen: Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
    let process = &seen["processes"][0];
    assert_eq!((&process["pid"], &process["metrics"]["sessions"]["running"]), (&pid.into(), &2.into()), "{seen}");
    assert!(node(process, "tools/local").is_some());

    let mut watching = home.agent(["ps", "--watch", "--json"]).spawn();
    assert!(watching.next_line().expect("a look").contains("\"alpha\""));
    for session in ["alpha", "beta"] {
        assert_eq!(home.run(["cancel", session]).code, Some(0));
    }
    running.finish();
    let run = watching.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains(&format!("process {pid} has ended")), "{run:?}");
}

#[test]
fn without_a_process_ps_says_what_to_do() {
    let home = home();
    for command in [&["ps"][..], &["ps", "--json"], &["cancel", "s"], &["drain"], &["mcp", "restart", "files"]] {
        let run = home.run(command.iter().copied());
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains("no running cli-agent was found for the store at "), "{run:?}");
        assert!(run.stderr.contains(".bob/sessions.db") && run.stderr.contains("--config"), "{run:?}");
    }
    assert!(!home.scratch.join(".bob").exists(), "looking leaves nothing behind");
}

#[test]
fn a_chat_shows_its_own_tree() {
    let home = home();
    let run = home.agent(["chat", "--session", "mine"]).stdin("hi\n/ps\n").run();
    assert_eq!(run.code, Some(0), "{run:?}");
    let line = run.stderr.lines().find(|line| line.contains("mine")).expect("its own session");
    assert!(line.contains("idle"), "{run:?}");
    assert!(run.stderr.contains("actor ") && run.stderr.contains("store "), "{run:?}");
}

#[test]
fn a_store_in_memory_is_found_by_its_configuration() {
    let home = home().keeping("memory");
    let folder = home.scratch.folder("runtime");
    let other = Home::with("default_model = \"demo:one\"", "[store]\nkind = \"memory\"\n");
    let agent = |home: &Home, args: &[&str]| home.agent(args.iter().copied()).env("XDG_RUNTIME_DIR", &folder);
    let mut chat = agent(&home, &["chat"]).open_stdin().spawn();
    chat.type_line("hi");
    chat.wait_stdout("hello");
    let run = agent(&home, &["ps"]).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.starts_with("chat (process ") && run.stdout.contains("store memory\n"), "{run:?}");
    let run = agent(&other, &["ps"]).run();
    assert_eq!(run.code, Some(2), "it has a configuration of its own: {run:?}");
    chat.end_stdin();
    assert_eq!(chat.finish().code, Some(0));
    assert_eq!(home.scratch.list("runtime/bob").len(), 1);
}
