//! Sessions that are bound to a pool of machines run there alone.

use serde_json::Value;

use crate::home::Home;
use crate::scale::database::{Database, Machine};
use crate::scale::workers::{ended, worker};

/// A machine whose model answers with this text.
fn machine<'d>(database: &'d Database, text: &str) -> Machine<'d> {
    Machine::of(database, Home::scripted(&serde_json::json!([{ "replies": [{ "text": text }] }])))
}

#[test]
fn a_session_of_a_pool_waits_for_its_pool_and_is_run_nowhere_else() {
    let Some(database) = Database::new("a_session_of_a_pool_waits_for_its_pool") else { return };
    let (any, gpu) = (machine(&database, "anywhere"), machine(&database, "on the gpu"));
    let works = worker(&any, "4");
    let submitted = any.agent(["submit", "--follow", "--session", "one", "--pool", "gpu", "hi"]).spawn();
    submitted
        .wait_stderr("[no process of the pool gpu is alive; the message waits for one: `cli-agent work --pool gpu`]");
    let free = any.run(["submit", "--session", "two", "hi"]);
    assert_eq!((free.code, free.stdout.trim()), (Some(0), "anywhere"), "the worker works: {}", free.stderr);
    let seen = any.run(["ps"]);
    let line = "1 message for the pool gpu, in which no process is alive\n";
    assert!(seen.stdout.contains(line), "{}", seen.stdout);

    let of_pool = gpu.agent(["work", "--json", "--pool", "gpu"]).spawn();
    of_pool.wait_stderr("working on up to 64 sessions at a time in gpu;");
    let run = submitted.finish();
    assert!(run.code == Some(0) && run.stdout.contains("on the gpu"), "{run:?}");
    let seen = any.run(["ps", "--json"]);
    let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(seen["store"]["empty_pools"], serde_json::json!([]), "{seen}");
    let in_gpu = |node: &&Value| node["pools"] == serde_json::json!(["gpu"]);
    assert_eq!(seen["store"]["nodes"].as_array().unwrap().iter().filter(in_gpu).count(), 1, "{seen}");
    let shown = any.run(["sessions", "show", "one"]);
    assert!(shown.stderr.contains("pool: gpu\n"), "{}", shown.stderr);

    // It is bound now, and a process outside hears of those inside.
    let outside = any.run(["run", "--session", "one", "again"]);
    assert_eq!(outside.code, Some(75), "{}", outside.stderr);
    let said = format!(
        "the session is bound to the pool gpu, in which this process is not; processes of that pool: cli-agent (process {})",
        of_pool.pid()
    );
    assert!(outside.stderr.contains(&said), "{}", outside.stderr);
    let elsewhere = any.run(["submit", "--session", "one", "--pool", "big", "hi"]);
    assert_eq!(elsewhere.code, Some(2), "{}", elsewhere.stderr);
    assert!(
        elsewhere.stderr.contains("bound to the pool gpu, and the message to the pool big"),
        "{}",
        elsewhere.stderr
    );
    let again = any.run(["submit", "--session", "one", "hi"]);
    assert_eq!((again.code, again.stdout.trim()), (Some(0), "on the gpu"), "{}", again.stderr);
    drop(ended(of_pool));
    // A process that ends notes so itself; where that fails, its lease has to be over.
    let alive =
        "SELECT count(*) FROM bob_nodes WHERE 'gpu' = ANY (pools) AND NOT dead AND expires_at > clock_timestamp()";
    database.until(alive, "0");

    let empty = any.run(["run", "--session", "one", "--take-over", "again"]);
    assert_eq!(empty.code, Some(75), "{}", empty.stderr);
    assert!(empty.stderr.contains("no process of that pool is known"), "{}", empty.stderr);
    let unbound = any.run(["sessions", "set", "one", "--clear", "pool"]);
    assert_eq!(unbound.code, Some(0), "{}", unbound.stderr);
    let moved = any.run(["submit", "--session", "one", "hi"]);
    assert_eq!((moved.code, moved.stdout.trim()), (Some(0), "anywhere"), "{}", moved.stderr);
    drop(ended(works));
}

#[test]
fn a_pool_holds_in_a_store_of_one_machine_as_well() {
    for kind in ["sqlite", "json"] {
        let home = Home::scripted(&serde_json::json!([{ "replies": [{ "text": "hello" }] }])).keeping(kind);
        let config = home.scratch.read("agent.toml");
        home.scratch.write("gpu.toml", config.replace("[runtime]\n", "[runtime]\npools = [\"gpu\"]\n"));
        let run = home.run(["--config", "gpu.toml", "run", "--session", "one", "hi"]);
        assert_eq!(run.code, Some(0), "{kind}: {}", run.stderr);
        let set = home.run(["sessions", "set", "one", "--pool", "gpu"]);
        assert_eq!(set.code, Some(0), "{kind}: {}", set.stderr);
        let outside = home.run(["run", "--session", "one", "hi"]);
        assert_eq!(outside.code, Some(75), "{kind}: {}", outside.stderr);
        assert!(outside.stderr.contains("bound to the pool gpu, in which this process is not"), "{}", outside.stderr);
        let inside = home.run(["--config", "gpu.toml", "run", "--session", "one", "hi"]);
        assert_eq!(inside.code, Some(0), "{kind}: {}", inside.stderr);
        // A worker outside leaves a message that binds a new session to one inside.
        let put = home.run(["submit", "--no-wait", "--session", "two", "--pool", "gpu", "hi"]);
        assert_eq!(put.code, Some(0), "{kind}: {}", put.stderr);
        let mut works = home.agent(["work", "--json"]).spawn();
        let free = home.run(["submit", "--session", "free", "hi"]);
        assert_eq!(free.code, Some(0), "{kind}: {}", free.stderr);
        assert!(works.next_line().is_some_and(|line| line.contains("\"session_id\":\"free\"")), "{kind}");
        drop(ended(works));
        let mut works = home.agent(["--config", "gpu.toml", "work", "--json"]).spawn();
        assert!(works.next_line().is_some_and(|line| line.contains("\"session_id\":\"two\"")), "{kind}");
        drop(ended(works));
    }
}

#[test]
fn a_message_for_a_pool_without_a_process_can_be_cancelled() {
    let Some(database) = Database::new("a_message_for_a_pool_without_a_process") else { return };
    let (any, gpu) = (machine(&database, "anywhere"), machine(&database, "on the gpu"));
    let of_pool = gpu.agent(["work", "--json", "--pool", "gpu"]).spawn();
    let bound = any.run(["submit", "--session", "bound", "--pool", "gpu", "hi"]);
    assert_eq!(bound.code, Some(0), "{}", bound.stderr);
    drop(ended(of_pool));
    let works = worker(&any, "4");
    for (session, pool) in [("new", Some("gqu")), ("bound", None)] {
        let pool = pool.map(|pool| ["--pool", pool]);
        let mut asked = vec!["submit", "--session", session];
        asked.extend(pool.iter().flatten());
        asked.push("hi");
        let submitted = any.agent(asked).spawn();
        submitted.wait_stderr("the message waits for one: `cli-agent work --pool");
        let cancelled = any.run(["cancel", session]);
        assert_eq!(cancelled.code, Some(0), "{session}: {}", cancelled.stderr);
        assert!(cancelled.stderr.contains(&format!("cancelled in {session}")), "{}", cancelled.stderr);
        let run = submitted.finish();
        assert!(run.code == Some(130) && run.stderr.contains("before its turn began"), "{session}: {run:?}");
        let nothing = any.run(["cancel", session]);
        assert_eq!(nothing.code, Some(2), "{session}: {}", nothing.stderr);
    }
    assert_eq!(
        database.sql("SELECT count(*) FROM bob_inbox WHERE refusal IS NULL"),
        "0",
        "nor does a cancellation wait"
    );
    drop(ended(works));
}

#[test]
fn in_a_store_of_one_machine_a_message_for_a_pool_can_be_cancelled() {
    for kind in ["sqlite", "json"] {
        let home = Home::scripted(&serde_json::json!([{ "replies": [{ "text": "hello" }] }])).keeping(kind);
        let put = home.run(["submit", "--no-wait", "--session", "two", "--pool", "gqu", "hi"]);
        assert_eq!(put.code, Some(0), "{kind}: {}", put.stderr);
        let cancelled = home.run(["cancel", "two"]);
        assert_eq!(cancelled.code, Some(0), "{kind}: {}", cancelled.stderr);
        let again = home.run(["submit", "--no-wait", "--session", "two", "hi"]);
        assert_eq!(again.code, Some(0), "{kind}: {}", again.stderr);
        let mut works = home.agent(["work", "--json"]).spawn();
        assert!(works.next_line().is_some_and(|line| line.contains("hello")), "{kind}: its session goes on");
        drop(ended(works));
    }
}
