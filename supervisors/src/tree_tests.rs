//! The real tree: real actors under their supervisors, killed at random.

use super::*;
use crate::look::NodeStatus;
use crate::restart::{RestartIntensity, RestartRule};
use crate::stopwatch::Stopwatch;
use crate::testing::{Diary, Fixture, LONG, Part, Poke};
use bob_actors::llm::ScriptedLlm;
use bob_actors::store::MemoryStore;
use bob_actors::tools::PolicyError;
use bob_messages::ids::SessionId;
use bob_messages::store::StoreMessage;
use std::error::Error;

struct Home {
    tree: Tree,
    sessions: Part,
    diary: Diary,
}

fn spec(sessions: &Part) -> TreeSpec {
    TreeSpec {
        rooms: Rooms::default(),
        feed: Feed::new(Vec::new()),
        store: MemoryStore::new(),
        llm: Arc::new(ScriptedLlm::replies(Vec::new())),
        retry: RetryPolicy::default(),
        tools: Vec::new(),
        policy: Policy::default(),
        servers: DesiredServers::default(),
        further: Vec::new(),
        sessions: sessions.core(),
    }
}

async fn home() -> Home {
    let diary = Diary::default();
    let sessions = Part::new("sessions", &diary);
    Home { tree: start(spec(&sessions)).await.unwrap(), sessions, diary }
}

fn shape(nodes: &[NodeState]) -> String {
    let inner = |node: &NodeState| match node.children.as_slice() {
        [] => format!("{} {:?}", node.name, node.state),
        children => format!("{} {:?} [{}]", node.name, node.state, shape(children)),
    };
    nodes.iter().map(inner).collect::<Vec<_>>().join(", ")
}

const WHOLE: &str = "store Running, llm Running, tools Running [local Running], sessions Running";

/// Waits until the tree is whole again, asking no faster than it answers.
async fn whole(tree: &Tree) -> Vec<NodeState> {
    for _ in 0..20_000 {
        let nodes = tree.tree().await;
        assert!(tree.ended().borrow().is_none(), "the tree ended");
        if shape(&nodes) == WHOLE {
            return nodes;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the tree does not become whole");
}

async fn claim(tree: &Tree, id: &str) -> u64 {
    let (reply, answer) = Reply::channel();
    let session = SessionId::parse(id).unwrap();
    let store = tree.rooms.store.wait_for_actor_within(LONG).await.unwrap();
    store.send_message(StoreMessage::Claim { session, whole: false, reply }).unwrap();
    answer.await.unwrap().unwrap().epoch
}

#[tokio::test(start_paused = true)]
async fn the_live_tree_shows_every_actor() {
    let home = home().await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    let nodes = home.tree.tree().await;
    assert_eq!(shape(&nodes), WHOLE);
    assert_eq!((nodes[0].age_ms, nodes[0].restarts, nodes[0].queued), (7_000, 0, Some(0)));
    assert_eq!(nodes[2].children[0].age_ms, 7_000);
}

#[tokio::test(start_paused = true)]
async fn a2_what_is_stored_survives_its_actor() {
    let home = home().await;
    assert_eq!(claim(&home.tree, "one").await, 1);
    let actor = home.tree.rooms.store.actor().unwrap();
    actor.kill();
    actor.get_cell().wait(None).await.unwrap();
    whole(&home.tree).await;
    assert_eq!(claim(&home.tree, "one").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a2_the_tools_come_back_with_their_supervisor() {
    let home = home().await;
    let before = home.tree.rooms.tools.local().actor().unwrap();
    assert!(home.tree.restart("tools").await);
    before.get_cell().wait(None).await.unwrap();
    whole(&home.tree).await;
    let after = home.tree.rooms.tools.local().actor().unwrap();
    assert_ne!(before.get_id(), after.get_id());

    assert!(home.tree.restart("tools/local").await);
    after.get_cell().wait(None).await.unwrap();
    whole(&home.tree).await;
    assert!(!home.tree.restart("tools/nobody").await);
}

#[tokio::test(start_paused = true)]
async fn a6_tools_that_die_too_often_leave_the_runtime_alone() {
    let home = home().await;
    loop {
        let tools = home.tree.tree().await.remove(2);
        match tools.children[0].state {
            NodeStatus::Running => home.tree.rooms.tools.local().actor().unwrap().kill(),
            NodeStatus::Restarting => {}
            NodeStatus::GaveUp => break,
            NodeStatus::Stopped | NodeStatus::Stopping => panic!("a permanent child is never left ended"),
            NodeStatus::Idle | NodeStatus::Waiting => panic!("a room has no such state"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let nodes = home.tree.tree().await;
    assert_eq!(shape(&nodes), "store Running, llm Running, tools Running [local GaveUp], sessions Running");
    assert!(home.tree.rooms.tools.local().actor().is_none());
    assert!(home.tree.restart("tools/local").await);
    whole(&home.tree).await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_policy_is_told_when_the_tree_starts() {
    let sessions = Part::new("sessions", &Diary::default());
    let policy = Policy { deny_tools: vec!["[".to_owned()], ..Policy::default() };
    let error = start(TreeSpec { policy, ..spec(&sessions) }).await.err().unwrap();
    assert_eq!(error.child, "tools");
    assert!(error.why.starts_with("failed to start local: "), "{}", error.why);
    let mut below = error.source();
    while let Some(error) = below.filter(|error| !error.is::<PolicyError>()) {
        below = error.source();
    }
    assert!(below.is_some(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn further_children_stand_between_the_model_side_and_the_tools() {
    let diary = Diary::default();
    let (sessions, server) = (Part::new("sessions", &diary), Part::new("server", &diary));
    let tree = start(TreeSpec { further: vec![server.server()], ..spec(&sessions) }).await.unwrap();
    let names: Vec<_> = tree.tree().await.into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["store", "llm", "server", "tools", "sessions"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_empties_every_room() {
    let home = home().await;
    home.tree.stop(Duration::from_secs(5)).await;
    assert_eq!(home.diary.take(), "+sessions -sessions");
    let rooms = &home.tree.rooms;
    assert!(rooms.store.actor().is_none() && rooms.llm.actor().is_none() && rooms.tools.local().actor().is_none());
}

#[tokio::test(start_paused = true)]
async fn a5_kill_of_the_root_leaves_no_actor_alive() {
    let home = home().await;
    let rooms = home.tree.rooms.clone();
    let actors = [
        rooms.store.actor().unwrap().get_cell(),
        rooms.llm.actor().unwrap().get_cell(),
        rooms.tools.local().actor().unwrap().get_cell(),
        home.sessions.address.actor().unwrap().get_cell(),
    ];
    home.tree.root.0.kill();
    for actor in actors {
        actor.wait(None).await.unwrap();
    }
    let mut ended = home.tree.ended();
    assert_eq!(ended.wait_for(Option::is_some).await.unwrap().clone(), Some(TreeEnd::Died));
    assert!(rooms.store.actor().is_none() && rooms.llm.actor().is_none() && rooms.tools.local().actor().is_none());
}

/// A rule under which a child may die as often as a test likes.
const TOUGH: RestartRule = RestartRule {
    intensity: RestartIntensity { max_restarts: u32::MAX, within_ms: 180_000 },
    at_once: u32::MAX,
    ..RestartRule::CORE
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_hundred_kills_of_random_actors_leave_the_tree_whole() {
    let sessions = Part::new("sessions", &Diary::default());
    let spec = spec(&sessions);
    let (rooms, feed) = (spec.rooms.clone(), Arc::clone(&spec.feed));
    let mut children = spec.children();
    for child in &mut children {
        child.rule = TOUGH;
    }
    let tree = start_children(rooms, feed, children).await.unwrap();
    let (mut random, mut killed, mut local) = (fastrand::Rng::with_seed(7), Vec::new(), 0);
    while killed.len() < 100 {
        let rooms = &tree.rooms;
        let actor = match random.u32(0..5) {
            0 => rooms.store.actor().map(|actor| actor.get_cell()),
            1 => rooms.llm.actor().map(|actor| actor.get_cell()),
            // The tools keep their own rule, so they die as often as it allows.
            2 if local < 3 => {
                local += 1;
                rooms.tools.local().actor().map(|actor| actor.get_cell())
            }
            3 => rooms.tools.local().actor().and_then(|actor| actor.get_cell().try_get_supervisor()),
            _ => sessions.address.actor().map(|actor| actor.get_cell()),
        };
        let Some(actor) = actor else { continue };
        actor.kill();
        killed.push(actor);
        if random.bool() {
            whole(&tree).await;
        }
    }
    // A kill is a signal: until an actor has taken it, the tree shows it as running.
    for actor in killed {
        actor.wait(Some(LONG)).await.unwrap();
    }
    whole(&tree).await;
    assert_eq!(claim(&tree, "one").await, 1);
    tree.stop(Duration::from_secs(5)).await;
    assert_eq!(*tree.ended().borrow(), Some(TreeEnd::Stopped));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_two_hundred_restarts_are_fast() {
    let part = Part::new("a", &Diary::default());
    let fixture = Fixture::of(vec![ChildSpec { rule: TOUGH, ..part.core() }]).await.unwrap();
    let mut micros = Vec::new();
    for _ in 0..200 {
        let before = part.address.actor().unwrap();
        let killed = Stopwatch::start();
        before.send_message(Poke::Fail).unwrap();
        while part.address.wait_for_actor_within(LONG).await.unwrap().get_id() == before.get_id() {
            tokio::task::yield_now().await;
        }
        micros.push(killed.elapsed().as_micros());
        fixture.settled(&part).await;
    }
    micros.sort_unstable();
    println!("restart: p50 {} us, p99 {} us, most {} us", micros[99], micros[197], micros[199]);
    assert!(micros[99] <= 50_000, "half of the restarts took longer than 50 ms beyond what the machine was busy");
}
