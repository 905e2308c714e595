//! What can arrive in the mailbox of a turn.

use crate::approvals::Decision;
use crate::brief::{Brief, PromptLayers};
use crate::condense::Summary;
use crate::error::AgentError;
use crate::ids::{ApprovalId, ResumeToken, Ticket, TurnId};
use crate::input::{ResumeReply, Steer, TurnInput};
use crate::limits::Limits;
use crate::llm::{LlmAnswer, LlmError, LlmRequest, ModelProfile};
use crate::mcp::ServerBrief;
use crate::options::Configuring;
use crate::outcome::EndReason;
use crate::skills::SkillIndex;
use crate::store::{Claim, Ended, StoreError};
use crate::tools::{ToolReturn, ToolSet, Verdict};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The mailbox of a TurnActor. The six variants named after the states mean
/// "enter this state with this in hand"; the others are facts that arrive while a
/// state waits. Whatever answers a question carries the question's ticket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TurnMessage {
    /// An input: its turn begins, or waits behind the one that runs.
    Start {
        /// What is said, and within which limits.
        input: Arc<TurnInput>,
        /// How turns are run here.
        brief: Arc<Brief>,
    },
    /// Guards, then the next prompt.
    BuildPrompt,
    /// The prompt goes to the model.
    LlmInfer {
        /// Names the question to the model.
        ticket: Ticket,
        /// The prompt.
        request: Arc<LlmRequest>,
    },
    /// The model's answer, to be understood.
    ParseAction {
        /// Which question it answers.
        ticket: Ticket,
        /// The answer.
        result: Result<Arc<LlmAnswer>, LlmError>,
    },
    /// The model's calls are to be judged and run.
    CallTool,
    /// The turn is over in this way; it is journaled, then told.
    Done {
        /// How.
        ended: Box<Ended>,
    },

    /// The actor was started again: look into the journal and go on.
    Wake {
        /// How turns are run here.
        brief: Arc<Brief>,
        /// What to do with a turn that had begun.
        recover: Recover,
    },
    /// A suspended turn may go on.
    Resume {
        /// Who is owed the next outcome.
        submission: TurnId,
        /// The token of the suspension.
        token: ResumeToken,
        /// What the person says.
        reply: Box<ResumeReply>,
        /// How turns are run here.
        brief: Arc<Brief>,
    },
    /// The journal was read.
    Loaded {
        /// Which question it answers.
        ticket: Ticket,
        /// The claim with all records.
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
        /// Which question it answers.
        ticket: Ticket,
        /// The tools.
        tools: Arc<ToolSet>,
        /// The tool servers, to be told.
        #[serde(default)]
        servers: Vec<ServerBrief>,
    },
    /// What the turn's model can do.
    Profiled {
        /// Which question it answers.
        ticket: Ticket,
        /// The profile.
        result: Result<Arc<ModelProfile>, LlmError>,
    },
    /// What the files say that stand before the history.
    LayersRead {
        /// Which question it answers.
        ticket: Ticket,
        /// All layers; an error when a file that is named is not there or cannot be used.
        result: Result<Arc<PromptLayers>, AgentError>,
    },
    /// There is a summary, or there is none.
    Condensed {
        /// Which question it answers.
        ticket: Ticket,
        /// The summary.
        result: Result<Arc<Summary>, AgentError>,
    },
    /// The skills there are.
    SkillsListed {
        /// Which question it answers.
        ticket: Ticket,
        /// The skills.
        index: Arc<SkillIndex>,
    },
    /// An answer was held against its schema.
    OutputChecked {
        /// Which question it answers.
        ticket: Ticket,
        /// What does not fit, and where, in words for the model.
        result: Result<(), String>,
    },
    /// The tools room judged a call, or ran it at once.
    Checked {
        /// Which question it answers.
        ticket: Ticket,
        /// The verdict; `None` when nobody was there to judge.
        verdict: Option<Verdict>,
    },
    /// A call has ended.
    ToolReturned {
        /// Which call.
        ticket: Ticket,
        /// How.
        returned: Box<ToolReturn>,
    },
    /// What a running call has put out until now. Said while the actor stops, before `Stopped`: the result of a call that
    /// is interrupted holds it.
    SaidSoFar {
        /// Which call.
        ticket: Ticket,
        /// Its output, as text.
        output: String,
    },
    /// A person decided about a call.
    Decided {
        /// Which question.
        approval: ApprovalId,
        /// The decision.
        decision: Box<Decision>,
        /// Who wants to hear whether it counts; nobody for one that comes by the clock.
        #[serde(default)]
        asker: Option<Ticket>,
    },
    /// The user said something into the running turn.
    Steered {
        /// What, and into which.
        steer: Box<Steer>,
    },
    /// Somebody reads the journal: what is written goes to the store now, and whoever asks is told then.
    Flush,
    /// Nobody wants this submission any more. What waits is taken out; a turn that has
    /// begun meanwhile is closed; one that has ended stays as it is.
    Withdrawn {
        /// Which submission.
        submission: TurnId,
    },
    /// Whoever runs the turn step by step ends it in these words. The last message, and
    /// never a mailbox one: an actor is stopped.
    Dismissed {
        /// What the outcome says.
        words: String,
    },
    /// The actor is being stopped. The last message, and not a mailbox one: the
    /// driver says it while it stops.
    Stopped {
        /// Why.
        reason: EndReason,
        /// Whose turn that is to end; `None` for whatever runs. A turn that has begun
        /// behind the one that is meant is left open: the next actor goes on with it.
        submission: Option<TurnId>,
    },
    /// Somebody changes the session's options; answered by the news of that name.
    Configure {
        /// What is to be.
        asked: Arc<Configuring>,
        /// How turns are run here.
        brief: Arc<Brief>,
    },
}

impl TurnMessage {
    /// The submission that an input or a reply asks an outcome for.
    pub(super) fn submission(&self) -> Option<&TurnId> {
        match self {
            Self::Start { input, .. } => Some(&input.turn),
            Self::Resume { submission, .. } => Some(submission),
            _asks_for_no_outcome => None,
        }
    }

    /// The bounds that an input brings along.
    pub(super) fn limits(&self) -> Option<&Limits> {
        match self {
            Self::Start { input, .. } => Some(&input.limits),
            _brings_none => None,
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
            | Self::Steered { .. }
            | Self::Flush
            | Self::Withdrawn { .. }
            | Self::Dismissed { .. }
            | Self::Configure { .. }
            | Self::Stopped { .. } => None,
        }
    }
}

/// What to do with a turn that had begun when its actor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recover {
    /// Finish it.
    Continue,
    /// Close it for this reason: its actor was killed before it could.
    Close(EndReason),
    /// Close it as failed: it crashed too often.
    GiveUp,
}
