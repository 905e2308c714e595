//! What a call of a sub-agent hands down, and the session that works for it.
//!
//! A child has no more than its caller: its tools are those that both have, its mode is the narrower one, its folders are
//! its caller's, and its limits are a share of what its caller's turn has left. Its session and its turn are named after
//! the call, so a call that is repeated after a crash finds the turn that it began.

use super::{Agent, MAX_DEPTH, TaskContext};
use crate::Millis;
use crate::approvals::{ApprovalsMode, Decision};
use crate::chat::{Asking, ContentPart, ToolCall, ToolOutput};
use crate::cost::Cost;
use crate::ids::{CallId, ModelName, RequestId, ResumeToken, SessionId, TenantId, TurnId};
use crate::input::TurnInput;
use crate::limits::{Left, Limits};
use crate::options::{OnParentEnd, ParentTurn, SessionOptions};
use crate::permission::PermissionMode;
use crate::skills::matches;
use crate::tools::{AgentLine, CallContext, ChildTerms, ToolSet};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many bytes of a caller's session id the id of a child begins with.
const NAMED_AFTER_BYTES: usize = 80;

/// The turn that calls a sub-agent, as far as its child depends on it.
#[derive(Debug)]
pub struct Caller<'a> {
    /// The agents above and with the session.
    pub line: AgentLine,
    /// The limits of the turn.
    pub limits: &'a Limits,
    /// What is left of them, without what children that still run may use.
    pub left: Left,
    /// What is left together with what the children of the same step may use.
    pub whole: Left,
    /// How many calls of agents in the step have no child yet, with this one: what is left is for all of them.
    pub among: u32,
    /// The tools of the turn.
    pub tools: &'a ToolSet,
    /// The names or patterns the turn is limited to.
    pub allow: Option<&'a Arc<[String]>>,
    /// The model of the turn.
    pub model: &'a ModelName,
    /// Whether a person is waiting for the turn.
    pub interactive: bool,
}

impl AgentLine {
    /// The line of a session with these options.
    pub fn of(options: &SessionOptions) -> Self {
        let line = options.parent.as_ref().and_then(|parent| parent.line.as_deref());
        let depth = options.parent.as_ref().map_or(0, |parent| parent.depth);
        line.cloned().unwrap_or_else(|| Self {
            agents: options.agent.iter().cloned().collect(),
            levels: MAX_DEPTH.saturating_sub(depth),
        })
    }

    /// Why an agent cannot be called from here; `None`: it can.
    pub fn refuses(&self, agent: &Agent) -> Option<String> {
        let name = agent.name();
        if self.agents.iter().any(|above| above == name) {
            return Some(format!("the agent {name} works on this already, and does not call itself; do it yourself"));
        }
        let too_deep = || format!("no agent may work below this one, so {name} cannot be called; do it yourself");
        (self.levels == 0).then(too_deep)
    }
}

impl Agent {
    /// Decides what a call hands down.
    ///
    /// # Errors
    /// Why the agent cannot be called, for the model.
    #[doc(hidden)]
    pub fn terms(&self, caller: Caller<'_>, told: impl FnOnce() -> Option<Arc<str>>) -> Result<ChildTerms, String> {
        let Caller { line, limits, left, whole, among, tools, allow, model, interactive } = caller;
        if let Some(why) = line.refuses(self) {
            return Err(why);
        }
        let bounds = self.bounds();
        let part = |of: u64| of.saturating_mul(u64::from(bounds.budget_percent.min(100))) / 100;
        // Of what is needed for an answer the caller keeps an eighth, since several calls could use all of it.
        let is_alone = among <= 1 && left == whole;
        let kept = |whole: u64| if is_alone { 0 } else { whole.div_ceil(8) };
        let share_of = |whole: u64, left: u64| part(whole).min(left / u64::from(among.max(1)));
        let share = |whole: u64, left: u64| share_of(whole, left.saturating_sub(kept(whole)));
        let count = |share: u64, own: Option<u32>| {
            let share = u32::try_from(share).unwrap_or(u32::MAX);
            own.map_or(share, |own| own.min(share))
        };
        let time_ms = bounds.timeout_ms.map_or(part(left.time_ms), |own| own.min(part(left.time_ms)));
        let limits = Limits {
            max_steps: count(share(whole.steps.into(), left.steps.into()), bounds.max_steps),
            max_tool_calls: count(share_of(whole.tool_calls.into(), left.tool_calls.into()), bounds.max_tool_calls),
            // 0 is no bound.
            max_total_tokens: left.tokens.map_or(0, |left| share(whole.tokens.unwrap_or(left), left)),
            // Nothing is no bound.
            max_cost: left
                .cost
                .map_or(Cost::ZERO, |left| Cost::from_nanos(share(whole.cost.unwrap_or(left).nanos(), left.nanos()))),
            turn_timeout_ms: time_ms,
            ..*limits
        };
        let too_little = |what: &str| {
            let name = self.name();
            Err(format!("the turn has too few {what} left to give the agent {name} any; do it yourself"))
        };
        match limits {
            Limits { max_steps: 0, .. } => return too_little("model calls"),
            // One that needs none says so.
            Limits { max_tool_calls: 0, .. } if bounds.max_tool_calls != Some(0) && self.has_tools() => {
                return too_little("tool calls");
            }
            Limits { max_total_tokens: 0, .. } if left.tokens.is_some() => return too_little("tokens"),
            Limits { max_cost: Cost::ZERO, .. } if left.cost.is_some() => {
                return Err(format!(
                    "the turn has too little money left to give the agent {} any; do it yourself",
                    self.name()
                ));
            }
            Limits { turn_timeout_ms: 0, .. } => return too_little("milliseconds"),
            _enough => {}
        }
        let mut agents = line.agents;
        agents.push(self.name.clone());
        Ok(ChildTerms {
            limits,
            allow: self.allowed_of(tools, allow),
            line: Arc::new(AgentLine { agents, levels: bounds.max_depth.min(line.levels - 1) }),
            model: self.model.as_ref().unwrap_or(model).clone(),
            interactive,
            told: if bounds.context == TaskContext::Summary { told() } else { None },
        })
    }

    fn has_tools(&self) -> bool {
        self.tools.as_ref().is_none_or(|names| !names.is_empty())
    }

    /// The tools that both have. Two lists of patterns have no common one, so those of the turn are listed by name.
    fn allowed_of(&self, tools: &ToolSet, allow: Option<&Arc<[String]>>) -> Option<Arc<[String]>> {
        let (own, callers) = match (&self.tools, allow) {
            (None, callers) => return callers.cloned(),
            (Some(own), None) => return Some(Arc::clone(own)),
            (Some(own), Some(callers)) => (own, callers),
        };
        let fits = |patterns: &[String], name: &str| patterns.iter().any(|pattern| matches(pattern, name));
        let names = tools.tools().iter().map(|tool| tool.id.as_str());
        Some(names.filter(|name| fits(own, name) && fits(callers, name)).map(str::to_owned).collect())
    }
}

/// The arguments of a call of an agent.
#[derive(Debug, Deserialize)]
struct Task {
    task: String,
    #[serde(default)]
    context: Option<String>,
}

/// A session that works for a call, and its input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delegation {
    /// The session.
    pub session: SessionId,
    /// Its input.
    pub input: TurnInput,
}

impl Delegation {
    /// The child of this call; `unsaid` is the mode of callers that have none, `token` the secret of its turn.
    ///
    /// # Errors
    /// Why there is none; its text is for the model.
    pub fn of(
        agent: &Agent,
        call: &ToolCall,
        context: &CallContext,
        unsaid: PermissionMode,
        (at, token): (Millis, ResumeToken),
    ) -> Result<Self, DelegationError> {
        let terms = context.child.as_ref().ok_or(DelegationError::NoTurn)?;
        let task = Task::deserialize(&*call.arguments);
        let task = task.map_err(|error| DelegationError::Arguments(error.to_string()))?;
        let named = named_after(&context.session, &context.turn, &call.id);
        let (session, turn) = named.ok_or(DelegationError::NoName)?;
        let options = SessionOptions {
            tenant: context.context.as_ref().and_then(|context| context.tenant.clone()),
            cwd: context.roots.first().cloned(),
            roots: context.roots.iter().skip(1).cloned().collect(),
            model: Some(terms.model.clone()),
            allow_tools: terms.allow.clone(),
            mode: Some(agent.mode_within(context.mode.unwrap_or(unsaid))),
            parent: Some(ParentTurn { on_parent_end: agent.background(), ..ParentTurn::of(context, &call.id) }),
            ..agent.options()
        };
        let approvals = match context.approvals {
            // No call waits for one in the background, so it would suspend nothing else.
            ApprovalsMode::Suspend if agent.background().is_some() => ApprovalsMode::Deny,
            approvals => approvals,
        };
        let input = TurnInput {
            request_id: Some(RequestId::new(context.idempotency_key(&call.id))),
            at,
            context: context.context.clone(),
            approvals,
            limits: terms.limits,
            options: Some(Arc::new(options)),
            traceparent: Some(context.call_traceparent(&call.id)),
            tracestate: context.tracestate.clone(),
            interactive: terms.interactive,
            ..TurnInput::bare(turn, token, vec![ContentPart::text(task.text(terms.told.as_deref()))])
        };
        Ok(Self { session, input })
    }
}

/// Why an agent cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DelegationError {
    /// The context of the call is not that of a turn of a runtime or of a runner.
    #[error("an agent is called by a turn of a runtime or of a runner only")]
    NoTurn,
    /// The arguments are not those of a task; the reason.
    #[error("the arguments do not fit: {0}")]
    Arguments(String),
    /// The session of the call could have no name: ids of a foreign journal.
    #[error("the call has no name that a session could have")]
    NoName,
}

/// A decision for a session that works for a call and is suspended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumption {
    /// The session.
    pub child: Asking,
    /// The question that was decided, for people.
    pub question: String,
    /// The name of the submission, which follows from the one that brought the decision; the session takes it once.
    pub submission: TurnId,
    /// The decision.
    pub decision: Decision,
    /// What the session may use in all; its time begins anew.
    pub limits: Limits,
    /// The tenant of the session.
    pub tenant: Option<TenantId>,
    /// The call.
    pub parent: ParentTurn,
}

impl Resumption {
    /// The output of the call while the session has not taken the decision: it asks as before.
    pub fn not_taken(&self) -> ToolOutput {
        self.child.output(&self.question)
    }
}

impl Delegation {
    /// Makes a child in the background end with the turn that calls it.
    pub(crate) fn end_with_caller(&mut self) {
        let parent = self.input.options.as_mut().and_then(|options| Arc::make_mut(options).parent.as_mut());
        if let Some(parent) = parent {
            parent.on_parent_end = Some(OnParentEnd::Cancel);
        }
    }
}

impl Task {
    fn text(self, told: Option<&str>) -> String {
        let mut text = self.task;
        for (title, more) in [("Context:", self.context.as_deref()), ("The conversation so far, in short:", told)] {
            if let Some(more) = more.filter(|more| !more.trim().is_empty()) {
                text = format!("{text}\n\n{title}\n{more}");
            }
        }
        text
    }
}

/// The session that works for a call: the same one whenever the call is made again.
pub fn session_of(session: &SessionId, turn: &TurnId, call: &CallId) -> Option<SessionId> {
    named_after(session, turn, call).map(|(child, _)| child)
}

/// The session that works for a call, and its turn.
pub fn child_of(session: &SessionId, turn: &TurnId, call: &CallId) -> Option<(SessionId, TurnId)> {
    named_after(session, turn, call)
}

/// How the names of all sessions begin that work for calls in this one, and for calls in those.
pub fn name_below(session: &SessionId) -> &str {
    let name = session.as_str();
    &name[..name.len().min(NAMED_AFTER_BYTES)]
}

/// Whether the session of this name works for a call of an agent in that one: programs may have sessions work for others,
/// too, under names of their own.
pub(crate) fn is_named_after(session: &SessionId, child: &SessionId) -> bool {
    let name = child.as_str().strip_prefix(name_below(session));
    let hash = name.and_then(|name| name.strip_prefix('.')?.rsplit_once('-')).map(|(_, hash)| hash);
    hash.is_some_and(|hash| hash.len() == 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn named_after(session: &SessionId, turn: &TurnId, call: &CallId) -> Option<(SessionId, TurnId)> {
    let hash = blake3::hash(format!("{session}/{turn}/{call}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    // A UUID whose content is its maker's own: version 8.
    (bytes[6], bytes[8]) = (bytes[6] & 0x0f | 0x80, bytes[8] & 0x3f | 0x80);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let turn = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    let above = name_below(session);
    // Ids of calls are letters and digits; those of a foreign journal may be anything.
    let number: String = call.as_str().chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    let session = SessionId::parse(&format!("{above}.{number}-{}", &hex[..12])).ok()?;
    Some((session, TurnId::new(turn)))
}
