//! What is said to a session: its options and its inputs.

use super::ServerLaunch;
use crate::Millis;
use crate::chat::ContentPart;
use crate::ids::{CallId, ModelName, RequestId, ResumeToken, SessionId, TurnId};
use crate::tools::Risk;
use crate::turn::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What holds for all turns of a session; by default what the configuration says.
/// Journaled first and at each change, in force from the next turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionOptions {
    /// The working folder.
    pub cwd: Option<String>,
    /// Further folders the session may see. Without a `cwd` they are all it sees, and the
    /// first one is its working folder.
    pub roots: Vec<String>,
    /// The model, unless a request names one.
    pub model: Option<ModelName>,
    /// Instructions instead of the configuration's.
    pub instructions: Option<String>,
    /// What the agent is called.
    pub agent: Option<String>,
    /// The tools the session is limited to, by name or pattern.
    pub allow_tools: Option<Arc<[String]>>,
    /// Requests of risk up to this need no person.
    pub approve: Option<Risk>,
    /// The tool servers the session brings. Their keys are never journaled, and a journal
    /// starts nothing: in another process they are there when they are given again.
    pub servers: Arc<[ServerLaunch]>,
    /// Which call of which session this session works for.
    pub parent: Option<ParentTurn>,
}

/// The call a child session works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentTurn {
    /// Its session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// The call.
    pub call: CallId,
}

/// What a call that needs a person does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsMode {
    /// Wait inside the turn: somebody can decide.
    Wait,
    /// End the run, to be resumed by the decision.
    Suspend,
    /// Deny: nobody can decide.
    #[default]
    Deny,
}

/// One accepted request to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The turn it begins; also the name of the submission.
    pub turn: TurnId,
    /// The caller's name for it.
    pub request_id: Option<RequestId>,
    /// When it came.
    pub at: Millis,
    /// What is said.
    pub parts: Vec<ContentPart>,
    /// The caller's labels, echoed in the outcome.
    pub labels: BTreeMap<String, String>,
    /// The model for this turn.
    pub model: Option<ModelName>,
    /// The tools this turn is limited to, by name or pattern.
    pub allow_tools: Option<Arc<[String]>>,
    /// Requests of risk up to this need no person, in this turn.
    pub approve: Option<Risk>,
    /// What a call that needs a person does.
    pub approvals: ApprovalsMode,
    /// The bounds of the turn.
    pub limits: Limits,
    /// Options that are in force from this turn on; `None` changes nothing.
    pub options: Option<SessionOptions>,
    /// W3C trace context of the caller.
    pub traceparent: Option<String>,
    /// The token by which this turn may be resumed if it suspends: random, since
    /// whoever knows it may resume.
    pub token: ResumeToken,
    /// Whether a person is waiting for it.
    pub interactive: bool,
    /// The JSON schema its final answer must fit; it was read and found to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Arc<Value>>,
}

impl SessionOptions {
    /// The folders the options name, the working folder first; none: those of the configuration.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.cwd.iter().chain(&self.roots).map(String::as_str)
    }

    /// The same options, without anything a key may hide in.
    #[must_use]
    pub fn stripped(mut self) -> Self {
        if !self.servers.is_empty() {
            self.servers = self.servers.iter().map(ServerLaunch::stripped).collect();
        }
        self
    }
}

impl TurnInput {
    /// An input of which nothing is said but these words: everything else is left to the
    /// session and the defaults, and nobody decides about its calls.
    pub fn bare(turn: TurnId, token: ResumeToken, parts: Vec<ContentPart>) -> Self {
        Self {
            turn,
            request_id: None,
            at: 0,
            parts,
            labels: BTreeMap::new(),
            model: None,
            allow_tools: None,
            approve: None,
            approvals: ApprovalsMode::Deny,
            limits: Limits::default(),
            options: None,
            traceparent: None,
            token,
            interactive: false,
            output_schema: None,
        }
    }

    /// The input as text.
    pub fn text(&self) -> String {
        self.parts.iter().map(ContentPart::as_text).collect::<Vec<_>>().join("\n")
    }
}
