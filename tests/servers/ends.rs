//! Killed actors, and one that fails too often: their resources are released, and no process is left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::Policy;
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{AgentRequest, AgentRuntime, Runtime, RuntimeBuilder};
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};

use crate::servers::fixture::{AGENT, Fixture, drill};
use crate::support::alone::alone;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{model_name, session, trapped, within};
use crate::support::stopwatch::Stopwatch;

/// The most a program may take from its last output to its end.
const SOON: Duration = Duration::from_secs(5);

/// How many appends the store takes before it dies, and the arguments of the program, each on a line.
const AS_THE_PROGRAM: &str = "BOB_TEST_AS_THE_PROGRAM";

/// The program, as a child of the test below: after some appends the store dies and no start of it succeeds. Without the
/// variable it tests nothing.
#[test]
fn as_the_program() {
    let Ok(lines) = std::env::var(AS_THE_PROGRAM) else { return };
    let (appends, arguments) = lines.split_once('\n').expect("a number and arguments");
    let (traps, store) = (Traps::default(), || Target::Room("store".into()));
    traps.arm(Trap::new(store(), Edge::After("Append"), Fault::Panic).after(appends.parse().expect("a number")));
    traps.arm(Trap::new(store(), Edge::Before("Starting"), Fault::Panic).after(1).times(5));
    let arguments: Vec<_> = std::iter::once("cli-agent").chain(arguments.lines()).map(Into::into).collect();
    cli_agent::main_with(&arguments, traps.hook())
}

#[test]
fn a6_a_room_that_dies_too_often_ends_the_program_with_last_words_and_nothing_left() {
    // The store dies after the input was kept; or after a whole turn of one step.
    for (front_end, appends, reply) in [
        (vec!["run", "--session", "s", "hi"], 0, Reply::Silence),
        (vec!["chat", "--session", "s"], 1, Reply::text("hello")),
    ] {
        let provider = FakeProvider::repeating([reply]);
        let servers = drill("drill", &[], "") + &drill("stubborn", &["ignore-term"], "");
        let fixture = Fixture::new(&provider, &servers);
        let is_chat = front_end[0] == "chat";
        let asked = format!("{appends}\n--config\nagent.toml\n{}", front_end.join("\n"));
        let agent = fixture.program(std::env::current_exe().expect("this test")).env(AS_THE_PROGRAM, asked);
        let agent =
            agent.args(["--exact", "servers::ends::as_the_program", "--nocapture"]).env("BOB__STORE__KIND", "sqlite");
        let mut running = agent.env("BOB__STORE__PATH", "s.db").open_stdin().spawn();
        if is_chat {
            running.type_line("hi");
            running.wait_stdout("hello\n");
        }
        running.wait_stderr("the root gives up");
        let gave_up = Stopwatch::start();
        running.wait_stderr("store died more than 5 times within 180 s, the last time of:");
        // Its input is still open: it ends by itself.
        running.wait_stderr("error: the runtime gave up");
        let run = running.finish();
        let took = gave_up.assert_within(SOON, "the end");
        fixture.assert_nothing_left();
        println!("{}: ended {took:?} after its last output", front_end[0]);
        assert_eq!(run.code, Some(70), "{run:?}");
        assert_eq!(run.stderr.matches("the root gives up").count(), 1, "it escalates once: {}", run.stderr);
        assert!(fixture.pids("drill").len() == 1 && fixture.pids("stubborn").len() == 1, "nobody was started again");
        let shown = fixture.agent(["sessions", "show", "s"]).env("BOB__STORE__KIND", "sqlite");
        let shown = shown.env("BOB__STORE__PATH", "s.db").run();
        assert!(shown.stdout.contains("you: hi"), "what was accepted is kept: {shown:?}");
    }
}

#[test]
fn the_environment_arms_no_trap() {
    let provider = FakeProvider::repeating([Reply::text("hello")]);
    let run = Fixture::new(&provider, "").agent(["run", "hi"]).env("BOB_DRILL_TRAPS", "store next panic x9").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
}

fn spec(id: &str, modes: &[&str]) -> ServerSpec {
    let arguments = std::iter::once("drill-server").chain(modes.iter().copied());
    ServerSpec::stdio(ServerId::new(id), AGENT, arguments)
}

fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn until(what: &str, reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn pids(runtime: &Runtime) -> BTreeSet<i32> {
    runtime.servers().into_iter().filter_map(|server| server.pid).collect()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the descriptors of this process").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_whoever_is_killed_gives_back_its_processes_descriptors_and_tasks() {
    if alone("servers::ends::a5_whoever_is_killed_gives_back_its_processes_descriptors_and_tasks").is_some() {
        return;
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let echo = |server| ScriptedReply::call(format!("mcp/{server}/echo"), serde_json::json!({ "text": "hi" }));
    let model = ScriptedLlm::replies(vec![echo("one"), echo("two"), ScriptedReply::text("done")]);
    let builder = RuntimeBuilder::new(model_name()).model(Arc::new(model));
    let policy = Policy { require_high_risk_approval: false, ..Policy::default() };
    let builder = builder.policy(policy).tool_server(spec("one", &[])).tool_server(spec("two", &[]));
    let (runtime, traps) = trapped(builder).await;
    until("two servers", || pids(&runtime).len() == 2).await;
    let (held, mut ended) = (descriptors(), BTreeSet::new());
    let rooms = [
        ("tools/one", "Tools", 1),
        ("tools/two", "Tools", 1),
        ("tools", "Tree", 2),
        ("llm", "Infer", 0),
        ("store", "Append", 0),
        ("sessions", "News", 0),
    ];
    for (room, kind, ends) in rooms {
        let old = pids(&runtime);
        let trap = traps.arm(Trap::new(Target::Room(room.into()), Edge::Before(kind), Fault::Kill));
        let turn = within(runtime.run(AgentRequest::text(session(&room.replace('/', "-")), "go"))).await;
        let _whoever_looks = within(runtime.tree()).await;
        assert_eq!(turn.expect("an outcome").response().content, "done", "{room}");
        assert_eq!(traps.triggered(trap), 1, "{room}");
        until("the end of its processes", || old.iter().filter(|pid| !lives(**pid)).count() == ends).await;
        until("their successors", || pids(&runtime).len() == 2 && pids(&runtime).iter().all(|pid| lives(*pid))).await;
        ended.extend(old.into_iter().filter(|pid| !lives(*pid)));
    }
    assert_eq!(ended.len(), 4);
    until("the descriptors of those that ended", || descriptors() <= held).await;
    within(runtime.shutdown()).await;
    drop(runtime);
    until("the end of every task", || tasks() <= before).await;
}
