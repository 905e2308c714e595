//! How many tool servers sessions may bring: more are refused by name, and nothing of them is started.

use std::time::Duration;

use bob::sessions::{Change, OptionsPatch};
use bob::tools::servers::ServerSpec;
use bob::{AgentError, AgentRuntime, Runtime};

use crate::servers::brought::{bringing, built, drill, ended, fixture, pid, says};
use crate::support::runtime::{session, within};

/// Servers of these ids.
fn drills(ids: &[&str]) -> Vec<ServerSpec> {
    ids.iter().map(|id| drill(id)).collect()
}

/// Why a session cannot be opened with these; `None`: it was.
async fn refused(runtime: &Runtime, id: &str, servers: &[&str]) -> Option<String> {
    match within(runtime.open(session(id), bringing(&drills(servers)))).await {
        Ok(_) => None,
        Err(AgentError::Invalid(why)) => Some(why),
        Err(other) => panic!("refused as something else: {other:?}"),
    }
}

/// The servers of sessions that are in the tree.
async fn there(runtime: &Runtime) -> usize {
    let tree = runtime.tree().await;
    let tools = tree.into_iter().find(|node| node.name == "tools").expect("a supervisor of the tools");
    tools.children.iter().filter(|node| node.name.contains('~')).count()
}

#[tokio::test]
async fn a_session_brings_so_many_servers_and_no_more() {
    let runtime = built(fixture().brought_servers_at_most(64, 2)).await;
    let why = refused(&runtime, "a", &["x", "y", "z"]).await.expect("too many");
    assert!(why.contains("the session a") && why.contains("more than 2 tool servers"), "{why}");
    assert_eq!((there(&runtime).await, within(runtime.session(session("a"))).await), (0, Ok(None)), "nothing was kept");
    assert_eq!(refused(&runtime, "a", &["x", "y"]).await, None);
    assert!(says(&runtime, "a", "tools").await.contains("mcp/y/echo"));
    // Attached servers stay until the next turn, in addition to their replacements, and no longer.
    let change = async |ids: &[&str]| {
        let patch = OptionsPatch { servers: Change::Set(drills(ids).into()), ..OptionsPatch::default() };
        within(runtime.configure(session("a"), patch, None)).await
    };
    change(&["v", "w"]).await.expect("two others");
    let more = change(&["t", "u"]).await;
    assert!(matches!(&more, Err(AgentError::Invalid(why)) if why.contains("more than 2")), "{more:?}");
    assert!(says(&runtime, "a", "tools").await.contains("mcp/w/echo"), "the change that was taken is in force");
    change(&["t", "u"]).await.expect("the first two are not named any more");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_runtime_has_so_many_servers_and_those_that_nobody_uses_make_room() {
    let runtime =
        built(fixture().brought_servers_at_most(2, 2).brought_servers_end_after(Duration::from_secs(3_600))).await;
    assert_eq!(refused(&runtime, "a", &["x"]).await, None);
    assert_eq!(refused(&runtime, "b", &["x", "y"]).await, None, "what is shared counts once");
    let why = refused(&runtime, "c", &["z"]).await.expect("too many");
    assert!(why.contains("use 2 tool servers") && why.contains("2 at most"), "{why}");
    assert_eq!(
        (there(&runtime).await, refused(&runtime, "c", &["y"]).await),
        (2, None),
        "one that is there may be shared"
    );
    let x = pid(&runtime, "a").await;
    for id in ["a", "b"] {
        assert!(within(runtime.close(session(id))).await);
    }
    // x has been unused for an hour; it ends early for another one.
    assert_eq!(refused(&runtime, "d", &["z"]).await, None);
    ended(x).await;
    assert!(says(&runtime, "d", "tools").await.contains("mcp/z/echo"));
    assert!(says(&runtime, "c", "tools").await.contains("mcp/y/echo"), "what somebody uses stays");
    runtime.shutdown().await;
}
