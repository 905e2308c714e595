//! What can arrive in the mailbox of a turn.

use crate::approvals::Decision;
use crate::condense::Summary;
use crate::error::AgentError;
use crate::ids::{ApprovalId, ResumeToken, Ticket, TurnId};
use crate::input::{ResumeReply, Steer, TurnInput};
use crate::limits::Limits;
use crate::llm::{LlmAnswer, LlmError, LlmRequest, ModelProfile};
use crate::mcp::ServerBrief;
use crate::options::{Configuring, ParentTurn};
use crate::outcome::EndReason;
use crate::skills::{SkillIndex, SkillScores};
use crate::store::{Claim, Ended, StoreError};
use crate::tools::{ToolReturn, ToolSet, Verdict};
use crate::turn_config::{PromptLayers, TurnConfig};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the machine accepts; the mailbox of a TurnActor. The first six variants are named after the phase of a turn that
/// they begin; the others are answers, which carry the ticket of their question, and requests, which may also arrive in
/// `Idle`. `Stopped`, `SaidSoFar` and `Dismissed` are applied directly by a driver, never sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum TurnMessage {
    /// An input: its turn begins, or waits behind the one that runs.
    Start {
        input: Arc<TurnInput>,
        #[serde(rename = "brief")]
        turn_config: Arc<TurnConfig>,
    },
    /// Check the guards, then build the next prompt.
    BuildPrompt,
    /// Send the prompt to the model.
    LlmInfer { ticket: Ticket, request: Arc<LlmRequest> },
    /// The model's answer, to be understood.
    ParseAction { ticket: Ticket, result: Result<Arc<LlmAnswer>, LlmError> },
    /// Check and run the model's calls.
    CallTool,
    /// End the turn: journal its outcome, then report it.
    Done { ended: Box<Ended> },

    /// The actor was restarted: read the journal and continue.
    Wake {
        #[serde(rename = "brief")]
        turn_config: Arc<TurnConfig>,
        /// What to do with a turn that had begun.
        recover: Recover,
    },
    /// A suspended turn may go on.
    Resume {
        /// Who is owed the next outcome.
        submission: TurnId,
        token: ResumeToken,
        reply: Box<ResumeReply>,
        /// The call that the turn works for, if the caller of a sub-agent hands a decision down to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Box<ParentTurn>>,
        #[serde(rename = "brief")]
        turn_config: Arc<TurnConfig>,
    },
    /// The journal was read.
    Loaded {
        ticket: Ticket,
        /// The claim, with all records or those from the last snapshot on.
        result: Result<Claim, StoreError>,
    },
    /// Records are durable, or not.
    Saved {
        /// Which append it answers.
        ticket: Ticket,
        /// The version of the session after it.
        result: Result<u64, StoreError>,
    },
    /// The tools this turn may use.
    ToolsListed {
        ticket: Ticket,
        tools: Arc<ToolSet>,
        /// The tool servers, for the event of the turn's beginning.
        #[serde(default)]
        servers: Vec<ServerBrief>,
    },
    /// What the turn's model can do.
    Profiled { ticket: Ticket, result: Result<Arc<ModelProfile>, LlmError> },
    /// The layers of the prompt that are read from files.
    LayersRead {
        ticket: Ticket,
        /// All layers; an error when a file that is named is not there or cannot be used.
        result: Result<Arc<PromptLayers>, AgentError>,
    },
    /// The summary of the history, or why there is none.
    Condensed { ticket: Ticket, result: Result<Arc<Summary>, AgentError> },
    /// The skills there are.
    SkillsListed {
        ticket: Ticket,
        index: Arc<SkillIndex>,
        /// How well they fit, if the port scores them itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scores: Option<Arc<SkillScores>>,
    },
    /// An answer was held against its schema.
    OutputChecked {
        ticket: Ticket,
        /// What does not fit, and where, in words for the model.
        result: Result<(), String>,
    },
    /// The tools room checked a call, or ran it at once.
    Checked {
        ticket: Ticket,
        /// The verdict; `None` when the tools actor was not there.
        verdict: Option<Verdict>,
    },
    /// A call has ended.
    ToolReturned { ticket: Ticket, returned: Box<ToolReturn> },
    /// The output of a running call so far, or the part of the model's answer that readers have seen. Applied while the
    /// actor stops, before `Stopped`: it becomes part of the interrupted call's result, or of the outcome.
    SaidSoFar { ticket: Ticket, output: String },
    /// A decision about a call or a limit: of a person, or of the supervisor when the time for it has passed.
    Decided {
        approval: ApprovalId,
        decision: Box<Decision>,
        /// The caller that waits to hear whether it counts; `None` for a decision by timeout.
        #[serde(default)]
        asker: Option<Ticket>,
    },
    /// The turn made no progress for the time that its limits allow, and asks a person before it ends.
    Quiet,
    /// A sub-agent of this turn starts or stops asking a person; the turn's time is paused meanwhile.
    AskedBelow { asking: bool },
    /// A message of the user for the running turn.
    Steered {
        /// The message, and the run for which it is meant.
        steer: Box<Steer>,
    },
    /// A subscriber reads the journal: buffered records go to the store now, and then the caller is answered.
    Flush,
    /// This submission is cancelled. If it waits, it is removed; if its turn has begun meanwhile, the turn is closed;
    /// if it has ended, it stays as it is.
    Withdrawn { submission: TurnId },
    /// This submission was answered as ended for this reason, and the store did not confirm that. If the journal has it
    /// open or waiting, it is closed before anything goes on; `TurnNews::NotOpen` answers if it has not.
    Ended { submission: TurnId, reason: EndReason },
    /// The caller of the stepwise runner ends the turn with this text. The last message, and never in a mailbox: an
    /// actor is stopped instead.
    Dismissed { words: String },
    /// The actor is being stopped. The last message; it is never in the mailbox, since
    /// the driver applies it while it stops.
    Stopped {
        reason: EndReason,
        /// The turn to end; `None` for any running turn. A turn that has begun after the one to end stays open: the
        /// next actor continues it.
        submission: Option<TurnId>,
    },
    /// The call has ended that this turn works for: if it is suspended, it is closed.
    GivenUp { turn: TurnId, turn_config: Arc<TurnConfig> },
    /// The runtime ends: no turn begins any more for the result of a task. The next process reads it in the journal.
    Draining,
    /// As `Draining`; another process goes on with what runs here. A turn that comes to the end of a step has nothing in flight and
    /// waits there, which `TurnNews::BetweenSteps` tells.
    HandOver,
    /// A change of the session's options; answered by `TurnNews::Configured`.
    Configure {
        asked: Arc<Configuring>,
        #[serde(rename = "brief")]
        turn_config: Arc<TurnConfig>,
    },
}

impl TurnMessage {
    pub(super) fn submission(&self) -> Option<&TurnId> {
        match self {
            Self::Start { input, .. } => Some(&input.turn),
            Self::Resume { submission, .. } => Some(submission),
            _asks_for_no_outcome => None,
        }
    }

    pub(super) fn limits(&self) -> Option<&Limits> {
        match self {
            Self::Start { input, .. } => Some(&input.limits),
            _brings_none => None,
        }
    }

    /// Whether this is the task of a call of an agent, or a decision for it. It is sent again when the call is made again.
    pub(super) fn is_of_a_call(&self) -> bool {
        match self {
            Self::Start { input, .. } => input.works_for().is_some(),
            request => request.handed_down().is_some(),
        }
    }

    /// The token of a decision that the caller of a sub-agent hands down.
    pub(super) fn handed_down(&self) -> Option<&ResumeToken> {
        match self {
            Self::Resume { parent: Some(_), token, .. } => Some(token),
            _from_elsewhere => None,
        }
    }

    /// The ticket of the question this answers, if it answers one. A note is no answer.
    pub fn answers(&self) -> Option<Ticket> {
        match self {
            Self::Checked { verdict: Some(Verdict::Running), .. } => None,
            Self::ParseAction { ticket, .. }
            | Self::Loaded { ticket, .. }
            | Self::Saved { ticket, .. }
            | Self::ToolsListed { ticket, .. }
            | Self::Profiled { ticket, .. }
            | Self::LayersRead { ticket, .. }
            | Self::Condensed { ticket, .. }
            | Self::SkillsListed { ticket, .. }
            | Self::OutputChecked { ticket, .. }
            | Self::Checked { ticket, .. }
            | Self::ToolReturned { ticket, .. } => Some(*ticket),
            Self::Start { .. }
            | Self::BuildPrompt
            | Self::LlmInfer { .. }
            | Self::CallTool
            | Self::Done { .. }
            | Self::Wake { .. }
            | Self::Resume { .. }
            | Self::SaidSoFar { .. }
            | Self::Decided { .. }
            | Self::Quiet
            | Self::AskedBelow { .. }
            | Self::Steered { .. }
            | Self::Flush
            | Self::Withdrawn { .. }
            | Self::Ended { .. }
            | Self::Dismissed { .. }
            | Self::GivenUp { .. }
            | Self::Draining
            | Self::HandOver
            | Self::Configure { .. }
            | Self::Stopped { .. } => None,
        }
    }
}

/// What to do with a turn that had begun when its actor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recover {
    /// Continue the turn and finish it.
    Continue,
    /// Close it for this reason: its actor was killed before it could.
    Close(EndReason),
    /// Close it as failed: it crashed too often.
    GiveUp,
}
