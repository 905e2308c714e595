//! One event of every kind, with everything filled in.

use bob_messages::chat::{CallStatus, ContentPart, FinishReason, GuardReason, StopReason, ToolCall, ToolResult, Usage};
use bob_messages::condense::CondenseMethod;
use bob_messages::cost::Cost;
use bob_messages::error::AgentError;
use bob_messages::event::{AgentEvent, CallState, Delta, Envelope, Progress, SkillChoice, StepEvent};
use bob_messages::ids::{ApprovalId, CallId, ModelName, ServerId, SessionId, ToolName, TurnId};
use bob_messages::llm::{LlmError, LlmErrorKind};
use bob_messages::mcp::{ServerBrief, ServerState};
use bob_messages::models::{Ranked, Refused};
use bob_messages::options::ParentTurn;
use bob_messages::outcome::{DeniedCall, TranscriptEntry, TurnOutcome};
use bob_messages::permission::PermissionMode;
use bob_messages::skills::{ReselectCause, SkillForm};
use bob_messages::store::Reasoning;
use bob_messages::tools::{FileChange, Location, Risk, ToolKind, ToolOutput};
use serde_json::json;
use std::sync::Arc;

fn session() -> SessionId {
    SessionId::parse("s").unwrap_or_else(|never| unreachable!("{never}"))
}

fn model() -> ModelName {
    ModelName::parse("scripted:m").unwrap_or_else(|never| unreachable!("{never}"))
}

fn call() -> Arc<ToolCall> {
    Arc::new(ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new("local/read_file"),
        arguments: json!({"path": "a"}).into(),
        argument_bytes: 12,
        signatures: vec!["sealed".into()],
    })
}

fn outcome() -> Box<TurnOutcome> {
    let entry = TranscriptEntry {
        id: CallId::new("c1"),
        name: ToolName::new("local/read_file"),
        arguments: json!({}).into(),
        status: CallStatus::Ok,
        result: "ok".into(),
        duration_ms: 3,
    };
    let denied = DeniedCall {
        name: ToolName::new("local/shell_exec"),
        arguments: json!({}).into(),
        reason: "no".into(),
        mode: Some(PermissionMode::Ask),
    };
    Box::new(TurnOutcome {
        model: Some(model()),
        guard_reason: Some(GuardReason::MaxSteps),
        stop_reason: Some(StopReason::Stop),
        tool_transcript: Arc::from([entry]),
        denied: vec![denied],
        error: Some(AgentError::busy("try later")),
        ..TurnOutcome::bare(session(), TurnId::new("t"), FinishReason::GuardExceeded, "so far")
    })
}

fn called(state: CallState, progress: Option<Progress>) -> StepEvent {
    AgentEvent::ToolCalled { call: call(), title: "Read".into(), kind: ToolKind::Read, state, progress }.in_step(1)
}

fn all() -> Vec<StepEvent> {
    let server = ServerBrief { id: ServerId::new("files"), state: ServerState::Asleep, note: Some("why".into()) };
    let parent = ParentTurn {
        session: session(),
        turn: TurnId::new("m"),
        call: CallId::new("c9"),
        depth: 1,
        line: None,
        on_parent_end: None,
    };
    let error = AgentError::Llm(LlmError::new(LlmErrorKind::Unavailable, "down"));
    let output = ToolOutput {
        structured: Some(json!({"n": 1})),
        locations: vec![Location { path: "a".into(), line: Some(3) }],
        changes: vec![FileChange { path: "a".into(), before: None, after: Some("b".into()), ..FileChange::default() }],
        ..ToolOutput::text("ok")
    };
    let result = ToolResult {
        call: CallId::new("c1"),
        name: ToolName::new("local/read_file"),
        status: CallStatus::Ok,
        output,
        duration_ms: 3,
    };
    let progress = Progress { done: 0.5, total: Some(1.0), message: Some("half".into()) };
    let chunk = |delta| AgentEvent::LlmStreamChunk { message_id: "m1".into(), delta }.in_step(1);
    let (approval_id, reason) = (ApprovalId::new("a1"), "high risk".to_owned());
    vec![
        AgentEvent::TurnStarted {
            submission: TurnId::new("t"),
            model: model(),
            cwd: Some("/home".into()),
            traceparent: None,
            tracestate: None,
            agent: Some("researcher".to_owned()),
            tools: vec![ToolName::new("local/read_file")],
            servers: vec![server],
            parent: Some(parent),
            context: None,
        }
        .into(),
        AgentEvent::MessageUser { message_id: "t-user".into(), parts: vec![ContentPart::text("hi")], steered: true }
            .into(),
        AgentEvent::MessageAssistant {
            message_id: "t-1".into(),
            text: "so".into(),
            reasoning: Some(Reasoning { text: "hm".into(), left_out_bytes: 3 }),
        }
        .in_step(1),
        AgentEvent::PromptBuilt {
            messages: 2,
            estimated_tokens: 30,
            dropped_messages: 0,
            cut_layers: vec!["memory".into()],
            cut_bytes: 7,
        }
        .in_step(1),
        AgentEvent::HistoryCondensed {
            method: CondenseMethod::Summary,
            messages_before: 60,
            messages_dropped: 40,
            tokens_before: 9_000,
            tokens_after: 3_000,
            attempts: 1,
        }
        .in_step(1),
        AgentEvent::SkillsSelected {
            skills: vec![SkillChoice { name: "notes".into(), score: 0.4, form: SkillForm::WithoutExamples }],
            dropped: vec!["long".into()],
            bytes: 300,
            budget_bytes: 4_000,
        }
        .into(),
        AgentEvent::SkillsReselected {
            causes: vec![ReselectCause::Steered, ReselectCause::UseSkill],
            skills: vec![SkillChoice { name: "letters".into(), score: 1.1, form: SkillForm::Whole }],
            dropped: vec!["notes".into()],
            bytes: 900,
            budget_bytes: 4_000,
        }
        .in_step(2),
        AgentEvent::ModelSelected {
            selector: ModelName::parse("select:cheap").expect("it has two sides"),
            model: Some(model()),
            why: "first of 2 candidates by cost_first: about 0.001 USD".into(),
            candidates: 2,
            ranked: vec![Ranked { model: model(), rank: "about 0.001 USD".into() }],
            refused: vec![Refused { why: "lacks vision".into(), count: 1, models: vec![model()] }],
        }
        .into(),
        AgentEvent::LlmRequested { model: model() }.in_step(1),
        chunk(Delta::Text("a".into())),
        chunk(Delta::Reasoning("b".into())),
        chunk(Delta::Reset),
        AgentEvent::LlmCompleted {
            model: model(),
            latency_ms: 5,
            usage: Some(Usage { cached_input_tokens: Some(3), ..Usage::default() }),
            stop_reason: StopReason::ToolCalls,
            response_id: Some("r".into()),
            cost: Some(Cost::from_nanos(25)),
        }
        .in_step(1),
        AgentEvent::LlmFailed { error }.in_step(1),
        AgentEvent::LlmRetried { attempt: 1, of: 2, delay_ms: 10, model: model(), reason: "cut".into() }.in_step(1),
        AgentEvent::ActionParsed { action: "tool_call".into(), tools: vec![ToolName::new("local/read_file")] }
            .in_step(1),
        AgentEvent::ActionMalformed { complaint: "no JSON".into() }.in_step(1),
        called(CallState::Proposed, None),
        called(CallState::AwaitingApproval, None),
        called(CallState::Running, None),
        called(CallState::Progress, Some(progress)),
        called(CallState::Finished, None),
        AgentEvent::ToolCompleted { result: Arc::new(result) }.in_step(1),
        AgentEvent::ApprovalRequested {
            approval_id: approval_id.clone(),
            call: call(),
            risk: Risk::High,
            reason,
            choices: vec!["allow_once".into()],
            changes: Some("its description".into()),
        }
        .into(),
        AgentEvent::LimitAsked { approval_id: approval_id.clone(), guard: GuardReason::MaxSteps, limit: 100 }.into(),
        AgentEvent::ApprovalDecided { approval_id, call_id: CallId::new("c1"), allowed: true }.into(),
        AgentEvent::GuardTripped { guard: GuardReason::TurnTimeout, limit: 90_000 }.into(),
        AgentEvent::TurnFinished { outcome: outcome() }.into(),
        AgentEvent::McpProcessStarted { server: ServerId::new("files"), pid: 7 }.into(),
        AgentEvent::McpProcessStopped { server: ServerId::new("files"), pid: 7, status: "exit code 1".into() }.into(),
        AgentEvent::ActorRestarted { actor: "turn s".into(), restarts: 1, reason: "panic".into() }.into(),
    ]
}

/// Events of every kind, with everything filled in, each in its envelope.
pub fn every_kind() -> Vec<Envelope> {
    let numbered = (1..).zip(all());
    let envelope = |(seq, told): (u64, StepEvent)| match told.event.is_of_tree() {
        true => Envelope::of_tree(seq, 1, told.event),
        false => {
            let envelope = Envelope::of_turn(&session(), &TurnId::new("t"), 1, seq, None, told);
            Envelope { epoch: Some(1), ..envelope }
        }
    };
    numbered.map(envelope).collect()
}
