//! Control of a process: cancel, drain, and its tool servers.

use std::time::Instant;

use serde_json::json;

use crate::control::far::{Far, batch, runs};
use crate::control::lines::{home, results};

#[test]
fn a_turn_is_cancelled_from_outside_and_ends_as_cancelled_there() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let (mut far, _) = Far::connect(&home, running.pid());
    far.until("a turn runs", runs(1));
    let run = home.run(["cancel", "no such session!"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    let run = home.run(["cancel", "first"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("nothing runs in the session first"), "{run:?}");
    let began = Instant::now();
    assert_eq!(
        far.ask(json!({ "type": "cancel", "session": "alpha" })),
        json!({ "type": "cancelled", "was_running": true })
    );
    running.wait_stdout("\"alpha\"");
    println!("figure: a cancel from outside to its line on stdout {:?}", began.elapsed());
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let alpha = results(&run).into_iter().find(|result| result["session_id"] == "alpha").expect("its result");
    assert_eq!(alpha["finish_reason"], "cancelled");
    let kept = home.run(["sessions", "show", "alpha", "--json"]);
    assert!(kept.stdout.contains("\"finish_reason\":\"cancelled\""), "{kept:?}");
}

#[test]
fn a_batch_that_drains_ends_what_runs_and_leaves_the_rest() {
    let home = home();
    let sessions: Vec<String> = (0..12).map(|number| format!("s{number}")).collect();
    let running = batch(&home, "2", sessions.iter().map(|session| (session.as_str(), "slow")));
    let run = home.run(["drain"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("draining process") && run.stderr.contains("has ended"), "{run:?}");
    let run = running.finish();
    assert_eq!(run.code, Some(75), "lines are left: {run:?}");
    let results = results(&run);
    assert!(results.len() < 12 && results.iter().all(|result| result["finish_reason"] == "final"), "{run:?}");
    assert!(run.stderr.contains("draining: no new lines are started"), "{run:?}");
    let run = home.run(["batch", "--finish", "lines.jsonl"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stdout.lines().count(), 13, "{run:?}");
}

#[test]
fn a_chat_that_drains_answers_and_leaves() {
    let home = home();
    let mut chat = home.agent(["chat"]).open_stdin().spawn();
    chat.type_line("hi");
    chat.wait_stdout("hello");
    chat.type_line("slow");
    let (mut far, _) = Far::connect(&home, chat.pid());
    far.until("the second turn runs", |look| {
        let turns = &look["metrics"]["turns"];
        turns["submitted"] == 2 && turns["final"] == 1 && runs(1)(look)
    });
    let run = home.run(["drain", "--no-wait"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let run = chat.finish();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\nslowly\n"), "{run:?}");
    assert!(run.stderr.contains("this process is draining"), "{run:?}");
}

#[test]
fn a_sessions_last_records_are_told_in_a_line_each() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let (mut far, _) = Far::connect(&home, running.pid());
    let told = far.ask(json!({ "type": "records", "session": "first", "most": 2 }));
    let kinds: Vec<_> = told["records"].as_array().expect("records").iter().map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["answered", "outcome"], "{told}");
    assert_eq!(told["records"][0]["text"], "hello");
    let told = far.ask(json!({ "type": "records", "session": "nobody", "most": 2 }));
    assert_eq!((&told["type"], &told["kind"]), (&json!("refused"), &json!("not_found")));
    assert_eq!(home.run(["cancel", "alpha"]).code, Some(0));
    running.finish();
}

#[cfg(all(feature = "mcp", feature = "soak"))]
mod servers {
    use super::*;
    use crate::control::far::node;
    use crate::home::{AGENT, Home};

    fn server(id: &str) -> String {
        format!("[[mcp.servers]]\nid = \"{id}\"\ncommand = \"{AGENT}\"\nargs = [\"drill-server\"]\n")
    }

    #[test]
    fn tool_servers_of_a_running_process_are_restarted_and_reloaded() {
        let script = json!([{ "when": "stall", "replies": ["stall"] }, { "replies": [{ "text": "hello" }] }]);
        let home = Home::scripted(&script);
        let plain = home.scratch.read("agent.toml");
        home.scratch.agent_toml(&format!("{plain}{}", server("files")));
        let text = crate::control::lines::line("first", "hi") + &crate::control::lines::line("alpha", "stall");
        home.scratch.write("lines.jsonl", text);
        let running =
            home.agent(["--config", "agent.toml", "batch", "lines.jsonl"]).deadline(crate::control::far::LONG).spawn();
        running.wait_stdout("\"line\":1}");
        let (mut far, _) = Far::connect(&home, running.pid());
        far.until("a turn runs", runs(1));
        let pid = far.look()["metrics"]["servers"][0]["pid"].clone();
        assert!(pid.is_number());
        let own = far.look()["process"]["children"].clone();
        assert!(own.as_array().is_some_and(|all| all.iter().any(|child| child["pid"] == pid)), "{own}");

        let run = home.run(["mcp", "restart", "nobody"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains("there is no tool server nobody; there are files"), "{run:?}");
        let run = home.run(["mcp", "restart", "files"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let look = far.until("it is another process", |look| {
            let server = &look["metrics"]["servers"][0];
            server["state"] == "ready" && server["pid"] != pid
        });
        assert_eq!(node(&look, "tools/files").expect("a server")["restarts"], 1, "{look:#}");
        assert_eq!(look["metrics"]["restarts"]["children"], 1);

        home.scratch.agent_toml(&format!("{plain}{}{}", server("files"), server("more")));
        let run = home.run(["mcp", "reload"]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), "started: more; unchanged: files\n"), "{run:?}");
        home.scratch.agent_toml(&format!("{plain}[[mcp.servers]]\nid = \"files\"\n"));
        // The process reports errors of the file it reads, which is also the client's.
        let told = far.ask(json!({ "type": "reload_servers" }));
        assert_eq!((&told["type"], &told["kind"]), (&json!("refused"), &json!("invalid")), "{told}");
        home.scratch.agent_toml(&plain);
        assert_eq!(home.run(["cancel", "alpha"]).code, Some(0));
        running.finish();
    }

    #[test]
    fn a_configuration_nobody_trusts_is_not_read_again() {
        let script = json!([{ "when": "stall", "replies": ["stall"] }, { "replies": [{ "text": "hello" }] }]);
        let home = Home::scripted(&script);
        assert_eq!(home.found(["trust", "--yes"]).run().code, Some(0));
        let text = crate::control::lines::line("first", "hi") + &crate::control::lines::line("alpha", "stall");
        home.scratch.write("lines.jsonl", text);
        let running = home.found(["batch", "lines.jsonl"]).deadline(crate::control::far::LONG).spawn();
        running.wait_stdout("\"line\":1}");
        let plain = home.scratch.read("agent.toml");
        home.scratch.agent_toml(&format!("{plain}{}", server("files")));
        let run = home.found(["mcp", "reload"]).run();
        assert_eq!(run.code, Some(2), "{run:?}");
        let is_told = run.stderr.contains("has changed since it was trusted and would now start the tool server files");
        assert!(is_told, "{run:?}");
        assert_eq!(home.run(["cancel", "alpha"]).code, Some(0));
        running.finish();
    }
}
