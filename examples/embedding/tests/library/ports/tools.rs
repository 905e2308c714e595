//! The ports of the tool side.

use bob::tools::hooks::{HookedCall, ToolHook};
use bob::tools::skills::{FrontMatter, Skill, SkillIndex, SkillPort};
use bob::tools::{
    CallContext, Concern, Invocation, Risk, ToolCall, ToolDescriptor, ToolError, ToolName, ToolOutput, ToolPort,
};
use bob::{BoxFuture, SessionId};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One tool, by hand.
pub struct Arithmetic;

#[derive(serde::Deserialize)]
struct Sum {
    a: i64,
    b: i64,
}

impl ToolPort for Arithmetic {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        let number = json!({"type": "integer"});
        let schema = json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]});
        let add = ToolDescriptor::new(ToolName::new("own/add"), "Adds two numbers.", schema).with_risk(Risk::High);
        Box::pin(std::future::ready(vec![add]))
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            invocation.progress().tell(0.5, Some(1.0), Some("adding"));
            let sum: Sum = invocation.arguments()?;
            let total = sum.a.checked_add(sum.b).ok_or_else(|| ToolError::new("the sum is too large"))?;
            Ok(ToolOutput::text(total.to_string()))
        })
    }

    fn concern(&self, call: &Arc<ToolCall>, _: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        let is_odd = call.arguments["a"] == 666;
        Some(Box::pin(async move { is_odd.then(|| Concern::Deny("not this number".into())) }))
    }

    fn limit_ms(&self, _: &ToolCall, ruled_ms: Option<u64>) -> Option<u64> {
        ruled_ms.or(Some(60_000))
    }

    fn host_ended(&self) {}

    fn session_ended(&self, _: &SessionId) {}
}

/// Lets a person look at large numbers.
pub struct Thrifty;

impl ToolHook for Thrifty {
    fn before_call(&self, call: &HookedCall) -> Option<BoxFuture<'static, Option<Concern>>> {
        let is_large = call.call.arguments["a"].as_i64().is_some_and(|a| a > 1_000);
        let ask = || -> BoxFuture<'static, Option<Concern>> {
            Box::pin(async { Some(Concern::Ask("adds to a large number".into())) })
        };
        is_large.then(ask)
    }
}

/// One skill, from memory.
#[derive(Default)]
pub struct Handbook(AtomicUsize);

impl Handbook {
    pub fn looked_up(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl SkillPort for Handbook {
    fn index(&self, _cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (name, description) = ("arithmetic".to_owned(), "How to add numbers, arithmetic handbook.".to_owned());
        let front = FrontMatter { name, description, ..FrontMatter::default() };
        let skill = Skill::new(front, "Count on your fingers.".into(), String::new(), "1".into());
        let index = SkillIndex { skills: vec![Arc::new(skill)], findings: Vec::new() };
        Box::pin(async { Arc::new(index) })
    }
}
