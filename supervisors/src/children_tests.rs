//! Failures, restarts, giving up and stops in small trees, with paused time.

use crate::children::{ChildSpec, ChildStart};
use crate::look::NodeStatus;
use crate::restart::{RestartIntensity, RestartRule, RestartType};
use crate::root::TreeEnd;
use crate::testing::{Diary, Fixture, LONG, Part, Poke};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

fn parts() -> (Diary, Part, Part, Part) {
    let diary = Diary::default();
    let part = |name| Part::new(name, &diary);
    (diary.clone(), part("a"), part("b"), part("c"))
}

fn at_most(max_restarts: u32, spec: ChildSpec) -> ChildSpec {
    let intensity = RestartIntensity { max_restarts, within_ms: 180_000 };
    ChildSpec { rule: RestartRule { intensity, ..spec.rule }, ..spec }
}

#[tokio::test(start_paused = true)]
async fn a2_a_child_comes_back_however_it_ended_and_its_siblings_notice_nothing() {
    for (how, why) in
        [(Poke::Panic, "as told"), (Poke::Fail, "as told"), (Poke::Kill, "killed"), (Poke::Stop, "stopped")]
    {
        let (_diary, a, b, _) = parts();
        let fixture = Fixture::of(vec![a.core(), b.core()]).await.unwrap();
        let (before, sibling) = (a.address.actor().unwrap().get_id(), b.address.actor().unwrap().get_id());
        let after = fixture.reborn(&a, how).await.get_id();
        assert_ne!(before, after, "{how:?}");
        assert_eq!(b.address.actor().unwrap().get_id(), sibling, "{how:?}");
        let (a, b) = (fixture.node("a").await, fixture.node("b").await);
        assert_eq!((a.restarts, a.last_error.as_deref()), (1, Some(why)), "{how:?}");
        assert_eq!((b.restarts, b.last_error), (0, None), "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a3_a_sender_finds_nobody_and_then_the_successor() {
    let (_diary, a, _, _) = parts();
    // A server waits before its restart, so there is a time without an actor.
    let fixture = Fixture::of(vec![ChildSpec { awaited: true, ..a.server() }]).await.unwrap();
    a.failing.store(1, Ordering::SeqCst);
    a.end(Poke::Panic).await;
    assert_eq!(fixture.node("a").await.state, NodeStatus::Restarting);
    assert!(a.address.send(Poke::Stop).is_err());
    let waiting = tokio::spawn({
        let address = a.address.clone();
        async move { address.wait_for_actor_within(LONG).await.unwrap().get_id() }
    });
    let found = waiting.await.unwrap();
    assert_eq!(a.address.actor().unwrap().get_id(), found);
}

#[tokio::test(start_paused = true)]
async fn the_first_restart_of_a_core_actor_takes_no_time() {
    let (_diary, a, _, _) = parts();
    let fixture = Fixture::of(vec![a.core()]).await.unwrap();
    let died = Instant::now();
    fixture.reborn(&a, Poke::Panic).await;
    assert_eq!(died.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a4_failed_starts_count_and_the_child_comes_back_after_them() {
    let (diary, a, _, _) = parts();
    let fixture = Fixture::of(vec![at_most(4, a.core())]).await.unwrap();
    a.failing.store(3, Ordering::SeqCst);
    fixture.reborn(&a, Poke::Kill).await;
    let node = fixture.node("a").await;
    assert_eq!((node.restarts, node.last_error.as_deref()), (4, Some("no luck")));
    assert_eq!(diary.take(), "+a +a");
}

#[tokio::test(start_paused = true)]
async fn a4_a_start_that_never_ends_is_a_death() {
    let (_diary, a, _, _) = parts();
    let fixture = Fixture::of(vec![a.core()]).await.unwrap();
    a.stuck.store(1, Ordering::SeqCst);
    let died = Instant::now();
    fixture.reborn(&a, Poke::Kill).await;
    assert!(died.elapsed() >= Duration::from_secs(20) && died.elapsed() < Duration::from_secs(21));
    assert_eq!(fixture.node("a").await.last_error.as_deref(), Some("it did not start within 20000 ms"));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_dies_before_its_start_is_told_is_not_taken_for_alive() {
    let (_diary, a, _, _) = parts();
    // Its start is reported late: if it ended immediately, its end is reported first.
    let (spec, dying_young) = (a.core(), Arc::clone(&a.dying_young));
    let start = Arc::clone(&spec.start);
    let start: ChildStart = Arc::new(move |supervisor, placement| {
        let (start, dies) = (start(supervisor, placement), dying_young.load(Ordering::SeqCst) > 0);
        Box::pin(async move {
            let actor = start.await?;
            if dies {
                actor.wait(None).await.unwrap();
            }
            Ok(actor)
        })
    });
    let fixture = Fixture::of(vec![ChildSpec { start, ..spec }]).await.unwrap();
    a.dying_young.store(3, Ordering::SeqCst);
    fixture.reborn(&a, Poke::Kill).await;
    let node = fixture.node("a").await;
    assert_eq!((node.restarts, node.last_error.as_deref()), (4, Some("too young")));
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as told");
    }
}

struct Bomber;

impl Actor for Bomber {
    type Msg = Poke;
    type State = Bomb;
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<Poke>, (): ()) -> Result<Bomb, ActorProcessingErr> {
        Ok(Bomb)
    }
}

#[tokio::test(start_paused = true)]
async fn a8_a_child_whose_remains_panic_harms_nobody() {
    let (_diary, a, b, _) = parts();
    let rule = RestartRule { restart: RestartType::Temporary, ..RestartRule::CORE };
    let bomber = ChildSpec { rule, ..ChildSpec::core("bomber", a.address.clone(), || (Bomber, ())) };
    let fixture = Fixture::of(vec![b.core(), bomber]).await.unwrap();
    a.end(Poke::Stop).await;
    assert_eq!(fixture.node("bomber").await.state, NodeStatus::Stopped);
    assert_eq!((fixture.node("b").await.restarts, fixture.node("b").await.state), (0, NodeStatus::Running));
}

#[tokio::test(start_paused = true)]
async fn a6_a_critical_child_that_dies_too_often_ends_the_tree_in_reverse_order_with_a_reason() {
    let (diary, a, b, c) = parts();
    let fixture = Fixture::of(vec![a.core(), at_most(2, b.core()), c.core()]).await.unwrap();
    fixture.reborn(&b, Poke::Panic).await;
    fixture.reborn(&b, Poke::Panic).await;
    assert_eq!(diary.take(), "+a +b +c +b +b");
    b.end(Poke::Panic).await;
    let mut ended = fixture.tree.ended();
    let end = ended.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    let reason = "b died more than 2 times within 180 s, the last time of: as told".to_owned();
    assert_eq!(end, TreeEnd::GaveUp { reason });
    assert_eq!(diary.take(), "-c -a");
    for part in [a, b, c] {
        assert!(part.address.actor().is_none());
    }
    assert_eq!(fixture.tree.tree().await, []);
}

#[tokio::test(start_paused = true)]
async fn giving_up_on_another_child_leaves_the_house_alone_until_it_is_restarted_by_hand() {
    let (_diary, a, b, _) = parts();
    let fixture = Fixture::of(vec![a.core(), ChildSpec { critical: false, ..at_most(1, b.core()) }]).await.unwrap();
    let sibling = a.address.actor().unwrap().get_id();
    fixture.reborn(&b, Poke::Panic).await;
    b.end(Poke::Panic).await;
    let node = fixture.node("b").await;
    assert_eq!((node.state, node.restarts), (NodeStatus::GaveUp, 1));
    assert!(b.address.actor().is_none());
    assert_eq!(a.address.actor().unwrap().get_id(), sibling);

    assert!(fixture.tree.restart("b").await);
    fixture.settled(&b).await;
    // It has its restart again.
    fixture.reborn(&b, Poke::Panic).await;
    assert!(!fixture.tree.restart("nobody").await);
    assert!(!fixture.tree.restart("b/below").await);
}

#[tokio::test(start_paused = true)]
async fn a_restart_by_hand_stops_a_running_child_first_and_is_no_death() {
    let (diary, a, _, _) = parts();
    let fixture = Fixture::of(vec![at_most(0, a.core())]).await.unwrap();
    let before = a.address.actor().unwrap();
    assert!(fixture.tree.restart("a").await);
    before.get_cell().wait(None).await.unwrap();
    fixture.settled(&a).await;
    assert_eq!(diary.take(), "+a -a +a");
}

#[tokio::test(start_paused = true)]
async fn a_restart_by_hand_kills_a_child_that_hangs() {
    let (diary, a, _, _) = parts();
    let fixture = Fixture::of(vec![a.core()]).await.unwrap();
    let before = a.address.actor().unwrap();
    a.address.send(Poke::Hang).unwrap();
    assert!(fixture.tree.restart("a").await);
    before.get_cell().wait(None).await.unwrap();
    fixture.settled(&a).await;
    assert_eq!(diary.take(), "+a +a");
}

#[tokio::test(start_paused = true)]
async fn a_restart_by_hand_cuts_a_delay_short() {
    let (_diary, a, _, _) = parts();
    let slow = bob_messages::backoff::Backoff { first_ms: 1_000_000, most_ms: 1_000_000 };
    let rule = RestartRule { at_once: 0, backoff: slow, ..RestartRule::CORE };
    let fixture = Fixture::of(vec![ChildSpec { rule, ..a.core() }]).await.unwrap();
    a.end(Poke::Panic).await;
    assert_eq!(fixture.node("a").await.state, NodeStatus::Restarting);
    let asked = Instant::now();
    assert!(fixture.tree.restart("a").await);
    fixture.settled(&a).await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn children_come_back_independently_of_each_other() {
    let (_diary, a, b, c) = parts();
    let fixture = Fixture::of(vec![a.core(), b.core(), c.core()]).await.unwrap();
    a.stuck.store(1, Ordering::SeqCst);
    for part in [&a, &b, &c] {
        part.end(Poke::Kill).await;
    }
    let died = Instant::now();
    fixture.settled(&b).await;
    fixture.settled(&c).await;
    assert_eq!(died.elapsed(), Duration::ZERO);
    assert_eq!(fixture.node("a").await.state, NodeStatus::Restarting);
    fixture.settled(&a).await;
}

#[tokio::test(start_paused = true)]
async fn a_transient_child_that_ends_normally_is_left_ended() {
    let (_diary, a, b, _) = parts();
    let rule = RestartRule { restart: RestartType::Transient, ..RestartRule::CORE };
    let fixture = Fixture::of(vec![ChildSpec { rule, ..a.core() }, b.core()]).await.unwrap();
    a.end(Poke::Stop).await;
    assert_eq!(fixture.node("a").await.state, NodeStatus::Stopped);
    assert_eq!(fixture.node("b").await.state, NodeStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn a_first_start_that_fails_stops_what_was_started_and_says_why() {
    let (diary, a, b, c) = parts();
    c.failing.store(1, Ordering::SeqCst);
    let error = Fixture::of(vec![a.core(), b.core(), c.core()]).await.err().unwrap();
    assert_eq!(error.to_string(), "failed to start c: no luck");
    assert_eq!(diary.take(), "+a +b -b -a");
    assert!(a.address.actor().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_start_keeps_nobody_waiting() {
    let (_diary, a, b, _) = parts();
    a.failing.store(1, Ordering::SeqCst);
    let fixture = Fixture::of(vec![a.server(), b.core()]).await.unwrap();
    fixture.settled(&a).await;
    let node = fixture.node("a").await;
    assert_eq!((node.restarts, node.last_error.as_deref()), (1, Some("no luck")));
}

#[tokio::test(start_paused = true)]
async fn a4_making_a_child_that_panics_is_a_failed_start() {
    let (_diary, a, _, _) = parts();
    let spec = ChildSpec { start: Arc::new(|_supervisor, _attendance| panic!("as told")), ..a.core() };
    let error = Fixture::of(vec![spec]).await.err().unwrap();
    assert_eq!(error.to_string(), "failed to start a: the making of it panicked");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_children_in_reverse_order_and_every_caller_waits_for_it() {
    let (diary, a, b, c) = parts();
    let fixture = Fixture::of(vec![a.core(), b.core(), c.core()]).await.unwrap();
    let tree = fixture.tree.clone();
    let other = tokio::spawn(async move {
        tree.stop(LONG).await;
        tree.ended().borrow().clone()
    });
    fixture.tree.stop(LONG).await;
    assert_eq!(diary.take(), "+a +b +c -c -b -a");
    assert_eq!(*fixture.tree.ended().borrow(), Some(TreeEnd::Stopped));
    assert_eq!(other.await.unwrap(), Some(TreeEnd::Stopped));
    fixture.tree.stop(Duration::ZERO).await;
    assert_eq!(*fixture.tree.ended().borrow(), Some(TreeEnd::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_hangs_is_killed_at_its_deadline_and_the_others_still_end_politely() {
    let (diary, a, b, c) = parts();
    let fixture = Fixture::of(vec![a.core(), b.core(), c.core()]).await.unwrap();
    b.address.send(Poke::Hang).unwrap();
    let asked = Instant::now();
    fixture.tree.stop(LONG).await;
    assert_eq!(diary.take(), "+a +b +c -c -a");
    assert_eq!(asked.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_keeps_its_limit_whoever_hangs() {
    let (diary, a, b, c) = parts();
    let fixture = Fixture::of(vec![a.core(), b.core(), c.core()]).await.unwrap();
    b.address.send(Poke::Hang).unwrap();
    c.address.send(Poke::Hang).unwrap();
    let (asked, limit) = (Instant::now(), Duration::from_secs(2));
    fixture.tree.stop(limit).await;
    assert!(asked.elapsed() <= limit, "{:?}", asked.elapsed());
    assert_eq!(diary.take(), "+a +b +c -a");
    assert_eq!(*fixture.tree.ended().borrow(), Some(TreeEnd::Stopped));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_started_after_a_stop() {
    let (diary, a, b, _) = parts();
    let fixture = Fixture::of(vec![a.core(), ChildSpec { awaited: true, ..b.server() }]).await.unwrap();
    a.stuck.store(1, Ordering::SeqCst);
    a.end(Poke::Kill).await;
    b.end(Poke::Kill).await;
    assert_eq!(fixture.node("a").await.state, NodeStatus::Restarting);
    fixture.tree.stop(LONG).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(diary.take(), "+a +b");
    assert!(a.address.actor().is_none() && b.address.actor().is_none());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_started_while_others_stop() {
    let (diary, a, b, _) = parts();
    let fixture = Fixture::of(vec![ChildSpec { awaited: true, ..a.server() }, b.core()]).await.unwrap();
    a.end(Poke::Kill).await;
    // It takes two seconds to be killed; the other would be back within 0.2 s.
    b.address.send(Poke::Hang).unwrap();
    // Full jitter may choose no delay: then it is back before the stop, and is stopped with the others.
    let is_back = fixture.node("a").await.state == NodeStatus::Running;
    fixture.tree.stop(LONG).await;
    assert_eq!(diary.take(), if is_back { "+a +b +a -a" } else { "+a +b" });
}

#[tokio::test(start_paused = true)]
async fn a5_a_tree_without_a_handle_leaves_nobody_alive() {
    let (_diary, a, b, c) = parts();
    let fixture = Fixture::of(vec![a.core(), b.core(), c.core()]).await.unwrap();
    let actors = [&a, &b, &c].map(|part| part.address.actor().unwrap().get_cell());
    let (mut ended, second) = (fixture.tree.ended(), fixture.tree.clone());
    drop(fixture);
    assert_eq!(second.tree().await.len(), 3);
    drop(second);
    assert_eq!(ended.wait_for(Option::is_some).await.unwrap().clone(), Some(TreeEnd::Died));
    for actor in actors {
        actor.wait(None).await.unwrap();
    }
    assert!([a, b, c].iter().all(|part| part.address.actor().is_none()));
}
