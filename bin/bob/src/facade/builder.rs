//! Builds a runtime: what it is given, with a default for the rest.

use super::approvals::ApprovalPort;
use super::taped::Taped;
use bob_actors::child::Watcher;
use bob_actors::compactor::{Compactor, ContextCompactorPort};
use bob_actors::feed::EventSink;
use bob_actors::llm::{LlmPort, RetryPolicy};
use bob_actors::model_server::{ModelServerSpec, ModelServers};
use bob_actors::people::{ApprovalMemory, Memory};
use bob_actors::prompt_files::PromptFiles;
use bob_actors::skills::SkillPort;
use bob_actors::store::SessionStore;
use bob_actors::tools::local::Protection;
use bob_actors::tools::{Policy, ToolPort};
use bob_actors::watchdog::{BLOCKED_AFTER, Hook};
use bob_messages::brief::Brief;
use bob_messages::ids::ModelName;
use bob_messages::limits::Limits;
#[cfg(feature = "mcp")]
use bob_messages::options::ServerSpec;
use bob_messages::skills::SkillRules;
use bob_supervisors::sessions::SessionRules;
use std::sync::Arc;
use std::time::Duration;

/// What a runtime is made of. Everything but a model has a default: the memory
/// store, the local tools, the guards of the specification.
pub struct RuntimeBuilder {
    pub(super) brief: Brief,
    pub(super) limits: Limits,
    pub(super) model: Option<Arc<dyn LlmPort>>,
    pub(super) tools: Vec<Arc<dyn ToolPort>>,
    pub(super) local_tools: bool,
    pub(super) store: Option<Arc<dyn SessionStore>>,
    pub(super) sinks: Vec<Arc<dyn EventSink>>,
    pub(super) policy: Policy,
    pub(super) protection: Protection,
    pub(super) retry: RetryPolicy,
    pub(super) model_servers: (ModelServers, Vec<ModelServerSpec>),
    pub(super) watcher: Watcher,
    #[cfg(feature = "mcp")]
    pub(super) tool_servers: Vec<ServerSpec>,
    pub(super) approvals: Option<Arc<dyn ApprovalPort>>,
    #[cfg(feature = "mcp")]
    pub(super) brought_end_after: Duration,
    #[cfg(feature = "mcp")]
    pub(super) brought_bounds: bob_supervisors::tools::brought::BroughtBounds,
    pub(super) prompt_files: Option<PromptFiles>,
    pub(super) compactor: Compactor,
    pub(super) skills: Option<(Arc<dyn SkillPort>, SkillRules)>,
    pub(super) memory: Memory,
    pub(super) rules: SessionRules,
    pub(super) blocked_after: Duration,
    pub(super) hook: Option<Arc<dyn Hook>>,
    pub(super) taped: Taped,
    pub(super) shutdown_grace: Duration,
}

/// Registers a bundle of things with a builder before `build` freezes it: a model,
/// tools, a store. For libraries that extend a runtime.
pub trait AgentBootstrap {
    /// Adds what this bundle brings.
    fn register(&self, builder: RuntimeBuilder) -> RuntimeBuilder;
}

impl RuntimeBuilder {
    /// A builder with this model for turns that name none.
    pub fn new(default_model: ModelName) -> Self {
        Self {
            brief: Brief::new(default_model),
            limits: Limits::default(),
            model: None,
            tools: Vec::new(),
            local_tools: true,
            store: None,
            sinks: Vec::new(),
            policy: Policy::default(),
            protection: Protection::default(),
            retry: RetryPolicy::default(),
            model_servers: (ModelServers::default(), Vec::new()),
            watcher: Watcher::new(),
            #[cfg(feature = "mcp")]
            tool_servers: Vec::new(),
            approvals: None,
            #[cfg(feature = "mcp")]
            brought_end_after: bob_supervisors::tools::brought::ENDS_AFTER,
            #[cfg(feature = "mcp")]
            brought_bounds: bob_supervisors::tools::brought::BroughtBounds::default(),
            prompt_files: None,
            compactor: Compactor::default(),
            skills: None,
            memory: Memory::default(),
            rules: SessionRules::default(),
            blocked_after: BLOCKED_AFTER,
            hook: None,
            taped: Taped::No,
            shutdown_grace: Duration::from_secs(2),
        }
    }

    /// Where models are asked.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn LlmPort>) -> Self {
        self.model = Some(model);
        self
    }

    /// Adds tools. May be called repeatedly.
    #[must_use]
    pub fn tools(mut self, tools: Arc<dyn ToolPort>) -> Self {
        self.tools.push(tools);
        self
    }

    /// Whether Bob's own tools (files, search, shell) are offered; true unless said otherwise.
    #[must_use]
    pub fn local_tools(mut self, offered: bool) -> Self {
        self.local_tools = offered;
        self
    }

    /// Where sessions are kept; in memory unless said otherwise.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Adds a sink that sees every event of every session.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// How turns are run: prompt layers, tool mode, history. Replaces the default
    /// model by the brief's.
    #[must_use]
    pub fn brief(mut self, brief: Brief) -> Self {
        self.brief = brief;
        self
    }

    /// The guards of turns that bring none.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What tools may do.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Which files the local tools keep their hands off unless a person says otherwise.
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// How model calls are repeated.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Local model servers to be supervised: where the port finds them, and how each
    /// is started. Make the specs with [`watcher`](Self::watcher).
    #[must_use]
    pub fn model_servers(mut self, servers: ModelServers, specs: Vec<ModelServerSpec>) -> Self {
        self.model_servers = (servers, specs);
        self
    }

    /// Adds a tool server. It is started with the runtime, or on first use when its
    /// spec says so; its tools are named `mcp/<id>/<tool>`. May be called repeatedly.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn tool_server(mut self, spec: ServerSpec) -> Self {
        self.tool_servers.push(spec);
        self
    }

    /// The folder that local tools and the folders of sessions stay inside; the current folder
    /// unless said otherwise. The same as `roots` of the [`brief`](Self::brief).
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<String>) -> Self {
        self.brief.roots = Arc::from([folder.into()]);
        self
    }

    /// How long a tool server that sessions brought stays after the last of them was closed; ten
    /// minutes unless said otherwise.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn brought_servers_end_after(mut self, unused: Duration) -> Self {
        self.brought_end_after = unused;
        self
    }

    /// How many different tool servers sessions may bring: `runtime` of all that are there, `session` that one names at a
    /// time; 64 and 16 unless said otherwise. One more is refused by name, and nothing of it is started.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn brought_servers_at_most(mut self, runtime: usize, session: usize) -> Self {
        self.brought_bounds = bob_supervisors::tools::brought::BroughtBounds { runtime, session };
        self
    }

    /// Who answers what only a person can say. Without it, whatever tool servers ask
    /// is declined, and a call that waits for a person waits for
    /// [`decide`](super::AgentRuntime::decide) or its time.
    #[must_use]
    pub fn approvals(mut self, port: Arc<dyn ApprovalPort>) -> Self {
        self.approvals = Some(port);
        self
    }

    /// Files that stand before each conversation: looked up for each turn in the session's
    /// folder, then in the configuration's, and read when they changed. Their texts stand
    /// in for the layers of the [`brief`](Self::brief).
    #[must_use]
    pub fn prompt_files(mut self, files: PromptFiles) -> Self {
        self.prompt_files = Some(files);
        self
    }

    /// Who writes the summary when a history became too long for its model; without one the
    /// model of [`CondenseRules`](bob_messages::brief::CondenseRules), else the turn's own.
    #[must_use]
    pub fn compactor(mut self, port: Arc<dyn ContextCompactorPort>) -> Self {
        self.compactor = Compactor::new(port);
        self
    }

    /// Where skills come from, and how those of a turn are chosen. Without it nobody is
    /// asked for any.
    #[must_use]
    pub fn skills(mut self, port: Arc<dyn SkillPort>, rules: SkillRules) -> Self {
        self.skills = Some((port, rules));
        self
    }

    /// Keeps what people decide about tools for good. Without it such a decision holds in
    /// its session, and is asked for again in others.
    #[must_use]
    pub fn approval_memory(mut self, memory: Arc<dyn ApprovalMemory>) -> Self {
        self.memory = Memory::new(memory);
        self
    }

    /// What ends the runtime's child processes even after a SIGKILL of this process.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// How many turns run at once in all sessions together, at least 1; 1,024 unless said
    /// otherwise. A turn that waits for a person runs, too. Further requests wait for their
    /// turn, and sessions that wait take turns.
    #[must_use]
    pub fn max_concurrent_turns(mut self, turns: usize) -> Self {
        self.rules.max_running_turns = turns.max(1);
        self
    }

    /// How many requests of all sessions together wait for that; 1,000 unless said
    /// otherwise. One more is refused at once with `Overloaded`. What waits is not accepted
    /// yet, has no clock, and can be cancelled like a running turn.
    #[must_use]
    pub fn max_waiting_turns(mut self, turns: usize) -> Self {
        self.rules.max_waiting_turns = turns;
        self
    }

    /// How long after its last turn a session leaves memory; 60 s unless said otherwise.
    /// The next request brings it back from the store.
    #[must_use]
    pub fn passivate_after(mut self, idle: Duration) -> Self {
        self.rules.passivate_after = idle;
        self
    }

    /// How long running turns may go on at [`shutdown`](super::AgentRuntime::shutdown); 2 s
    /// unless said otherwise.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// How long a handler of an actor may take before it is said to block: a warning names
    /// the actor and the message, and the live tree shows it. 100 ms unless said otherwise,
    /// at least 1 ms.
    #[must_use]
    pub fn blocked_after(mut self, handling: Duration) -> Self {
        self.blocked_after = handling;
        self
    }

    /// Calls this at fixed points of every actor, for fault injection in tests. A program that serves people has no
    /// use for it.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Lets a bundle register what it brings.
    #[must_use]
    pub fn bootstrap(self, bundle: &dyn AgentBootstrap) -> Self {
        bundle.register(self)
    }
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder").field("default_model", &self.brief.default_model).finish_non_exhaustive()
    }
}
