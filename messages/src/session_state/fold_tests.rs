//! The fold takes any records, and every record reads back as it was written.

use super::Session;
use crate::artifact::{Artifact, ArtifactId, ArtifactKind};
use crate::chat::{CallStatus, ContentPart, FinishReason, GuardReason, StopReason, ToolCall, ToolResult, Usage};
use crate::condense::Condensed;
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, RecordId, RequestId, ResumeToken, SessionId, ToolName, TurnId};
use crate::input::{ApprovalsMode, TurnInput};
use crate::limits::Limits;
use crate::llm::{LlmError, LlmErrorKind};
use crate::options::SessionOptions;
use crate::outcome::SuspendReason;
use crate::permission::PermissionMode;
use crate::skills::{ReselectCause, Reselected, SelectedSkill, SelectedSkills, SkillForm};
use crate::store::{Answered, Ended, FORMAT, Fact, Reasoning, Record, StepCost, Suspension};
use crate::tools::{CallTraits, FileChange, Location, Risk, ToolKind, ToolOutput, ToolTitle};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod written;

fn session_id() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn model() -> ModelName {
    ModelName::parse("scripted:m").unwrap()
}

fn input(number: u64) -> Arc<TurnInput> {
    let words = vec![ContentPart::text("hi")];
    Arc::new(TurnInput {
        request_id: number.is_multiple_of(2).then(|| RequestId::new(format!("r{number}"))),
        at: 1,
        labels: BTreeMap::from([("channel".to_owned(), "cli".to_owned())]),
        approvals: ApprovalsMode::Suspend,
        limits: Limits { max_tool_calls: 3, max_identical_calls: 1, ..Limits::default() },
        interactive: true,
        ..TurnInput::bare(TurnId::new(format!("t{number}")), ResumeToken::new("secret"), words)
    })
}

fn call(number: u64, name: &str) -> Arc<ToolCall> {
    Arc::new(ToolCall {
        id: CallId::new(format!("c{number}")),
        name: ToolName::new(name),
        arguments: json!({"a": number / 2}).into(),
        argument_bytes: 7,
        signatures: Vec::new(),
    })
}

fn cost() -> StepCost {
    StepCost {
        usage: Some(Usage { input_tokens: 10, output_tokens: 5, total_tokens: 15, ..Usage::default() }),
        prompt_bytes: 40,
        stop_reason: StopReason::ToolCalls,
        response_id: Some("resp".to_owned()),
        model: model(),
        latency_ms: 7,
        cost: None,
    }
}

fn ended(finish_reason: FinishReason) -> Ended {
    Ended { content: "bye".to_owned(), ..Ended::new(finish_reason) }
}

fn suspended(reason: SuspendReason) -> Fact {
    let suspension =
        Suspension { reason, token: ResumeToken::new("secret-1"), question: "which?".to_owned(), expires_at: Some(1) };
    Fact::Outcome(Box::new(Ended { suspended: Some(suspension), ..ended(FinishReason::Suspended) }))
}

/// A question is answered, by a plain input of this name or by its token.
fn resumed(number: u64, request: Option<&str>) -> Fact {
    let labels = request.map(|name| ("from".to_owned(), name.to_owned()));
    Fact::Resumed {
        submission: TurnId::new(format!("t{number}")),
        reply: "blue".into(),
        request_id: request.map(RequestId::new),
        labels: labels.into_iter().collect(),
    }
}

fn result(number: u64, name: &str, status: CallStatus) -> Fact {
    let output = ToolOutput { is_error: status != CallStatus::Ok, ..ToolOutput::text("out") };
    let (call, name) = (CallId::new(format!("c{number}")), ToolName::new(name));
    Fact::Result(Arc::new(ToolResult { call, name, status, output, duration_ms: 3 }))
}

fn record(version: u64, fact: Fact) -> Arc<Record> {
    let (id, turn) = (RecordId::new(format!("1-{version}")), Some(TurnId::new("t1")));
    Arc::new(Record { format: FORMAT, id, session: session_id(), version, epoch: 1, turn, at: 1_700_000_000_000, fact })
}

/// One record of each kind, every optional field filled somewhere.
fn one_of_each() -> Vec<Fact> {
    let options = SessionOptions {
        pool: None,
        tenant: Some("acme".into()),
        cwd: Some("/srv".to_owned()),
        roots: vec!["/data".to_owned()],
        model: Some(model()),
        instructions: Some("Be brief.".to_owned()),
        agent: Some("helper".to_owned()),
        allow_tools: Some(Arc::from(["local/*".to_owned()])),
        mode: Some(PermissionMode::Edits),
        servers: Arc::from([crate::options::ServerSpec::stdio(crate::ids::ServerId::new("x"), "serve", ["-v"])]),
        parent: Some(crate::options::ParentTurn {
            session: session_id(),
            turn: TurnId::new("t0"),
            call: CallId::new("c9"),
            depth: 2,
            line: None,
            on_parent_end: None,
        }),
        title: Some("Roof".into()),
    };
    let artifact = Artifact::of_text(ArtifactId::of(b"x"), ArtifactKind::Document, "both ends", 4);
    let artifact = Artifact { mime_type: Some("a/b".into()), uri: Some("a:".into()), is_whole: true, ..artifact };
    let output = ToolOutput {
        parts: vec![
            ContentPart::text("ü\u{0}"),
            ContentPart::Image { mime_type: "image/png".into(), data: "AA==".into() },
            ContentPart::Artifact(Box::new(artifact.clone())),
        ],
        structured_artifact: Some(Box::new(artifact)),
        structured: Some(json!({"n": [1, -2, 0.1, 1e300, u64::MAX, i64::MIN], "z": null})),
        locations: vec![Location { path: "a.rs".into(), line: Some(3) }],
        changes: vec![FileChange {
            path: "a.rs".into(),
            before: None,
            after: Some("x".into()),
            ..FileChange::default()
        }],
        is_error: false,
        waits_for: None,
        delegated: Some(Box::default()),
    };
    let (id, guard_reason) = (CallId::new("c1"), Some(GuardReason::MaxSteps));
    let whole = ToolResult { output, ..ToolResult::note(&call(1, "local/write"), CallStatus::Ok, "") };
    let error = AgentError::Llm(LlmError::new(LlmErrorKind::Unavailable, "down").with_status(503));
    let unpriced = StepCost { usage: None, ..cost() };
    let condensed =
        Condensed { summary: Some("they met".into()), keeps: 4, usage: cost().usage, cost: None, attempts: 1 };
    vec![
        Fact::Options(Arc::new(options)),
        Fact::Input(Arc::new(TurnInput { options: Some(Arc::default()), ..(*input(2)).clone() })),
        Fact::Started { model: model(), selected: None },
        Fact::Answered(Box::new(Answered {
            text: "so".into(),
            calls: vec![call(1, "local/write"), call(2, "ask_user")],
            tools: vec![ToolTitle { title: "Write".into(), kind: ToolKind::Edit }, ToolTitle::default()],
            reasoning: Some(Reasoning { text: "hm".into(), left_out_bytes: 5 }),
            cost: cost(),
        })),
        Fact::Malformed { text: "{".into(), complaint: "no".into(), cost: Box::new(unpriced) },
        Fact::Intent { call: id.clone(), traits: CallTraits { read_only: false, idempotent: true }, task: None },
        Fact::ApprovalAsked {
            approval: ApprovalId::new("s-c1"),
            call: id,
            risk: Risk::High,
            reason: String::new(),
            tool: None,
        },
        Fact::ApprovalDecided {
            approval: ApprovalId::new("s-c1"),
            allowed: true,
            arguments: Some(Box::new(json!({"a": 0.30000000000000004}))),
            reason: String::new(),
            scope: Some(crate::approvals::Scope::Session),
        },
        Fact::Result(Arc::new(whole)),
        Fact::Steered { parts: vec![ContentPart::text("wait")], request_id: None, behind: false },
        resumed(2, Some("r9")),
        Fact::Configured { request_id: RequestId::new("r1"), options: Arc::default(), notice: Some("undone".into()) },
        Fact::Withdrawn,
        suspended(SuspendReason::AskUser),
        Fact::Outcome(Box::new(Ended { guard_reason, error: Some(error), ..ended(FinishReason::Error) })),
        Fact::Condensed(Box::new(condensed)),
        Fact::Condensed(Box::new(Condensed { summary: None, keeps: 4, usage: None, cost: None, attempts: 2 })),
        Fact::SkillsSelected(SelectedSkills {
            skills: vec![SelectedSkill {
                name: "review".into(),
                hash: "ab".into(),
                score_milli: 1_200,
                form: SkillForm::WithoutExamples,
            }],
            allow_tools: Some(Arc::from(["local/*".to_owned()])),
            budget_bytes: 4_000,
        }),
        Fact::SkillsReselected(Box::new(Reselected {
            causes: vec![ReselectCause::Steered, ReselectCause::ToolErrors],
            skills: SelectedSkills { budget_bytes: 4_000, ..SelectedSkills::default() },
        })),
        Fact::Waits { call: CallId::new("c1"), what: "the build of tonight".into(), child: None, server: None },
        Fact::LimitAsked { question: ApprovalId::new("s-limit9"), guard: GuardReason::MaxToolCalls },
        Fact::LimitDecided { question: ApprovalId::new("s-limit9"), goes_on: true },
        Fact::Snapshot(Session::new(session_id()).snapshot().unwrap()),
    ]
}

/// Fails to compile when a kind is added, so that its example is not forgotten.
fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Options(_) => "options",
        Fact::Input(_) => "input",
        Fact::Started { .. } => "started",
        Fact::Answered(_) => "answered",
        Fact::Malformed { .. } => "malformed",
        Fact::Intent { .. } => "intent",
        Fact::ApprovalAsked { .. } => "approval_asked",
        Fact::ApprovalDecided { .. } => "approval_decided",
        Fact::Result(_) => "result",
        Fact::Steered { .. } => "steered",
        Fact::Resumed { .. } => "resumed",
        Fact::Withdrawn => "withdrawn",
        Fact::Outcome(_) => "outcome",
        Fact::Configured { .. } => "configured",
        Fact::Condensed(_) => "condensed",
        Fact::SkillsSelected(_) => "skills_selected",
        Fact::SkillsReselected(_) => "skills_reselected",
        Fact::Waits { .. } => "waits",
        Fact::LimitAsked { .. } => "limit_asked",
        Fact::LimitDecided { .. } => "limit_decided",
        Fact::Snapshot(_) => "snapshot",
    }
}

const KINDS: usize = 21;

#[test]
fn every_kind_is_flat_and_reads_back() {
    let facts = one_of_each();
    let kinds: BTreeSet<_> = facts.iter().map(kind).collect();
    assert_eq!(kinds.len(), KINDS, "one example of each kind");
    let fields = ["at", "body", "epoch", "format", "id", "kind", "session", "turn", "version"];
    for (version, fact) in (1..).zip(facts) {
        let record = record(version, fact);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), *record, "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        let mut found: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, fields, "{text}");
        assert_eq!(value["kind"], kind(&record.fact));
        assert!(!text.contains('\n'), "a record is one line");
    }
}

#[test]
fn what_is_no_record_is_refused() {
    let good = serde_json::to_value(&*record(1, Fact::Started { model: model(), selected: None })).unwrap();
    for (field, value) in
        [("kind", json!("started_again")), ("kind", json!(7)), ("body", json!({})), ("version", json!(-1))]
    {
        let mut bad = good.clone();
        bad[field] = value;
        assert!(serde_json::from_value::<Record>(bad.clone()).is_err(), "{bad}");
    }
    assert!(serde_json::from_value::<Record>(good).is_ok());
}

/// Any fact over few names, so that records meet one another.
fn facts() -> impl Strategy<Value = Fact> {
    let tool = prop_oneof![Just("local/read"), Just("local/write"), Just("ask_user")];
    let status = prop_oneof![
        Just(CallStatus::Ok),
        Just(CallStatus::Error),
        Just(CallStatus::Denied),
        Just(CallStatus::Unknown),
        Just(CallStatus::Cancelled),
    ];
    let number = 0_u64..12;
    let calls = proptest::collection::btree_map(0_u64..12, tool.clone(), 0..4);
    let said = prop_oneof![Just(""), Just("words")];
    prop_oneof![
        1 => any::<bool>().prop_map(|with| Fact::Options(Arc::new(SessionOptions { cwd: with.then(|| "/".to_owned()), ..SessionOptions::default() }))),
        2 => (0_u64..4).prop_map(|number| Fact::Input(input(number))),
        2 => Just(Fact::Started { model: model(), selected: None }),
        4 => (said, calls).prop_map(|(text, calls)| {
            let calls = calls.into_iter().map(|(number, name)| call(number, name)).collect();
            Fact::Answered(Box::new(Answered::bare(text, calls, cost())))
        }),
        1 => Just(Fact::Malformed { text: String::new(), complaint: "no".to_owned(), cost: Box::new(cost()) }),
        1 => number.clone().prop_map(|n| Fact::Intent { call: CallId::new(format!("c{n}")), traits: CallTraits::default(), task: None }),
        1 => number.clone().prop_map(|n| Fact::ApprovalAsked {
            approval: ApprovalId::new(format!("a{}", n % 3)), call: CallId::new(format!("c{n}")), risk: Risk::High,
            reason: String::new(), tool: (n % 2 == 0).then(Arc::default),
        }),
        1 => (number.clone(), any::<bool>()).prop_map(|(n, allowed)| Fact::ApprovalDecided {
            approval: ApprovalId::new(format!("a{}", n % 3)), allowed, arguments: allowed.then(|| Box::new(json!({"a": 9}))), reason: "no".into(),
            scope: (n % 3 != 0).then_some(crate::approvals::Scope::Session),
        }),
        1 => Just(Fact::SkillsSelected(SelectedSkills::default())),
        1 => Just(Fact::SkillsReselected(Box::new(Reselected { causes: Vec::new(), skills: SelectedSkills { budget_bytes: 9, ..SelectedSkills::default() } }))),
        6 => (number, tool, status).prop_map(|(n, name, status)| result(n, name, status)),
        1 => Just(Fact::Steered { parts: vec![ContentPart::text("wait")], request_id: None, behind: false }),
        1 => (0_u64..4, any::<bool>()).prop_map(|(n, named)| resumed(n, named.then_some("r1"))),
        1 => Just(Fact::Outcome(Box::new(ended(FinishReason::Final)))),
        1 => prop_oneof![Just(SuspendReason::AskUser), Just(SuspendReason::ApprovalRequired)].prop_map(suspended),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_fold_takes_any_records(facts in proptest::collection::vec(facts(), 0..60)) {
        let mut session = Session::new(session_id());
        let mut records = Vec::new();
        for (version, fact) in (1..).zip(facts) {
            let record = record(version, fact);
            session.apply(&record);
            records.push(record);
            answered_in_order(&session);
            prop_assert_eq!(session.version, version);
            for (request, outcome) in &session.answered {
                prop_assert_eq!(outcome.request_id.as_ref(), Some(request), "each request is told of itself");
            }
        }
        prop_assert_eq!(Session::fold(session_id(), &records), session);
    }

    #[test]
    fn what_a_live_session_keeps_is_the_end_of_all_of_it(
        facts in proptest::collection::vec(facts(), 0..120),
        most in 1_usize..12,
    ) {
        let mut whole = Session::new(session_id());
        let mut kept = Session::fold_keeping(session_id(), most, []);
        let mut records = Vec::new();
        for (version, fact) in (1..).zip(facts) {
            let record = record(version, fact);
            whole.apply(&record);
            kept.apply(&record);
            records.push(record);
            prop_assert!(whole.history.ends_with(&kept.history));
            answered_in_order(&kept);
            if kept.history.len() < whole.history.len() {
                let is_user = matches!(*kept.history[0], crate::chat::Message::User { .. });
                prop_assert!(is_user, "a conversation begins with its user");
            }
            for (request, outcome) in &whole.answered {
                let at_hand = kept.answered.get(request);
                prop_assert!(at_hand == Some(outcome) || kept.has_forgotten(request), "{} is lost", request);
            }
            let message_at = |session: &Session| session.open.as_ref().map(|open| session.history.len() - open.message_at);
            prop_assert_eq!(message_at(&kept), message_at(&whole));
            prop_assert_eq!((&kept.last, &kept.waiting, kept.turns, kept.calls), (&whole.last, &whole.waiting, whole.turns, whole.calls));
        }
        prop_assert_eq!(Session::fold_keeping(session_id(), most, &records), kept);
    }
}

/// Every call in the history has its result behind it, in call order.
fn answered_in_order(session: &Session) {
    use crate::chat::Message;
    let mut owed: std::collections::VecDeque<&CallId> = std::collections::VecDeque::new();
    for message in &session.history {
        match &**message {
            Message::Tool { result } => assert_eq!(owed.pop_front(), Some(&result.call)),
            Message::User { .. } => assert!(owed.is_empty()),
            Message::Assistant { calls, .. } => {
                assert!(owed.is_empty());
                owed.extend(calls.iter().map(|call| &call.id));
            }
        }
    }
    assert!(owed.is_empty());
}
