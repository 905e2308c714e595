//! Requests of callers: an input, a steering message, a reply to a suspended turn.

pub use crate::approvals::ApprovalsMode;

use crate::Millis;
use crate::approvals::Decision;
use crate::chat::ContentPart;
use crate::context::RequestContext;
use crate::ids::{ApprovalId, ModelName, RequestId, ResumeToken, TenantId, TurnId};
use crate::limits::Limits;
use crate::options::{ParentTurn, SessionOptions};
use crate::permission::{PermissionMode, mode_or_risk};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One accepted request to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The turn it begins; also the name of the submission.
    pub turn: TurnId,
    /// The caller's name for it.
    pub request_id: Option<RequestId>,
    /// Time of arrival.
    pub at: Millis,
    /// The content.
    pub parts: Vec<ContentPart>,
    /// The caller's labels, echoed in the outcome.
    pub labels: BTreeMap<String, String>,
    /// On whose behalf it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<RequestContext>>,
    /// The model for this turn.
    pub model: Option<ModelName>,
    /// The tools this turn is limited to, by name or pattern.
    pub allow_tools: Option<Arc<[String]>>,
    /// What the turn may do without asking; `None`: the session's mode. `approve` in older records.
    #[serde(default, alias = "approve", deserialize_with = "mode_or_risk", skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// How a call that needs approval is handled.
    pub approvals: ApprovalsMode,
    /// The bounds of the turn.
    pub limits: Limits,
    /// Options that are in force from this turn on; `None` changes nothing.
    pub options: Option<Arc<SessionOptions>>,
    /// W3C trace context of the caller.
    pub traceparent: Option<String>,
    /// Its `tracestate`, which is handed on as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<Arc<str>>,
    /// The token that resumes this turn if it is suspended: random, since it authorises.
    pub token: ResumeToken,
    /// Whether a person is waiting for it.
    pub interactive: bool,
    /// Whether a person is asked before the turn ends at a limit, where the turn waits for approvals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_at_limits: bool,
    /// The JSON schema its final answer must fit; it was read and found to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Arc<Value>>,
}

impl TurnInput {
    /// An input with only a content: everything else follows the session and the defaults, and approvals are denied.
    pub fn bare(turn: TurnId, token: ResumeToken, parts: Vec<ContentPart>) -> Self {
        Self {
            turn,
            request_id: None,
            at: 0,
            parts,
            labels: BTreeMap::new(),
            context: None,
            model: None,
            allow_tools: None,
            mode: None,
            approvals: ApprovalsMode::Deny,
            limits: Limits::default(),
            options: None,
            traceparent: None,
            tracestate: None,
            token,
            interactive: false,
            asks_at_limits: false,
            output_schema: None,
        }
    }

    /// The tenant of its context.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.context.as_ref()?.tenant.as_ref()
    }

    /// The call of an agent that it is the task of.
    pub(crate) fn works_for(&self) -> Option<&ParentTurn> {
        let parent = self.options.as_ref().and_then(|options| options.parent.as_ref());
        parent.filter(|parent| parent.line.is_some())
    }

    /// Whether a person is asked when the turn reaches a limit: it says so, and a person can be asked.
    pub fn may_ask_at_limits(&self) -> bool {
        self.asks_at_limits && self.approvals == ApprovalsMode::Wait
    }

    /// The input as text.
    pub fn text(&self) -> String {
        self.parts.iter().map(ContentPart::as_text).collect::<Vec<_>>().join("\n")
    }
}

/// A steering message: user input for a running turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steer {
    /// The id of this request; a repeated one is ignored.
    pub request_id: RequestId,
    /// The submission of the intended run; `None` for the current one.
    pub submission: Option<TurnId>,
    /// The content.
    pub parts: Vec<ContentPart>,
}

/// A reply to a suspended turn.
#[doc(alias = "ResumeRequest")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeReply {
    /// The answer to a question. Where the turn waits for an approval it denies the call, with this text as the reason.
    Answer(String),
    /// A decision about the call that needs one: the one the question is about.
    Decision(Decision),
    /// A decision about the call of this question, whichever of the open ones it is.
    Decided {
        /// The question.
        approval: ApprovalId,
        /// The decision.
        decision: Decision,
    },
}
