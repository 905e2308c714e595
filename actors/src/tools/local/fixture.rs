//! A folder to work in, for the tests of the tools.

use crate::tools::{FnTool, Invocation, ProgressRoom, ToolError, ToolPort};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::permission::PermissionMode;
use bob_messages::tools::{CallContext, ToolOutput};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// A workspace with something beside it that no tool may reach.
pub(crate) struct Workspace {
    home: TempDir,
    roots: Vec<String>,
}

pub(crate) const SECRET: &str = "the secret of another folder";

impl Workspace {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let root = home.path().join("project");
        std::fs::create_dir(&root).expect("a folder");
        std::fs::write(home.path().join("secret.txt"), SECRET).expect("a file");
        let roots = vec![root.to_string_lossy().into_owned()];
        Self { home, roots }
    }

    /// A path inside the workspace.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.home.path().join("project").join(relative)
    }

    /// A path beside the workspace.
    pub(crate) fn outside(&self, relative: &str) -> PathBuf {
        self.home.path().join(relative)
    }

    pub(crate) fn roots(&self) -> &[String] {
        &self.roots
    }

    pub(crate) fn add_root(&mut self, path: &Path) {
        self.roots.push(path.to_string_lossy().into_owned());
    }

    pub(crate) fn put(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().expect("inside the workspace")).expect("folders");
        std::fs::write(path, content).expect("a file");
    }

    pub(crate) fn get(&self, relative: &str) -> String {
        std::fs::read_to_string(self.path(relative)).expect("a text file")
    }

    pub(crate) fn context(&self) -> CallContext {
        CallContext { roots: self.roots.clone().into(), ..Self::nowhere() }
    }

    /// Of a call that touches no file: making folders for each of ten thousand took longer than what was tried.
    pub(crate) fn nowhere() -> CallContext {
        CallContext {
            session: SessionId::parse("s").expect("a plain id"),
            turn: TurnId::new("t"),
            step: 1,
            roots: Arc::from([]),
            context: None,
            approvals: Default::default(),
            left: Default::default(),
            depth: 0,
            tool_timeout_ms: 10_000,
            mode: Some(PermissionMode::Auto),
            allow: None,
            traceparent: "".into(),
            child: None,
            server_wait: None,
            tracestate: None,
        }
    }

    pub(crate) async fn run(&self, tool: &FnTool, arguments: Value) -> Result<ToolOutput, ToolError> {
        let name = tool.name();
        tool.call_tool(self.invocation(name.as_str(), arguments)).await
    }

    pub(crate) fn invocation(&self, name: &str, arguments: Value) -> Invocation {
        Invocation {
            call: call(name, arguments),
            context: Arc::new(self.context()),
            deadline: Instant::now() + Duration::from_secs(10),
            may_repeat: false,
            progress: ProgressRoom::unread(),
        }
    }

    pub(crate) async fn text(&self, tool: &FnTool, arguments: Value) -> String {
        self.run(tool, arguments).await.expect("the tool can do it").plain()
    }

    pub(crate) async fn error(&self, tool: &FnTool, arguments: Value) -> String {
        self.run(tool, arguments).await.expect_err("the tool must refuse").to_string()
    }
}

pub(crate) use crate::tools::contract::call;
