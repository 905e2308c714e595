//! What a turn asks of the world.

use crate::agent::{Delegation, Resumption};
use crate::approvals::Standing;
use crate::chat::{ServerWait, ToolCall};
use crate::condense::CondenseRequest;
use crate::event::StepEvent;
use crate::ids::{ModelName, SessionId, TenantId, Ticket, ToolName, TurnId};
use crate::llm::LlmRequest;
use crate::options::ServerSpec;
use crate::skills::SkillQuery;
use crate::store::Append;
use crate::submission::TurnNews;
use crate::tools::{CallContext, CheckRequest, Grant};
use crate::turn::TurnMessage;
use crate::turn_config::TurnConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A session that works for a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Child {
    /// It begins its turn, or is found at work; the result is its outcome.
    Works {
        /// The session and its input.
        task: Arc<Delegation>,
        /// How its turn is run.
        turn_config: Arc<TurnConfig>,
        /// Whether it may have been asked before: then a temporary refusal is not the result of the call.
        again: bool,
    },
    /// It is suspended and goes on with a decision; the result is its outcome.
    Resumes {
        /// The session and the decision.
        resumption: Box<Resumption>,
        /// How its turn is run.
        turn_config: Arc<TurnConfig>,
    },
    /// Only its journal is read: the result is the outcome of its turn, or unknown without one.
    Worked {
        /// The session.
        session: SessionId,
        /// Its turn.
        turn: TurnId,
    },
}

/// One operation to be performed for a turn, without a decision. The answer to an
/// effect that is a question is the message with its ticket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum Effect {
    /// Send this to the turn itself.
    Tell(TurnMessage),
    /// Take the session over; answered by `Loaded`.
    Claim {
        ticket: Ticket,
        session: SessionId,
        /// All records are needed, and not only those from the last snapshot on.
        whole: bool,
    },
    /// Store these records; answered by `Saved`.
    Append {
        ticket: Ticket,
        /// Whether success is to be reported, because something waits for it. A failure always is.
        confirm: bool,
        /// How long to wait before it is sent, in milliseconds: the store did not take it before.
        #[serde(default)]
        pause_ms: u64,
        append: Append,
    },
    /// This actor no longer owns the session.
    Release {
        session: SessionId,
        /// Under which epoch it was owned.
        epoch: u64,
    },
    /// Which tools may be used? Answered by `ToolsListed`.
    ListTools {
        ticket: Ticket,
        /// Whose turn begins, and has them until its outcome is reported.
        submission: TurnId,
        /// What the session is limited to.
        allow: Option<Arc<[String]>>,
        /// The tool servers the session brings, as its options in force name them.
        #[serde(default)]
        brought: Arc<[ServerSpec]>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// What can this model do? Answered by `Profiled`.
    Profile { ticket: Ticket, model: ModelName },
    /// What do the files say that stand before the history? Answered by `LayersRead`.
    ReadLayers {
        ticket: Ticket,
        /// The session's working folder; `None` for one that names none.
        cwd: Option<String>,
    },
    /// Which skills are there? Answered by `SkillsListed`.
    ListSkills {
        ticket: Ticket,
        /// The folder the session works in; their places are looked up there first.
        cwd: Option<String>,
        /// What they are wanted for.
        #[serde(default)]
        query: Arc<SkillQuery>,
    },
    /// Does this answer fit its schema? Answered by `OutputChecked`.
    CheckOutput { ticket: Ticket, schema: Arc<Value>, output: Arc<Value> },
    /// Ask the model; answered by `ParseAction`.
    Infer {
        ticket: Ticket,
        request: Arc<LlmRequest>,
        /// What is left of the turn's time, in milliseconds.
        remaining_ms: u64,
    },
    /// Make a summary of what no longer fits; answered by `Condensed`.
    Condense { ticket: Ticket, request: Arc<CondenseRequest> },
    /// May this call run? Answered by `Checked`; before that, a call that runs at once
    /// and takes long is noted as running.
    Check { ticket: Ticket, check: CheckRequest, context: Arc<CallContext> },
    /// Run this call; answered by `ToolReturned`.
    Call { ticket: Ticket, call: Arc<ToolCall>, grant: Grant, context: Arc<CallContext> },
    /// Have a session work for a call, or read how its turn ended; answered by `ToolReturned`.
    Child { ticket: Ticket, call: Arc<ToolCall>, child: Box<Child> },
    /// A call of this tool ended without its server, which may stop working on it.
    GiveUp { tool: ToolName, wait: Arc<ServerWait> },
    /// The answer to this question is no longer wanted.
    Abandon { ticket: Ticket },
    /// What a person decided for good, beyond this session.
    Remember(Arc<Standing>),
    /// Abandon all questions in flight.
    AbandonAll,
    /// Tell the sessions supervisor.
    Report(TurnNews),
    /// Send to the subscribers.
    Emit(Box<StepEvent>),
}
