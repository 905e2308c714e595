use super::*;
use crate::address::RETURNS_WITHIN;
use bob_messages::chat::ToolCall;
use bob_messages::ids::{CallId, ToolName, TurnId};
use bob_messages::mcp::ServerState;
use bob_messages::options::ServerStart;
use bob_messages::reply::{Answer, Reply};
use bob_messages::tools::{CallContext, CheckRequest, Grant, Risk, ToolDescriptor, ToolKind, ToolSource, Verdict};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// A host that takes what it is sent while it is there.
#[derive(Debug, Default, Clone)]
struct Room(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    taken: Mutex<Option<Vec<ToolsMessage>>>,
    registered: Notify,
    woken: AtomicUsize,
}

impl Room {
    fn move_in(&self) {
        *self.0.taken.lock().unwrap() = Some(Vec::new());
        self.0.registered.notify_waiters();
    }

    fn took(&self) -> usize {
        self.0.taken.lock().unwrap().as_ref().map_or(0, Vec::len)
    }
}

impl HostAddress for Room {
    fn send(&self, message: ToolsMessage) -> Result<(), Box<ToolsMessage>> {
        match &mut *self.0.taken.lock().unwrap() {
            Some(taken) => {
                taken.push(message);
                Ok(())
            }
            None => Err(Box::new(message)),
        }
    }

    fn wake(&self) {
        self.0.woken.fetch_add(1, Ordering::Relaxed);
    }

    fn wait_for_actor(&self) -> BoxFuture<'_, ()> {
        async {
            loop {
                let registered = self.0.registered.notified();
                if self.0.taken.lock().unwrap().is_some() {
                    return;
                }
                registered.await;
            }
        }
        .boxed()
    }
}

fn server(id: &str, start: ServerStart) -> ServerSpec {
    ServerSpec { start, ..ServerSpec::stdio(ServerId::new(id), "serve", [""; 0]) }
}

fn offers(names: &[&str]) -> Arc<[Arc<ToolDescriptor>]> {
    let tool = |name: &&str| {
        Arc::new(
            ToolDescriptor::new(ToolName::new(*name), String::new(), serde_json::json!({"type": "object"}))
                .with_title("")
                .with_kind(ToolKind::Read)
                .with_source(ToolSource::Local)
                .with_risk(Risk::Low)
                .with_idempotent(true)
                .with_read_only(true),
        )
    };
    names.iter().map(tool).collect()
}

fn listed(registry: &ToolRegistry, allow: &[&str]) -> Answer<Arc<ToolSet>> {
    let allow = (!allow.is_empty()).then(|| allow.iter().map(|name| (*name).to_owned()).collect());
    let (reply, answer) = Reply::channel();
    registry.list(allow, |set| reply.send(set));
    answer
}

fn names(set: Option<Arc<ToolSet>>) -> Vec<String> {
    set.expect("a list").tools().iter().map(|tool| tool.id.to_string()).collect()
}

fn asked(tool: &str) -> (CheckRequest, Arc<CallContext>) {
    let call = ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new(tool),
        arguments: serde_json::json!({}).into(),
        argument_bytes: 2,
        signatures: Vec::new(),
    };
    let context = crate::tools::local::fixture::Workspace::new().context();
    (CheckRequest { call: Arc::new(call), approved: None, standing: Vec::new(), run: false }, Arc::new(context))
}

fn check(registry: &ToolRegistry, tool: &str) -> Answer<Verdict> {
    let (check, context) = asked(tool);
    let (reply, answer) = Reply::channel();
    registry.tell(ToolsMessage::Check { check, context, reply });
    answer
}

async fn complaint(answer: Answer<Verdict>) -> String {
    match answer.await.expect("a verdict") {
        Verdict::Invalid { complaint: text } | Verdict::Unavailable { why: text } => text,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_for_a_first_start_and_no_longer_than_its_patience() {
    let registry = ToolRegistry::default();
    registry.local_publisher().offer(offers(&["local/a"]), None);
    assert_eq!(names(listed(&registry, &[]).await), ["local/a"]);
    let quick = registry.join(&server("quick", ServerStart::Eager), Room::default());
    let _never_ready = registry.join(&server("slow", ServerStart::Eager), Room::default());
    let began = Instant::now();
    let waiting = listed(&registry, &[]);
    quick.offer(offers(&["mcp/quick/b"]), Some("quick 1.0".into()));
    assert_eq!(names(waiting.await), ["local/a", "mcp/quick/b"]);
    assert_eq!(began.elapsed(), Duration::from_secs(20));
    let began = Instant::now();
    assert_eq!(names(listed(&registry, &["mcp/quick/*"]).await), ["mcp/quick/b"]);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_failed_once_is_not_waited_for_and_comes_back_later() {
    let registry = ToolRegistry::default();
    let publisher = registry.join(&server("files", ServerStart::Eager), Room::default());
    let waiting = listed(&registry, &[]);
    publisher.restarting("it ended with status 1".into());
    assert_eq!(names(waiting.await), Vec::<String>::new());
    publisher.offer(offers(&["mcp/files/read"]), None);
    assert_eq!(names(listed(&registry, &[]).await), ["mcp/files/read"]);
    publisher.restarting("killed".into());
    assert_eq!(names(listed(&registry, &[]).await), ["mcp/files/read"], "it is back soon");
    publisher.gave_up("killed".into());
    assert_eq!(names(listed(&registry, &[]).await), Vec::<String>::new());
    let status = &registry.servers()[0];
    assert_eq!((status.state, status.restarts, status.tools), (ServerState::GaveUp, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sleeps_is_woken_by_the_first_list() {
    let (registry, room) = (ToolRegistry::default(), Room::default());
    let publisher = registry.join(&server("lazy", ServerStart::Lazy), room.clone());
    let waiting = listed(&registry, &[]);
    assert_eq!(room.0.woken.load(Ordering::Relaxed), 1);
    publisher.starting();
    publisher.offer(offers(&["mcp/lazy/x"]), None);
    assert_eq!(names(waiting.await), ["mcp/lazy/x"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_host_and_is_refused_when_nobody_comes() {
    let (registry, room) = (ToolRegistry::default(), Room::default());
    let publisher = registry.join(&server("files", ServerStart::Eager), room.clone());
    let began = Instant::now();
    let refused = complaint(check(&registry, "mcp/files/read")).await;
    assert!(refused.contains("not run") && refused.contains("is still starting, for 2.0 s"), "{refused}");
    assert_eq!(began.elapsed(), RETURNS_WITHIN);
    let waiting = check(&registry, "mcp/files/read");
    tokio::task::yield_now().await;
    room.move_in();
    while room.took() == 0 {
        tokio::task::yield_now().await;
    }
    drop(waiting);
    *room.0.taken.lock().unwrap() = None;
    publisher.gave_up("it ended with status 3".into());
    let began = Instant::now();
    let refused = complaint(check(&registry, "mcp/files/read")).await;
    assert!(refused.contains("died too often") && refused.contains("status 3"), "{refused}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// The mind of somebody who is told why a tool is away: which server, why, for how long, and what to do.
#[cfg(feature = "mcp")]
#[tokio::test(start_paused = true)]
async fn m21_a_tool_that_is_away_is_told_with_its_reason_and_for_how_long_and_is_no_error() {
    let (registry, room) = (ToolRegistry::default(), Room::default());
    let publisher = registry.join(&server("s0", ServerStart::Eager), room.clone());
    let away = async |tool: &str| match check(&registry, tool).await.expect("a verdict") {
        Verdict::Unavailable { why } => why,
        other => panic!("no word that it is away: {other:?}"),
    };
    room.move_in();
    for took in [900, 1_500, 1_200] {
        publisher.started_within(Duration::from_millis(took));
    }
    publisher.offer(offers(&["mcp/s0/append"]), None);
    publisher.restarting("it was ended by signal 9".into());
    // Whoever started again is in its room, and not ready.
    let began = Instant::now();
    let why = away("mcp/s0/append").await;
    assert_eq!(began.elapsed(), Duration::from_millis(1_500) + RETURNS_WITHIN, "its longest start, and two seconds");
    assert_eq!(room.took(), 0);
    let expected = "not run: mcp/s0/append is not available: its tool server `s0` has been down for 3.5 s and is being \
                    started again (it was ended by signal 9); try again later";
    assert_eq!(why, expected);
    // It is back while somebody waits.
    let waiting = check(&registry, "mcp/s0/append");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(room.took(), 0, "nobody is asked who is not ready");
    publisher.offer(offers(&["mcp/s0/append"]), None);
    while room.took() == 0 {
        tokio::task::yield_now().await;
    }
    drop(waiting);
    // Given up: its tools are offered no more, and a model that remembers one is told why under each of its names.
    publisher.gave_up("it was ended by signal 9".into());
    tokio::time::sleep(Duration::from_secs(40)).await;
    for name in ["mcp/s0/append", "mcp__s0__append", "mcp__s0__never_heard_of"] {
        let began = Instant::now();
        let why = away(name).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        let told = why.contains("`s0` died too often and has been left down for 40 s (it was ended by signal 9)");
        assert!(told && why.contains(name), "{why}");
    }
    publisher.stopped();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(away("mcp__s0__append").await.contains("was stopped 5 min ago"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_reaches_nobody_was_not_run_and_says_so() {
    let (registry, room) = (ToolRegistry::default(), Room::default());
    let publisher = registry.join(&server("files", ServerStart::Eager), room);
    publisher.gave_up("killed".into());
    let (check, context) = asked("mcp/files/read");
    let grant = Grant { call: CallId::new("c1"), seal: String::new() };
    let (reply, answer) = Reply::channel();
    registry.tell(ToolsMessage::Call { call: check.call, grant, context, reply });
    let returned = answer.await.expect("a result");
    assert_eq!(returned.status, bob_messages::chat::CallStatus::Cancelled, "{returned:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_ends_with_a_question_leaves_it_to_its_successor_once() {
    let (registry, room) = (ToolRegistry::default(), Room::default());
    registry.join(&server("files", ServerStart::Eager), room.clone());
    let taken_by_somebody = async || {
        while room.took() == 0 {
            tokio::task::yield_now().await;
        }
        room.0.taken.lock().unwrap().take().unwrap()
    };
    room.move_in();
    let judged = check(&registry, "mcp/files/read");
    drop(taken_by_somebody().await);
    room.move_in();
    let Some(ToolsMessage::Check { reply, check: asked, .. }) = taken_by_somebody().await.pop() else {
        panic!("the question was not sent again")
    };
    assert_eq!(asked.call.name.as_str(), "mcp/files/read");
    reply.send(Verdict::Invalid { complaint: "by the successor".to_owned() });
    assert_eq!(complaint(judged).await, "by the successor");

    room.move_in();
    let lost = check(&registry, "mcp/files/read");
    drop(taken_by_somebody().await);
    room.move_in();
    drop(taken_by_somebody().await);
    assert!(lost.await.is_none(), "it is asked a third time");

    room.move_in();
    let nobody_comes = check(&registry, "mcp/files/read");
    let began = Instant::now();
    drop(taken_by_somebody().await);
    assert!(complaint(nobody_comes).await.contains("still starting"));
    assert_eq!(began.elapsed(), RETURNS_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_not_sent_again() {
    let (registry, room) = (ToolRegistry::default(), Room::default());
    registry.join(&server("files", ServerStart::Eager), room.clone());
    room.move_in();
    let (check, context) = asked("mcp/files/read");
    let (reply, answer) = Reply::channel();
    registry.tell(ToolsMessage::Call {
        call: check.call,
        grant: Grant { call: CallId::new("c1"), seal: String::new() },
        context,
        reply,
    });
    *room.0.taken.lock().unwrap() = Some(Vec::new());
    assert!(answer.await.is_none());
    tokio::time::sleep(RETURNS_WITHIN).await;
    assert_eq!(room.took(), 0);
}

#[tokio::test(start_paused = true)]
async fn sets_are_shared_until_something_is_published() {
    let registry = ToolRegistry::default();
    registry.local_publisher().offer(offers(&["local/a", "local/b"]), None);
    let (first, again) = (listed(&registry, &[]).await.unwrap(), listed(&registry, &[]).await.unwrap());
    assert!(Arc::ptr_eq(&first, &again));
    let (some, same) = (listed(&registry, &["local/a"]).await.unwrap(), listed(&registry, &["local/a"]).await.unwrap());
    assert!(Arc::ptr_eq(&some, &same));
    let joined = registry.join(&server("x", ServerStart::Eager), Room::default());
    joined.offer(offers(&["mcp/x/y"]), None);
    assert_eq!(names(listed(&registry, &[]).await), ["local/a", "local/b", "mcp/x/y"]);
    registry.leave(&ServerId::new("x"));
    assert_eq!(names(listed(&registry, &[]).await), ["local/a", "local/b"]);
}

#[test]
fn the_end_of_a_turn_takes_what_it_shared_and_nothing_from_another_one() {
    let (brought, session) = (Brought::default(), SessionId::parse("s").unwrap());
    let over = Arc::new(AtomicUsize::new(0));
    let begins = |turn: &str| {
        let (host, over) =
            (SessionHost::template(&server("x", ServerStart::Lazy), &KnownTools::default()), over.clone());
        let lease = Lease::new(move || _ = over.fetch_add(1, Ordering::SeqCst));
        let isolated = vec![Isolated::Host { host, lease: Some(lease) }];
        brought.turn_begins((&session, &TurnId::new(turn)), &[], isolated);
    };
    let ends = |turn: &str| brought.rest(&session, &TurnId::new(turn));
    let seen = || (brought.hosts(&session).len(), over.load(Ordering::SeqCst));
    begins("1");
    begins("2");
    assert_eq!(seen(), (1, 1), "the lease of the first turn ends with the beginning of the second");
    ends("1");
    assert_eq!(seen(), (1, 1), "that was told late");
    ends("2");
    assert_eq!(seen(), (0, 2));
    // The end of one that another one followed may never be told.
    begins("3");
    begins("4");
    ends("4");
    assert_eq!(seen(), (0, 4));
    ends("4");
    // An actor that dies tells no end.
    begins("5");
    brought.release(&session);
    assert_eq!(seen(), (0, 5));
}
