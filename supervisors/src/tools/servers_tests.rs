//! Which servers there are, over reloads and failures, with programs that are no servers.

#![allow(clippy::print_stdout, reason = "the figures are shown by --nocapture")]

use super::*;
use crate::children::SupervisorMessage;
use crate::look::{NodeState, NodeStatus};
use crate::testing::LONG;
use crate::tools::{ToolsSupervisor, ToolsSupervisorArguments};
use bob_actors::rooms::Rooms;
use bob_messages::mcp::{ServerState, ServerStatus};
use bob_messages::pool::ServerOwner;
use bob_messages::reply::Reply;
use ractor::{Actor, ActorRef};
use std::path::{Path, PathBuf};

/// A server that is silent until its input ends.
fn mute(id: &str) -> ServerSpec {
    ServerSpec::stdio(ServerId::new(id), "cat", ["/dev/stdin"])
}

/// A program that ends at once.
fn broken(id: &str) -> ServerSpec {
    ServerSpec::stdio(ServerId::new(id), "sh", ["-c", "echo no luck >&2; exit 3"])
}

fn surroundings(rooms: &Rooms) -> Surroundings {
    Surroundings {
        registry: rooms.tools.clone(),
        watchdog: rooms.watchdog.clone(),
        feed: Feed::new(Vec::new()),
        metrics: Arc::clone(&rooms.metrics),
        policy: Policy::default(),
        watcher: Watcher::new(),
        elicit: None,
        sign_ins: Default::default(),
        recorder: None,
        hooks: Default::default(),
        is_replay: false,
        brought_end_after: super::super::brought::ENDS_AFTER,
        brought_bounds: BroughtBounds::default(),
        pool: ServerPool::default(),
    }
}

struct Tools {
    registry: ToolRegistry,
    servers: ToolServers,
    supervisor: ActorRef<SupervisorMessage>,
}

impl Tools {
    async fn of(specs: Vec<ServerSpec>) -> Self {
        Self::after(specs, |_plane| {}).await
    }

    /// Starts the fixture after `before` was called without any actor.
    async fn after(specs: Vec<ServerSpec>, before: impl FnOnce(&ToolRegistry)) -> Self {
        let rooms = Rooms::default();
        let servers = ToolServers::new(surroundings(&rooms), specs).unwrap();
        before(&rooms.tools);
        let local = super::super::local(&rooms, Vec::new(), Policy::default());
        let arguments = ToolsSupervisorArguments { local, servers: servers.desired() };
        let (supervisor, _ends) = Actor::spawn(None, ToolsSupervisor, arguments).await.unwrap();
        servers.desired().supervisor().fill(supervisor.clone());
        Self { registry: rooms.tools, servers, supervisor }
    }

    async fn nodes(&self) -> Vec<NodeState> {
        let (reply, answer) = Reply::channel();
        self.supervisor.send_message(SupervisorMessage::Tree { reply }).unwrap();
        answer.await.unwrap()
    }

    fn status(&self, id: &str) -> Option<ServerStatus> {
        self.registry.servers().into_iter().find(|status| status.id.as_str() == id)
    }

    async fn until(&self, what: &str, seen: impl Fn(&Self) -> bool) {
        let mut changes = self.registry.changes();
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            while !seen(self) {
                changes.changed().await.unwrap();
            }
        });
        assert!(waited.await.is_ok(), "{what}: {:#?}", self.registry.servers());
    }

    async fn pid(&self, id: &str) -> i32 {
        self.until("a process", |tools| tools.status(id).is_some_and(|status| status.pid.is_some())).await;
        self.status(id).and_then(|status| status.pid).unwrap()
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        self.supervisor.stop(None);
    }
}

fn ids(list: &[ServerId]) -> Vec<&str> {
    list.iter().map(ServerId::as_str).collect()
}

fn lives(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Waits until a process that is being stopped has ended.
async fn has_ended(pid: i32) {
    let ended = async {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("a process that is stopped ends");
}

/// Waits until a process has written its id down, which it does a moment after it was started.
async fn has_begun(file: &Path, pid: i32) {
    let begun = async {
        while !pids(file).contains(&pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), begun).await.expect("a process that was started begins");
}

#[tokio::test]
async fn a_reload_leaves_alone_what_did_not_change_and_replaces_what_did() {
    let tools = Tools::of(vec![mute("same"), mute("other"), mute("gone")]).await;
    let (same, other, gone) = (tools.pid("same").await, tools.pid("other").await, tools.pid("gone").await);
    let changed = ServerSpec { startup_timeout_ms: 19_000, ..mute("other") };
    let reloaded = tools.servers.reload(vec![mute("same"), changed, mute("new")]).unwrap();
    assert_eq!(ids(&reloaded.kept), ["same"]);
    assert_eq!(ids(&reloaded.changed), ["other"]);
    assert_eq!(ids(&reloaded.started), ["new"]);
    assert_eq!(ids(&reloaded.stopped), ["gone"]);
    tools.pid("new").await;
    let after = tools.pid("other").await;
    assert_ne!(after, other);
    // The old process had ended before the new one was started.
    assert!(!lives(other));
    assert_eq!(tools.pid("same").await, same);
    assert!(tools.status("gone").is_none());
    has_ended(gone).await;
    let names: Vec<String> = tools.nodes().await.into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["local", "same", "other", "new"]);
}

#[tokio::test]
async fn reloads_in_a_hurry_end_with_one_process_of_a_server() {
    let tools = Tools::of(vec![mute("one")]).await;
    let mut pids = vec![tools.pid("one").await];
    for round in 0..30 {
        let spec = ServerSpec { startup_timeout_ms: 10_000 + round, ..mute("one") };
        tools.servers.reload(vec![spec]).unwrap();
        if round % 10 == 0 {
            pids.push(tools.pid("one").await);
        }
    }
    let last = tools.pid("one").await;
    pids.retain(|pid| *pid != last && lives(*pid));
    assert_eq!(pids, Vec::<i32>::new());
    assert!(lives(last));
}

#[tokio::test]
async fn a_bad_list_changes_nothing() {
    let tools = Tools::of(vec![mute("one")]).await;
    let pid = tools.pid("one").await;
    for bad in [vec![mute("two"), mute("two")], vec![mute("local")], vec![mute("no/name")], vec![mute("")]] {
        assert!(tools.servers.reload(bad).is_err());
    }
    assert_eq!(tools.pid("one").await, pid);
    assert_eq!(tools.registry.servers().len(), 1);
}

#[tokio::test]
async fn a_server_that_cannot_start_gives_up_and_a_restart_by_hand_begins_anew() {
    let tools = Tools::of(vec![broken("bad"), mute("good")]).await;
    let good = tools.pid("good").await;
    let gave_up = |tools: &Tools| tools.status("bad").is_some_and(|status| status.state == ServerState::GaveUp);
    // Full jitter over 0.2, 0.4, … 3.2 s: six starts in about three seconds.
    tools.until("it gives up", gave_up).await;
    let status = tools.status("bad").unwrap();
    assert_eq!(status.restarts, 5);
    let error = status.last_error.unwrap();
    assert!(error.contains("bad") && error.contains("no luck"), "{error}");
    assert_eq!(tools.nodes().await[1].state, NodeStatus::GaveUp);
    let (reply, answer) = Reply::channel();
    tools.supervisor.send_message(SupervisorMessage::Restart { name: "bad".to_owned(), reply }).unwrap();
    assert_eq!(answer.await, Some(true));
    tools.until("it is tried again", |tools| tools.status("bad").is_some_and(|status| status.restarts > 5)).await;
    tools.until("it gives up again", gave_up).await;
    assert_eq!(tools.status("bad").map(|status| status.restarts), Some(11));
    assert_eq!(tools.pid("good").await, good);
}

#[tokio::test]
async fn a_server_that_sleeps_is_not_started_and_one_that_is_required_does_not_sleep() {
    let lazy = ServerSpec { start: ServerStart::Lazy, ..mute("lazy") };
    let needed = ServerSpec { start: ServerStart::Lazy, required: true, ..mute("needed") };
    let tools = Tools::of(vec![lazy, needed]).await;
    tools.pid("needed").await;
    assert_eq!(tools.status("lazy").map(|status| (status.state, status.pid)), Some((ServerState::Asleep, None)));
    let listed = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&listed);
    tools.registry.list(None, move |_set| tell.notify_one());
    tools.pid("lazy").await;
}

#[tokio::test]
async fn a_server_that_is_needed_before_its_actor_is_there_is_woken_all_the_same() {
    let lazy = ServerSpec { start: ServerStart::Lazy, ..mute("lazy") };
    let tools = Tools::after(vec![lazy], |registry| registry.list(None, drop)).await;
    tools.pid("lazy").await;
}

#[tokio::test]
async fn when_the_supervisor_is_started_again_it_has_the_servers_of_now() {
    let mut tools = Tools::of(vec![mute("old")]).await;
    let old = tools.pid("old").await;
    tools.servers.reload(vec![mute("new")]).unwrap();
    tools.pid("new").await;
    tools.supervisor.kill();
    tools.supervisor.get_cell().wait(Some(LONG)).await.unwrap();
    let local = super::super::local(&Rooms::default(), Vec::new(), Policy::default());
    let arguments = ToolsSupervisorArguments { local, servers: tools.servers.desired() };
    tools.supervisor = Actor::spawn(None, ToolsSupervisor, arguments).await.unwrap().0;
    let names: Vec<String> = tools.nodes().await.into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["local", "new"]);
    // The reload requested its end, which may take a while.
    let gone = async {
        while lives(old) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("the old server's process ends");
}

#[tokio::test]
async fn a_reload_while_the_supervisor_is_being_started_again_is_not_lost() {
    let mut tools = Tools::of(vec![mute("old")]).await;
    tools.supervisor.kill();
    tools.supervisor.get_cell().wait(Some(LONG)).await.unwrap();
    let local = super::super::local(&Rooms::default(), Vec::new(), Policy::default());
    let (begin, servers) = (Arc::clone(&local.start), tools.servers.clone());
    // The list was read by then, and the starting task does not have the server yet.
    let start: crate::children::ChildStart = Arc::new(move |supervisor, placement| {
        servers.reload(vec![mute("old"), mute("new")]).unwrap();
        begin(supervisor, placement)
    });
    let local = ChildSpec { start, ..local };
    let arguments = ToolsSupervisorArguments { local, servers: tools.servers.desired() };
    tools.supervisor = Actor::spawn(None, ToolsSupervisor, arguments).await.unwrap().0;
    tools.servers.desired().supervisor().fill(tools.supervisor.clone());
    tools.pid("new").await;
}

/// A server that writes its process id to a file and then runs a script.
fn counted(id: &str, script: &str) -> (ServerSpec, PathBuf) {
    let file = std::env::temp_dir().join(format!("bob-{}", uuid::Uuid::now_v7()));
    let script = format!(r#"echo $$ >> "$1"; {script}"#);
    (ServerSpec::stdio(ServerId::new(id), "sh", ["-c", script.as_str(), "sh", &file.to_string_lossy()]), file)
}

fn pids(file: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Goal: never more processes than servers, plus one that is on its way out.
#[tokio::test]
async fn m4_a_reload_never_runs_two_of_a_server() {
    let (spec, file) = counted("one", "exec cat");
    let tools = Tools::of(vec![spec.clone()]).await;
    tools.pid("one").await;
    let (began, mut rounds, mut most) = (std::time::Instant::now(), 0, 0);
    while began.elapsed() < Duration::from_secs(8) {
        rounds += 1;
        tools.servers.reload(vec![ServerSpec { startup_timeout_ms: 10_000 + rounds, ..spec.clone() }]).unwrap();
        // Some are overtaken by the next, some are there when it comes.
        for _ in 0..rounds % 5 {
            most = most.max(pids(&file).into_iter().filter(|pid| lives(*pid)).count());
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    tools.until("the last one runs", |tools| tools.status("one").is_some_and(|status| status.pid.is_some())).await;
    let last = tools.pid("one").await;
    has_begun(&file, last).await;
    let started = pids(&file);
    println!("figure: M4 {rounds} reloads, {} processes, at most {most} at once", started.len());
    assert!(most <= 2 && rounds >= 20, "{most} {rounds}");
    assert_eq!(started.into_iter().filter(|pid| lives(*pid)).collect::<Vec<_>>(), [last]);
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn m4_a_server_that_left_and_comes_back_waits_for_its_old_process() {
    // It takes a while to end.
    let (spec, file) = counted("one", "cat; sleep 0.5");
    let tools = Tools::of(vec![spec.clone()]).await;
    let old = tools.pid("one").await;
    let reloaded = tools.servers.reload(Vec::new()).unwrap();
    assert_eq!(ids(&reloaded.stopped), ["one"]);
    let reloaded = tools.servers.reload(vec![spec]).unwrap();
    assert_eq!(ids(&reloaded.started), ["one"]);
    let new = tools.pid("one").await;
    assert!(new != old && !lives(old));
    std::fs::remove_file(file).unwrap();
}

/// Goal: six processes, the first and five restarts, however well each begins; then none until a manual restart.
#[tokio::test]
async fn m7_a_server_that_is_ready_and_ends_again_is_given_up() {
    let hello =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}"#;
    let list = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}]}"#;
    let unknown = r#"{"code":-32601,"message":"unknown"}"#;
    let says = |what: &str| format!(r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,"'{what}}}'"#);
    // It knows nothing of the newer version, which its first start is asked about.
    let script = format!(
        "while read -r line; do id=${{line##*'\"id\":'}}; id=${{id%%[!0-9]*}}; case $line in \
         *server/discover*) {};; *initialized*) ;; *initialize*) {};; *tools/list*) {}; sleep 0.1; exit 0;; esac; done",
        says(&format!(r#""error":{unknown}"#)),
        says(&format!(r#""result":{hello}"#)),
        says(&format!(r#""result":{list}"#)),
    );
    let (spec, file) = counted("loop", &script);
    let began = std::time::Instant::now();
    let tools = Tools::of(vec![spec, mute("good")]).await;
    let good = tools.pid("good").await;
    tools.until("it is ready", |tools| tools.status("loop").is_some_and(|status| status.tools == 1)).await;
    let gave_up = |tools: &Tools| tools.status("loop").is_some_and(|status| status.state == ServerState::GaveUp);
    tools.until("it gives up", gave_up).await;
    println!("figure: M7 given up after {} processes in {:?}", pids(&file).len(), began.elapsed());
    let status = tools.status("loop").unwrap();
    assert_eq!((status.restarts, status.tools, pids(&file).len()), (5, 0, 6));
    assert!(status.last_error.is_some_and(|error| error.contains("ended with status 0")));
    // Longer than the longest pause between two of the restarts.
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    assert_eq!(pids(&file).len(), 6);
    assert_eq!(tools.pid("good").await, good);
    let (reply, answer) = Reply::channel();
    tools.supervisor.send_message(SupervisorMessage::Restart { name: "loop".to_owned(), reply }).unwrap();
    assert_eq!(answer.await, Some(true));
    tools.until("it is ready again", |tools| tools.status("loop").is_some_and(|status| status.tools == 1)).await;
    assert_eq!(pids(&file).len(), 7);
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn every_process_of_a_server_of_the_configuration_is_signed_in_to_and_none_that_a_session_brings() {
    let folder = Some(PathBuf::from("/tmp/sign-ins"));
    let sign_ins = SignIns { folder: folder.clone(), port: None };
    let surroundings = Surroundings { sign_ins, ..surroundings(&Rooms::default()) };
    let servers = ToolServers::new(surroundings, Vec::new()).unwrap();
    let inner = servers.inner();
    let known = KnownTools::default();
    let _leases: Vec<_> = [("configured", Some(&known)), ("brought", None)]
        .map(|(id, known)| inner.take(&mut inner.servers(), &mute(id), &ServerOwner::Listing, known))
        .into();
    let folders: Vec<_> =
        inner.servers().pooled.iter().map(|server| server.arguments.sign_ins.folder.clone()).collect();
    assert_eq!(folders, [folder, None]);
}
