//! Tools of this process and the local ones keep the rules; each rule is broken by a port that is made for it.

use super::*;
use crate::child::Watcher;
use crate::contract::testing::each_rule_is_broken;
use crate::tools::local::{self, Protection};
use crate::tools::port::Concern;
use crate::tools::{FnTool, Policy, tool};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Words {
    text: String,
}

fn count() -> FnTool {
    let count = |words: Words, _call: Invocation| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, ToolError>(words.text.len())
    };
    tool("my/count", "Counts the bytes of a text.", count).read_only()
}

fn examples() -> Vec<Example> {
    vec![("my/count", json!({"text": "four"}))]
}

/// A tool with one fault.
struct Faulty {
    tool: FnTool,
    fault: Fault,
    count: AtomicU32,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    OtherList,
    OneNameTwice,
    NoDescription,
    AnError,
    OnlyOnce,
    OneAtATime,
    NotFreed,
    Long,
    NoTime,
    NoEnd,
}

impl ToolPort for Faulty {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        Box::pin(async {
            let mut list = self.tool.list_tools().await;
            match self.fault {
                Fault::OtherList => list[0].title = self.count.fetch_add(1, Ordering::SeqCst).to_string(),
                Fault::OneNameTwice => list.extend(self.tool.list_tools().await),
                Fault::NoDescription => list[0].description.clear(),
                _others => {}
            }
            list
        })
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match self.fault {
                Fault::AnError => return Ok(ToolOutput::error("no")),
                Fault::OnlyOnce if self.count.fetch_add(1, Ordering::SeqCst) > 0 => return Err(ToolError::new("once")),
                Fault::OneAtATime | Fault::NotFreed if self.count.fetch_add(1, Ordering::SeqCst) > 0 => {
                    return Err(ToolError::new("in use"));
                }
                Fault::Long => assert!(invocation.call.argument_bytes < 1000, "too long for its buffer"),
                _others => {}
            }
            let output = self.tool.call_tool(invocation).await;
            if matches!(self.fault, Fault::OneAtATime | Fault::NotFreed) {
                self.count.store(0, Ordering::SeqCst);
            }
            output
        })
    }

    fn concern(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        self.tool.concern(call, context)
    }

    fn limit_ms(&self, _call: &ToolCall, ruled_ms: Option<u64>) -> Option<u64> {
        if self.fault == Fault::NoTime { Some(0) } else { ruled_ms }
    }

    fn session_ended(&self, _session: &SessionId) {
        assert!(self.fault != Fault::NoEnd, "not foreseen");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_a_function_keeps_the_rules() {
    tools(|| Arc::new(count()), &examples(), Path::new("/")).await.assert();
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_tools_is_broken_by_a_port_with_its_fault() {
    let mut suites = Vec::new();
    for (rule, fault) in [
        ("the list of tools is the same each time", Fault::OtherList),
        ("each tool has a name of its own", Fault::OneNameTwice),
        ("each tool has a description, and a schema that its examples fit", Fault::NoDescription),
        ("an example has a result", Fault::AnError),
        ("a repeated call of a tool that may be repeated has a result", Fault::OnlyOnce),
        ("calls of tools that change nothing run beside each other", Fault::OneAtATime),
        ("a call that is dropped leaves the tools usable", Fault::NotFreed),
        ("unusual arguments that fit are a result or an error, without a panic", Fault::Long),
        ("a call can be looked at, and has time to run", Fault::NoTime),
        ("the end of a session and of the host can be told", Fault::NoEnd),
    ] {
        let make = || -> Arc<dyn ToolPort> { Arc::new(Faulty { tool: count(), fault, count: AtomicU32::new(0) }) };
        suites.push((rule, tools(make, &examples(), Path::new("/")).await));
    }
    each_rule_is_broken(suites);
}

#[tokio::test]
async fn the_local_tools_keep_the_rules() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    let (watcher, protection, policy) = (Watcher::new(), Protection::default(), Policy::default());
    let ports = || local::tools(&watcher, &protection, &policy, &local::BackgroundCommands::default());
    for (name, arguments) in [
        ("local/list_dir", json!({"path": "."})),
        ("local/read_file", json!({"path": "a.txt"})),
        ("local/find_files", json!({"pattern": "*.txt"})),
        ("local/search_files", json!({"pattern": "two"})),
        ("local/write_file", json!({"path": "b.txt", "content": "three\n"})),
        ("local/todo", json!({"items": []})),
    ] {
        let is_it = |port: &Arc<dyn ToolPort>| {
            port.list_tools().now_or_never().is_some_and(|tools| tools[0].id.as_str() == name)
        };
        let make = || ports().into_iter().find(is_it).unwrap_or_else(|| panic!("there is no {name}"));
        tools(make, &[(name, arguments)], folder.path()).await.assert();
    }
}
