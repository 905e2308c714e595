//! What a model reads: layers, contract, history, and how much of them fits.

mod estimate;

use super::prompt::Frame;
use super::skills::Chosen;
use crate::chat::{CallStatus, ContentPart, Message, StopReason, ToolCall, ToolResult, Usage};
use crate::event::AgentEvent;
use crate::ids::{CallId, RecordId, ToolName, TurnId};
use crate::limits::Limits;
use crate::llm::{Capabilities, LlmRequest, ModelProfile, TOKENS_PER_KB, ToolMode, ToolModeChoice};
use crate::options::SessionOptions;
use crate::session_state::Session;
use crate::store::{Answered, Ended, FORMAT, Fact, Record, StepCost};
use crate::tools::{ToolOutput, ToolSet};
use crate::turn::tests::world::{input, model, session_id, tools};
use crate::turn_config::{PromptLayers, TurnConfig};
use expect_test::expect;
use serde_json::json;
use std::sync::Arc;

fn turn_config(tool_mode: ToolModeChoice) -> TurnConfig {
    TurnConfig { tool_mode, ..TurnConfig::new(model()) }
}

/// A session in its turn about `message`, after these facts of it.
fn session(message: &str, facts: Vec<Fact>) -> Session {
    let mut session = Session::new(session_id());
    begin(&mut session, 1, message);
    facts.into_iter().for_each(|fact| take(&mut session, fact));
    session
}

fn begin(session: &mut Session, number: u32, message: &str) {
    take(session, Fact::Input(Arc::new(input(number, message, Limits::default()))));
    take(session, Fact::Started { model: model(), selected: None });
}

fn take(session: &mut Session, fact: Fact) {
    let version = session.version + 1;
    let id = RecordId::new(format!("1-{version}"));
    let turn = Some(TurnId::new("t1"));
    session.apply(&Record { format: FORMAT, id, session: session_id(), version, epoch: 1, turn, at: 0, fact });
}

fn cost(input_tokens: u64, prompt_bytes: u64) -> StepCost {
    StepCost {
        usage: Some(Usage { input_tokens, total_tokens: input_tokens, ..Usage::default() }),
        prompt_bytes,
        stop_reason: StopReason::Stop,
        response_id: None,
        model: model(),
        latency_ms: 1,
        cost: None,
    }
}

fn called(number: u32, name: &str, arguments: serde_json::Value) -> Arc<ToolCall> {
    let (id, argument_bytes) = (CallId::new(format!("c{number}")), arguments.to_string().len());
    Arc::new(ToolCall {
        id,
        name: ToolName::new(name),
        arguments: arguments.into(),
        argument_bytes,
        signatures: Vec::new(),
    })
}

fn answered(text: &str, calls: Vec<Arc<ToolCall>>) -> Fact {
    Fact::Answered(Box::new(Answered::bare(text, calls, cost(0, 0))))
}

fn returned(call: &ToolCall, status: CallStatus, text: &str) -> Fact {
    let (call, name) = (call.id.clone(), call.name.clone());
    Fact::Result(Arc::new(ToolResult { call, name, status, output: ToolOutput::text(text), duration_ms: 1 }))
}

fn outcome(content: &str) -> Fact {
    let finish_reason = crate::chat::FinishReason::Final;
    let content = content.to_owned();
    Fact::Outcome(Box::new(Ended { content, ..Ended::new(finish_reason) }))
}

struct Built {
    request: LlmRequest,
    estimated_tokens: u64,
    dropped: usize,
    cut: Vec<String>,
}

fn build(turn_config: &TurnConfig, session: &Session, capabilities: Capabilities, tools: &Arc<ToolSet>) -> Built {
    build_of(turn_config, session, (capabilities, TOKENS_PER_KB), tools)
}

fn build_of(
    turn_config: &TurnConfig,
    session: &Session,
    (capabilities, tokens_per_kb): (Capabilities, u64),
    tools: &Arc<ToolSet>,
) -> Built {
    let profile = Arc::new(ModelProfile { model: model(), capabilities, price: None, tokens_per_kb });
    let mut frame =
        Frame::new(turn_config, &turn_config.layers, session, profile, (Chosen::none(tools), Arc::clone(tools)));
    let (request, bytes, event) = frame.request(turn_config, session, session.open.as_ref().expect("a turn"));
    assert_eq!(bytes, request.bytes() as u64);
    assert_eq!(event.step, Some(request.step));
    let AgentEvent::PromptBuilt { messages, estimated_tokens, dropped_messages, cut_layers, .. } = event.event else {
        panic!("another event: {event:?}")
    };
    assert_eq!(messages, request.messages.len());
    Built { request, estimated_tokens, dropped: dropped_messages, cut: cut_layers }
}

fn native(turn_config: &TurnConfig, session: &Session) -> Built {
    build(turn_config, session, Capabilities::default(), &tools())
}

fn texts(request: &LlmRequest) -> String {
    let line = |message: &Arc<Message>| match &**message {
        Message::User { parts } => {
            format!("user: {}", parts.iter().map(ContentPart::as_text).collect::<Vec<_>>().join(" | "))
        }
        Message::Assistant { text, calls } => format!("assistant: {text} ({} calls)", calls.len()),
        Message::Tool { result } => format!("tool: {}", result.output.plain()),
    };
    request.messages.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn layers() -> PromptLayers {
    PromptLayers {
        instructions: "1 instructions".into(),
        runtime_policy: " 2 policy\n".into(),
        bootstrap: "3 bootstrap".into(),
        memory: "  ".into(),
        skills: "5 skills".into(),
        tool_notes: "6 notes".into(),
    }
}

#[test]
fn the_layers_come_in_order_and_an_empty_one_takes_no_room() {
    let turn_config = TurnConfig { layers: layers(), ..turn_config(ToolModeChoice::Native) };
    let built = native(&turn_config, &session("hi", vec![]));
    expect![[r#"
        1 instructions

        2 policy

        3 bootstrap

        5 skills

        6 notes"#]]
    .assert_eq(&built.request.system);
    assert_eq!((built.cut, built.dropped), (vec![], 0));
    assert_eq!(texts(&built.request), "user: hi");
}

#[test]
fn a_sessions_own_instructions_replace_the_configurations() {
    let turn_config = TurnConfig { layers: layers(), ..turn_config(ToolModeChoice::Native) };
    let own = SessionOptions { instructions: Some("own".into()), ..SessionOptions::default() };
    let built = native(&turn_config, &session("hi", vec![Fact::Options(Arc::new(own))]));
    assert!(built.request.system.starts_with("own\n\n2 policy"), "{}", built.request.system);
}

#[test]
fn every_layer_is_cut_at_its_cap_and_what_was_cut_is_said() {
    // Three bytes each: no cap is a multiple of it, so every cut meets the middle of one.
    let long = "€".repeat(30_000);
    let kib = 1024;
    let caps = [32 * kib, 8 * kib, 16 * kib, 16 * kib, 64 * kib, 16 * kib];
    let names = ["instructions", "runtime policy", "bootstrap", "memory", "skills", "tool notes"];
    for (at, (cap, name)) in caps.into_iter().zip(names).enumerate() {
        let mut layers = PromptLayers::default();
        let field = [
            &mut layers.instructions,
            &mut layers.runtime_policy,
            &mut layers.bootstrap,
            &mut layers.memory,
            &mut layers.skills,
            &mut layers.tool_notes,
        ];
        field.into_iter().nth(at).expect("a layer").clone_from(&long);
        let built = native(&TurnConfig { layers, ..turn_config(ToolModeChoice::Native) }, &session("hi", vec![]));
        assert_eq!(built.cut, [name]);
        assert_eq!(built.request.system.len(), cap / 3 * 3, "{name}");
    }
    let exact = PromptLayers { runtime_policy: "x".repeat(8 * kib), ..PromptLayers::default() };
    let built = native(&TurnConfig { layers: exact, ..turn_config(ToolModeChoice::Native) }, &session("hi", vec![]));
    assert_eq!((built.cut, built.request.system.len()), (vec![], 8 * kib), "at the cap nothing is cut");
}

#[test]
fn the_contract_comes_last_and_only_where_there_are_no_native_calls() {
    let layers = PromptLayers { tool_notes: "6 notes".into(), ..PromptLayers::default() };
    let turn_config = TurnConfig { layers, ..turn_config(ToolModeChoice::Json) };
    let two = Arc::new(ToolSet::from(tools().tools()[..2].to_vec()));
    let json =
        |tools: &Arc<ToolSet>| build(&turn_config, &session("hi", vec![]), Capabilities::default(), tools).request;
    expect![[r#"
        6 notes

        Answer with exactly one JSON object and no other text. It is one of:
        {"type":"final","content":"your answer"}
        {"type":"ask_user","question":"what you need to know"}
        {"type":"tool_call","name":"a tool below","arguments":{}}
        Tools:
        - local/read: Does read. Arguments: {"type":"object"}
        - local/write: Does write. Arguments: {"type":"object"}"#]]
    .assert_eq(&json(&two).system);
    expect![[r#"
        6 notes

        Answer with exactly one JSON object and no other text. It is one of:
        {"type":"final","content":"your answer"}
        {"type":"ask_user","question":"what you need to know"}"#]]
    .assert_eq(&json(&Arc::default()).system);
    assert_eq!(json(&two).mode, ToolMode::Json);
}

#[test]
fn auto_follows_the_profile() {
    for native_tools in [true, false] {
        let capabilities = Capabilities { native_tools, ..Capabilities::default() };
        let built = build(&turn_config(ToolModeChoice::Auto), &session("hi", vec![]), capabilities, &tools());
        assert_eq!(built.request.mode == ToolMode::Native, native_tools);
        assert_eq!(built.request.system.is_empty(), native_tools);
    }
}

#[test]
fn the_envelope_has_one_branch_for_each_tool() {
    let with_schema = Capabilities { json_schema: true, ..Capabilities::default() };
    let built = build(&turn_config(ToolModeChoice::Json), &session("hi", vec![]), with_schema.clone(), &tools());
    let envelope = built.request.envelope.expect("a schema");
    let branches = envelope["anyOf"].as_array().expect("branches");
    assert_eq!(branches.len(), 2 + tools().tools().len());
    for (branch, tool) in branches[2..].iter().zip(tools().tools()) {
        assert_eq!(branch["properties"]["name"]["enum"], json!([tool.id]));
        assert_eq!(branch["properties"]["arguments"], tool.schema);
    }
    for branch in branches {
        assert_eq!(branch["additionalProperties"], json!(false));
        let required = branch["required"].as_array().expect("required fields").len();
        assert_eq!(required, branch["properties"].as_object().expect("fields").len(), "strict schemas require all");
    }
    expect![[r#"
        {"type":"object","additionalProperties":false,"required":["type","content"],"properties":{"type":{"type":"string","enum":["final"]},"content":{"type":"string"}}}
        {"type":"object","additionalProperties":false,"required":["type","question"],"properties":{"type":{"type":"string","enum":["ask_user"]},"question":{"type":"string"}}}
        {"type":"object","additionalProperties":false,"required":["type","name","arguments"],"properties":{"type":{"type":"string","enum":["tool_call"]},"name":{"type":"string","enum":["local/read"]},"arguments":{"type":"object"}}}"#]].assert_eq(&branches[..3].iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let none = build(&turn_config(ToolModeChoice::Native), &session("hi", vec![]), with_schema, &tools());
    assert_eq!(none.request.envelope, None, "native calls need no envelope");
    let none = build(&turn_config(ToolModeChoice::Json), &session("hi", vec![]), Capabilities::default(), &tools());
    assert_eq!(none.request.envelope, None, "the provider takes no schema");
}

/// Calls, a malformed reply, a question, and a second turn after all that.
fn eventful() -> Session {
    let (read, write) = (called(1, "local/read", json!({"a": 1})), called(2, "local/write", json!({})));
    let ask = called(3, "ask_user", json!({"question": "which?"}));
    let mut session = session(
        "hi",
        vec![
            answered("I look.", vec![Arc::clone(&read), Arc::clone(&write)]),
            returned(&read, CallStatus::Ok, "seen"),
            returned(&write, CallStatus::Denied, "denied: policy"),
            Fact::Malformed {
                text: "{\"type\":".into(),
                complaint: crate::chat::complain("it is cut"),
                cost: Box::new(cost(0, 0)),
            },
            answered("", vec![Arc::clone(&ask)]),
            returned(&ask, CallStatus::Ok, "the red one"),
            answered("red", vec![]),
            outcome("red"),
        ],
    );
    begin(&mut session, 2, "and now?");
    session
}

#[test]
fn without_native_calls_the_history_is_spelled_out() {
    let built = build(&turn_config(ToolModeChoice::Json), &eventful(), Capabilities::default(), &tools());
    expect![[r#"
        user: hi
        assistant: {"type":"tool_call","name":"local/read","arguments":{"a":1}}
        {"type":"tool_call","name":"local/write","arguments":{}} (0 calls)
        user: Result of local/read:
        seen
        user: local/write failed:
        denied: policy
        assistant: {"type": (0 calls)
        user: Your reply could not be used: it is cut. Answer again.
        assistant: {"type":"ask_user","question":"which?"} (0 calls)
        user: the red one
        assistant: {"type":"final","content":"red"} (0 calls)
        user: and now?"#]]
    .assert_eq(&texts(&built.request));
}

#[test]
fn with_native_calls_the_history_is_as_it_was() {
    let built = native(&turn_config(ToolModeChoice::Native), &eventful());
    expect![[r#"
        user: hi
        assistant: I look. (2 calls)
        tool: seen
        tool: denied: policy
        assistant: {"type": (0 calls)
        user: Your reply could not be used: it is cut. Answer again.
        assistant:  (1 calls)
        tool: the red one
        assistant: red (0 calls)
        user: and now?"#]]
    .assert_eq(&texts(&built.request));
    assert_eq!(built.request.messages, eventful().history);
}

#[test]
fn without_a_system_role_the_instructions_go_into_the_first_user_message() {
    let capabilities = Capabilities { system_role: false, ..Capabilities::default() };
    let with_layers = TurnConfig { layers: layers(), max_history_messages: 3, ..turn_config(ToolModeChoice::Native) };
    let session = eventful();
    let built = build(&with_layers, &session, capabilities.clone(), &tools());
    assert_eq!(&*built.request.system, "");
    let Message::User { parts } = &*built.request.messages[0] else { panic!("a user message comes first") };
    assert_eq!(parts.len(), 2);
    assert!(parts[0].as_text().starts_with("1 instructions\n\n2 policy"), "{parts:?}");
    assert_eq!(session.history, eventful().history, "the history itself is not rewritten");
    let without = build(&turn_config(ToolModeChoice::Native), &session, capabilities, &tools());
    assert_eq!(texts(&without.request).lines().next(), Some("user: hi"), "nothing to fold in");
}

#[test]
fn the_same_session_gives_the_same_prompt() {
    for mode in [ToolModeChoice::Native, ToolModeChoice::Json] {
        let turn_config = TurnConfig { layers: layers(), ..turn_config(mode) };
        let (one, two) = (native(&turn_config, &eventful()), native(&turn_config, &eventful()));
        assert_eq!(one.request, two.request);
        let saved: Session = serde_json::from_str(&serde_json::to_string(&eventful()).unwrap()).unwrap();
        assert_eq!(native(&turn_config, &saved).request, one.request, "also after a save and a load");
    }
}

/// Ten turns of a hundred bytes each way, and an eleventh.
fn long() -> Session {
    let mut session = session(&"u".repeat(100), vec![answered(&"a".repeat(100), vec![]), outcome("")]);
    for number in 2..=10 {
        begin(&mut session, number, &"u".repeat(100));
        take(&mut session, answered(&"a".repeat(100), vec![]));
        take(&mut session, outcome(""));
    }
    begin(&mut session, 11, "now");
    session
}

#[test]
fn the_history_fits_into_the_messages_and_the_context_it_may_fill() {
    let all = long().history.len();
    assert_eq!(all, 21);
    let most = |max_history_messages| {
        let built = native(&TurnConfig { max_history_messages, ..turn_config(ToolModeChoice::Native) }, &long());
        (built.request.messages.len(), built.dropped)
    };
    assert_eq!(most(50), (21, 0));
    assert_eq!(most(21), (21, 0));
    assert_eq!(most(20), (19, 2), "a conversation begins with its user");
    assert_eq!(most(1), (1, 20));
    let filled = |context_tokens, system: usize| {
        let layers = PromptLayers { instructions: "i".repeat(system), ..PromptLayers::default() };
        let capabilities = Capabilities { context_tokens, ..Capabilities::default() };
        let turn_config = TurnConfig { layers, context_percent: 50, ..turn_config(ToolModeChoice::Native) };
        let built = build(&turn_config, &long(), capabilities, &Arc::default());
        assert_eq!(built.request.messages.len() + built.dropped, all);
        assert!(built.request.messages.len() == 1 || built.estimated_tokens <= u64::from(context_tokens) / 2);
        built.request.messages.len()
    };
    // Half of 500 tokens of four bytes each are a thousand bytes.
    assert_eq!(filled(500, 0), 9);
    assert_eq!(filled(500, 400), 5, "the instructions take their room first");
    assert_eq!(filled(500, 2_000), 1, "the message the turn is about is always there");
    assert_eq!(filled(100_000, 0), all);
}
