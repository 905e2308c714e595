//! What a runtime gives to ports, made for a test of one.

use crate::approvals::{ApprovalId, ApprovalQuestion, CHOICES, LimitQuestion};
use crate::model::{CondenseRequest, Message};
use crate::sessions::{GuardReason, TurnId};
use crate::tools::Risk;
use crate::{ModelName, SessionId};
use bob_actors::tools::contract::call;
use bob_messages::condense::MAX_SUMMARY_BYTES;
use serde_json::Value;
use std::sync::Arc;

fn session() -> SessionId {
    SessionId::parse("test").unwrap_or_else(|never| unreachable!("{never}"))
}

/// A question about a call of this tool: of high risk, with every choice. Fields that a test is about are set by
/// `ApprovalQuestion { changes, ..question(tool, arguments) }`.
///
/// ```
/// use bob::approvals::ApprovalQuestion;
/// use bob::testing::question;
/// use serde_json::json;
///
/// // The code under test shows a question.
/// fn card(question: &ApprovalQuestion) -> String {
///     format!("{} {}", question.title, question.call.arguments)
/// }
///
/// assert_eq!(card(&question("bank/pay", json!({"to": "Ann"}))), r#"bank/pay {"to":"Ann"}"#);
/// ```
pub fn question(tool: &str, arguments: Value) -> ApprovalQuestion {
    ApprovalQuestion {
        session: session(),
        turn: TurnId::new("turn"),
        approval_id: ApprovalId::new("a1"),
        call: call(tool, arguments),
        risk: Risk::High,
        reason: "it has a high risk".to_owned(),
        title: tool.to_owned(),
        choices: CHOICES.map(str::to_owned).to_vec(),
        exact: false,
        like: Vec::new(),
        changes: None,
        timeout_ms: 30_000,
        agents: Vec::new(),
        context: None,
    }
}

/// The question whether a turn goes on that has reached this limit: with half a minute, and as much more with a yes. Fields that a
/// test is about are set by `LimitQuestion { portion, ..limit_question(guard, limit) }`.
///
/// ```
/// use bob::approvals::LimitQuestion;
/// use bob::sessions::GuardReason;
/// use bob::testing::limit_question;
///
/// // The code under test shows a question.
/// fn card(question: &LimitQuestion) -> String {
///     format!("{} used, {} more?", question.limit, question.portion)
/// }
///
/// let question = LimitQuestion { portion: 50, ..limit_question(GuardReason::MaxSteps, 200) };
/// assert_eq!(card(&question), "200 used, 50 more?");
/// ```
pub fn limit_question(guard: GuardReason, limit: u64) -> LimitQuestion {
    LimitQuestion {
        session: session(),
        turn: TurnId::new("turn"),
        approval_id: ApprovalId::new("test-limit1"),
        guard,
        limit,
        portion: limit,
        timeout_ms: 30_000,
        context: None,
    }
}

/// A request to summarise these messages, with half a minute.
///
/// ```
/// use bob::ModelName;
/// use bob::model::Message;
/// use bob::testing::condense_request;
///
/// let request = condense_request(&ModelName::parse("my:model")?, [Message::user("hi"), Message::assistant("hello")]);
/// assert_eq!(request.messages.len(), 2);
/// # Ok::<(), bob::sessions::InvalidId>(())
/// ```
pub fn condense_request(model: &ModelName, messages: impl IntoIterator<Item = Message>) -> Arc<CondenseRequest> {
    Arc::new(CondenseRequest {
        session: session(),
        turn: TurnId::new("turn"),
        context: None,
        step: 1,
        model: model.clone(),
        attempt: 1,
        earlier: None,
        messages: messages.into_iter().map(Arc::new).collect(),
        max_bytes: MAX_SUMMARY_BYTES,
        question_bytes: 64 * 1024,
        within_ms: 30_000,
        traceparent: Arc::from(""),
        tracestate: None,
        interactive: true,
    })
}
