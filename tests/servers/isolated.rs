//! Tool servers of the configuration that not all sessions share: a process for each tenant or session, never given to
//! another one, and none when it was unused for long enough.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bob::context::RequestContext;
use bob::events::AgentEvent;
use bob::tools::CallStatus;
use bob::tools::servers::{Isolation, ServerId, ServerSpec, ServerStart, ServerState, ServerStatus};
use bob::{AgentRequest, AgentRuntime, Runtime};
use fastrand::Rng;

use crate::servers::brought::{bringing, built, drill, ended, fixture, lives};
use crate::servers::fixture::kill;
use crate::support::runtime::{session, within};

/// Longer than any of these tests.
const LONG: Duration = Duration::from_secs(3_600);

/// Soon over.
const SHORT: Duration = Duration::from_millis(100);

fn isolated(id: &str, isolation: Isolation) -> ServerSpec {
    ServerSpec { isolation, ..drill(id) }
}

fn request(tenant: &str, id: &str, text: &str) -> AgentRequest {
    let request = AgentRequest::text(session(id), text);
    if tenant.is_empty() { request } else { request.context(RequestContext::of_tenant(tenant)) }
}

/// The model's final text; without a tenant if its name is empty.
async fn says(runtime: &Runtime, tenant: &str, id: &str, text: &str) -> String {
    within(runtime.run(request(tenant, id, text))).await.expect("it is taken").response().content.clone()
}

/// The process that runs the calls of this session.
async fn pid(runtime: &Runtime, tenant: &str, id: &str) -> i32 {
    let said = says(runtime, tenant, id, "mcp/x/pid").await;
    said.trim().parse().unwrap_or_else(|_| panic!("no process id: {said}"))
}

/// The processes, with whose they are.
fn processes(runtime: &Runtime) -> Vec<(String, i32)> {
    let of = |status: ServerStatus| Some((status.owner?.to_string(), status.pid?));
    runtime.servers().into_iter().filter_map(of).collect()
}

/// The names of the processes in the tree.
async fn nodes(runtime: &Runtime) -> Vec<String> {
    let tree = runtime.tree().await;
    let tools = tree.into_iter().find(|node| node.name == "tools").expect("a supervisor of the tools");
    tools.children.into_iter().map(|node| node.name).filter(|name| name.contains('~')).collect()
}

#[tokio::test]
async fn two_tenants_have_two_processes_and_none_after_the_time_without_use() {
    let runtime = built(fixture().server_pool(SHORT, 64).tool_server(isolated("x", Isolation::Tenant))).await;
    assert_eq!((processes(&runtime), nodes(&runtime).await), (vec![], vec![]), "none starts without a turn");
    let (acme, globex) = (pid(&runtime, "acme", "a.1").await, pid(&runtime, "globex", "g.1").await);
    assert_ne!(acme, globex);
    ended(acme).await;
    ended(globex).await;
    // What is told of a process follows its end.
    let status = within(async {
        loop {
            let status = runtime.servers().remove(0);
            if (status.state, status.owner.as_ref(), status.pid) == (ServerState::Asleep, None, None) {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(status.tools > 1, "what it offers is known: {status:?}");
    assert!(runtime.health().await.mcp_pool_ready);
    // It starts again for the next turn.
    let again = pid(&runtime, "acme", "a.1").await;
    assert!(again != acme && again != globex);
    runtime.shutdown().await;
    ended(again).await;
}

#[tokio::test]
async fn the_sessions_of_a_tenant_share_a_process_and_it_is_shown_with_its_owner() {
    let runtime = built(fixture().server_pool(LONG, 64).tool_server(isolated("x", Isolation::Tenant))).await;
    let acme = pid(&runtime, "acme", "a.1").await;
    assert_eq!(pid(&runtime, "acme", "a.2").await, acme);
    let (globex, none) = (pid(&runtime, "globex", "g.1").await, pid(&runtime, "", "n.1").await);
    assert_eq!(pid(&runtime, "", "n.2").await, none, "those without a tenant share one, too");
    assert_eq!(BTreeSet::from([acme, globex, none]).len(), 3);
    let owners = [("tenant acme", acme), ("tenant globex", globex), ("no tenant", none)];
    assert_eq!(processes(&runtime), owners.map(|(owner, pid)| (owner.to_owned(), pid)));
    assert_eq!(nodes(&runtime).await, ["x~1", "x~2", "x~3"]);
    // A session that was closed leaves the process to the others of its tenant.
    assert!(within(runtime.close(session("a.1"))).await);
    assert_eq!(pid(&runtime, "acme", "a.2").await, acme);
    // One process is restarted by its name in the tree, all of them by the id of the server.
    assert!(runtime.restart_server(ServerId::new("x~2")).await);
    assert_ne!(pid(&runtime, "globex", "g.1").await, globex);
    assert_eq!(pid(&runtime, "acme", "a.2").await, acme);
    assert!(runtime.restart_server(ServerId::new("x")).await);
    assert_ne!(pid(&runtime, "acme", "a.2").await, acme);
    runtime.shutdown().await;
    assert_eq!(processes(&runtime), []);
}

#[tokio::test]
async fn a_session_has_a_process_of_its_own_that_ends_with_it() {
    let runtime = built(fixture().server_pool(LONG, 64).tool_server(isolated("x", Isolation::Session))).await;
    let (one, two) = (pid(&runtime, "acme", "a.1").await, pid(&runtime, "acme", "a.2").await);
    assert_ne!(one, two);
    assert_eq!(pid(&runtime, "acme", "a.1").await, one, "it is the same in the next turn");
    assert_eq!(processes(&runtime)[0].0, "session a.1");
    assert!(within(runtime.close(session("a.1"))).await);
    ended(one).await;
    assert!(lives(two));
    assert_ne!(pid(&runtime, "acme", "a.1").await, one);
    assert!(within(runtime.delete(session("a.2"))).await.expect("it is deleted"));
    ended(two).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_lazy_server_whose_tools_are_known_starts_with_the_first_call() {
    let lazy = ServerSpec { start: ServerStart::Lazy, ..isolated("x", Isolation::Tenant) };
    let runtime = built(fixture().server_pool(LONG, 64).tool_server(lazy)).await;
    let listed = says(&runtime, "acme", "a", "tools").await;
    assert!(listed.contains("mcp/x/echo"), "{listed}");
    assert_eq!(processes(&runtime).len(), 1, "the first list needs a process");
    assert_eq!(says(&runtime, "globex", "g", "tools").await, listed, "the next one does not");
    assert_eq!(processes(&runtime).len(), 1);
    let globex = pid(&runtime, "globex", "g").await;
    assert_eq!(processes(&runtime)[1], ("tenant globex".to_owned(), globex));
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_list_of_tools_without_a_session_gives_its_process_to_no_session() {
    let runtime = built(fixture().server_pool(LONG, 64).tool_server(isolated("x", Isolation::Session))).await;
    assert!(runtime.tools_now().is_empty());
    let listed = within(runtime.tools()).await;
    assert!(listed.iter().any(|tool| tool.id.as_str() == "mcp/x/echo"));
    let asked = processes(&runtime);
    assert_eq!(asked.iter().map(|(owner, _)| owner.as_str()).collect::<Vec<_>>(), ["list of tools"]);
    assert_ne!(pid(&runtime, "", "a").await, asked[0].1);
    assert_eq!((within(runtime.tools()).await, runtime.tools_now()), (listed.clone(), listed));
    assert_eq!(processes(&runtime).len(), 2, "the list is known");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_required_server_of_tenants_is_tried_before_there_is_one() {
    let needed = |args: &[&str]| {
        let args = std::iter::once("drill-server").chain(args.iter().copied());
        let spec = ServerSpec::stdio(ServerId::new("x"), crate::servers::fixture::AGENT, args);
        ServerSpec { required: true, isolation: Isolation::Tenant, ..spec }
    };
    let refused = fixture().tool_server(needed(&["--mode", "exit-init=7"])).build().await;
    assert!(matches!(&refused, Err(bob::BuildError::RequiredServer(why)) if why.contains("status 7")), "{refused:?}");
    let runtime = built(fixture().tool_server(needed(&[]))).await;
    assert_eq!(processes(&runtime).len(), 1);
    runtime.shutdown().await;
}

#[tokio::test]
async fn when_all_processes_are_in_use_a_turn_goes_on_without_and_an_unused_one_makes_room() {
    let runtime = built(fixture().server_pool(LONG, 1).tool_server(isolated("x", Isolation::Tenant))).await;
    let acme = pid(&runtime, "acme", "a").await;
    let globex = pid(&runtime, "globex", "g").await;
    ended(acme).await;
    // A turn of one tenant runs on the only process.
    let mut busy = within(runtime.run_stream(request("globex", "g", r#"mcp/x/sleep {"ms":60000}"#))).await.unwrap();
    while !matches!(within(busy.next_event()).await.expect("an event").event, AgentEvent::ToolCalled { .. }) {}
    let mut without = within(runtime.run_stream(request("acme", "a", "mcp/x/pid"))).await.expect("it is taken");
    let mut notes = Vec::new();
    while let Some(event) = within(without.next_event()).await {
        if let AgentEvent::TurnStarted { servers, .. } = &event.event {
            notes.extend(servers.iter().filter_map(|server| server.note.clone()));
        }
    }
    let Some(Ok(result)) = without.ended() else { panic!("it ended otherwise: {without:?}") };
    assert!(matches!(&notes[..], [note] if note.contains("1 processes of tool servers are in use")), "{notes:?}");
    let calls = &result.response().tool_transcript;
    assert!(calls.iter().all(|call| call.status == CallStatus::Cancelled), "{calls:?}");
    assert!(format!("{calls:?}").contains("1 processes of tool servers are in use"), "{calls:?}");
    assert!(lives(globex), "the one in use is left alone");
    assert!(runtime.cancel(session("g")).await);
    while within(busy.next_event()).await.is_some() {}
    assert_ne!(pid(&runtime, "acme", "a").await, globex);
    ended(globex).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_reload_ends_the_processes_of_a_server_that_changed_or_left() {
    let runtime = built(fixture().server_pool(LONG, 64).tool_server(isolated("x", Isolation::Tenant))).await;
    let (acme, globex) = (pid(&runtime, "acme", "a").await, pid(&runtime, "globex", "g").await);
    let reloaded = runtime.reload_servers(vec![isolated("x", Isolation::Tenant)]).expect("a good list");
    assert_eq!(reloaded.kept.len(), 1);
    assert_eq!(pid(&runtime, "acme", "a").await, acme);
    let reloaded = runtime.reload_servers(vec![drill("x")]).expect("a good list");
    assert_eq!(reloaded.changed.len(), 1);
    ended(acme).await;
    ended(globex).await;
    let shared = pid(&runtime, "acme", "a").await;
    assert_eq!(pid(&runtime, "globex", "g").await, shared, "now all share one");
    runtime.reload_servers(vec![isolated("x", Isolation::Session)]).expect("a good list");
    ended(shared).await;
    let alone = pid(&runtime, "acme", "a").await;
    assert_ne!(pid(&runtime, "acme", "a.2").await, alone);
    let reloaded = runtime.reload_servers(Vec::new()).expect("a good list");
    assert_eq!(reloaded.stopped.len(), 1);
    ended(alone).await;
    assert_eq!(says(&runtime, "acme", "a", "tools").await, "tools: ");
    runtime.shutdown().await;
}

#[tokio::test]
async fn what_sessions_of_two_tenants_bring_is_not_shared_even_if_it_is_the_same() {
    let runtime = built(fixture()).await;
    let bring = async |tenant: &str, id: &str| {
        let request = AgentRequest { options: Some(bringing(&[drill("x")])), ..request(tenant, id, "mcp/x/pid") };
        let said = within(runtime.run(request)).await.expect("it is taken").response().content.clone();
        said.trim().parse::<i32>().unwrap_or_else(|_| panic!("no process id: {said}"))
    };
    let (one, two, other) = (bring("acme", "a.1").await, bring("acme", "a.2").await, bring("globex", "g.1").await);
    assert_eq!(one, two);
    assert_ne!(one, other);
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_refused_request_gives_the_session_of_another_tenant_no_server() {
    let runtime = built(fixture()).await;
    let bring =
        |tenant: &str| AgentRequest { options: Some(bringing(&[drill("x")])), ..request(tenant, "a.1", "mcp/x/pid") };
    let pid_of = async |request: AgentRequest| {
        let said = within(runtime.run(request)).await.expect("it is taken").response().content.clone();
        said.trim().parse::<i32>().unwrap_or_else(|_| panic!("no process id: {said}"))
    };
    let own = pid_of(bring("acme")).await;
    let before = nodes(&runtime).await;
    assert_eq!(before.len(), 1);
    let refused = within(runtime.run(bring("globex"))).await.expect_err("it is acme's");
    assert!(refused.to_string().contains("belongs to another tenant"), "{refused}");
    let opened = within(runtime.tenant("globex").unwrap().open(session("a.1"), bringing(&[drill("x")]))).await;
    assert!(opened.expect_err("it is acme's").to_string().contains("belongs to another tenant"));
    assert_eq!(pid_of(request("acme", "a.1", "mcp/x/pid")).await, own);
    assert_eq!(nodes(&runtime).await, before, "no process was started for the other one");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_configured_server_is_not_taken_for_one_that_a_session_wants_to_itself() {
    let runtime = built(fixture().tool_server(drill("x"))).await;
    let bring = |isolation| AgentRequest {
        options: Some(bringing(&[isolated("x", isolation)])),
        ..request("acme", "a.1", "mcp/x/pid")
    };
    let refused = within(runtime.run(bring(Isolation::Session))).await.expect_err("more sessions share that one");
    assert!(refused.to_string().contains("the configuration has another tool server of the id"), "{refused}");
    within(runtime.run(bring(Isolation::Shared))).await.expect("it is the configured one");
    runtime.shutdown().await;
}

/// Turns of two tenants with kills, closes and a time without use that is over at random.
#[tokio::test]
async fn no_process_ever_runs_calls_of_two_owners() {
    let ttl = Duration::from_millis(20);
    let spec = |isolation| isolated("x", isolation);
    for isolation in [Isolation::Tenant, Isolation::Session] {
        let runtime = built(fixture().server_pool(ttl, 3).tool_server(spec(isolation))).await;
        let mut rng = Rng::with_seed(7);
        let mut owners: BTreeMap<i32, String> = BTreeMap::new();
        let mut reused = 0;
        // On a busy machine the time without use is over between most turns: then it takes more of them.
        for turn in 0..600 {
            if turn >= 60 && owners.len() > 4 && reused > 10 {
                break;
            }
            let tenant = ["acme", "globex"][rng.usize(..2)];
            let id = format!("{tenant}.{}", rng.u32(..2));
            let said = says(&runtime, tenant, &id, "mcp/x/pid").await;
            // One that was killed within the call has no answer.
            if let Ok(pid) = said.trim().parse::<i32>() {
                let owner = if isolation == Isolation::Tenant { tenant } else { &id };
                reused += usize::from(owners.contains_key(&pid));
                assert_eq!(owners.entry(pid).or_insert_with(|| owner.to_owned()), owner);
            }
            match rng.u32(..8) {
                0 => processes(&runtime).first().into_iter().for_each(|(_, pid)| kill(*pid)),
                1 => drop(within(runtime.close(session(&id))).await),
                2 => tokio::time::sleep(ttl).await,
                _ => {}
            }
        }
        assert!(owners.len() > 4 && reused > 10, "{} processes, {reused} used again", owners.len());
        runtime.shutdown().await;
        for pid in owners.keys() {
            ended(*pid).await;
        }
        assert_eq!(processes(&runtime), []);
    }
}
