//! A model server starts once, is waited for together, and never outlives its actor.
//!
//! The child is a `sh` that says something and sleeps; the port is answered by the
//! test itself, so that each test decides when the server is ready.

use super::*;
use crate::child::testing::*;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpSocket;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

/// Far beyond any deadline here: a start that is not about the limit.
const NO_LIMIT: Duration = Duration::from_secs(600);

/// A bound port that refuses connections until a server listens on it.
struct Port(TcpSocket);

impl Port {
    fn reserve() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&format!("http://{}/v1/", self.0.local_addr().unwrap())).unwrap()
    }

    /// Answers with these statuses in order, the last one for ever; tells each path. A good answer is a list of models.
    fn listen(self, statuses: &[u16]) -> (JoinHandle<()>, UnboundedReceiver<String>) {
        self.listen_with(statuses, r#"{"object": "list", "data": [{"id": "m"}]}"#)
    }

    fn listen_with(self, statuses: &[u16], body: &'static str) -> (JoinHandle<()>, UnboundedReceiver<String>) {
        let listener = self.0.listen(64).unwrap();
        let mut statuses: VecDeque<u16> = statuses.iter().copied().collect();
        let (tell, told) = mpsc::unbounded_channel();
        let answering = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut line = String::new();
                BufReader::new(&mut stream).read_line(&mut line).await.unwrap();
                let status = if statuses.len() > 1 { statuses.pop_front() } else { statuses.front().copied() };
                let answer =
                    format!("HTTP/1.1 {} Whatever\r\nContent-Length: {}\r\n\r\n{body}", status.unwrap(), body.len());
                drop(stream.write_all(answer.as_bytes()).await);
                drop(tell.send(line.split(' ').nth(1).unwrap().to_owned()));
            }
        });
        (answering, told)
    }
}

/// A model server whose process notes each of its starts in a file.
struct Fixture {
    folder: TempDir,
    spec: ModelServerSpec,
    progress: UnboundedReceiver<String>,
    servers: ModelServers,
}

impl Fixture {
    /// `script` runs after the note, which is the group's number.
    fn new(endpoint: Endpoint, ready_timeout: Duration, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("echo $$ >> starts; echo installing; {script}");
        let command = ChildSpec { folder: Some(folder.path().into()), ..ChildSpec::new("sh", ["-c", &script]) };
        let (tell, progress) = mpsc::unbounded_channel();
        let spec = ModelServerSpec::new("tiny", command, endpoint, ready_timeout, Watcher::new())
            .with_progress(Arc::new(move |provider, line| drop(tell.send(format!("{provider}: {line}")))));
        Self { folder, spec, progress, servers: ModelServers::new(["tiny".to_owned()]) }
    }

    /// Does what a supervisor does at a start.
    async fn start_actor(&self) -> (ActorRef<ModelServerMessage>, JoinHandle<()>) {
        let (actor, ended) = Actor::spawn(None, ModelServerActor, self.spec.clone()).await.unwrap();
        self.servers.address("tiny").unwrap().fill(actor.clone());
        (actor, ended)
    }

    /// The groups that were started so far.
    fn starts(&self) -> Vec<i32> {
        let note: PathBuf = self.folder.path().join("starts");
        std::fs::read_to_string(note).unwrap_or_default().lines().map(|line| line.parse().unwrap()).collect()
    }

    fn asks(&self) -> JoinHandle<Result<(), LlmError>> {
        let servers = self.servers.clone();
        tokio::spawn(async move { servers.ready("tiny").await })
    }

    async fn is_installing(&mut self) {
        assert_eq!(soon(self.progress.recv()).await.unwrap(), "tiny: installing");
    }

    /// One server that was started and is ready, and its group.
    async fn with_running_server(script: &str) -> (Self, ActorRef<ModelServerMessage>, JoinHandle<()>, i32) {
        let port = Port::reserve();
        let mut fixture = Self::new(port.endpoint(), NO_LIMIT, script);
        let (actor, ended) = fixture.start_actor().await;
        let asked = fixture.asks();
        fixture.is_installing().await;
        let _answering = port.listen(&[200]);
        soon(asked).await.unwrap().unwrap();
        let group = fixture.starts()[0];
        (fixture, actor, ended, group)
    }
}

#[tokio::test]
async fn everybody_who_asks_waits_for_one_start() {
    let port = Port::reserve();
    let mut fixture = Fixture::new(port.endpoint(), NO_LIMIT, "exec sleep 1000");
    let (actor, _ended) = fixture.start_actor().await;
    let early: Vec<_> = (0..20).map(|_| fixture.asks()).collect();
    fixture.is_installing().await;
    let late: Vec<_> = (0..20).map(|_| fixture.asks()).collect();
    let (_answering, mut paths) = port.listen(&[503, 503, 200]);
    for asked in early.into_iter().chain(late) {
        soon(asked).await.unwrap().unwrap();
    }
    soon(fixture.servers.ready("tiny")).await.unwrap();
    assert_eq!(fixture.starts().len(), 1);
    for _ in 0..3 {
        assert_eq!(soon(paths.recv()).await.unwrap(), "/health");
    }
    actor.kill();
    group_is_gone(fixture.starts()[0]).await;
}

#[tokio::test]
async fn a_server_without_a_health_page_is_asked_for_its_models() {
    let port = Port::reserve();
    let mut fixture = Fixture::new(port.endpoint(), NO_LIMIT, "exec sleep 1000");
    let (actor, _ended) = fixture.start_actor().await;
    let asked = fixture.asks();
    fixture.is_installing().await;
    let (_answering, mut paths) = port.listen(&[404, 200]);
    soon(asked).await.unwrap().unwrap();
    assert_eq!([soon(paths.recv()).await.unwrap(), soon(paths.recv()).await.unwrap()], ["/health", "/v1/models"]);
    actor.stop(None);
    group_is_gone(fixture.starts()[0]).await;
}

#[tokio::test]
async fn a_server_that_ends_before_it_is_ready_says_why_and_is_tried_again() {
    let port = Port::reserve();
    let fixture = Fixture::new(port.endpoint(), NO_LIMIT, "echo python3 is missing >&2; exit 4");
    let (actor, _ended) = fixture.start_actor().await;
    for attempt in 1..=2 {
        let error = soon(fixture.servers.ready("tiny")).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::NotStarted);
        for part in ["`tiny`", "ended with status 4", "python3 is missing", "fix the problem"] {
            assert!(error.message.contains(part), "{error}");
        }
        assert_eq!(fixture.starts().len(), attempt);
    }
    actor.stop(None);
}

#[tokio::test]
async fn g3_a_server_that_repeats_what_it_was_given_is_quoted_without_it() {
    let port = Port::reserve();
    let script = "echo \"the index is $INDEX\"; echo \"$KEY was refused\" >&2; exit 4";
    let mut fixture = Fixture::new(port.endpoint(), NO_LIMIT, script);
    fixture.spec.command.env =
        vec![("KEY".into(), "sk-canary-7".into()), ("INDEX".into(), "https://me:canary-8@host/".into())];
    let (actor, _ended) = fixture.start_actor().await;
    let error = soon(fixture.servers.ready("tiny")).await.unwrap_err();
    let mut shown = format!("{error} {:?} {:?}", error, fixture.spec);
    fixture.progress.close();
    while let Some(line) = soon(fixture.progress.recv()).await {
        shown += &line;
    }
    assert!(shown.contains("… was refused") && shown.contains("the index is …"), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
    actor.stop(None);
}

#[tokio::test]
async fn a_command_that_cannot_start_is_named() {
    let port = Port::reserve();
    let mut fixture = Fixture::new(port.endpoint(), NO_LIMIT, "");
    fixture.spec.command = ChildSpec::new("bob-no-such-program", ["x"]);
    let (actor, _ended) = fixture.start_actor().await;
    let error = soon(fixture.servers.ready("tiny")).await.unwrap_err();
    assert!(error.message.contains("cannot start `bob-no-such-program`: no such program"), "{error}");
    actor.stop(None);
}

#[tokio::test]
async fn a_server_that_is_not_ready_in_time_is_ended_and_said() {
    let port = Port::reserve();
    let fixture = Fixture::new(port.endpoint(), Duration::from_millis(1_500), "echo loading >&2; exec sleep 1000");
    let (actor, _ended) = fixture.start_actor().await;
    let asked = Instant::now();
    let error = soon(fixture.servers.ready("tiny")).await.unwrap_err();
    assert!(asked.elapsed() >= Duration::from_millis(1_500));
    assert_eq!(error.kind, LlmErrorKind::NotStarted);
    assert!(error.message.contains("within 1500 ms") && error.message.contains("loading"), "{error}");
    group_is_gone(fixture.starts()[0]).await;
    actor.stop(None);
}

#[tokio::test]
async fn a_server_that_already_runs_is_used_and_left_alone() {
    let port = Port::reserve();
    let mut fixture = Fixture::new(port.endpoint(), NO_LIMIT, "exec sleep 1000");
    let (actor, _ended) = fixture.start_actor().await;
    let (answering, _paths) = port.listen(&[503, 200]);
    soon(fixture.servers.ready("tiny")).await.unwrap();
    soon(fixture.servers.ready("tiny")).await.unwrap();
    assert_eq!(fixture.starts(), [] as [i32; 0]);
    // When its owner ends it, ours is started instead.
    answering.abort();
    assert!(answering.await.unwrap_err().is_cancelled());
    let asked = fixture.asks();
    fixture.is_installing().await;
    assert!(!asked.is_finished());
    actor.kill();
    assert_eq!(soon(asked).await.unwrap().unwrap_err().kind, LlmErrorKind::Gone);
    group_is_gone(fixture.starts()[0]).await;
}

#[tokio::test]
async fn another_program_on_the_port_is_told_at_once_and_not_taken_for_a_server() {
    for (statuses, body) in [(&[500][..], ""), (&[404], "<html>"), (&[200], "<html>"), (&[200], r#"{"data": 1}"#)] {
        let port = Port::reserve();
        // It would be waited for much longer if it could become a server.
        let fixture = Fixture::new(port.endpoint(), NO_LIMIT, "exec sleep 1000");
        let (actor, _ended) = fixture.start_actor().await;
        let _answering = port.listen_with(statuses, body);
        let error = soon(fixture.servers.ready("tiny")).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::NotStarted);
        for part in ["another program listens on 127.0.0.1:", "is no model server", "{port}"] {
            assert!(error.message.contains(part), "{error}");
        }
        assert_eq!(fixture.starts(), [] as [i32; 0]);
        actor.stop(None);
    }
}

#[tokio::test]
async fn a_command_that_takes_a_port_gets_another_one_where_a_foreign_program_has_its_own() {
    let taken = Port::reserve();
    let configured = taken.endpoint();
    let _foreign = taken.listen(&[404]);
    let mut fixture = Fixture::new(configured.clone(), NO_LIMIT, "echo \"at $1\" > at; exec sleep 1000");
    fixture.spec.command.args.extend(["sh".into(), PORT.into()]);
    let (actor, _ended) = fixture.start_actor().await;
    let asked = fixture.asks();
    let told = soon(fixture.progress.recv()).await.unwrap();
    assert!(told.contains("is no model server; port "), "{told}");
    fixture.is_installing().await;
    let other: u16 = loop {
        let at = std::fs::read_to_string(fixture.folder.path().join("at")).unwrap_or_default();
        match at.trim().strip_prefix("at ").and_then(|port| port.parse().ok()) {
            Some(port) => break port,
            None => tokio::task::yield_now().await,
        }
    };
    assert!(other != configured.port() && told.contains(&other.to_string()), "{told}");
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("127.0.0.1:{other}").parse().unwrap()).unwrap();
    let (_answering, _paths) = Port(socket).listen(&[200]);
    soon(asked).await.unwrap().unwrap();
    assert_eq!(fixture.servers.port("tiny"), Some(other));
    soon(fixture.servers.ready("tiny")).await.unwrap();
    assert_eq!((fixture.servers.port("tiny"), fixture.servers.port("openai")), (Some(other), None));
    actor.stop(None);
    group_is_gone(fixture.starts()[0]).await;
}

#[tokio::test]
async fn a_start_that_says_where_it_is_may_take_longer_than_its_limit() {
    let port = Port::reserve();
    let limit = Duration::from_secs(5);
    let script = "for i in $(seq 60); do echo \"~ $i of 60\"; sleep 0.1; done; echo loading; exec sleep 1000";
    let mut fixture = Fixture::new(port.endpoint(), limit, script);
    let (actor, _ended) = fixture.start_actor().await;
    let began = Instant::now();
    let asked = fixture.asks();
    while soon(fixture.progress.recv()).await.unwrap() != "tiny: loading" {}
    assert!(began.elapsed() > limit, "it took longer than it may be silent");
    let _answering = port.listen(&[200]);
    soon(asked).await.unwrap().unwrap();
    actor.stop(None);
    group_is_gone(fixture.starts()[0]).await;
}

#[tokio::test]
async fn a_running_server_that_ends_ends_its_actor_and_the_next_starts_it_again() {
    let (mut fixture, _actor, ended, group) = Fixture::with_running_server("exec sleep 1000").await;
    // The first port goes on answering for the dead process, as a real one would not.
    let port = Port::reserve();
    let kill = rustix::process::Pid::from_raw(group).unwrap();
    rustix::process::kill_process(kill, rustix::process::Signal::KILL).unwrap();
    soon(ended).await.unwrap();
    fixture.spec.endpoint = port.endpoint();
    let (actor, _ended) = fixture.start_actor().await;
    let asked = fixture.asks();
    fixture.is_installing().await;
    let _answering = port.listen(&[200]);
    soon(asked).await.unwrap().unwrap();
    assert_eq!(fixture.starts().len(), 2);
    actor.kill();
    group_is_gone(fixture.starts()[1]).await;
}

#[tokio::test]
async fn stop_and_kill_of_the_actor_end_the_whole_group() {
    for kills in [false, true] {
        let script = "sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000 & wait";
        let (fixture, actor, ended, group) = Fixture::with_running_server(script).await;
        if kills {
            actor.kill()
        } else {
            actor.stop(None)
        }
        soon(ended).await.unwrap();
        group_is_gone(group).await;
        assert!(fixture.spec.watcher.idle(DEADLINE).await);
    }
}

#[tokio::test]
async fn an_actor_killed_during_a_start_ends_the_process_and_lets_everybody_go() {
    let port = Port::reserve();
    let mut fixture = Fixture::new(port.endpoint(), NO_LIMIT, "exec sleep 1000");
    let (actor, _ended) = fixture.start_actor().await;
    let asked = fixture.asks();
    fixture.is_installing().await;
    actor.kill();
    assert_eq!(soon(asked).await.unwrap().unwrap_err().kind, LlmErrorKind::Gone);
    group_is_gone(fixture.starts()[0]).await;
}

#[tokio::test]
async fn a_successor_starts_nothing_before_the_old_process_has_ended() {
    let port = Port::reserve();
    // The first start ignores TERM; the second must not be there before its end.
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    let mut fixture = Fixture::new(port.endpoint(), NO_LIMIT, script);
    fixture.spec.ladder.after_term = Duration::from_millis(200);
    let (first, _ended) = fixture.start_actor().await;
    let _first_asks = fixture.asks();
    fixture.is_installing().await;
    assert_eq!(soon(fixture.progress.recv()).await.unwrap(), "tiny: ready");
    let old = fixture.starts()[0];
    first.kill();
    let (second, _ended) = fixture.start_actor().await;
    let _second_asks = fixture.asks();
    fixture.is_installing().await;
    assert!(processes().iter().all(|p| p.pid != old));
    second.kill();
    group_is_gone(fixture.starts()[1]).await;
}

#[tokio::test]
async fn a_provider_without_a_server_of_ours_is_ready_and_a_dead_actor_is_gone() {
    let port = Port::reserve();
    let fixture = Fixture::new(port.endpoint(), NO_LIMIT, "exec sleep 1000");
    soon(fixture.servers.ready("openai")).await.unwrap();
    let (actor, ended) = fixture.start_actor().await;
    actor.stop(None);
    soon(ended).await.unwrap();
    assert_eq!(soon(fixture.servers.ready("tiny")).await.unwrap_err().kind, LlmErrorKind::Gone);
}
