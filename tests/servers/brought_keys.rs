//! Keys of sessions' tool servers are on no disk and no tape; and a journal starts no server.

use std::path::Path;
use std::sync::Arc;

use bob::events::AgentEvent;
use bob::store::{FileStore, SqliteStore, StoreOptions};
use bob::tape::{Recorder as TapeRecorder, Redactor, Tape};
use bob::tools::servers::{ServerId, ServerSpec, ServerTransport};
use bob::{AgentError, AgentRequest, AgentRuntime};
use bob_messages::chat::CallStatus;

use crate::servers::brought::{CANARY, bringing, built, drill, ended, fixture, lives, pid, says};
use crate::support::runtime::{Recorder, session, within};

/// Every byte of every file below a folder.
fn all_bytes(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => bytes.extend(all_bytes(&entry.path())),
            false => bytes.extend(std::fs::read(entry.path()).unwrap_or_default()),
        }
    }
    bytes
}

#[tokio::test]
async fn keys_are_in_no_journal_and_a_journal_starts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let sqlite = |path: &Path| -> Arc<dyn bob::store::SessionStore> {
        SqliteStore::open(&path.join("s.db"), StoreOptions::default()).expect("a store")
    };
    let json = |path: &Path| -> Arc<dyn bob::store::SessionStore> {
        FileStore::open(&path.join("json"), StoreOptions::default()).expect("a store")
    };
    type Opens = fn(&Path) -> Arc<dyn bob::store::SessionStore>;
    let stores: [Opens; 2] = [sqlite, json];
    for (number, store) in stores.into_iter().enumerate() {
        let id = format!("s{number}");
        let web = ServerSpec::http(ServerId::new("web"), format!("http://127.0.0.1:9/mcp?key={CANARY}"))
            .with("Authorization", CANARY);
        let brought = [drill("x").with("KEY", CANARY), ServerSpec { startup_timeout_ms: 500, ..web }];
        let runtime = built(fixture().store(store(&path))).await;
        within(runtime.open(session(&id), bringing(&brought))).await.expect("it opens");
        let first = pid(&runtime, &id).await;
        // In a request and by a change as well.
        let request = AgentRequest { options: Some(bringing(&brought)), ..AgentRequest::text(session(&id), "tools") };
        within(runtime.run(request)).await.expect("it is taken");
        within(runtime.configure(session(&id), bringing(&brought).into(), None)).await.expect("it is kept");
        runtime.shutdown().await;
        drop(runtime);
        ended(first).await;
        let kept = all_bytes(&path);
        let is_in = |needle: &str| kept.windows(needle.len()).any(|window| window == needle.as_bytes());
        assert!(is_in("drill-server") && is_in("KEY") && is_in("Authorization"), "the description is kept");
        assert!(!is_in(CANARY), "a key is on the disk");

        // Another process finds the description, and starts nothing for it.
        let recorder = Recorder::new();
        let runtime = built(fixture().store(store(&path)).sink(recorder.clone())).await;
        assert_eq!(says(&runtime, &id, "tools").await, "tools: ");
        let started = recorder.events().iter().find_map(|event| match &event.event {
            AgentEvent::TurnStarted { servers, .. } => Some(servers.clone()),
            _ => None,
        });
        let servers = started.expect("a turn began");
        assert!(servers.len() == 2 && servers.iter().all(|server| server.note.is_some()), "{servers:?}");
        let called = within(runtime.run(AgentRequest::text(session(&id), "mcp/x/pid"))).await.expect("it is taken");
        let call = &called.response().tool_transcript[0];
        assert!(call.status == CallStatus::Cancelled && call.result.contains("configure"), "{call:?}");
        within(runtime.configure(session(&id), bringing(&brought[..1]).into(), None)).await.expect("it is kept");
        assert!(lives(pid(&runtime, &id).await));
        runtime.shutdown().await;
    }
}

#[tokio::test]
async fn g15_no_key_of_a_brought_server_is_on_a_tape_and_a_replay_starts_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("brought.tape");
    let tape = TapeRecorder::create(&file, Redactor::default(), "").expect("a tape");
    let runtime = built(fixture().record(&tape)).await;
    let brought = bringing(&[drill("x").with("KEY", CANARY)]);
    within(runtime.open(session("a"), brought.clone())).await.expect("it opens");
    let line = format!("mcp/x/echo {{\"text\": \"{CANARY}\"}}");
    let said = says(&runtime, "a", &line).await;
    assert!(said.contains(CANARY), "{said}");
    runtime.shutdown().await;
    tape.keep().expect("it is whole");
    let written = std::fs::read_to_string(&file).expect("a tape");
    assert!(written.contains("mcp/x/echo") && written.contains(bob::tape::MARK));
    assert!(!written.contains(CANARY), "a key is on the tape");

    let tape = Tape::load(&file, Redactor::new([CANARY.into()])).expect("a tape");
    let replay = built(fixture().replay(&tape)).await;
    within(replay.open(session("a"), brought)).await.expect("it opens");
    assert_eq!(says(&replay, "a", &line).await, said.replace(CANARY, bob::tape::MARK));
    assert!(replay.reload_servers(Vec::new()).is_err(), "no server stands beside a tape");
    let tree = replay.tree().await;
    let tools = tree.iter().find(|node| node.name == "tools").expect("a supervisor of the tools");
    assert_eq!(tools.children.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["local"]);
    replay.shutdown().await;
}

#[tokio::test]
async fn keys_that_are_not_given_again_are_those_that_the_session_gave() {
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().canonicalize().expect("a folder");
    let runtime = built(fixture().workspace(real.display().to_string())).await;
    let bare = drill("x").with("KEY", CANARY);
    let mut named = bare.clone();
    if let ServerTransport::Stdio(command) = &mut named.transport {
        command.folder = Some(real);
    }
    // Two descriptions of one server.
    let launches = [("a", bare), ("b", named)];
    for (id, launch) in &launches {
        within(runtime.open(session(id), bringing(std::slice::from_ref(launch)))).await.expect("it opens");
    }
    let first = pid(&runtime, "a").await;
    for (id, launch) in &launches {
        let again = bringing(&[launch.stripped()]);
        within(runtime.configure(session(id), again.clone().into(), None)).await.expect("it is kept");
        assert_eq!(pid(&runtime, id).await, first, "{id}");
        let another = within(runtime.open(session("c"), again)).await;
        assert!(matches!(&another, Err(AgentError::Invalid(why)) if why.contains("KEY")), "{another:?}");
    }
    runtime.shutdown().await;
}
