//! The configuration of a runtime: limits, prompts, files before a conversation, processes, and the clock.
//!
//! [`RuntimeBuilder`](crate::RuntimeBuilder) takes these types. Three examples have its methods that no other page shows. The bounds of a
//! runtime:
//!
//! ```
//! # #[cfg(feature = "local-tools")] {
//! use bob::config::{CondenseRules, TurnConfig};
//! use bob::model::{Backoff, RetryPolicy};
//! use bob::tools::{Policy, Protection};
//! use bob::{ModelName, RuntimeBuilder};
//! use std::time::Duration;
//!
//! let model = ModelName::parse("openai:gpt-4o-mini")?;
//! let turns = TurnConfig { condense: Some(CondenseRules::default()), ..TurnConfig::new(model.clone()) };
//! let builder = RuntimeBuilder::new(model)
//!     .turn_config(turns)
//!     .workspace("/srv/shop")
//!     .policy(Policy { offer_always: false, ..Policy::default() })
//!     .protection(Protection::default())
//!     .retry(RetryPolicy { max: 3, backoff: Backoff { first_ms: 200, most_ms: 10_000 } })
//!     .max_concurrent_turns(200)
//!     .max_waiting_turns(1_000)
//!     .passivate_after(Duration::from_secs(300))
//!     .shutdown_grace(Duration::from_secs(10))
//!     .blocked_after(Duration::from_secs(2));
//! # drop(builder);
//! # }
//! # Ok::<(), bob::sessions::InvalidId>(())
//! ```
//!
//! What it asks, and what works for it: a person, a summariser, skills, sub-agents, hooks.
//!
//! ```
//! # #[cfg(feature = "local-tools")] {
//! use bob::approvals::{ApprovalMemory, ApprovalPort};
//! use bob::config::{AgentBootstrap, Hook, PromptFiles};
//! use bob::model::ContextCompactorPort;
//! use bob::tools::hooks::{HookPrograms, ToolHook};
//! use bob::tools::skills::{SkillPort, SkillRules};
//! use bob::{Agent, RuntimeBuilder};
//! use std::sync::Arc;
//!
//! /// The ports of a program.
//! struct Ports {
//!     person: Arc<dyn ApprovalPort>,
//!     decisions: Arc<dyn ApprovalMemory>,
//!     summariser: Arc<dyn ContextCompactorPort>,
//!     handbook: Arc<dyn SkillPort>,
//!     rules: Arc<dyn ToolHook>,
//! }
//!
//! fn with_ports(builder: RuntimeBuilder, ports: Ports, bundle: &dyn AgentBootstrap) -> RuntimeBuilder {
//!     // Programs that are hooks end with the runtime, whose watcher they are given.
//!     let programs = HookPrograms::new(Vec::new(), builder.watcher().clone()).expect("no pattern is wrong");
//!     builder
//!         .approvals(ports.person)
//!         .approval_memory(ports.decisions)
//!         .compactor(ports.summariser)
//!         .skills(ports.handbook, SkillRules::default())
//!         .prompt_files(PromptFiles::default())
//!         .tool_hook(ports.rules)
//!         .hook_programs(programs)
//!         .subagent(Agent::new("researcher").instructions("You answer from the files of the workspace."))
//!         .max_parallel_subagents(4)
//!         .bootstrap(bundle)
//! }
//!
//! /// For a test that lets actors fail.
//! fn with_faults(builder: RuntimeBuilder, faults: Arc<dyn Hook>) -> RuntimeBuilder {
//!     builder.hook(faults)
//! }
//! # }
//! ```
//!
//! What it starts: tool servers, and servers of local models.
//!
//! ```
//! # #[cfg(feature = "mcp")] {
//! use bob::RuntimeBuilder;
//! use bob::model::server::{ModelServerSpec, ModelServers};
//! use bob::tools::servers::{ServerSpec, SignIns};
//! use std::time::Duration;
//!
//! fn with_servers(builder: RuntimeBuilder, notes: ServerSpec, local: Vec<ModelServerSpec>) -> RuntimeBuilder {
//!     builder
//!         .tool_server(notes)
//!         // Processes of servers that each tenant or session has for itself.
//!         .server_pool(Duration::from_secs(600), 64)
//!         // Servers that sessions bring.
//!         .brought_servers_at_most(32, 4)
//!         .brought_servers_end_after(Duration::from_secs(600))
//!         .sign_ins(SignIns::default())
//!         .model_servers(ModelServers::default(), local)
//! }
//! # }
//! ```

pub use crate::facade::AgentBootstrap;
pub use bob_actors::child::{ChildSpec, OnLine, Stdin, Stdout, Watcher, reap_orphans};
pub use bob_actors::clock;
#[cfg(feature = "local-tools")]
pub use bob_actors::prompt_files::{PROJECT_FILES, PromptFiles, PromptReader};
/// Called at fixed points of every actor, for [`RuntimeBuilder::hook`](crate::RuntimeBuilder::hook).
///
/// ```
/// use bob::config::{ActorPath, Hook};
/// use std::error::Error;
///
/// /// Lets every append to the store fail.
/// #[derive(Debug)]
/// struct BrokenStore;
///
/// impl Hook for BrokenStore {
///     fn before(&self, path: &ActorPath, kind: &'static str) -> Result<(), Box<dyn Error + Send + Sync>> {
///         match (path.to_string().as_str(), kind) {
///             ("store", "Append") => Err("injected".into()),
///             _ => Ok(()),
///         }
///     }
///
///     fn after(&self, _: &ActorPath, _: &'static str) -> Result<(), Box<dyn Error + Send + Sync>> {
///         Ok(())
///     }
///
///     fn effect(&self, _: &ActorPath, _: &'static str, _: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
///         Ok(())
///     }
/// }
/// ```
pub use bob_actors::watchdog::Hook;
pub use bob_actors::watchdog::{ActorPath, Kill};
pub use bob_messages::Millis;
pub use bob_messages::limits::{Left, Limits};
pub use bob_messages::turn_config::{CondenseRules, OnRestart, PromptLayers, TurnConfig};
pub use bob_supervisors::StartError;
pub use secrecy::SecretString;
