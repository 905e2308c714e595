//! The request of a turn that is run step by step.

use bob_actors::tools::Policy;
use bob_messages::agent::{Agent, Delegation};
use bob_messages::chat::ContentPart;
use bob_messages::context::RequestContext;
use bob_messages::ids::{ModelName, SessionId};
use bob_messages::input::TurnInput;
use bob_messages::limits::Limits;
use bob_messages::permission::PermissionMode;
use bob_messages::store::Record;
use bob_messages::tools::ToolDescriptor;
use bob_messages::turn_config::TurnConfig;
use std::sync::Arc;

/// One turn to be run step by step.
#[doc(alias = "RunnerContext")]
#[derive(Debug, Clone)]
pub struct RunnerRequest {
    pub(super) session: SessionId,
    pub(super) input: Vec<ContentPart>,
    pub(super) turn_config: TurnConfig,
    pub(super) tools: Vec<ToolDescriptor>,
    pub(super) policy: Policy,
    pub(super) limits: Limits,
    pub(super) mode: Option<PermissionMode>,
    pub(super) context: Option<Arc<RequestContext>>,
    pub(super) journal: Vec<Arc<Record>>,
    pub(super) agents: Vec<Agent>,
    /// The input that a call of an agent makes for its child, whose names and options it has.
    pub(super) works_for: Option<Box<TurnInput>>,
}

impl RunnerRequest {
    /// A message of one text to this model, in a new session, without tools.
    pub fn text(session: SessionId, model: ModelName, text: impl Into<String>) -> Self {
        Self {
            session,
            input: vec![ContentPart::text(text)],
            turn_config: TurnConfig::new(model),
            tools: Vec::new(),
            policy: Policy::default(),
            limits: Limits::default(),
            mode: None,
            context: None,
            journal: Vec::new(),
            agents: Vec::new(),
            works_for: None,
        }
    }

    /// The turn of a child, which is run as that of its caller: with these tools, which its options narrow, and these rules.
    pub(super) fn of(child: &Delegation, turn_config: &TurnConfig, tools: &[ToolDescriptor], policy: &Policy) -> Self {
        let Delegation { session, input } = child.clone();
        let model = input.options.as_ref().and_then(|options| options.model.clone());
        let default_model = model.unwrap_or_else(|| turn_config.default_model.clone());
        Self {
            session,
            input: input.parts.clone(),
            turn_config: TurnConfig { default_model, ..turn_config.clone() },
            tools: tools.to_vec(),
            policy: policy.clone(),
            limits: input.limits,
            mode: None,
            context: input.context.clone(),
            journal: Vec::new(),
            agents: Vec::new(),
            works_for: Some(Box::new(input)),
        }
    }

    /// Sets the user's message as content parts.
    #[must_use]
    pub fn input(self, input: Vec<ContentPart>) -> Self {
        Self { input, ..self }
    }

    /// How turns are run: instructions, tool mode, history. Its model is the turn's.
    #[must_use]
    pub fn turn_config(self, turn_config: TurnConfig) -> Self {
        Self { turn_config, ..self }
    }

    /// Sets the tools to offer; the caller of the runner runs them.
    #[must_use]
    pub fn tools(self, tools: Vec<ToolDescriptor>) -> Self {
        Self { tools, ..self }
    }

    /// Offers these sub-agents, each as the tool `agent/NAME`, in the rules of a runtime. One that works in the background in a
    /// runtime works [inline](Agent::inline) here: its call waits for it, since nothing runs beside a runner.
    #[must_use]
    pub fn subagents(self, agents: impl IntoIterator<Item = Agent>) -> Self {
        Self { agents: agents.into_iter().collect(), ..self }
    }

    /// The rules over the tools.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// The guards of the turn.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// What the turn may do without asking, instead of the policy's mode.
    #[must_use]
    pub fn mode(self, mode: PermissionMode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Sets the context: on whose behalf the turn is run. The model is given it, and the record of the input.
    #[must_use]
    pub fn context(self, context: impl Into<Arc<RequestContext>>) -> Self {
        Self { context: Some(context.into()), ..self }
    }

    /// Sets the session's journal, to continue a session.
    #[must_use]
    pub fn journal(self, journal: Vec<Arc<Record>>) -> Self {
        Self { journal, ..self }
    }
}
