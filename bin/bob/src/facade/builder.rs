//! The configuration of a runtime, with defaults.

use super::agent::Agent;
use super::approvals::ApprovalPort;
use super::taped::Taped;
use bob_actors::approvals::{ApprovalMemory, Memory};
use bob_actors::child::Watcher;
use bob_actors::compactor::{Compactor, ContextCompactorPort};
use bob_actors::feed::EventSink;
use bob_actors::hooks::HookPrograms;
use bob_actors::llm::{LlmPort, RetryPolicy};
use bob_actors::model_server::{ModelServerSpec, ModelServers};
use bob_actors::models::ModelCatalogPort;
#[cfg(feature = "local-tools")]
use bob_actors::prompt_files::PromptFiles;
use bob_actors::skills::SkillPort;
use bob_actors::store::SessionStore;
#[cfg(feature = "local-tools")]
use bob_actors::tools::local::Protection;
use bob_actors::tools::{Policy, ToolHooks, ToolPort};
use bob_actors::watchdog::{BLOCKED_AFTER, Hook};
use bob_messages::ids::ModelName;
use bob_messages::limits::Limits;
#[cfg(feature = "mcp")]
use bob_messages::options::ServerSpec;
use bob_messages::permission::PermissionMode;
use bob_messages::skills::SkillRules;
use bob_messages::tenants::TenantRules;
use bob_messages::turn_config::TurnConfig;
use bob_supervisors::sessions::SessionRules;
use std::sync::Arc;
use std::time::Duration;

/// Configures a runtime. Everything but a model has a default: the memory store, the local tools, the default limits. Examples of
/// further methods are on the page of [`config`](crate::config).
///
/// ```
/// use bob::approvals::PermissionMode;
/// use bob::config::Limits;
/// use bob::events::TracingEventSink;
/// use bob::model::{ScriptedLlm, ScriptedReply};
/// use bob::store::{FileStore, StoreOptions};
/// use bob::tools::{Invocation, ToolError, tool};
/// use bob::{AgentRuntime, AgentRuntimeExt, ModelName, RuntimeBuilder};
/// use std::sync::Arc;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order {
///     number: u32,
/// }
///
/// async fn status(order: Order, _call: Invocation) -> Result<String, ToolError> {
///     Ok(format!("order {} is on its way", order.number))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// # let model = ScriptedLlm::replies(vec![
/// #     ScriptedReply::call("shop/status", serde_json::json!({"number": 7})),
/// #     ScriptedReply::text("It is on its way."),
/// # ]);
/// let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?)
///     .model(Arc::new(model))
///     .local_tools(false)
///     .tools(Arc::new(tool("shop/status", "Tells how an order is doing.", status).read_only()))
///     .store(FileStore::open(folder, StoreOptions::default())?)
///     .limits(Limits { max_steps: 8, ..Limits::default() })
///     .permission_mode(PermissionMode::Ask)
///     .sink(Arc::new(TracingEventSink::new()))
///     .build()
///     .await?;
/// assert_eq!(runtime.ask("Where is my order 7?").await?, "It is on its way.");
/// runtime.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct RuntimeBuilder {
    pub(super) turn_config: TurnConfig,
    pub(super) limits: Limits,
    pub(super) model: Option<Arc<dyn LlmPort>>,
    pub(super) tools: Vec<Arc<dyn ToolPort>>,
    pub(super) local_tools: bool,
    pub(super) store: Option<Arc<dyn SessionStore>>,
    pub(super) sinks: Vec<Arc<dyn EventSink>>,
    pub(super) policy: Policy,
    pub(super) mode: Option<PermissionMode>,
    #[cfg(feature = "local-tools")]
    pub(super) protection: Protection,
    pub(super) retry: RetryPolicy,
    pub(super) model_servers: (ModelServers, Vec<ModelServerSpec>),
    pub(super) models: Option<Arc<dyn ModelCatalogPort>>,
    pub(super) watcher: Watcher,
    #[cfg(feature = "mcp")]
    pub(super) tool_servers: Vec<ServerSpec>,
    pub(super) approvals: Option<Arc<dyn ApprovalPort>>,
    #[cfg(feature = "mcp")]
    pub(super) brought_end_after: Duration,
    #[cfg(feature = "mcp")]
    pub(super) brought_bounds: bob_supervisors::tools::brought::BroughtBounds,
    pub(super) tenants: TenantRules,
    #[cfg(feature = "mcp")]
    pub(super) server_pool: bob_supervisors::tools::brought::ServerPool,
    #[cfg(feature = "mcp")]
    pub(super) sign_ins: bob_actors::mcp::SignIns,
    #[cfg(feature = "local-tools")]
    pub(super) prompt_files: Option<PromptFiles>,
    pub(super) compactor: Compactor,
    pub(super) skills: Option<(Arc<dyn SkillPort>, SkillRules)>,
    pub(super) memory: Memory,
    pub(super) rules: SessionRules,
    pub(super) blocked_after: Duration,
    pub(super) hook: Option<Arc<dyn Hook>>,
    pub(super) tool_hooks: ToolHooks,
    pub(super) hook_programs: Option<HookPrograms>,
    pub(super) taped: Taped,
    pub(super) shutdown_grace: Duration,
    pub(super) subagents: Vec<Agent>,
    /// How many sub-agents work for one turn at a time.
    pub(super) max_parallel_subagents: usize,
}

/// Registers a bundle of things with a builder: a model, tools, a store. For libraries that extend a runtime.
///
/// ```
/// use bob::RuntimeBuilder;
/// use bob::config::AgentBootstrap;
/// use bob::tools::tool;
/// use std::sync::Arc;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Nothing {}
///
/// struct Clock;
///
/// impl AgentBootstrap for Clock {
///     fn register(&self, builder: RuntimeBuilder) -> RuntimeBuilder {
///         let now = tool("clock/now", "Tells the time.", |_: Nothing, _| async { Ok(bob::config::clock::now()) });
///         builder.tools(Arc::new(now.read_only()))
///     }
/// }
/// ```
pub trait AgentBootstrap {
    /// Adds the parts of this bundle.
    fn register(&self, builder: RuntimeBuilder) -> RuntimeBuilder;
}

impl RuntimeBuilder {
    /// A builder with this model for turns that name none.
    #[doc(alias = "with_default_model")]
    pub fn new(default_model: ModelName) -> Self {
        Self {
            turn_config: TurnConfig::new(default_model),
            limits: Limits::default(),
            model: None,
            tools: Vec::new(),
            local_tools: true,
            store: None,
            sinks: Vec::new(),
            policy: Policy::default(),
            mode: None,
            #[cfg(feature = "local-tools")]
            protection: Protection::default(),
            retry: RetryPolicy::default(),
            model_servers: (ModelServers::default(), Vec::new()),
            models: None,
            watcher: Watcher::new(),
            #[cfg(feature = "mcp")]
            tool_servers: Vec::new(),
            approvals: None,
            #[cfg(feature = "mcp")]
            brought_end_after: bob_supervisors::tools::brought::ENDS_AFTER,
            #[cfg(feature = "mcp")]
            brought_bounds: bob_supervisors::tools::brought::BroughtBounds::default(),
            tenants: TenantRules::default(),
            #[cfg(feature = "mcp")]
            server_pool: bob_supervisors::tools::brought::ServerPool::default(),
            #[cfg(feature = "mcp")]
            sign_ins: bob_actors::mcp::SignIns::default(),
            #[cfg(feature = "local-tools")]
            prompt_files: None,
            compactor: Compactor::default(),
            skills: None,
            memory: Memory::default(),
            rules: SessionRules::default(),
            blocked_after: BLOCKED_AFTER,
            hook: None,
            tool_hooks: ToolHooks::default(),
            hook_programs: None,
            taped: Taped::No,
            shutdown_grace: Duration::from_secs(2),
            subagents: Vec::new(),
            max_parallel_subagents: 4,
        }
    }

    /// Sets the model port.
    #[doc(alias = "with_llm")]
    #[must_use]
    pub fn model(mut self, model: Arc<dyn LlmPort>) -> Self {
        self.model = Some(model);
        self
    }

    /// Adds tools. May be called repeatedly.
    #[doc(alias("with_tools", "CompositeToolPort"))]
    #[must_use]
    pub fn tools(mut self, tools: Arc<dyn ToolPort>) -> Self {
        self.tools.push(tools);
        self
    }

    /// Whether the built-in local tools (files, search, shell) are offered; default `true`. A library without the
    /// feature `local-tools` has none.
    #[must_use]
    pub fn local_tools(mut self, offered: bool) -> Self {
        self.local_tools = offered;
        self
    }

    /// Sets the session store; default: in memory. Give each runtime a store of its own: to the store, two runtimes over one
    /// object are the same owner, and take sessions from each other.
    #[doc(alias = "with_store")]
    #[must_use]
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Adds a sink that sees every event of every session.
    #[doc(alias = "with_events")]
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// How turns are run: prompt layers, tool mode, history. Replaces the default model by its own.
    #[must_use]
    pub fn turn_config(mut self, turn_config: TurnConfig) -> Self {
        self.turn_config = turn_config;
        self
    }

    /// The guards of turns that bring none.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the tool policy.
    #[doc(alias = "with_policy")]
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What sessions may do without asking, unless a session or a request names a mode; instead of the policy's.
    #[must_use]
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the files that local tools do not touch without approval.
    #[cfg(feature = "local-tools")]
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

    /// Sets the workspace, which local tools and session folders must stay inside; default: the current folder. Equal
    /// to `roots` of the [`turn_config`](Self::turn_config).
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<String>) -> Self {
        self.turn_config.roots = Arc::from([folder.into()]);
        self
    }

    /// Sets the port for questions to a person. Without it, forms of tool servers are declined. A call that needs approval
    /// is denied, and no port is asked, unless the [`approvals`](super::AgentRequest::approvals) of the request are `Wait`:
    /// it waits for the port, [`decide`](super::AgentRuntime::decide) or its deadline; or `Suspend`: the turn is suspended.
    #[must_use]
    pub fn approvals(mut self, port: Arc<dyn ApprovalPort>) -> Self {
        self.approvals = Some(port);
        self
    }

    /// Files that stand before each conversation: looked up for each turn in the session's folder, then in the
    /// configuration's, and read when they changed. They replace the layers of the [`turn_config`](Self::turn_config).
    #[cfg(feature = "local-tools")]
    #[must_use]
    pub fn prompt_files(mut self, files: PromptFiles) -> Self {
        self.prompt_files = Some(files);
        self
    }

    /// Sets the summariser for histories that are too long for their model; default: the model of
    /// [`CondenseRules`](crate::config::CondenseRules), else the turn's model.
    #[must_use]
    pub fn compactor(mut self, port: Arc<dyn ContextCompactorPort>) -> Self {
        self.compactor = Compactor::new(port);
        self
    }

    /// Sets the source of skills and how those of a turn are selected; default: no skills.
    #[must_use]
    pub fn skills(mut self, port: Arc<dyn SkillPort>, rules: SkillRules) -> Self {
        self.skills = Some((port, rules));
        self
    }

    /// Sets the store of lasting decisions about tools. Without it such a decision is limited to its session.
    #[must_use]
    pub fn approval_memory(mut self, memory: Arc<dyn ApprovalMemory>) -> Self {
        self.memory = Memory::new(memory);
        self
    }

    /// The watcher, which ends the runtime's child processes even after a SIGKILL of this process.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// Maximum of concurrent turns over all sessions, at least 1; default 1,024. A turn that waits for a person
    /// counts. Further requests are queued, fairly between sessions.
    #[must_use]
    pub fn max_concurrent_turns(mut self, turns: usize) -> Self {
        self.rules.max_running_turns = turns.max(1);
        self
    }

    /// Maximum of queued requests over all sessions; default 1,000. Further requests are refused at once with
    /// `Overloaded`. A queued request is not accepted yet, has no deadline, and can be cancelled like a running turn.
    #[must_use]
    pub fn max_waiting_turns(mut self, turns: usize) -> Self {
        self.rules.max_waiting_turns = turns;
        self
    }

    /// Idle time after which a session leaves memory; default 60 s. The next request loads it from the store.
    #[must_use]
    pub fn passivate_after(mut self, idle: Duration) -> Self {
        self.rules.passivate_after = idle;
        self
    }

    /// How long running turns may continue at [`shutdown`](super::AgentRuntime::shutdown); default 2 s.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// How long a handler of an actor may block before a warning names the actor and the message, and the live tree
    /// shows it; default 100 ms, at least 1 ms.
    #[must_use]
    pub fn blocked_after(mut self, handling: Duration) -> Self {
        self.blocked_after = handling;
        self
    }

    /// Calls this hook at fixed points of every actor, for fault injection in tests.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Applies a bundle.
    #[must_use]
    pub fn bootstrap(self, bundle: &dyn AgentBootstrap) -> Self {
        bundle.register(self)
    }
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder").field("default_model", &self.turn_config.default_model).finish_non_exhaustive()
    }
}
