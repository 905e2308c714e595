//! The contract suite of a port of tools.

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;

use super::output;
use super::port::{Invocation, ToolError, ToolPort};
use super::progress::ProgressRoom;
use crate::contract::{Found, ODD_TEXTS, Suite, dropped_after, holds};
use bob_messages::approvals::ApprovalsMode;
use bob_messages::chat::ToolCall;
use bob_messages::ids::{CallId, SessionId, ToolName, TurnId};
use bob_messages::limits::Left;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many calls are made beside each other.
const BESIDE: usize = 8;

/// One call that must have a result: the tool's full name, and arguments that fit its schema.
pub type Example = (&'static str, Value);

/// A call of a tool with these arguments, as a model makes it.
pub fn call(tool: &str, arguments: Value) -> Arc<ToolCall> {
    Arc::new(ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new(tool),
        argument_bytes: arguments.to_string().len(),
        arguments: arguments.into(),
        signatures: Vec::new(),
    })
}

/// A call of a tool with these arguments, in a session whose working folder is `folder`.
pub fn invocation(tool: &str, arguments: Value, folder: &Path) -> Invocation {
    let context = CallContext {
        session: session(),
        turn: TurnId::new("turn"),
        step: 1,
        roots: Arc::from([folder.to_string_lossy().into_owned()]),
        tool_timeout_ms: 30_000,
        mode: None,
        allow: None,
        traceparent: Arc::from(""),
        child: None,
        server_wait: None,
        tracestate: None,
        context: None,
        approvals: ApprovalsMode::Deny,
        left: Left::default(),
        depth: 0,
    };
    Invocation {
        call: call(tool, arguments),
        context: Arc::new(context),
        deadline: Instant::now() + Duration::from_secs(30),
        may_repeat: false,
        progress: ProgressRoom::unread(),
    }
}

fn session() -> SessionId {
    SessionId::parse("contract").unwrap_or_else(|never| unreachable!("{never}"))
}

/// Checks a port against the rules of all tools. Each rule has a port of its own, which `make` returns; calls are made in
/// sessions whose working folder is `folder`, with the arguments of the examples, which must have a result at any time.
pub async fn tools(make: impl Fn() -> Arc<dyn ToolPort>, examples: &[Example], folder: &Path) -> Suite {
    let mut suite = Suite::new("tool port");
    let of = || Examples { port: make(), examples, folder };
    suite.rule("the list of tools is the same each time", of().list()).await;
    suite.rule("each tool has a name of its own", of().names()).await;
    suite.rule("each tool has a description, and a schema that its examples fit", of().schemas()).await;
    suite.rule("an example has a result", of().results()).await;
    suite.rule("a repeated call of a tool that may be repeated has a result", of().repeated()).await;
    suite.rule("calls of tools that change nothing run beside each other", of().beside()).await;
    suite.rule("a call that is dropped leaves the tools usable", of().dropped()).await;
    suite.rule("unusual arguments that fit are a result or an error, without a panic", of().unusual()).await;
    suite.rule("a call can be looked at, and has time to run", of().looked_at()).await;
    suite.rule("the end of a session and of the host can be told", of().ends()).await;
    suite
}

struct Examples<'a> {
    port: Arc<dyn ToolPort>,
    examples: &'a [Example],
    folder: &'a Path,
}

impl Examples<'_> {
    async fn list(self) -> Found {
        let (first, second) = (self.port.list_tools().await, self.port.list_tools().await);
        let names = |tools: &[ToolDescriptor]| tools.iter().map(|tool| tool.id.to_string()).collect::<Vec<_>>();
        holds(!first.is_empty(), || "no tool at all".to_owned())?;
        holds(first == second, || format!("the tools {:?} and then {:?}", names(&first), names(&second)))
    }

    async fn names(self) -> Found {
        let mut names = BTreeSet::new();
        self.port.list_tools().await.into_iter().try_for_each(|tool| {
            holds(!tool.id.own_name().is_empty(), || format!("a tool without a name: {:?}", tool.id.as_str()))?;
            holds(names.insert(tool.id.to_string()), || format!("two tools named {}", tool.id))
        })
    }

    async fn schemas(self) -> Found {
        for tool in self.port.list_tools().await {
            let name = &tool.id;
            holds(!tool.description.trim().is_empty(), || format!("no description of {name}"))?;
            let is_of_an_object = tool.schema.get("type").is_none_or(|kind| kind == "object");
            holds(is_of_an_object, || format!("arguments of {name} that are no object: {}", tool.schema))?;
            output::check_schema(&tool.schema).map_err(|why| format!("the schema of {name}: {why}"))?;
            for (_, arguments) in self.examples.iter().filter(|(example, _)| *example == name.as_str()) {
                output::check(&tool.schema, arguments)
                    .map_err(|why| format!("the schema of {name} refuses its example {arguments}: {why}"))?;
            }
        }
        Ok(())
    }

    async fn results(self) -> Found {
        for (tool, arguments) in self.examples {
            self.has_result(tool, arguments).await?;
        }
        holds(!self.examples.is_empty(), || "no example".to_owned())
    }

    async fn repeated(self) -> Found {
        for (tool, arguments) in self.of(|tool| tool.idempotent || tool.read_only).await {
            for _ in 0..2 {
                self.has_result(tool, arguments).await?;
            }
        }
        Ok(())
    }

    async fn beside(self) -> Found {
        let examples: Vec<_> = self.of(|tool| tool.read_only).await.collect();
        let calls = (0..BESIDE).flat_map(|_| &examples).map(|(tool, arguments)| self.has_result(tool, arguments));
        join_all(calls).await.into_iter().collect()
    }

    async fn dropped(self) -> Found {
        for (tool, arguments) in self.of(|tool| tool.idempotent || tool.read_only).await {
            for polls in 0..16 {
                let was_ready = dropped_after(polls, self.call(tool, arguments.clone())).await;
                let next = self.has_result(tool, arguments).await;
                next.map_err(|seen| format!("{seen}, after a call that was dropped after {polls} polls"))?;
                if was_ready {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Only of tools that change nothing, since what an unusual argument does is not known.
    async fn unusual(self) -> Found {
        let tools = self.port.list_tools().await;
        for (name, arguments) in self.of(|tool| tool.read_only).await {
            let schema = tools.iter().find(|tool| tool.id.as_str() == *name).map_or(&Value::Null, |tool| &tool.schema);
            let texts = ODD_TEXTS.iter().map(|text| json!(text)).chain([json!("x".repeat(1 << 16))]);
            for odd in texts.chain([json!(0), json!(-1), json!(u64::MAX), json!(1e300), json!(null)]) {
                let mut changed = arguments.clone();
                for value in changed.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
                    if std::mem::discriminant(value) == std::mem::discriminant(&odd) {
                        *value = odd.clone();
                    }
                }
                if output::check(schema, &changed).is_ok() {
                    let _a_result_or_an_error = self.call(name, changed).await;
                }
            }
        }
        Ok(())
    }

    async fn looked_at(self) -> Found {
        for (tool, arguments) in self.examples {
            let Invocation { call, context, .. } = invocation(tool, arguments.clone(), self.folder);
            if let Some(concern) = self.port.concern(&call, &context) {
                let _a_person_may_be_asked = concern.await;
            }
            let limits = [None, Some(1_000)].map(|ruled_ms| self.port.limit_ms(&call, ruled_ms));
            holds(!limits.contains(&Some(0)), || format!("a limit of 0 ms for {tool}"))?;
        }
        Ok(())
    }

    async fn ends(self) -> Found {
        let others = SessionId::parse("another").unwrap_or_else(|never| unreachable!("{never}"));
        self.port.session_ended(&others);
        self.port.session_ended(&session());
        for (tool, arguments) in self.of(|tool| tool.idempotent || tool.read_only).await {
            let next = self.has_result(tool, arguments).await;
            next.map_err(|seen| format!("{seen}, after the end of sessions"))?;
        }
        self.port.host_ended();
        self.port.host_ended();
        Ok(())
    }

    /// The examples of these tools.
    async fn of(&self, wanted: impl Fn(&ToolDescriptor) -> bool) -> impl Iterator<Item = &Example> {
        let tools = self.port.list_tools().await;
        let names: Vec<_> = tools.iter().filter(|tool| wanted(tool)).map(|tool| tool.id.to_string()).collect();
        self.examples.iter().filter(move |(tool, _)| names.iter().any(|name| name == tool))
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        self.port.call_tool(invocation(tool, arguments, self.folder)).await
    }

    async fn has_result(&self, tool: &str, arguments: &Value) -> Found {
        let result = self.call(tool, arguments.clone()).await;
        let output = result.map_err(|error| format!("the error `{error}` of {tool} {arguments}"))?;
        holds(!output.is_error, || format!("the failure {:?} of {tool} {arguments}", output.plain()))
    }
}
