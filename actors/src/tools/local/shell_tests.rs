use super::command::INHERITED;
use super::kept::MAX_OUTPUT_BYTES;
use super::*;
use crate::child::Watcher;
use crate::store::{ArtifactStorePort, MemoryArtifacts, StoredArtifact};
use crate::tools::local::fixture::Workspace;
use crate::tools::local::sandbox::Sandbox;
use crate::tools::{ProgressRoom, RuntimeHandle, ToolPort};
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::{SessionId, ToolName};
use bob_messages::store::StoreError;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal};
use serde_json::json;
use std::ops::Range;

fn shell() -> FnTool {
    shell_exec(&Shell::new(inherited(&[]), Watcher::new(), Sandbox::default()), &Arc::default(), &[])
}

async fn run(workspace: &Workspace, command: &str) -> ToolOutput {
    workspace.run(&shell(), json!({"command": command})).await.expect("the shell starts")
}

/// Whether a process is there and not just waiting to be reaped.
fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    rustix::process::test_kill_process(pid).is_ok()
        && stat.is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let bound = tokio::time::Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(tokio::time::Instant::now() < bound, "not within 10 s: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The process ids a command has written into `pids`, one a line, once there are `count`.
async fn pids(workspace: &Workspace, count: usize) -> Vec<Pid> {
    let mut found = Vec::new();
    until("the command has said its process ids", || {
        let text = std::fs::read_to_string(workspace.path("pids")).unwrap_or_default();
        let whole_lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        found = whole_lines.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect();
        found.len() == count
    })
    .await;
    found
}

#[tokio::test]
async fn a_command_runs_in_the_workspace_and_tells_how_it_ended() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "hello\n");
    let output = run(&workspace, "cat a.txt; pwd").await;
    let root = std::fs::canonicalize(workspace.path("")).expect("there");
    assert_eq!(output.plain(), format!("hello\n{}\n[exit code 0]", root.display()));
    assert!(!output.is_error);
    let output = run(&workspace, "echo out; echo err >&2; exit 3").await;
    assert_eq!(output.plain(), "out\n[stderr]\nerr\n[exit code 3]");
    assert!(!output.is_error, "it is a result");
    assert_eq!(output.structured, Some(json!({"exit_status": 3, "signal": null})));
    let output = run(&workspace, "kill -TERM $$").await;
    assert_eq!(output.plain(), "[killed by signal 15]");
}

#[tokio::test]
async fn g2_a_command_gets_no_input_and_little_environment() {
    let workspace = Workspace::new();
    assert_eq!(run(&workspace, "cat").await.plain(), "[exit code 0]");
    // The test runner sets this for every test; no command may see it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let seen = run(&workspace, "env | cut -d= -f1").await.plain();
    let set_by_the_shell = ["PWD", "OLDPWD", "SHLVL", "_", "[exit code 0]"];
    for name in seen.lines() {
        assert!(INHERITED.contains(&name) || set_by_the_shell.contains(&name), "{name}");
    }
    assert!(seen.contains("PATH"));
}

#[tokio::test]
async fn a_dropped_call_leaves_no_process() {
    let workspace = Workspace::new();
    let command =
        "echo $$ >> pids; sleep 1000 & echo $! >> pids; (trap '' TERM INT HUP; sleep 1000) & echo $! >> pids; wait";
    let shell = shell();
    let started = {
        let call = workspace.run(&shell, json!({"command": command}));
        tokio::select! {
            ended = call => panic!("it should still run: {ended:?}"),
            pids = pids(&workspace, 3) => pids,
        }
    };
    until("all of the group are gone", || !started.iter().any(|pid| is_running(*pid))).await;
}

#[tokio::test]
async fn the_watcher_knows_a_command_for_as_long_as_it_runs() {
    let (workspace, watcher) = (Workspace::new(), Watcher::new());
    let shell = shell_exec(&Shell::new(inherited(&[]), watcher.clone(), Sandbox::default()), &Arc::default(), &[]);
    {
        let mut call = std::pin::pin!(workspace.run(&shell, json!({"command": "echo $$ >> pids; sleep 1000"})));
        tokio::select! {
            ended = &mut call => panic!("it should still run: {ended:?}"),
            _ = pids(&workspace, 1) => {}
        }
        assert!(!watcher.idle(Duration::ZERO).await, "it is ended also when this process is killed");
    }
    assert!(watcher.idle(Duration::from_secs(10)).await, "and forgotten when it has ended");
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let workspace = Workspace::new();
    let output = run(&workspace, "sleep 1000 & echo $! >> pids; echo started").await;
    assert_eq!(output.plain(), "started\n[exit code 0]");
    let left = pids(&workspace, 1).await;
    until("the background process is gone", || !is_running(left[0])).await;
}

#[tokio::test]
async fn a_long_output_keeps_its_head_and_tail() {
    let workspace = Workspace::new();
    let text = run(&workspace, "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last").await.plain();
    assert!(text.len() < MAX_OUTPUT_BYTES + 200, "{}", text.len());
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\n[exit code 0]"));
    assert!(text.contains("of 3000012 bytes are not shown"), "{}", &text[MAX_OUTPUT_BYTES / 2..][..80]);
}

/// Runs a command of a runtime whose store keeps artifacts; also returns those.
async fn run_keeping(workspace: &Workspace, command: &str) -> (ToolOutput, Arc<MemoryArtifacts>) {
    let (runtime, store) = (RuntimeHandle::default(), MemoryArtifacts::new());
    runtime.artifacts().come_from(Arc::<MemoryArtifacts>::clone(&store));
    let shell = shell();
    let invocation = workspace.invocation(shell.name().as_str(), json!({"command": command}));
    let invocation = Invocation { progress: ProgressRoom::unread().within(&runtime), ..invocation };
    (shell.call_tool(invocation).await.expect("the shell starts"), store)
}

#[tokio::test]
async fn a_long_output_is_an_artifact_with_all_of_it() {
    let workspace = Workspace::new();
    let line =
        |stream: &str, bytes: usize| format!("head -c {bytes} /dev/zero | tr '\\0' x {stream}; echo end {stream}");
    for (stdout, stderr) in [(100_000, 0), (300_000, 90_000), (10, 70_000), (65_000, 100_000)] {
        let command = format!("{}; {}", line("", stdout), line(">&2", stderr));
        let (output, store) = run_keeping(&workspace, &command).await;
        assert!(output.for_model().len() <= MODEL_RESULT_BYTES, "{stdout} {stderr}");
        assert!(output.for_model().ends_with("[exit code 0]"), "{stdout} {stderr}");
        let has_end = output.for_model().ends_with(&format!("{}end\n[exit code 0]", "x".repeat(1000)));
        assert!(stderr < MAX_OUTPUT_BYTES || has_end, "the end of stderr is shown: {stdout} {stderr}");
        for (part, title, bytes) in [(&output.parts[0], "", stdout), (&output.parts[1], "[stderr]\n", stderr)] {
            let whole = format!("{title}{}end", "x".repeat(bytes));
            let Some(artifact) = part.artifact() else {
                assert_eq!(part.as_text(), whole, "{stdout} {stderr}");
                continue;
            };
            assert!(bytes > MAX_OUTPUT_BYTES, "{stdout} {stderr}");
            let session = &workspace.context().session;
            let content = store.get(session, &artifact.id, 0..u64::MAX).await.expect("kept").expect("there");
            assert_eq!(content, whole.as_bytes(), "{stdout} {stderr}");
        }
    }
    let too_long = kept::MAX_WHOLE_BYTES + 1;
    let (output, _store) = run_keeping(&workspace, &line("", too_long)).await;
    assert!(output.parts[0].artifact().is_none() && output.plain().contains("bytes are not shown"));
}

/// Artifacts of a disk that does not answer a write.
struct Hanging(Arc<MemoryArtifacts>);

impl ArtifactStorePort for Hanging {
    fn put<'a>(&'a self, _: &'a SessionId, _: Arc<Vec<u8>>) -> BoxFuture<'a, Result<ArtifactId, StoreError>> {
        Box::pin(std::future::pending())
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a ArtifactId,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        self.0.get(session, id, range)
    }

    fn list<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<StoredArtifact>, StoreError>> {
        self.0.list(session)
    }

    fn share<'a>(
        &'a self,
        from: &'a SessionId,
        to: &'a SessionId,
        ids: &'a [ArtifactId],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.share(from, to, ids)
    }

    fn recorded<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, ()> {
        self.0.recorded(session, ids)
    }

    fn unrecorded(&self, most: usize) -> BoxFuture<'_, Result<Vec<(SessionId, Vec<ArtifactId>)>, StoreError>> {
        self.0.unrecorded(most)
    }

    fn delete<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.delete(session, ids)
    }

    fn delete_all<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<usize, StoreError>> {
        self.0.delete_all(session)
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_makes_no_time_out_of_the_end_of_a_command() {
    let (workspace, runtime) = (Workspace::new(), RuntimeHandle::default());
    runtime.artifacts().come_from(Arc::new(Hanging(MemoryArtifacts::new())));
    let shell = shell();
    let command = "head -c 100000 /dev/zero | tr '\\0' x; echo end; exit 3";
    let invocation = workspace.invocation(shell.name().as_str(), json!({"command": command}));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(2);
    let invocation = Invocation { deadline, progress: ProgressRoom::unread().within(&runtime), ..invocation };
    // As the host does, whose limit comes a little later where the processor is busy.
    let called = tokio::time::timeout(Duration::from_secs(60), shell.call_tool(invocation)).await;
    let text = called.expect("it does not wait for the store").expect("the shell starts").plain();
    assert!(text.contains("bytes are not shown") && text.ends_with("xend\n[exit code 3]"), "{}", text.len());
}

#[test]
fn the_output_cap_is_exact() {
    for (bytes, cut) in [(MAX_OUTPUT_BYTES, false), (MAX_OUTPUT_BYTES + 1, true)] {
        for step in [1000, 8192, 70_000] {
            let mut kept = Kept::default();
            let all: Vec<u8> = (0..bytes).map(|n| b'a' + (n % 26) as u8).collect();
            all.chunks(step).for_each(|chunk| kept.take(chunk));
            let text = kept.text();
            assert_eq!(text.contains("not shown"), cut, "{bytes} {step}");
            let whole = String::from_utf8(all).expect("letters");
            assert!(text.starts_with(&whole[..Kept::HALF]) && text.ends_with(&whole[bytes - Kept::HALF..]));
        }
    }
}

#[tokio::test]
async fn a_process_that_left_the_group_holds_nobody_up() {
    let workspace = Workspace::new();
    let command =
        "setsid sh -c 'echo $$ >> pids; exec sleep 1000' & while [ ! -s pids ]; do sleep 0.01; done; echo done";
    let output = run(&workspace, command).await;
    assert_eq!(output.plain(), "done\n[exit code 0]");
    for escaped in pids(&workspace, 1).await {
        rustix::process::kill_process(escaped, Signal::KILL).expect("it was still there");
    }
}

#[tokio::test]
async fn a_command_runs_in_a_folder_inside_the_roots_only() {
    let workspace = Workspace::new();
    workspace.put("sub/deep/a.txt", "");
    workspace.put("b.txt", "");
    std::os::unix::fs::symlink(workspace.outside(""), workspace.path("out")).expect("a link");
    std::os::unix::fs::symlink("sub/deep", workspace.path("short")).expect("a link");
    let root = std::fs::canonicalize(workspace.path("")).expect("there");
    let absolute = workspace.path("sub").to_string_lossy().into_owned();
    for (cwd, folder) in
        [(".", ""), ("", ""), ("sub/..", ""), ("sub/deep", "sub/deep"), ("short", "sub/deep"), (&absolute, "sub")]
    {
        let folder = if folder.is_empty() { root.clone() } else { root.join(folder) };
        let told = workspace.text(&shell(), json!({"command": "pwd", "cwd": cwd})).await;
        assert_eq!(told, format!("{}\n[exit code 0]", folder.display()), "{cwd}");
    }
    for (cwd, expected) in
        [("..", "outside"), ("/", "outside"), ("out", "outside"), ("b.txt", "not a folder"), ("none", "there is no")]
    {
        let told = workspace.error(&shell(), json!({"command": "pwd > ran", "cwd": cwd})).await;
        assert!(told.contains(expected), "{cwd}: {told}");
    }
    assert!(!workspace.path("ran").exists() && !workspace.outside("ran").exists());
}

#[test]
fn a_call_has_its_own_limit_within_that_of_the_rules() {
    let limit = |asked: Option<u64>, ruled_ms| {
        let arguments = asked.map_or(json!({"command": "x"}), |asked| json!({"command": "x", "timeout_ms": asked}));
        let call = crate::tools::local::fixture::call("local/shell_exec", arguments);
        crate::tools::ToolPort::limit_ms(&shell(), &call, ruled_ms)
    };
    assert_eq!(limit(None, None), Some(120_000));
    assert_eq!(limit(Some(500), None), Some(500));
    assert_eq!(limit(Some(900_000), None), Some(600_000));
    assert_eq!(limit(None, Some(5_000)), Some(5_000));
    assert_eq!(limit(Some(9_000), Some(5_000)), Some(5_000));
    assert_eq!(limit(Some(900_000), Some(1_800_000)), Some(900_000), "what a person configures may be longer");
}

#[test]
fn the_model_is_told_what_is_refused() {
    let denied = ["rm".to_owned(), "dd".to_owned()];
    let shell = shell_exec(&Shell::new(Vec::new(), Watcher::new(), Sandbox::default()), &Arc::default(), &denied);
    let described = shell.listed().remove(0);
    assert!(described.description.ends_with(". Refused programs: rm, dd"), "{}", described.description);
    assert_eq!(described.id, ToolName::new("local/shell_exec"));
}
