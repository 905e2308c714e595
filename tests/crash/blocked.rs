//! A handler that blocks is named, and the others go on.

use std::time::Duration;

use bob::model::{ScriptedLlm, ScriptedReply};
use bob_drill::traps::{Edge, Fault, Target, Trap};

use crate::crash::fixture::Fixture;
use crate::support::runtime::{session, within};
use crate::support::stopwatch::Stopwatch;

/// How long the actor blocks: longer than the other operations on a busy machine.
const BLOCKED_MS: u64 = 3_000;

async fn p99_of(fixture: &Fixture, turns: usize, prefix: &str) -> Duration {
    let mut took = Vec::with_capacity(turns);
    for number in 0..turns {
        let begun = Stopwatch::start();
        let outcome = fixture.outcome(fixture.submit(&format!("{prefix}{}", number % 5), "hi")).await;
        assert_eq!(outcome.content, "fine");
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took[turns * 99 / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_an_actor_that_blocks_is_named_in_the_tree_and_the_others_go_on() {
    let fixture = Fixture::new(ScriptedLlm::replies(vec![ScriptedReply::text("fine")]), Vec::new()).await;
    let watchdog = fixture.tree.rooms.watchdog.clone();
    let usual = p99_of(&fixture, 30, "before").await;
    // Ensures that its actor has started: a starting actor has just notified its supervisor, and the task notified
    // last by a blocked actor may have to wait with it (tokio keeps it on that thread).
    fixture.outcome(fixture.submit("stuck", "hi")).await;
    let told_before = watchdog.times_blocked();
    let target = Target::Turn(session("stuck"));
    fixture.traps.arm(Trap::new(target, Edge::Before("Start"), Fault::Block { ms: BLOCKED_MS }));
    let begun = Stopwatch::start();
    let owed = fixture.submit("stuck", "hi");
    let named = || watchdog.blocked().into_iter().find(|it| it.path.to_string() == "sessions/stuck");
    within(async {
        while named().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let named_after = begun.elapsed();
    let blocked = named().expect("an incident");
    assert_eq!((blocked.message, blocked.is_over), ("Start", false));
    let tree = within(fixture.tree.tree()).await;
    let sessions = tree.iter().find(|node| node.name == "sessions").expect("the sessions");
    let stuck = sessions.children.iter().find(|node| node.name == "stuck").expect("the session");
    let told = stuck.last_error.clone().unwrap_or_default();
    assert!(told.starts_with("its handler of Start blocks for"), "{told}");
    let meanwhile = p99_of(&fixture, 30, "meanwhile").await;
    begun.assert_within(Duration::from_millis(BLOCKED_MS), "thirty turns meanwhile");
    assert_eq!(fixture.outcome(owed).await.content, "fine", "it goes on when it can");
    within(async {
        while named().is_some_and(|it| !it.is_over) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let whole = named().expect("an incident").for_ms;
    println!("named after {named_after:?}, {whole} ms in all; p99 of others {usual:?} before, {meanwhile:?} meanwhile");
    assert!((BLOCKED_MS - 500..).contains(&whole), "{whole} ms");
    assert!(watchdog.times_blocked() > told_before);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_the_tree_names_whoever_blocks_also_when_its_supervisor_or_the_root_does() {
    let fixture = Fixture::new(ScriptedLlm::replies(vec![ScriptedReply::text("fine")]), Vec::new()).await;
    for (path, kind) in [("sessions", "Submit"), ("root", "Tree")] {
        let block = Fault::Block { ms: BLOCKED_MS };
        fixture.traps.arm(Trap::new(Target::Room(path.to_owned()), Edge::Before(kind), block));
        let owed = fixture.submit("s", "hi");
        let begun = Stopwatch::start();
        let tree = within(async {
            loop {
                let tree = fixture.tree.tree().await;
                if tree.iter().any(|node| node.name == path && node.last_error.is_some()) {
                    return tree;
                }
            }
        })
        .await;
        begun.assert_within(Duration::from_millis(BLOCKED_MS), path);
        let node = tree.iter().find(|node| node.name == path).expect("its node");
        let told = node.last_error.as_deref().unwrap_or_default();
        assert!(told.starts_with(&format!("its handler of {kind} blocks for")), "{told}");
        assert_eq!(fixture.outcome(owed).await.content, "fine");
    }
    fixture.stop().await;
}
