//! From what a builder was given to a runtime that lives.

use super::agent_runtime::AgentRuntime;
use super::approvals::Asks;
use super::builder::RuntimeBuilder;
use super::runtime::{Inner, Runtime};
use bob_actors::feed::Feed;
#[cfg(feature = "mcp")]
use bob_actors::mcp::Elicit;
use bob_actors::people::People;
use bob_actors::prompt_files::PromptReader;
use bob_actors::rooms::Rooms;
use bob_actors::store::MemoryStore;
use bob_actors::tools::local;
use bob_actors::watchdog::Watchdog;
use bob_messages::brief::Brief;
use bob_supervisors::sessions;
#[cfg(not(feature = "mcp"))]
use bob_supervisors::tools::Roster;
#[cfg(feature = "mcp")]
use bob_supervisors::tools::servers::{Surroundings, ToolServers};
use bob_supervisors::{StartError, TreeSpec, model_server};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No model was given.
    #[error("no model was given: call RuntimeBuilder::model first")]
    NoModel,
    /// The tree of actors did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The tool servers cannot stand side by side: two have the same id, or one has an
    /// id no server may have.
    #[error("{0}")]
    ToolServers(String),
    /// A tool server the runtime was told not to start without did not start; it says
    /// why, with the end of its stderr.
    #[error("a required tool server is not available: {0}")]
    RequiredServer(String),
}

impl RuntimeBuilder {
    /// Starts the tree of actors. Of the tool servers only those that are required are
    /// waited for, each at most its startup timeout; dropping the future stops what had
    /// been started.
    ///
    /// # Errors
    /// When no model was given, when two tools or two tool servers have the same name,
    /// when an actor or a required tool server does not start; whatever was started is
    /// stopped again.
    pub async fn build(self) -> Result<Runtime, BuildError> {
        let mut builder = self;
        if builder.local_tools && !builder.taped.is_replay() {
            builder.tools.splice(0..0, local::tools(&builder.watcher, &builder.protection));
        }
        builder.on_tape().start().await
    }

    async fn start(self) -> Result<Runtime, BuildError> {
        let model = self.model.ok_or(BuildError::NoModel)?;
        let tools = self.tools;
        let people = self.approvals.as_ref().map(|port| People::new(Arc::new(Asks(Arc::clone(port)))));
        let people = people.unwrap_or_default();
        let mut brief = Brief { reads_files: self.prompt_files.is_some(), ..self.brief };
        let prompt_files = self.prompt_files.map(PromptReader::new).unwrap_or_default();
        let rooms = Rooms {
            people,
            memory: self.memory,
            prompt_files,
            compactor: self.compactor,
            watchdog: Watchdog::with_hook(self.hook),
            ..Rooms::default()
        };
        let feed = Feed::new(self.sinks);
        rooms.watchdog.watch(self.blocked_after);
        if let Some((port, rules)) = self.skills {
            rooms.skills.come_from(port);
            brief.skills = Some(rules);
        }
        #[cfg(feature = "mcp")]
        let tool_servers = {
            let surroundings = Surroundings {
                plane: rooms.tools.clone(),
                watchdog: rooms.watchdog.clone(),
                feed: Arc::clone(&feed),
                metrics: Arc::clone(&rooms.metrics),
                policy: self.policy.clone(),
                watcher: self.watcher.clone(),
                brought_end_after: self.brought_end_after,
                brought_bounds: self.brought_bounds,
                elicit: self.approvals.map(|port| Arc::new(Asks(port)) as Arc<dyn Elicit>),
                recorder: self.taped.recorder(),
                is_replay: self.taped.is_replay(),
            };
            ToolServers::new(surroundings, self.tool_servers)
                .map_err(|error| BuildError::ToolServers(error.to_string()))?
        };
        #[cfg(feature = "mcp")]
        let roster = tool_servers.roster();
        #[cfg(not(feature = "mcp"))]
        let roster = Roster::default();
        // Whatever a session names is compared with it; links in it must not make that fail.
        let roots = brief.roots.iter().map(|root| absolute(root)).collect();
        let (servers, specs) = self.model_servers;
        let spec = TreeSpec {
            sessions: sessions::child(&rooms, &feed, self.rules),
            further: specs.into_iter().filter_map(|spec| model_server::child(&servers, spec)).collect(),
            rooms,
            feed,
            store: self.store.unwrap_or_else(|| MemoryStore::new()),
            llm: Arc::clone(&model),
            retry: self.retry,
            tools,
            policy: self.policy,
            servers: roster,
        };
        let tree = bob_supervisors::start(spec).await?;
        let runtime = Runtime::new(Inner {
            tree,
            #[cfg(feature = "mcp")]
            tool_servers,
            model,
            brief: Arc::new(Brief { roots, ..brief }),
            limits: self.limits,
            shutdown_grace: self.shutdown_grace,
            watcher: self.watcher,
            draining: AtomicBool::new(false),
        });
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
