//! Where a turn can be between two messages.

use super::condense::Plan;
use crate::chat::Usage;
use crate::error::AgentError;
use crate::ids::{ApprovalId, Ticket, TurnId};
use crate::llm::{LlmError, ModelProfile};
use crate::mcp::ServerBrief;
use crate::skills::SkillIndex;
use crate::store::StepCost;
use crate::tools::{CallContext, CallTraits, Grant, ToolSet};
use crate::turn::PromptLayers;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The rest points of the machine. Data that exists only in one state lives there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum State {
    /// Nothing runs.
    Idle,
    /// What a turn needs before its first prompt is being gathered.
    Start(Gathering),
    /// The next prompt may be built.
    BuildPrompt,
    /// The history is being condensed, since the next prompt would be too long.
    Condense(Box<Condensing>),
    /// The prompt is on its way to the model, or the model was asked.
    LlmInfer {
        /// The question to the model.
        awaiting: Ticket,
        /// Whether it was sent.
        asked: bool,
        /// How many bytes the prompt has.
        prompt_bytes: u64,
    },
    /// An answer is held against the schema it must fit.
    ParseAction(Box<Judging>),
    /// Calls are judged and run.
    CallTool(Calling),
    /// The outcome is being journaled.
    Done(Finishing),
}

/// What is still missing before the first prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Gathering {
    /// The journal is being read.
    pub(super) load: Option<Ticket>,
    /// The tools are being listed.
    pub(super) tools_at: Option<Ticket>,
    /// The tools.
    pub(super) tools: Option<Arc<ToolSet>>,
    /// The tool servers.
    #[serde(default)]
    pub(super) servers: Vec<ServerBrief>,
    /// The model's profile is being looked up.
    pub(super) profile_at: Option<Ticket>,
    /// The profile.
    pub(super) profile: Option<Result<Arc<ModelProfile>, LlmError>>,
    /// The files before the history are being read.
    #[serde(default)]
    pub(super) layers_at: Option<Ticket>,
    /// What they say; `None` also where there are none.
    #[serde(default)]
    pub(super) layers: Option<Result<Arc<PromptLayers>, AgentError>>,
    /// The input is durable with this version.
    pub(super) until: Option<u64>,
    /// The skills are being listed.
    #[serde(default)]
    pub(super) skills_at: Option<Ticket>,
    /// The skills, where there are any.
    #[serde(default)]
    pub(super) skills: Option<Arc<SkillIndex>>,
}

/// An answer that is judged before it is journaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Judging {
    /// The question.
    pub(super) awaiting: Ticket,
    /// The answer as it is told when it fits.
    pub(super) content: String,
    /// The model's reply as it came.
    pub(super) reply: String,
    /// What it cost.
    pub(super) cost: StepCost,
}

/// A summary that is waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Condensing {
    /// The question to whoever writes it.
    pub(super) awaiting: Ticket,
    /// How often it was asked for.
    pub(super) attempts: u32,
    /// What is to become of the history.
    pub(super) plan: Plan,
    /// What the attempts before cost.
    pub(super) usage: Option<Usage>,
}

/// The calls of one step on their way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Calling {
    /// Whether the calls were looked at.
    pub(super) entered: bool,
    /// Who calls; made once for all of them.
    pub(super) context: Option<Arc<CallContext>>,
    /// The calls, in order.
    pub(super) slots: Vec<Slot>,
}

/// How far one call is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Slot {
    /// The tools room is asked.
    Checking { ticket: Ticket, run: bool },
    /// A person is asked.
    Asking(ApprovalId),
    /// It may run when its turn comes.
    Granted { grant: Grant, traits: CallTraits },
    /// Its intent is being journaled; it runs when this version is durable.
    Recording { grant: Grant, until: u64 },
    /// It runs.
    Running { ticket: Ticket, read_only: bool },
    /// It has its result.
    Finished,
    /// It is a question to the user.
    Question,
    /// It came back, and its result comes from outside.
    Waiting,
}

/// The end of a turn on its way into the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Finishing {
    /// Who is owed the outcome.
    pub(super) submission: TurnId,
    /// The version with which the outcome is durable; `None` until it is written.
    pub(super) version: Option<u64>,
}
