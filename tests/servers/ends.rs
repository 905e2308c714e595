//! Actors that are killed, and a room that dies too often: what they owned is given back, and no process is left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bob::{
    AgentRequest, AgentRuntime, Policy, Runtime, RuntimeBuilder, ScriptedLlm, ScriptedReply, ServerId, ServerSpec,
    ServerTransport,
};
use bob_actors::child::ChildSpec;
use bob_actors::drill::traps::{Edge, Harm, Trap, Victim};

use crate::house::{AGENT, House, drill};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{model_name, session, within};

/// The most a program may take from its last words to its end.
const SOON: Duration = Duration::from_secs(5);

/// After the input was kept, the store dies and no start of it succeeds.
const STORE_IS_LOST: &str = "store after:Append panic; store before:Starting panic x5";

/// The same after a whole turn of one step.
const STORE_IS_LOST_LATER: &str = "store after:Append panic +1; store before:Starting panic x5";

#[test]
fn a6_a_room_that_dies_too_often_ends_the_program_with_last_words_and_nothing_left() {
    for (front_end, traps, reply) in [
        (vec!["run", "--session", "s", "hi"], STORE_IS_LOST, Reply::Silence),
        (vec!["chat", "--session", "s"], STORE_IS_LOST_LATER, Reply::text("hello")),
    ] {
        let provider = FakeProvider::repeating([reply]);
        let servers = drill("drill", &[], "") + &drill("stubborn", &["ignore-term"], "");
        let house = House::new(&provider, &servers);
        let is_chat = front_end[0] == "chat";
        let agent = house.agent(front_end.iter().copied()).env("BOB__STORE__KIND", "sqlite");
        let mut running = agent.env("BOB__STORE__PATH", "s.db").env("BOB_DRILL_TRAPS", traps).open_stdin().spawn();
        if is_chat {
            running.type_line("hi");
            running.wait_stdout("hello\n");
        }
        running.wait_stderr("the root gives up");
        let gave_up = Instant::now();
        running.wait_stderr("store died more than 5 times within 180 s, the last time of:");
        // Its input is still open: nobody had to tell it.
        running.wait_stderr("error: the runtime gave up");
        let run = running.finish();
        let took = gave_up.elapsed();
        house.assert_nothing_left();
        println!("{}: ended {took:?} after its last words", front_end[0]);
        assert_eq!(run.code, Some(70), "{run:?}");
        assert!(took < SOON, "{took:?}");
        assert_eq!(run.stderr.matches("the root gives up").count(), 1, "it escalates once: {}", run.stderr);
        assert!(house.pids("drill").len() == 1 && house.pids("stubborn").len() == 1, "nobody was started again");
        let shown = house.agent(["sessions", "show", "s"]).env("BOB__STORE__KIND", "sqlite");
        let shown = shown.env("BOB__STORE__PATH", "s.db").run();
        assert!(shown.stdout.contains("you: hi"), "what was accepted is kept: {shown:?}");
    }
}

#[test]
fn words_that_are_no_trap_are_refused() {
    let provider = FakeProvider::start([]);
    let house = House::new(&provider, "");
    let run = house.agent(["run", "hi"]).env("BOB_DRILL_TRAPS", "store next hug").run();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("not a trap: store next hug"), "{run:?}");
}

fn spec(id: &str) -> ServerSpec {
    ServerSpec::new(ServerId::new(id), ServerTransport::Stdio(ChildSpec::new(AGENT, ["drill-server"])))
}

fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn until(what: &str, reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited for {what}");
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
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let echo = |server| ScriptedReply::call(format!("mcp/{server}/echo"), serde_json::json!({ "text": "hi" }));
    let model = ScriptedLlm::replies(vec![echo("one"), echo("two"), ScriptedReply::text("done")]);
    let builder = RuntimeBuilder::new(model_name()).model(Arc::new(model));
    let policy = Policy { require_high_risk_approval: false, ..Policy::default() };
    let builder = builder.policy(policy).tool_server(spec("one")).tool_server(spec("two"));
    let runtime = builder.build().await.expect("a runtime");
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
        let trap = runtime.traps().arm(Trap::new(Victim::Room(room.into()), Edge::Before(kind), Harm::Kill));
        let turn = within(runtime.run(AgentRequest::text(session(&room.replace('/', "-")), "go"))).await;
        let _whoever_looks = within(runtime.tree()).await;
        assert_eq!(turn.expect("an outcome").response().content, "done", "{room}");
        assert_eq!(runtime.traps().sprung(trap), 1, "{room}");
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
