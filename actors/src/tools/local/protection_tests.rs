use super::*;
use crate::tools::ToolPort;
use crate::tools::local::fixture::{Workspace, call};
use crate::tools::local::{read, search, write};
use serde_json::json;
use std::os::unix::fs::symlink;

/// A workspace with what governs in it, and what is protected there.
fn workspace() -> (Workspace, Arc<Protected>) {
    let workspace = Workspace::new();
    for (path, text) in [
        ("agent.toml", "deny_tools = []"),
        (".bob/chat_history", "plan what was typed"),
        (".git/hooks/pre-commit", "exit 0"),
        ("MEMORY.md", "remember the plan"),
        ("docs/STYLE.md", "plan"),
        ("skills/one/SKILL.md", "plan"),
        ("run.sh", "plan"),
        (".env", "KEY=plan"),
        ("sub/server.pem", "plan"),
        ("kept/store.db", "plan"),
        ("kept/store.db-wal", "plan"),
        ("src/notes.md", "the plan"),
        ("id_generator.rs", "no plan"),
    ] {
        workspace.put(path, text);
    }
    let protection = Protection {
        governing: vec![workspace.path("run.sh"), "skills".into()],
        governing_names: vec!["MEMORY.md".to_owned(), "./docs/STYLE.md".to_owned()],
        private: vec![workspace.path("kept/store.db")],
        ..Protection::default()
    };
    (workspace, Arc::new(Protected::new(&protection)))
}

async fn concern(workspace: &Workspace, tool: &FnTool, arguments: Value) -> Option<Concern> {
    let name = tool.name();
    tool.concern(&call(name.as_str(), arguments), &Arc::new(workspace.context())).expect("it looks").await
}

async fn writing(workspace: &Workspace, protected: &Arc<Protected>, path: &str) -> Option<Concern> {
    let tool = protected.guard(write::write_file(&Arc::default()), Access::Write);
    concern(workspace, &tool, json!({"path": path, "content": ""})).await
}

async fn reading(workspace: &Workspace, protected: &Arc<Protected>, path: &str) -> Option<Concern> {
    let tool = protected.guard(read::read_file(&Arc::default()), Access::Read);
    concern(workspace, &tool, json!({ "path": path })).await
}

#[tokio::test]
async fn g18_what_governs_the_agent_is_written_by_no_way_without_a_yes() {
    let (workspace, protected) = workspace();
    let root = workspace.roots()[0].clone();
    symlink("agent.toml", workspace.path("harmless.txt")).expect("a link");
    symlink(".git", workspace.path("tree")).expect("a link");
    symlink("../harmless.txt", workspace.path("src/chain")).expect("a link");
    for path in [
        "agent.toml",
        "./agent.toml",
        "src/../agent.toml",
        "new/../agent.toml",
        "new/deeper/../../agent.toml",
        "AGENT.TOML",
        "src/agent.toml",
        "harmless.txt",
        "src/chain",
        "../project/agent.toml",
        ".git/config",
        ".git/hooks/post-commit",
        "tree/hooks/pre-push",
        "sub/.git/config",
        ".git",
        ".bob/sessions.db",
        ".bob/new/file",
        ".BOB/sessions.db",
        "MEMORY.md",
        "src/MEMORY.md",
        "docs/STYLE.md",
        "skills/two/SKILL.md",
        "run.sh",
        "kept/store.db",
        "kept/store.db-wal",
        "kept/store.db-owners/1.owner",
        &format!("{root}/agent.toml"),
        &format!("{root}/src/../agent.toml"),
    ] {
        let wanted = writing(&workspace, &protected, path).await;
        // What leads out of the root is refused by the tool itself.
        let is_out = path.starts_with("../");
        match wanted {
            Some(Concern::Ask(why)) => assert!(why.contains("governs the agent"), "{path}: {why}"),
            None if is_out => {
                workspace.error(&write::write_file(&Arc::default()), json!({"path": path, "content": ""})).await;
            }
            other => panic!("{path}: {other:?}"),
        }
    }
    for path in [
        "src/notes.md",
        "new.txt",
        "agent.toml.md",
        ".bobby",
        ".github/workflows/ci.yml",
        "kept/store.dbx",
        "docs/a.md",
    ] {
        assert_eq!(writing(&workspace, &protected, path).await, None, "{path}");
    }
}

#[tokio::test]
async fn g18_where_a_name_that_governs_leads_is_written_by_no_way_without_a_yes() {
    let workspace = Workspace::new();
    let root = workspace.roots()[0].clone();
    for path in ["docs/house.md", "notes/brain.md", "other/notes.md", "etc/agent.toml.txt", "plain.md"] {
        workspace.put(path, "text");
    }
    symlink("docs/house.md", workspace.path("AGENTS.md")).expect("a link");
    symlink("etc/agent.toml.txt", workspace.path("agent.toml")).expect("a link");
    symlink("chain.md", workspace.path("TOOLS.md")).expect("a link");
    symlink("not/there/yet.md", workspace.path("chain.md")).expect("a link");
    symlink("built/tool", workspace.path("tool")).expect("a link");
    symlink("lib/skills", workspace.path("skills")).expect("a link");
    workspace.put("lib/skills/one/SKILL.md", "text");
    let names = ["AGENTS.md", &format!("{root}/notes/brain.md"), "sub/../other/notes.md", "TOOLS.md"];
    let protection = Protection {
        governing: vec![workspace.path("tool"), "skills".into()],
        governing_names: names.into_iter().map(str::to_owned).collect(),
        ..Protection::default()
    };
    let protected = Arc::new(Protected::new(&protection));
    for path in [
        "docs/house.md",
        "AGENTS.md",
        "notes/brain.md",
        "other/notes.md",
        "etc/agent.toml.txt",
        "not/there/yet.md",
        "built/tool",
        "lib/skills/one/SKILL.md",
    ] {
        let told = writing(&workspace, &protected, path).await;
        assert!(matches!(&told, Some(Concern::Ask(why)) if why.contains("governs the agent")), "{path}: {told:?}");
    }
    assert_eq!(writing(&workspace, &protected, "plain.md").await, None);
    assert_eq!(writing(&workspace, &protected, "docs/other.md").await, None);
}

/// A folder inside of one that governs, as a worktree in `.git`, is worked in as any other.
#[tokio::test]
async fn what_a_session_works_in_does_not_govern_all_of_it() {
    let workspace = Workspace::new();
    workspace.put(".git/trees/x/src/plain.rs", "text");
    let roots = vec![workspace.path(".git/trees/x").display().to_string()];
    let protected = Arc::new(Protected::default());
    let place = place(&roots, "src/plain.rs").expect("it is inside");
    assert_eq!(protected.concern(&place, &roots, Access::Write), None);
}

#[tokio::test]
async fn g18_what_is_the_agents_own_is_neither_read_nor_listed_nor_searched() {
    let (workspace, protected) = workspace();
    symlink(".bob", workspace.path("mine")).expect("a link");
    std::fs::hard_link(workspace.path(".bob/chat_history"), workspace.path("typed.txt")).expect("a second name");
    let list = protected.guard(super::super::list::list_dir(), Access::List);
    let find = protected.guard(search::search_files(Arc::clone(&protected)), Access::Read);
    for path in [
        ".bob/chat_history",
        ".bob",
        "mine/chat_history",
        "mine",
        "src/../.bob/x",
        "typed.txt",
        "kept/store.db",
        "kept/store.db-wal",
    ] {
        let told = [
            reading(&workspace, &protected, path).await,
            concern(&workspace, &find, json!({"path": path, "pattern": "plan"})).await,
        ];
        for told in told {
            assert!(matches!(&told, Some(Concern::Deny(why)) if why.contains("own")), "{path}: {told:?}");
        }
    }
    for path in [".bob", "mine"] {
        assert!(matches!(concern(&workspace, &list, json!({ "path": path })).await, Some(Concern::Deny(_))), "{path}");
    }
    assert_eq!(concern(&workspace, &list, json!({})).await, None);
    assert_eq!(reading(&workspace, &protected, "src/notes.md").await, None);
    assert_eq!(reading(&workspace, &protected, "agent.toml").await, None, "reading it is no harm");
}

#[tokio::test]
async fn a_search_finds_neither_secrets_nor_the_agent_itself() {
    let (workspace, protected) = workspace();
    std::fs::hard_link(workspace.path(".env"), workspace.path("plain.txt")).expect("a second name");
    let find = search::search_files(Arc::clone(&protected));
    let found = workspace.text(&find, json!({"pattern": "plan"})).await;
    let files: std::collections::BTreeSet<&str> = found.lines().filter_map(|line| line.split(':').next()).collect();
    let wanted = ["MEMORY.md", "docs/STYLE.md", "id_generator.rs", "run.sh", "skills/one/SKILL.md", "src/notes.md"];
    assert_eq!(files, wanted.into(), "{found}");
    // A person said yes to exactly this file.
    assert!(workspace.text(&find, json!({"pattern": "plan", "path": ".env"})).await.contains("KEY=plan"));
}

#[tokio::test]
async fn a_file_of_secrets_is_asked_about() {
    let (workspace, protected) = workspace();
    symlink(".env", workspace.path("settings")).expect("a link");
    std::fs::hard_link(workspace.path(".env"), workspace.path("plain.txt")).expect("a second name");
    workspace.put(".ssh/config", "Host *");
    for path in [".env", "settings", "sub/server.pem", "src/../.env", ".ENV", "plain.txt", ".ssh/config"] {
        let told = reading(&workspace, &protected, path).await;
        assert!(matches!(&told, Some(Concern::Ask(why)) if why.contains("secrets")), "{path}: {told:?}");
    }
    assert!(matches!(writing(&workspace, &protected, ".env").await, Some(Concern::Ask(_))));
    assert_eq!(reading(&workspace, &protected, "id_generator.rs").await, None);
    let none = Arc::new(Protected::new(&Protection { secret_files: Vec::new(), ..Protection::default() }));
    assert_eq!(reading(&workspace, &none, ".env").await, None, "the list is what is configured");
    let broken = Arc::new(Protected::new(&Protection { secret_files: vec!["a[".to_owned()], ..Protection::default() }));
    workspace.put("a[", "x");
    assert!(
        matches!(reading(&workspace, &broken, "a[").await, Some(Concern::Ask(_))),
        "a pattern that is none is a name"
    );
}
