//! Where a turn can be between two messages.

use crate::chat::Usage;
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::ids::{ApprovalId, Ticket, TurnId};
use crate::limits::Limits;
use crate::llm::{LlmError, ModelProfile};
use crate::mcp::ServerBrief;
use crate::skills::{SkillIndex, SkillScores};
use crate::store::{Reasoning, StepCost, StoreError};
use crate::tools::{CallContext, CallTraits, Grant, ToolSet};
use crate::turn_config::PromptLayers;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The rest points of the machine. Data that exists only in one state lives there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum State {
    Idle,
    /// The journal is being read: all of it, or from its last snapshot on.
    Load {
        awaiting: Ticket,
        whole: bool,
    },
    /// What a turn needs before its first prompt is being gathered.
    Start(Box<Gathering>),
    /// The next prompt may be built.
    BuildPrompt,
    /// The history is being condensed, since the next prompt would be too long.
    Condense(Box<Condensing>),
    /// The skills are being listed, to be chosen again before the next prompt.
    ReselectSkills(Reselect),
    /// The prompt is on its way to the model, or the model was asked.
    LlmInfer {
        /// The question to the model.
        awaiting: Ticket,
        asked: bool,
        /// How many bytes the prompt has.
        prompt_bytes: u64,
        /// What readers have seen of the answer until the actor stopped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<Box<str>>,
    },
    /// An answer is held against the schema it must fit.
    ParseAction(Box<Judging>),
    /// Calls are being checked and run.
    CallTool(Calling),
    /// A person is asked whether the turn goes on beyond a limit.
    AtLimit(ApprovalId),
    /// The outcome is being journaled.
    Done(Finishing),
}

/// What is still missing before the first prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Gathering {
    /// The tools are being listed.
    pub(super) tools_at: Option<Ticket>,
    pub(super) tools: Option<Arc<ToolSet>>,
    pub(super) servers: Vec<ServerBrief>,
    /// The model's profile is being looked up.
    pub(super) profile_at: Option<Ticket>,
    pub(super) profile: Option<Result<Arc<ModelProfile>, LlmError>>,
    /// The files before the history are being read.
    pub(super) layers_at: Option<Ticket>,
    /// What they say; `None` also where there are none.
    pub(super) layers: Option<Result<Arc<PromptLayers>, AgentError>>,
    /// The input is durable with this version.
    pub(super) until: Option<u64>,
    /// The skills are being listed.
    pub(super) skills_at: Option<Ticket>,
    pub(super) skills: Option<Arc<SkillIndex>>,
    /// Their scores, if their port has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scores: Option<Arc<SkillScores>>,
    /// Events of steer messages that came during the preparation, to be emitted after the turn's beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) said: Vec<AgentEvent>,
}

/// An answer that is judged before it is journaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Judging {
    pub(super) awaiting: Ticket,
    /// The answer that is reported if it fits.
    pub(super) content: String,
    /// The model's reply as it came.
    pub(super) reply: String,
    /// The model's thoughts, as they are kept.
    #[serde(default)]
    pub(super) reasoning: Option<Reasoning>,
    pub(super) cost: StepCost,
}

/// Skills that are listed again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Reselect {
    pub(super) awaiting: Ticket,
    /// How many causes there were when they were asked for; for later ones they are asked for again.
    pub(super) causes: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Condensing {
    /// The question to the compactor.
    pub(super) awaiting: Ticket,
    pub(super) attempts: u32,
    pub(super) plan: Plan,
    /// What the attempts before cost.
    pub(super) usage: Option<Usage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Calling {
    pub(super) entered: bool,
    /// Who calls; made once for all of them.
    pub(super) context: Arc<CallContext>,
    /// The calls, in order.
    pub(super) slots: Vec<Slot>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Slot {
    /// The tools room checks it; with `run`, a call without side effects may run at once.
    Checking {
        ticket: Ticket,
        run: bool,
    },
    Asking(ApprovalId),
    /// A person is asked, and the tools room checks it again: a decision about another call may cover this one.
    Rejudging {
        approval: ApprovalId,
        ticket: Ticket,
    },
    /// It is allowed, and runs as soon as the calls before it permit.
    Granted {
        grant: Grant,
        traits: CallTraits,
    },
    /// Its intent is being journaled; it runs when version `until` is durable. If `doubted`, it may have run before.
    Recording {
        grant: Grant,
        until: u64,
        doubted: bool,
    },
    /// What its server gave instead of the result is being journaled; the server is asked for the result when version `until`
    /// is durable.
    Noting {
        until: u64,
    },
    Running(Running),
    Finished,
    /// It is a question to the user.
    Question,
    /// The tool returned without a result, which comes from outside.
    Waiting,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Running {
    /// The question to its tool.
    pub(super) ticket: Ticket,
    pub(super) read_only: bool,
    /// Whether it may have run before a crash, too.
    pub(super) doubted: bool,
    /// How long the turn had lasted when it began, in milliseconds.
    pub(super) since_ms: u64,
    /// What it has put out until the actor stopped.
    pub(super) output: Option<String>,
    /// The limits reserved for the sub-agent that works for it; no other sub-agent gets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) holds: Option<Box<Limits>>,
}

impl Slot {
    /// The question to a person, if there is one.
    pub(super) fn question(&self) -> Option<&ApprovalId> {
        match self {
            Self::Asking(approval) | Self::Rejudging { approval, .. } => Some(approval),
            Self::Checking { .. }
            | Self::Granted { .. }
            | Self::Recording { .. }
            | Self::Noting { .. }
            | Self::Running(_)
            | Self::Finished
            | Self::Question
            | Self::Waiting => None,
        }
    }
}

impl Calling {
    /// What the call of this ticket has put out until now.
    pub(super) fn said(&mut self, ticket: Ticket, output: String) {
        let is_it = |slot: &&mut Slot| matches!(slot, Slot::Running(running) if running.ticket == ticket);
        if let Some(Slot::Running(running)) = self.slots.iter_mut().find(is_it) {
            running.output = Some(output).filter(|output| !output.is_empty());
        }
    }
}

/// The end of a turn on its way into the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Finishing {
    /// Who is owed the outcome.
    pub(super) submission: TurnId,
    /// The version with which the outcome is durable; `None` until it is written.
    pub(super) version: Option<u64>,
}

impl Finishing {
    /// Whether this answer of the store is the one that the outcome waits for.
    pub(super) fn is_settled(&self, result: &Result<u64, StoreError>, durable: u64) -> bool {
        self.version.is_some_and(|version| result.is_err() || version <= durable)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) length: usize,
    /// How many of the newest stay.
    pub(super) keeps: usize,
    pub(super) drops: usize,
    /// The largest summary that is taken; `None` when one is not worth a question.
    pub(super) summary_bytes: Option<usize>,
    /// How large the question for it may be.
    pub(super) question_bytes: usize,
    /// The estimate of the prompt as it would be.
    pub(super) tokens: u64,
}
