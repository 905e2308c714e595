use crate::tools::local::fixture::{Workspace, call};
use crate::tools::local::{BackgroundCommands, Protection, tools};
use crate::tools::policy::Policy;
use crate::tools::{ToolsActor, ToolsArguments};
use bob_messages::approvals::Standing;
use bob_messages::ids::ToolName;
use bob_messages::permission::PermissionMode;
use bob_messages::reply::Reply;
use bob_messages::tools::{CallContext, CheckRequest, LocalToolsMessage, ToolsMessage, Verdict};
use ractor::{Actor, ActorRef};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::sync::Arc;

/// A workspace in whose `src` links lead to `src`, out of it, and nowhere.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for path in ["src/a.rs", "src/deep/b.rs", "other/c.rs", "keep/d.rs"] {
        workspace.put(path, "old");
    }
    symlink("../other", workspace.path("src/link")).expect("a link");
    symlink("../other/c.rs", workspace.path("src/c.rs")).expect("a link");
    symlink("deep/b.rs", workspace.path("src/b.rs")).expect("a link");
    symlink("../other/new.rs", workspace.path("src/new.rs")).expect("a link");
    symlink("../keep/d.rs", workspace.path("src/kept.rs")).expect("a link");
    symlink("src", workspace.path("way")).expect("a link");
    workspace
}

async fn room(policy: Policy) -> ActorRef<LocalToolsMessage> {
    let ports = tools(&crate::child::Watcher::new(), &Protection::default(), &policy, &BackgroundCommands::default());
    let arguments = ToolsArguments { ports, policy, ..ToolsArguments::default() };
    Actor::spawn(None, ToolsActor, arguments).await.expect("the room opens").0
}

async fn judged(
    room: &ActorRef<LocalToolsMessage>,
    workspace: &Workspace,
    (tool, arguments): (&str, Value),
    standing: Vec<Arc<Standing>>,
) -> Verdict {
    let context = CallContext { mode: Some(PermissionMode::Ask), ..workspace.context() };
    let check = CheckRequest { call: call(tool, arguments), approved: None, standing, run: false };
    let (reply, answer) = Reply::channel();
    room.cast(ToolsMessage::Check { check, context: Arc::new(context), reply }.into()).expect("the room is open");
    answer.await.expect("an answer")
}

fn edit(path: &str) -> (&'static str, Value) {
    ("local/edit_file", json!({"path": path, "edits": [{"old": "old", "new": "new"}]}))
}

fn rules(list: &[&str]) -> Vec<String> {
    list.iter().map(|rule| (*rule).to_owned()).collect()
}

#[tokio::test]
async fn a_rule_that_allows_a_folder_does_not_allow_what_a_link_leads_out_of_it() {
    let workspace = workspace();
    let allow = rules(&["local/edit_file(src/**)", "local/write_file(src/**)"]);
    let room = room(Policy { allow, ..Policy::default() }).await;
    for path in ["src/a.rs", "src/deep/b.rs", "src/b.rs"] {
        let verdict = judged(&room, &workspace, edit(path), Vec::new()).await;
        assert!(matches!(verdict, Verdict::Allow { .. }), "{path}: {verdict:?}");
    }
    let absolute = workspace.path("src/link/c.rs");
    for path in ["src/link/c.rs", "src/c.rs", "src/kept.rs", absolute.to_str().expect("UTF-8")] {
        let verdict = judged(&room, &workspace, edit(path), Vec::new()).await;
        let Verdict::Ask { reason, tool, .. } = verdict else { panic!("{path}: {verdict:?}") };
        assert!(reason.contains("leads through a link to") && tool.exact, "{path}: {reason}");
    }
    for path in ["src/link/more.rs", "src/new.rs"] {
        let write = ("local/write_file", json!({"path": path, "content": ""}));
        let verdict = judged(&room, &workspace, write, Vec::new()).await;
        assert!(matches!(verdict, Verdict::Ask { .. }), "{path}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_rule_that_denies_or_asks_is_about_where_a_link_leads() {
    let workspace = workspace();
    let (deny, ask) = (rules(&["local/*(keep/**)"]), rules(&["local/*(src/deep/**)"]));
    let policy = Policy { deny, ask, require_high_risk_approval: false, ..Policy::default() };
    let room = room(policy).await;
    for tool in ["local/edit_file", "local/read_file"] {
        let of = |path: &str| if tool == "local/edit_file" { edit(path) } else { (tool, json!({ "path": path })) };
        let verdict = judged(&room, &workspace, of("src/kept.rs"), Vec::new()).await;
        let Verdict::Deny { reason } = verdict else { panic!("{verdict:?}") };
        assert!(reason.contains("local/*(keep/**)") && reason.contains("keep/d.rs"), "{reason}");
        for path in ["src/b.rs", "way/deep/b.rs"] {
            let verdict = judged(&room, &workspace, of(path), Vec::new()).await;
            assert!(matches!(verdict, Verdict::Ask { .. }), "{path}: {verdict:?}");
        }
    }
}

#[tokio::test]
async fn a_lasting_yes_to_a_folder_is_none_to_what_a_link_leads_out_of_it() {
    let workspace = workspace();
    let room = room(Policy::default()).await;
    let Verdict::Ask { tool, .. } = judged(&room, &workspace, edit("src/a.rs"), Vec::new()).await else {
        panic!("an edit asks");
    };
    assert_eq!(tool.like, ["local/edit_file(src/**)"]);
    let standing = Arc::new(Standing {
        tool: ToolName::new(edit("").0),
        definition: tool.definition.clone(),
        text: String::new(),
        arguments: Some(json!({"path": "src/a.rs"})),
        allowed: true,
        like: tool.like.clone(),
        reason: String::new(),
        identity: Default::default(),
        for_good: true,
    });
    for (path, runs) in [("src/deep/b.rs", true), ("src/link/c.rs", false)] {
        let verdict = judged(&room, &workspace, edit(path), vec![Arc::clone(&standing)]).await;
        assert_eq!(matches!(verdict, Verdict::Allow { .. }), runs, "{path}: {verdict:?}");
        assert_eq!(matches!(verdict, Verdict::Ask { .. }), !runs, "{path}: {verdict:?}");
    }
}
