//! Builds a running runtime from a [`RuntimeBuilder`].

use super::agent_runtime::AgentRuntime;
use super::builder::RuntimeBuilder;
use super::models::Models;
use super::runtime::{Inner, Runtime};
use bob_actors::approvals::Approver;
use bob_actors::feed::Feed;
use bob_actors::llm::{self, LlmPort};
use bob_actors::models::Catalogued;
#[cfg(feature = "local-tools")]
use bob_actors::prompt_files::PromptReader;
use bob_actors::rooms::Rooms;
use bob_actors::store::MemoryStore;
use bob_actors::tenants::Tenants;
use bob_actors::tools::ToolHooks;
use bob_actors::tools::agents::Agents;
#[cfg(feature = "local-tools")]
use bob_actors::tools::local;
use bob_actors::tools::{caught, read_artifact, use_skill};
use bob_actors::watchdog::Watchdog;
use bob_messages::turn_config::TurnConfig;
use bob_supervisors::sessions;
#[cfg(not(feature = "mcp"))]
use bob_supervisors::tools::DesiredServers;
#[cfg(feature = "mcp")]
use bob_supervisors::tools::servers::{Surroundings, ToolServers};
use bob_supervisors::{StartError, TreeSpec, model_server, models};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

/// Why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No model was given.
    #[error("no model was given: call RuntimeBuilder::model first")]
    NoModel,
    /// The tree of actors did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The list of tool servers is invalid: a duplicate or invalid id.
    #[error("{0}")]
    ToolServers(String),
    /// The list of sub-agents is invalid: a duplicate or unusable name.
    #[error("{0}")]
    SubAgents(String),
    /// A required tool server did not start; contains the reason and the end of its stderr.
    #[error("a required tool server is not available: {0}")]
    RequiredServer(String),
}

impl RuntimeBuilder {
    /// Starts the tree of actors. Waits only for required tool servers, each at most its startup timeout. Dropping
    /// the future stops what it has started.
    ///
    /// # Errors
    /// Returns an error if no model was given, if two tools or two tool servers have one name, or if an actor or a
    /// required tool server does not start; actors that were started are stopped.
    pub async fn build(self) -> Result<Runtime, BuildError> {
        let mut builder = self;
        builder.policy.mode = builder.mode.or(builder.policy.mode);
        let rooms = Rooms::default();
        if builder.local_tools && !builder.taped.is_replay() {
            builder.add_local_tools(&rooms);
        }
        let agents = builder.add_subagents(&rooms)?;
        builder.hooked().on_tape().start(rooms, agents).await
    }

    #[cfg(feature = "local-tools")]
    fn add_local_tools(&mut self, rooms: &Rooms) {
        self.tools.splice(0..0, local::tools(&self.watcher, &self.protection, &self.policy, &rooms.background));
    }

    #[cfg(not(feature = "local-tools"))]
    fn add_local_tools(&mut self, _rooms: &Rooms) {}

    /// Puts the hooks in front of the tools of this process. In a replay nothing is asked: what they said is on the tape.
    fn hooked(mut self) -> Self {
        if self.taped.is_replay() {
            (self.tool_hooks, self.hook_programs) = (ToolHooks::default(), None);
        }
        if let Some(programs) = &self.hook_programs {
            self.tool_hooks.push(Arc::new(programs.clone()));
            self.sinks.push(Arc::new(programs.clone()));
        }
        self.tools = self.tools.into_iter().map(|tools| self.tool_hooks.around(tools)).collect();
        self
    }

    async fn start(mut self, rooms: Rooms, agents: Option<Agents>) -> Result<Runtime, BuildError> {
        let store = self.store.take().unwrap_or_else(|| MemoryStore::new());
        let is_shared = !store.is_of_one_process();
        if store.artifacts().is_some() {
            // Also of a replay: its large results are put into its own store.
            let reader = read_artifact(rooms.tools.runtime().artifacts().clone());
            self.tools.push(self.tool_hooks.around(Arc::new(reader)));
        }
        let model = self.model.ok_or(BuildError::NoModel)?;
        let catalogue = self.models.map(bob_actors::models::caught);
        let model: Arc<dyn LlmPort> = match &catalogue {
            Some(catalogue) => Arc::new(Catalogued::new(model, Arc::clone(catalogue))),
            None => model,
        };
        let model = llm::caught(model);
        if self.skills.is_some() {
            self.tools.push(self.tool_hooks.around(Arc::new(use_skill())));
        }
        // The actor of the tools catches the panics of its own.
        let (tools, ports) = (self.tools.clone(), self.tools.into_iter().map(caught).collect::<Vec<_>>());
        let approver = self.approvals.clone().map(Approver::new).unwrap_or_default();
        let mut turn_config = TurnConfig { reads_files: false, ..self.turn_config };
        turn_config.offer_always &= self.policy.offer_always;
        #[cfg(feature = "local-tools")]
        let prompt_files = {
            turn_config.reads_files = self.prompt_files.is_some();
            self.prompt_files.map(PromptReader::new).unwrap_or_default()
        };
        let rooms = Rooms {
            approver,
            memory: self.memory,
            #[cfg(feature = "local-tools")]
            prompt_files,
            compactor: self.compactor,
            watchdog: Watchdog::with_hook(self.hook),
            tenants: Tenants::limited_by(self.tenants),
            ..rooms
        };
        let feed = Feed::new(self.sinks);
        rooms.watchdog.watch(self.blocked_after);
        if let Some((port, rules)) = self.skills {
            rooms.skills.come_from(port);
            turn_config.skills = Some(rules);
        }
        #[cfg(feature = "mcp")]
        let tool_servers = {
            let surroundings = Surroundings {
                registry: rooms.tools.clone(),
                watchdog: rooms.watchdog.clone(),
                feed: Arc::clone(&feed),
                metrics: Arc::clone(&rooms.metrics),
                policy: self.policy.clone(),
                watcher: self.watcher.clone(),
                brought_end_after: self.brought_end_after,
                brought_bounds: self.brought_bounds,
                pool: self.server_pool,
                elicit: self.approvals,
                sign_ins: self.sign_ins,
                recorder: self.taped.recorder(),
                hooks: self.tool_hooks,
                is_replay: self.taped.is_replay(),
            };
            ToolServers::new(surroundings, self.tool_servers)
                .map_err(|error| BuildError::ToolServers(error.to_string()))?
        };
        #[cfg(feature = "mcp")]
        tool_servers.offer_isolated();
        #[cfg(feature = "mcp")]
        let desired = tool_servers.desired();
        #[cfg(not(feature = "mcp"))]
        let desired = DesiredServers::default();
        // Session folders are compared with these paths; symbolic links must not make that fail.
        let roots = turn_config.roots.iter().map(|root| absolute(root)).collect();
        let (servers, specs) = self.model_servers;
        let rooms = Rooms { model_servers: servers.clone(), ..rooms };
        let spec = TreeSpec {
            sessions: sessions::child(&rooms, &feed, self.rules),
            further: models::child(&rooms, catalogue.as_ref().and_then(|catalogue| catalogue.refreshed_facts()))
                .into_iter()
                .chain(specs.into_iter().filter_map(|spec| model_server::child(&servers, spec)))
                .collect(),
            rooms,
            feed,
            store,
            llm: Arc::clone(&model),
            retry: self.retry,
            tools,
            policy: self.policy,
            servers: desired,
        };
        let turn_config = Arc::new(TurnConfig { roots, ..turn_config });
        if let Some(agents) = agents {
            // Made from another configuration, so it has a catalogue of its own that remembers the last one made.
            let models = catalogue.clone().map(Models::new);
            let plain = Arc::new(Agents::of_children(&turn_config));
            agents.run_by(move || models.as_ref().map_or_else(|| Arc::clone(&plain), |models| models.told(&plain)));
        }
        let tree = bob_supervisors::start(spec).await?;
        let runtime = Runtime::new(Inner {
            tree,
            #[cfg(feature = "mcp")]
            tool_servers,
            model,
            models: catalogue.map(Models::new),
            turn_config,
            limits: self.limits,
            shutdown_grace: self.shutdown_grace,
            watcher: self.watcher,
            ports,
            hooks: self.hook_programs,
            draining: AtomicBool::new(false),
            handle: tokio::runtime::Handle::current(),
            is_shared,
        });
        let handle: Weak<Inner> = Arc::downgrade(&runtime.0);
        runtime.refuse_by_hooks(Weak::clone(&handle));
        runtime.0.tree.rooms.tools.runtime().set(handle);
        match runtime.required_servers().await {
            Ok(()) => Ok(runtime),
            Err(why) => {
                runtime.shutdown().await;
                Err(BuildError::RequiredServer(why))
            }
        }
    }
}

/// A folder as it is; as it was named, if it is not there.
fn absolute(folder: &str) -> String {
    let real = std::path::Path::new(folder).canonicalize().ok();
    real.and_then(|real| real.into_os_string().into_string().ok()).unwrap_or_else(|| folder.to_owned())
}
