#[path = "answered_tests.rs"]
mod answered;

use super::*;
use crate::chat::{Delegated, GuardReason, ToolCall};
use crate::cost::Cost;
use crate::ids::{CallId, ResumeToken, SessionId, TurnId};
use crate::limits::{Limits, Spent};
use crate::tools::{AgentLine, ChildTerms, ToolDescriptor, ToolSet};
use crate::turn_config::TurnConfig;
use proptest::prelude::*;
use serde_json::json;

fn tools(names: &[&str]) -> ToolSet {
    let tool = |name: &&str| Arc::new(ToolDescriptor::new(ToolName::new(*name), "", json!({})));
    ToolSet::from(names.iter().map(tool).collect::<Vec<_>>())
}

fn terms(agent: &Agent, spent: Spent, limits: &Limits, time_ms: u64) -> Result<ChildTerms, String> {
    let caller = Caller {
        line: AgentLine { agents: Vec::new(), levels: MAX_DEPTH },
        limits,
        left: spent.left_of(limits, time_ms),
        whole: spent.left_of(limits, time_ms),
        among: 1,
        tools: &ToolSet::default(),
        allow: None,
        model: &ModelName::parse("a:b").unwrap(),
        interactive: false,
    };
    agent.terms(caller, || None)
}

#[test]
fn the_tools_of_a_child_are_those_that_both_lists_mean() {
    let all = tools(&["local/read_file", "local/write_file", "mcp/files/read", "agent/x"]);
    let (own, model) = (Agent::new("a").tools(["local/*", "agent/x"]), ModelName::parse("a:b").unwrap());
    let limits = Limits::default();
    let allowed = |agent: &Agent, allow: Option<&[&str]>| {
        let allow: Option<Arc<[String]>> = allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let left = Spent::default().left_of(&limits, 1_000);
        let line = AgentLine { agents: Vec::new(), levels: 1 };
        let allow = allow.as_ref();
        let (limits, tools, model, whole) = (&limits, &all, &model, left);
        let caller = Caller { line, limits, left, whole, among: 1, tools, allow, model, interactive: true };
        agent.terms(caller, || None).unwrap().allow.map(|names| names.to_vec())
    };
    let both = allowed(&own, Some(&["local/read_*", "mcp/**", "agent/*"])).unwrap();
    assert_eq!(both, ["local/read_file", "agent/x"]);
    assert_eq!(allowed(&own, None).unwrap(), ["local/*", "agent/x"], "patterns as they are");
    assert_eq!(allowed(&Agent::new("a"), Some(&["mcp/**"])).unwrap(), ["mcp/**"]);
    assert_eq!(allowed(&Agent::new("a"), None), None);
    assert_eq!(allowed(&Agent::new("a").tools([""; 0]), Some(&["*"])).unwrap(), [""; 0]);
}

#[test]
fn the_session_of_a_call_is_named_after_it_and_every_call_has_its_own() {
    let id = |text: &str| SessionId::parse(text).unwrap();
    let named = |session: &str, turn: &str, call: &str| {
        session_of(&id(session), &TurnId::new(turn), &CallId::new(call)).unwrap()
    };
    let long = "a".repeat(SessionId::MAX_BYTES);
    let all = [
        named("s", "t", "c00000001"),
        named("s", "t", "c00000002"),
        named("s", "u", "c00000001"),
        named("r", "t", "c00000001"),
        named(&long, "t", "c00000001"),
        named(&long[1..], "t", "c00000001"),
        named("s", "t", "\u{1b}[2J../../etc"),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
    assert_eq!(all[0], named("s", "t", "c00000001"), "the same again");
    assert!(all[0].as_str().starts_with("s.c00000001-"), "{}", all[0]);
    let mut deep = id(&long);
    for _level in 0..MAX_DEPTH {
        deep = session_of(&deep, &TurnId::new("t"), &CallId::new("c00000001")).unwrap();
    }
}

#[test]
fn a_child_of_a_call_without_terms_or_task_is_refused() {
    let context: crate::tools::CallContext = serde_json::from_value(json!({
        "session": "s", "turn": "t", "step": 1, "roots": ["/w"], "tool_timeout_ms": 1, "allow": null, "traceparent": "",
    }))
    .unwrap();
    let call = |arguments: serde_json::Value| ToolCall {
        id: CallId::new("c00000001"),
        name: ToolName::new("agent/a"),
        arguments: arguments.into(),
        argument_bytes: 0,
        signatures: Vec::new(),
    };
    let agent = Agent::new("a");
    let of = |call: &ToolCall, context: &crate::tools::CallContext| {
        Delegation::of(&agent, call, context, PermissionMode::Ask, (1, ResumeToken::new("x")))
    };
    assert!(
        of(&call(json!({"task": "go"})), &context)
            .unwrap_err()
            .to_string()
            .contains("by a turn of a runtime or of a runner only")
    );
    let terms = terms(&agent, Spent::default(), &Limits::default(), 1_000).unwrap();
    let context = crate::tools::CallContext { child: Some(Arc::new(terms)), ..context };
    assert!(of(&call(json!({"job": "go"})), &context).unwrap_err().to_string().contains("do not fit"));
    let child = of(&call(json!({"task": "go", "context": "x"})), &context).unwrap();
    assert_eq!(child.input.text(), "go\n\nContext:\nx");
    assert_eq!(child.input.request_id.unwrap().as_str(), "s/t/c00000001");
}

#[test]
fn agents_and_configurations_without_them_read_as_before() {
    let config = serde_json::to_value(TurnConfig::new(ModelName::parse("a:b").unwrap())).unwrap();
    let mut old = config.clone();
    let fields = old.as_object_mut().unwrap();
    fields.remove("subagents");
    fields.remove("max_parallel_subagents");
    let read: TurnConfig = serde_json::from_value(old).unwrap();
    assert_eq!(read, serde_json::from_value(config).unwrap());
    assert_eq!(serde_json::to_value(Spent::default()).unwrap().get("below"), None, "what is nothing is not written");
}

#[test]
fn a_child_may_cost_its_share_of_what_is_left_and_what_it_cost_is_its_callers() {
    let max_cost = Cost::from_amount(1.0);
    let limits = Limits { max_cost, ..Limits::default() };
    let spent = |amount| Spent { cost: Cost::from_amount(amount), ..Spent::default() };
    let agent = Agent::new("a").budget_ratio(0.5);
    let child = terms(&agent, spent(0.2), &limits, 1_000).unwrap().limits;
    assert_eq!(child.max_cost, Cost::from_amount(0.4));
    let unbounded = terms(&agent, spent(0.2), &Limits::default(), 1_000).unwrap().limits;
    assert_eq!(unbounded.max_cost, Cost::ZERO, "without a bound there is none");
    let why = terms(&agent, spent(1.0), &limits, 1_000).unwrap_err();
    assert!(why.contains("too little money left"), "{why}");

    let mut caller = spent(0.2);
    caller.delegate(&Delegated { sessions: 1, cost: Cost::from_amount(0.3), ..Delegated::default() }, &limits);
    assert_eq!(caller.left_of(&limits, 0).cost, Some(Cost::from_amount(0.5)));
    assert_eq!(caller.forbids_step(&limits), None);
    caller.delegate(&Delegated { sessions: 1, cost: Cost::from_amount(0.5), ..Delegated::default() }, &limits);
    assert_eq!(caller.forbids_step(&limits), Some(GuardReason::MaxCost), "at exactly its limit");
}

#[test]
fn calls_of_one_step_have_equal_parts_of_what_is_left() {
    let limits = Limits { max_tool_calls: 8, max_steps: 40, max_total_tokens: 1_000, ..Limits::default() };
    let agent = Agent::new("a").budget_ratio(0.5);
    for calls in 1..=8_u32 {
        let whole = Spent::default().left_of(&limits, 1_000);
        let (mut left, mut children) = (whole, Vec::new());
        for among in (1..=calls).rev() {
            let line = AgentLine { agents: Vec::new(), levels: MAX_DEPTH };
            let (tools, model, limits) = (&ToolSet::default(), &ModelName::parse("a:b").unwrap(), &limits);
            let caller = Caller { line, limits, left, whole, among, tools, allow: None, model, interactive: false };
            let child = agent.terms(caller, || None).unwrap().limits;
            left.hold(&child);
            children.push([child.max_steps.into(), child.max_tool_calls.into(), child.max_total_tokens]);
        }
        for what in 0..3 {
            let parts: Vec<u64> = children.iter().map(|child| child[what]).collect();
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            assert!(most - least <= 1 && *least >= 1, "{calls} calls have {parts:?}");
        }
        let kept = (left.steps, left.tokens.unwrap());
        assert!(kept.0 >= 5 && kept.1 >= 125, "{calls} calls leave {kept:?} for the answer");
    }
}

#[test]
fn a_child_that_could_call_no_tool_is_not_begun_unless_it_needs_none() {
    let limits = Limits { max_tool_calls: 1, ..Limits::default() };
    let why = terms(&Agent::new("a"), Spent::default(), &limits, 1_000).unwrap_err();
    assert!(why.contains("too few tool calls left"), "{why}");
    for needs_none in [Agent::new("a").tools([""; 0]), Agent::new("a").max_tool_calls(0)] {
        assert!(terms(&needs_none, Spent::default(), &limits, 1_000).is_ok());
    }
}

proptest! {
    #[test]
    fn the_limits_of_a_child_are_no_more_than_its_share_and_its_own(
        (steps, calls, tokens, time) in (0_u32..50, 0_u32..50, 0_u64..5_000, 0_u64..100_000),
        ratio in 1_u32..=100,
        own in proptest::option::of(1_u32..60),
    ) {
        let limits = Limits { max_steps: 50, max_tool_calls: 50, max_total_tokens: 5_000, ..Limits::default() };
        let spent = Spent { steps, tool_calls: calls, tokens, ..Spent::default() };
        let agent = Agent::new("a").budget_ratio(f64::from(ratio) / 100.0);
        let agent = own.into_iter().fold(agent, Agent::max_steps);
        let share = |left: u64| left * u64::from(ratio) / 100;
        match terms(&agent, spent, &limits, time) {
            Ok(ChildTerms { limits: child, .. }) => {
                prop_assert!(child.max_steps >= 1 && child.turn_timeout_ms >= 1 && child.max_total_tokens >= 1);
                prop_assert!(u64::from(child.max_steps) <= share(u64::from(50 - steps)).min(u64::from(own.unwrap_or(50))));
                prop_assert!(u64::from(child.max_tool_calls) <= share(u64::from(50 - calls)));
                prop_assert!(child.max_total_tokens <= share(5_000 - tokens));
                prop_assert!(child.turn_timeout_ms <= share(time));
            }
            Err(why) => prop_assert!(why.contains("too few")),
        }
    }
}
