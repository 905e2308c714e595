//! Display of servers and their tools, and forms.

use std::time::Duration;

use serde_json::{Value, json};

use crate::servers::fixture::{AGENT, Fixture, drill};
use crate::support::clean::assert_clean;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::terminal::{CTRL_D, ENTER, Terminal};

fn three() -> (FakeProvider, Fixture) {
    let provider = FakeProvider::repeating([Reply::text("ok")]);
    let servers = drill("well", &[], "tools = [\"echo\", \"append\"]")
        + &drill("ill", &["exit-init=4"], "required = true")
        + "[[mcp.servers]]\nid = \"gone\"\ncommand = \"npx\"\n";
    let fixture = Fixture::new(&provider, &servers);
    (provider, fixture)
}

#[test]
fn mcp_list_waits_for_each_server_and_shows_what_is_wrong() {
    let (_provider, fixture) = three();
    let run = fixture.agent(["mcp", "list"]).env("PATH", fixture.scratch.path()).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_clean(&run.stdout);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    let rows: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["well", "stdio", "2025-11-25", "ready", "2", "0", "drill", "0.1.0"]);
    assert_eq!(rows[2][..2], ["ill", "stdio"]);
    assert!(!rows[2].contains(&"ready"), "{rows:?}");
    assert!(run.stdout.contains("status 4") && run.stdout.contains("install Node.js"), "{}", run.stdout);
    let run = fixture.agent(["mcp", "list", "--json"]).env("PATH", fixture.scratch.path()).run();
    let list: Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
    let states: Vec<_> =
        list["servers"].as_array().expect("a list").iter().map(|server| server["state"].clone()).collect();
    assert!(
        states[0] == "ready" && states[1..].iter().all(|state| state == "restarting" || state == "gave_up"),
        "{list}"
    );
    assert_eq!(list["servers"][1]["required"], true, "{list}");
    fixture.assert_nothing_left();
}

#[test]
fn what_only_a_running_process_can_do_is_refused_with_a_way_out() {
    let (_provider, fixture) = three();
    for args in [&["mcp", "restart", "well"][..], &["mcp", "reload"]] {
        let run = fixture.agent(args.iter().copied()).run();
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(
            run.stderr.contains("no running cli-agent was found") && run.stderr.contains("start one"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn tools_have_their_source_and_risk() {
    let provider = FakeProvider::start([]);
    let fixture =
        Fixture::new(&provider, &drill("well", &["slow-start=300"], "tools = [\"echo\", \"append\", \"crash\"]"));
    let run = fixture.agent(["tools"]).run();
    let rows: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert!(rows.contains(&vec!["mcp/well/echo", "low", "mcp/well"]), "{}", run.stdout);
    assert!(rows.contains(&vec!["mcp/well/append", "medium", "mcp/well"]), "{}", run.stdout);
    assert!(rows.contains(&vec!["mcp/well/crash", "high", "mcp/well"]), "{}", run.stdout);
}

/// A server whose tool has no annotations.
const UNSAID: &str = r#"while read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case $line in
*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"bank","version":"1"}}' ;;
*'"tools/list"'*) result='{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}' ;;
*) continue ;;
esac
printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

#[test]
fn the_risk_of_a_tool_is_listed_with_its_origin() {
    let provider = FakeProvider::start([]);
    let servers = drill("well", &[], "tools = [\"echo\", \"append\", \"crash\", \"drift\"]")
        + "[[mcp.servers]]\nid = \"bank\"\ncommand = \"sh\"\nargs = [\"bank.sh\"]\n\
           [tools.\"mcp/well/dri*\"]\nrisk = \"medium\"\n";
    let fixture = Fixture::new(&provider, &servers);
    fixture.scratch.write("bank.sh", UNSAID);
    let says = |name: &str, value: bool| json!({ "by": "annotation", "name": name, "value": value });
    let expected = [
        ("mcp/bank/pay", "high", json!({ "by": "default" }), "by default: unsaid"),
        ("mcp/well/append", "medium", says("destructiveHint", false), "by destructiveHint=false"),
        ("mcp/well/crash", "high", says("destructiveHint", true), "by destructiveHint=true"),
        (
            "mcp/well/drift",
            "medium",
            json!({ "by": "configuration", "pattern": "mcp/well/dri*" }),
            "by [tools.\"mcp/well/dri*\"]",
        ),
        ("mcp/well/echo", "low", says("readOnlyHint", true), "by readOnlyHint=true"),
    ];
    let json = |args: &[&str]| {
        let run = fixture.agent(args.iter().copied()).run();
        assert_eq!(run.code, Some(0), "{run:?}");
        serde_json::from_str::<Value>(&run.stdout).expect("one line of JSON")
    };
    let of = |tools: &mut dyn Iterator<Item = &Value>| {
        let mut listed: Vec<_> = tools
            .filter(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with("mcp/")))
            .map(|tool| (tool["name"].clone(), tool["risk"].clone(), tool["risk_from"].clone()))
            .collect();
        listed.sort_by_key(|(name, ..)| name.to_string());
        listed
    };
    let wanted: Vec<_> =
        expected.iter().map(|(name, risk, from, _)| (json!(name), json!(risk), from.clone())).collect();
    let tools = json(&["tools", "--json"]);
    assert_eq!(of(&mut tools["tools"].as_array().unwrap().iter()), wanted);
    let servers = json(&["mcp", "list", "--json"]);
    let servers = servers["servers"].as_array().unwrap();
    assert_eq!(of(&mut servers.iter().flat_map(|server| server["risks"].as_array().unwrap())), wanted);
    let (tools, servers) = (fixture.agent(["tools"]).run().stdout, fixture.agent(["mcp", "list"]).run().stdout);
    for (name, risk, _, from) in expected {
        let row = tools.lines().find(|row| row.starts_with(name)).unwrap_or_default();
        assert!(row.contains(risk) && row.contains(from), "{name}: {tools}");
        assert!(servers.contains(&format!("{risk} {from}: ")), "{name}: {servers}");
    }
    fixture.assert_nothing_left();
}

#[test]
fn doctor_checks_each_server_and_says_what_to_do() {
    let (_provider, fixture) = three();
    let run = fixture.agent(["doctor"]).env("PATH", fixture.scratch.path()).run();
    assert_eq!(run.code, Some(6), "{run:?}");
    assert!(
        run.stdout.contains("ok     server: well: ready, 2 tools available (drill 0.1.0, MCP 2025-11-25)"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("FAIL   server: the tool server `ill` ended with status 4"), "{}", run.stdout);
    assert!(run.stdout.contains("run its command manually"), "{}", run.stdout);
    assert!(run.stdout.contains("`npx`") && run.stdout.contains("install Node.js"), "{}", run.stdout);
    fixture.assert_nothing_left();
}

#[test]
fn a_person_fills_in_the_form_of_a_server() {
    let provider = FakeProvider::start([
        Reply::call("c1", "mcp__drill__ask", "{}"),
        Reply::text("Thank you."),
        Reply::text("Yes."),
    ]);
    let fixture = Fixture::new(&provider, &drill("drill", &[], ""));
    let mut terminal = Terminal::start(AGENT, &["--config", "agent.toml"], fixture.scratch.path(), &[])
        .deadline(Duration::from_secs(120));
    terminal.wait_for("auto>");
    terminal.type_line("Ask me.");
    terminal.wait_for("What shall the drill use?");
    terminal.wait_for("Name [Ada]>");
    terminal.press(ENTER);
    terminal.wait_for("count (a whole number) [3]>");
    terminal.type_line("17");
    terminal.wait_for("it must be at most 9");
    terminal.type_line("7");
    terminal.wait_for("share (a number) [0.5]>");
    terminal.press(ENTER);
    terminal.wait_for("sure (yes | no) [yes]>");
    terminal.type_line("no");
    terminal.wait_for("colour (red | green) [green]>");
    terminal.type_line("red");
    terminal.wait_for("comment>");
    terminal.press(ENTER);
    terminal.wait_for("Thank you.");
    let told = provider.requests()[1].body.to_string();
    for said in ["accept", "red", "Ada", "7", "false"] {
        assert!(told.contains(said), "{said}: {told}");
    }
    // A line that is typed before the turn has ended is for that turn.
    terminal.wait_until("two prompts", |screen| screen.contents().matches("auto>").count() == 2);
    terminal.type_line("Are you there?");
    terminal.wait_for("Yes.");
    // The editor has the keyboard again.
    terminal.wait_until("three prompts", |screen| screen.contents().matches("auto>").count() == 3);
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn without_a_person_a_form_is_declined() {
    let provider = FakeProvider::start([Reply::call("c1", "mcp__drill__ask", "{}"), Reply::text("Well.")]);
    let fixture = Fixture::new(&provider, &drill("drill", &[], ""));
    let run = fixture.agent(["run", "Ask."]).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    let told = provider.requests()[1].body.to_string();
    assert!(told.contains("decline"), "{told}");
}
