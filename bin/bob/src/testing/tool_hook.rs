//! The rules of a hook that has a say in calls.

use super::rules::{beside, dropped};
use crate::tools::hooks::{HookedCall, ToolHook};
use crate::tools::{Concern, ToolDescriptor, ToolError, ToolName, ToolOutput};
use bob_actors::contract::{Found, ODD_TEXTS, Suite, holds};
use bob_actors::tools::contract::{Example, invocation};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a note that the model reads.
const MOST_NOTE: usize = 16 * 1024;

pub(super) async fn check(make: impl Fn() -> Arc<dyn ToolHook>, examples: &[Example]) -> Suite {
    let of = || Calls { port: make(), examples };
    let mut suite = Suite::new("hook");
    suite.rule("what it says before a call has a reason", async { of().asked().await }).await;
    suite.rule("what it says after a call is read whole", async { of().told().await }).await;
    suite.rule("calls beside each other are all answered", of().beside()).await;
    suite.rule("a question that is dropped leaves the hook usable", of().withdrawn()).await;
    suite.rule("unusual arguments and results are answered, without a panic", of().unusual()).await;
    suite
}

struct Calls<'a> {
    port: Arc<dyn ToolHook>,
    examples: &'a [Example],
}

fn hooked(tool: &str, arguments: Value) -> HookedCall {
    let made = invocation(tool, arguments, Path::new("/"));
    let schema = json!({"type": "object"});
    let descriptor = ToolDescriptor::new(ToolName::new(tool), "A tool of the contract.", schema);
    HookedCall { tool: Arc::new(descriptor), call: made.call, context: made.context }
}

impl Calls<'_> {
    fn calls(&self) -> impl Iterator<Item = HookedCall> {
        self.examples.iter().map(|(tool, arguments)| hooked(tool, arguments.clone()))
    }

    async fn before(&self, call: &HookedCall) -> Found {
        let Some(answer) = self.port.before_call(call) else { return Ok(()) };
        match answer.await {
            Some(Concern::Ask(why) | Concern::Deny(why) | Concern::Unknown(why)) => {
                holds(!why.trim().is_empty(), || format!("a concern about {} without a reason", call.call.name))
            }
            None => Ok(()),
        }
    }

    async fn after(&self, call: &HookedCall, result: Result<ToolOutput, ToolError>) -> Found {
        let Some(answer) = self.port.after_call(call, &result) else { return Ok(()) };
        let bytes = answer.await.map_or(0, |note| note.len());
        holds(bytes <= MOST_NOTE, || format!("a note of {bytes} bytes, and the model reads {MOST_NOTE}"))
    }

    async fn asked(&self) -> Found {
        for call in self.calls() {
            self.before(&call).await?;
        }
        Ok(())
    }

    async fn told(&self) -> Found {
        for call in self.calls() {
            self.after(&call, Ok(ToolOutput::text("done"))).await?;
            self.after(&call, Ok(ToolOutput::text("x".repeat(1 << 20)))).await?;
            self.after(&call, Err(ToolError::new("it failed"))).await?;
        }
        Ok(())
    }

    async fn beside(self) -> Found {
        beside(|| async {
            self.asked().await?;
            self.told().await
        })
        .await
    }

    async fn withdrawn(self) -> Found {
        for call in self.calls() {
            let question = || async {
                if let Some(answer) = self.port.before_call(&call) {
                    answer.await;
                }
            };
            dropped(question, || self.before(&call)).await?;
        }
        Ok(())
    }

    async fn unusual(self) -> Found {
        let odd = ODD_TEXTS.map(|text| json!({"text": text, "path": text, "command": text}));
        let shapes = [json!({}), json!(null), json!([1, "two"]), json!({"text": "x".repeat(1 << 20)})];
        for arguments in odd.into_iter().chain(shapes) {
            for (tool, _) in self.examples {
                let call = hooked(tool, arguments.clone());
                self.before(&call).await?;
                self.after(&call, Ok(ToolOutput::text(arguments.to_string()))).await?;
            }
        }
        self.asked().await.map_err(|seen| format!("{seen}, after unusual arguments"))
    }
}
