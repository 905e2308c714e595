//! A whole supervision tree, with a handle that starts, inspects and stops it.
//!
//! Owns the order of the root's children and the end of the tree. The facade builds a [`TreeSpec`] and keeps the
//! [`Tree`]; messages are sent through the [`Rooms`]. It never looks into a message.

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;

use crate::children::{ChildSpec, StartError, Subtree, SupervisorMessage};
use crate::look::{self, NodeState};
use crate::root::{RootArguments, RootSupervisor, TreeEnd};
use crate::tools::{self, DesiredServers, ToolsSupervisor, ToolsSupervisorArguments};
use bob_actors::feed::Feed;
use bob_actors::llm::{LlmActor, LlmArguments, LlmPort, RetryPolicy};
use bob_actors::metrics::Metrics;
use bob_actors::rooms::Rooms;
use bob_actors::store::{NodeFigures, SessionStore, StoreActor};
use bob_actors::tools::{Policy, ToolPort};
use bob_actors::watchdog::{ActorPath, BLOCKED_AFTER};
use bob_messages::chat::FinishReason;
use bob_messages::reply::Reply;
use bob_messages::share::Share;
use ractor::{Actor, ActorRef, SpawnErr};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// How long to wait for a killed tree.
const KILLED_LIMIT: Duration = Duration::from_millis(100);

/// How long a snapshot of the tree may take; the root asks each supervisor with half of that.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The parts of a tree.
pub struct TreeSpec {
    /// Addresses of the actors.
    pub rooms: Rooms,
    /// Receives their events.
    pub feed: Arc<Feed>,
    /// The port to the sessions' store.
    pub store: Arc<dyn SessionStore>,
    /// The port to the models.
    pub llm: Arc<dyn LlmPort>,
    /// How often a model call is repeated.
    pub retry: RetryPolicy,
    /// The tools of this process, in the order they are offered.
    pub tools: Vec<Arc<dyn ToolPort>>,
    /// The policy of the tools.
    pub policy: Policy,
    /// The tool servers of the configuration and of sessions.
    pub servers: DesiredServers,
    /// Further children of the root, such as model servers: they start after the model side and stop before it.
    pub further: Vec<ChildSpec>,
    /// The sessions supervisor: it starts last and stops first.
    pub sessions: ChildSpec,
}

impl fmt::Debug for TreeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeSpec")
            .field("tools", &self.tools.len())
            .field("policy", &self.policy)
            .field("further", &self.further)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

impl TreeSpec {
    /// The root's children, in start order.
    fn children(self) -> Vec<ChildSpec> {
        let Self { rooms, feed, store, llm, retry, tools, policy, servers, further, sessions } = self;
        rooms.tools.report_to(&feed);
        let artifacts = rooms.tools.runtime().artifacts().clone();
        if let Some(port) = store.artifacts() {
            artifacts.come_from(port);
        }
        rooms.tools.runtime().owned_by(&store);
        store.tell_figures(figures_of(&rooms.metrics));
        let arguments = LlmArguments::new(llm, Arc::clone(&feed), retry)
            .with_readiness(Arc::new(rooms.model_servers.clone()))
            .with_artifacts(artifacts)
            .with_tenants(rooms.tenants.clone());
        let arguments = if store.share().is_some() { arguments.with_share(share_of(&store)) } else { arguments };
        let llm = llm_child(&rooms, arguments);
        let mut children = vec![store_child(&rooms, store), llm];
        children.extend(further);
        let metrics = Arc::clone(&rooms.metrics);
        let local = tools::local(&rooms, tools, policy).reporting_to(&feed, "tools/local").counted_by(&metrics);
        let local = local.watched_by(&rooms.watchdog, "tools/local");
        children.push(tools_child(&rooms, local, servers));
        children.push(sessions);
        let heard = |child: ChildSpec| {
            let path = child.name.clone();
            child.watched_by(&rooms.watchdog, path.as_str()).reporting_to(&feed, path).counted_by(&metrics)
        };
        children.into_iter().map(heard).collect()
    }
}

fn figures_of(metrics: &Arc<Metrics>) -> Arc<dyn Fn() -> NodeFigures + Send + Sync> {
    let metrics = Arc::clone(metrics);
    Arc::new(move || {
        let counted = metrics.snapshot();
        let turn = &counted.turn_latency;
        let turn = if turn.recent.count > 0 { turn.recent } else { turn.all };
        NodeFigures {
            uptime_ms: counted.uptime_ms,
            waiting: counted.sessions.waiting as u64,
            // A suspended turn has not ended.
            ended: counted.turns.ended() - counted.turns.ends[FinishReason::Suspended],
            failed: counted.turns.ends[FinishReason::Error],
            steps: counted.steps,
            tool_calls: counted.tool_calls.values().sum(),
            tokens: counted.tokens.total,
            restarts: counted.restarts.sessions + counted.restarts.children,
            turn_p50_us: turn.p50_us,
            turn_p99_us: turn.p99_us,
        }
    })
}

/// Which of the processes of a store this one is.
fn share_of(store: &Arc<dyn SessionStore>) -> Arc<dyn Fn() -> Share + Send + Sync> {
    let store = Arc::clone(store);
    Arc::new(move || store.share().unwrap_or_default())
}

fn store_child(rooms: &Rooms, store: Arc<dyn SessionStore>) -> ChildSpec {
    let queued = StoreActor::default().queued();
    let gauge = Arc::clone(&queued);
    rooms.metrics.store_queued(Arc::clone(&queued));
    let make = move || (StoreActor::with(Arc::clone(&queued)), Arc::clone(&store));
    // The last appends of the sessions, which are stopped just before the store, may still be in its mailbox.
    ChildSpec { drains: true, ..ChildSpec::core("store", rooms.store.clone(), make) }
        .queued(move || gauge.load(Ordering::Relaxed))
}

fn llm_child(rooms: &Rooms, arguments: LlmArguments) -> ChildSpec {
    let core = ChildSpec::core("llm", rooms.llm.clone(), move || (LlmActor, arguments.clone()));
    ChildSpec { shutdown_ms: 1_000, ..core }
}

fn tools_child(rooms: &Rooms, local: ChildSpec, servers: DesiredServers) -> ChildSpec {
    let address = servers.supervisor().clone();
    let arguments = ToolsSupervisorArguments { local, servers: servers.clone() };
    let core = ChildSpec::core("tools", address.clone(), move || (ToolsSupervisor, arguments.clone()))
        .clearing(rooms.tools.local().clone())
        .inside(Subtree::Supervisor(address));
    let before = core.on_down;
    let on_down = Arc::new(move || {
        before();
        servers.all_down();
    });
    ChildSpec { on_down, ..core }
}

/// Starts all children of a tree in order.
///
/// # Errors
/// Names the first child that could not be started, with the reason; the children before it have been stopped by
/// then. Dropping the future kills them.
pub async fn start(spec: TreeSpec) -> Result<Tree, StartError> {
    let (rooms, feed) = (spec.rooms.clone(), Arc::clone(&spec.feed));
    rooms.watchdog.watch(BLOCKED_AFTER);
    start_children(rooms, feed, spec.children()).await
}

pub(crate) async fn start_children(
    rooms: Rooms,
    feed: Arc<Feed>,
    children: Vec<ChildSpec>,
) -> Result<Tree, StartError> {
    let downs: Vec<_> = children.iter().map(|child| Arc::clone(&child.on_down)).collect();
    let end = Arc::new(OnceLock::new());
    let arguments = RootArguments { children, end: Arc::clone(&end) };
    let actor = rooms.watchdog.wrap(RootSupervisor, ActorPath::Room("root".into()));
    let (root, ends) = Actor::spawn(None, actor, arguments).await.map_err(start_error)?;
    let (tell, ended) = watch::channel(None);
    let (watchdog, sessions) = (rooms.watchdog.clone(), rooms.sessions.clone());
    tokio::spawn(async move {
        let _cancelled_with_the_runtime = ends.await;
        // A root that was killed has not cleared the addresses.
        for down in downs {
            down();
        }
        watchdog.stop();
        tell.send_replace(Some(end.get().cloned().unwrap_or(TreeEnd::Died)));
        // Waiting callers learn at once that there will be no restart.
        sessions.close();
    });
    Ok(Tree { rooms, feed, root: Arc::new(Root(root)), ended })
}

fn start_error(error: SpawnErr) -> StartError {
    let other = |error: SpawnErr| StartError::of("the root", error.into());
    match error {
        SpawnErr::StartupFailed(error) => match error.downcast::<StartError>() {
            Ok(error) => *error,
            Err(error) => other(SpawnErr::StartupFailed(error)),
        },
        error @ (SpawnErr::ActorAlreadyStarted | SpawnErr::ActorAlreadyRegistered(_)) => other(error),
    }
}

/// A running tree. Clones are handles of one tree; when the last handle is dropped without a [`stop`](Self::stop),
/// the tree is killed.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Addresses of the actors.
    pub rooms: Rooms,
    /// Receives their events.
    pub feed: Arc<Feed>,
    root: Arc<Root>,
    ended: watch::Receiver<Option<TreeEnd>>,
}

/// Ends the tree with its last handle.
#[derive(Debug)]
struct Root(ActorRef<SupervisorMessage>);

impl Drop for Root {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl Tree {
    /// Stops every child in reverse order and waits until all have ended, at most for `limit`: what has not stopped
    /// by then is killed. Further calls wait for the same end; the shortest limit counts. Dropping the future stops
    /// waiting, not the stop.
    pub async fn stop(&self, limit: Duration) {
        let mut ended = self.ended();
        // A tenth is kept for the children that have to be killed.
        let within = limit - (limit / 10).min(Duration::from_millis(200));
        let _ended_already = self.root.0.send_message(SupervisorMessage::Stop { within });
        if tokio::time::timeout(limit, ended.wait_for(Option::is_some)).await.is_err() {
            tracing::error!("the tree did not stop in time and is killed");
            self.root.0.kill();
            let _left_behind = tokio::time::timeout(KILLED_LIMIT, ended.wait_for(Option::is_some)).await;
        }
    }

    /// Receives how the tree ended, once it has.
    pub fn ended(&self) -> watch::Receiver<Option<TreeEnd>> {
        self.ended.clone()
    }

    /// A snapshot of the tree, the root's children first. Empty when the tree has ended; if the root does not answer
    /// within 2 s, only actors whose handlers block.
    pub async fn tree(&self) -> Vec<NodeState> {
        let (reply, answer) = Reply::channel();
        // If the message cannot be sent, dropping it answers.
        drop(self.root.0.send_message(SupervisorMessage::Tree { reply }));
        let answer = tokio::time::timeout(LOOK_LIMIT, answer).await;
        let mut nodes = answer.ok().flatten().unwrap_or_default();
        look::tell_blocked(&mut nodes, &self.rooms.watchdog.blocked());
        nodes
    }

    /// Restarts an actor, such as `store` or `tools/local`, in whatever state it is. Returns whether there is such an
    /// actor, without waiting for the restart.
    pub async fn restart(&self, name: &str) -> bool {
        let (reply, answer) = Reply::channel();
        drop(self.root.0.send_message(SupervisorMessage::Restart { name: name.to_owned(), reply }));
        answer.await.unwrap_or(false)
    }
}
