//! Sub-agents as tools: a call of one is a session of its own.
//!
//! A call becomes a submission to the sessions supervisor, which runs the child as any other session. What the child may
//! use was decided by the turn that calls ([`ChildTerms`](bob_messages::tools::ChildTerms)), and what an answer means is decided in
//! `messages` ([`worked`], [`resumed`], [`read`]); nothing is decided here. The
//! call ends with the child's turn, and the supervisor ends the child with the turn of its parent.

use super::port::{Invocation, ToolError, ToolPort};
use crate::address::{Address, Again, RETURNS_WITHIN};
use crate::clock;
use crate::store::Artifacts;
use bob_messages::agent::{
    Agent, Delegation, RESULT, Resumption, STATUS, TaskQuestion, may_have_begun, outcome_of, read, resumed, worked,
};
use bob_messages::chat::ToolCall;
use bob_messages::error::AgentError;
use bob_messages::ids::{ResumeToken, SessionId, ToolName, TurnId};
use bob_messages::input::ResumeReply;
use bob_messages::outcome::TurnOutcome;
use bob_messages::permission::PermissionMode;
use bob_messages::reply::Reply;
use bob_messages::session_state::Session;
use bob_messages::store::{Record, StoreError, StoreMessage};
use bob_messages::submission::SessionsMessage;
use bob_messages::tools::{Risk, ToolDescriptor, ToolKind, ToolOutput, ToolReturn, ToolSource};
use bob_messages::turn_config::{OnRestart, TurnConfig};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::fmt;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// How often a submission is made again: the supervisor may end with it, and may be away before.
const AGAIN: Again = Again { times: 2, within: RETURNS_WITHIN };

/// A call ends with its child, whose limits end it: a day, in milliseconds.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;

/// The sub-agents of a runtime.
#[derive(Clone)]
pub struct Agents {
    agents: Arc<[Agent]>,
    /// The mode of sessions that name none.
    unsaid: PermissionMode,
    sessions: Address<SessionsMessage>,
    /// How turns are run now; set before the first one.
    turn_config: Arc<OnceLock<Box<TurnConfigNow>>>,
}

type TurnConfigNow = dyn Fn() -> Arc<TurnConfig> + Send + Sync;

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents").field("agents", &self.agents).finish_non_exhaustive()
    }
}

impl Agents {
    /// These agents, whose sessions this supervisor runs; `unsaid` is the mode of sessions that name none.
    pub fn new(agents: Arc<[Agent]>, unsaid: PermissionMode, sessions: Address<SessionsMessage>) -> Self {
        Self { agents, unsaid, sessions, turn_config: Arc::default() }
    }

    /// How turns of sub-agents are run where others are run like this: a call is made again to go on with a turn that it
    /// began.
    pub fn of_children(turn_config: &TurnConfig) -> TurnConfig {
        TurnConfig { on_restart: OnRestart::Resume, ..turn_config.clone() }
    }

    /// Sets what tells how their turns are run, with what is known of models at that time. The first one stays.
    pub fn run_by(&self, turn_config: impl Fn() -> Arc<TurnConfig> + Send + Sync + 'static) {
        let _the_first_stays = self.turn_config.set(Box::new(turn_config));
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolError> {
        let Invocation { call, context, .. } = &invocation;
        let agent = self.agents.iter().find(|agent| agent.tool() == call.name);
        let agent = agent.ok_or_else(|| ToolError::new(format!("there is no agent called {}", call.name)))?;
        let turn_config = self.turn_config.get().ok_or_else(|| ToolError::unavailable("the runtime starts"))?;
        let by_hand = (clock::now(), secret());
        let child = Delegation::of(agent, call, context, self.unsaid, by_hand)?;
        let (reply, outcome) = Reply::channel();
        let (session, input, turn_config) = (child.session.clone(), Arc::new(child.input), turn_config());
        self.sessions.ask(AGAIN, reply, move |reply, _asked| SessionsMessage::Submit {
            session,
            input,
            turn_config,
            is_repeated: false,
            reply,
        });
        match outcome.await {
            Some(Ok(outcome)) => Ok(outcome_of(agent.name(), &outcome)),
            Some(Err(error)) if may_have_begun(&error) => Err(ToolError::outcome_unknown(error)),
            Some(Err(error)) => Err(refused(agent, &error)),
            None => Err(ToolError::outcome_unknown("the supervisor of the sessions went away during the call")),
        }
    }
}

impl ToolPort for Agents {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        ready(descriptors(&self.agents)).boxed()
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        match TaskQuestion::of(&invocation.call) {
            Some(asked) => wait(asked).boxed(),
            None => self.call(invocation).boxed(),
        }
    }

    fn limit_ms(&self, _call: &ToolCall, _ruled_ms: Option<u64>) -> Option<u64> {
        Some(LONGEST_MS)
    }
}

/// The tools that these agents are, with those that follow agents in the background, if there are any.
pub fn descriptors(agents: &[Agent]) -> Vec<ToolDescriptor> {
    let schema = json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "minLength": 1, "description": "What the agent is to do, complete in itself."},
            "context": {"type": "string", "description": "What it needs to know for that."},
        },
        "required": ["task"],
        "additionalProperties": false,
    });
    let one = |agent: &Agent| {
        let tool = ToolDescriptor::new(agent.tool(), agent.purpose(), schema.clone());
        // It may do less than its caller, and asks for itself.
        let tool = tool.with_source(ToolSource::Agent).with_kind(ToolKind::Other).with_risk(Risk::Low);
        // Its session is named after the call.
        tool.with_idempotent(true)
    };
    let has_tasks = agents.iter().any(|agent| agent.background().is_some());
    agents.iter().map(one).chain(followers().into_iter().filter(|_| has_tasks)).collect()
}

/// The secret of a child's turn: only its caller resumes it.
fn secret() -> ResumeToken {
    ResumeToken::new(uuid::Uuid::now_v7().simple().to_string())
}

/// The tools that follow agents in the background.
fn followers() -> [ToolDescriptor; 2] {
    let task = json!({"type": "string", "description": "The id of the task, as its call gave it."});
    let wait_ms = json!({
        "type": "integer", "minimum": 0, "maximum": TaskQuestion::LONGEST_MS,
        "description": "How long to wait for the result, in milliseconds; 0 does not wait."
    });
    let schema = |properties: Value| json!({"type": "object", "properties": properties, "required": ["task"], "additionalProperties": false});
    let tool = |name: &str, about: &str, properties: Value| {
        let tool = ToolDescriptor::new(ToolName::new(name), about, schema(properties));
        tool.with_source(ToolSource::Agent).with_kind(ToolKind::Other).with_risk(Risk::Low).with_read_only(true)
    };
    [
        tool(STATUS, "Tells whether an agent that works on a task has finished.", json!({"task": task})),
        tool(
            RESULT,
            "Gives the result of an agent that works on a task. Waits for it for at most wait_ms.",
            json!({"task": task, "wait_ms": wait_ms}),
        ),
    ]
}

/// Waits for a result; the turn that asks has it as soon as it is there.
async fn wait(asked: TaskQuestion) -> Result<ToolOutput, ToolError> {
    tokio::time::sleep(Duration::from_millis(asked.wait_ms.min(TaskQuestion::LONGEST_MS))).await;
    Err(ToolError::new("a task is followed by a turn of a runtime only"))
}

/// Has a session work for a call in the background, perhaps again; answered with the outcome of its turn. A session that
/// may have begun its turn and is refused for now has an unknown outcome.
pub(crate) fn have_worked(
    sessions: &Address<SessionsMessage>,
    call: &ToolCall,
    task: &Delegation,
    (turn_config, again): (Arc<TurnConfig>, bool),
    reply: Reply<ToolReturn>,
) {
    let (of, began) = (call.clone(), Instant::now());
    let reply = reply.map(move |ended: Result<Box<TurnOutcome>, AgentError>| timed(worked(&of, &ended, again), began));
    let (session, input) = (task.session.clone(), Arc::new(task.input.clone()));
    sessions.ask(AGAIN, reply, move |reply, _asked| SessionsMessage::Submit {
        session,
        input,
        turn_config,
        is_repeated: again,
        reply,
    });
}

/// Hands a decision to a session that works for a call and is suspended, perhaps again; answered with the outcome of its
/// turn. One that does not know the decision's question was closed meanwhile, and its outcome is read; one that cannot take
/// it now, since another process has it, asks as before.
pub(crate) fn have_resumed(
    (sessions, store): (&Address<SessionsMessage>, &Address<StoreMessage>),
    call: &Arc<ToolCall>,
    resumption: Resumption,
    turn_config: Arc<TurnConfig>,
    reply: Reply<ToolReturn>,
) {
    let (store, of, began) = (store.clone(), Arc::clone(call), Instant::now());
    let asks = resumption.not_taken();
    let Resumption { child, question: _, submission, decision, limits, tenant, parent } = resumption;
    let (session, turn) = (child.session.clone(), child.turn);
    let reply = Reply::to(move |ended: Option<Result<Box<TurnOutcome>, AgentError>>| match ended {
        Some(ended) => match resumed(&of, &ended, asks) {
            Some(returned) => reply.send(timed(returned, began)),
            None => read_outcome(&store, &of, session, turn, reply),
        },
        // Dropping the reply answers it.
        None => drop(reply),
    });
    sessions.ask(AGAIN, reply, move |reply, _asked| SessionsMessage::Resume {
        session: child.session,
        submission,
        token: child.token,
        said: ResumeReply::Decision(decision),
        parent: Some(Box::new(parent)),
        limits,
        tenant,
        turn_config,
        reply,
    });
}

/// Reads the outcome of a session that worked for a call; unknown if its turn has none.
pub(crate) fn read_outcome(
    store: &Address<StoreMessage>,
    call: &ToolCall,
    session: SessionId,
    turn: TurnId,
    reply: Reply<ToolReturn>,
) {
    let (of, id, began) = (call.clone(), session.clone(), Instant::now());
    let reply = reply.map(move |records: Result<Vec<Arc<Record>>, StoreError>| {
        let child = Session::fold(id, records.iter().flatten());
        let outcome = child.outcome_of(&turn).filter(|_| child.open.is_none());
        timed(read(&of, outcome.map(Arc::as_ref)), began)
    });
    store.ask(Again::ONCE, reply, move |reply, _asked| StoreMessage::Load { session, reply });
}

/// Answers with what a sub-agent returned, whose large parts go into the artifact store of the session that called it.
pub(crate) fn spilled(artifacts: Artifacts, session: SessionId, reply: Reply<ToolReturn>) -> Reply<ToolReturn> {
    Reply::to(move |returned: Option<ToolReturn>| match returned {
        Some(mut returned) if artifacts.would_spill(&returned.output) => {
            tokio::spawn(async move {
                returned.output = artifacts.spill(&session, returned.output).await;
                reply.send(returned);
            });
        }
        Some(returned) => reply.send(returned),
        // Dropping the reply answers it.
        None => drop(reply),
    })
}

fn timed(returned: ToolReturn, began: Instant) -> ToolReturn {
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    ToolReturn { duration_ms, ..returned }
}

fn refused(agent: &Agent, error: &AgentError) -> ToolError {
    let text = format!("the agent {} was not started: {error}", agent.name());
    if error.is_retryable() { ToolError::unavailable(text) } else { ToolError::new(text) }
}
