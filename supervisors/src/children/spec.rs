//! A child as data: how it is started, when it is restarted, and how long it may take to end.

use super::SupervisorMessage;
use crate::look::NodeState;
use crate::restart::RestartRule;
use bob_actors::address::Address;
use bob_actors::clock;
use bob_actors::feed::Feed;
use bob_actors::metrics::Metrics;
use bob_actors::watchdog::{ActorPath, Kinds, Watchdog};
use bob_messages::event::AgentEvent;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, SpawnErr};
use std::fmt;
use std::sync::Arc;

/// Starts a child linked to the given supervisor at its place in the tree. Resolves when the child runs and its
/// address is set. Dropping the future abandons the start.
pub type ChildStart =
    Arc<dyn Fn(ActorCell, ChildPlacement) -> BoxFuture<'static, Result<ActorCell, SpawnErr>> + Send + Sync>;

/// The path of a child in the tree, and the watchdog that observes its handlers.
#[derive(Debug, Clone)]
pub struct ChildPlacement {
    /// The watchdog of the runtime.
    pub watchdog: Watchdog,
    /// The names of its supervisors below the root and its own, with `/` between.
    pub path: Arc<str>,
}

/// How the actors below a child are found for a snapshot of the tree.
#[derive(Clone)]
pub enum Subtree {
    /// The child is a supervisor with a [`ChildSet`](super::ChildSet).
    Supervisor(Address<SupervisorMessage>),
    /// Calls this in a task, with a limit of one second.
    Ask(Arc<dyn Fn() -> BoxFuture<'static, Vec<NodeState>> + Send + Sync>),
}

/// A change of a child's state, as reported to [`ChildSpec::on_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEvent<'a> {
    /// It died and is going to be restarted.
    Restarting {
        /// The reason of its death.
        why: &'a str,
    },
    /// It runs again.
    Restarted {
        /// How often it was restarted since its set was created.
        restarts: u32,
        /// The reason of its last death.
        why: &'a str,
    },
    /// It died too often and is left down.
    GaveUp {
        /// The reason of its last death.
        why: &'a str,
    },
    /// It was stopped with its set, or removed.
    Stopped,
}

/// One child of a supervisor. Each start uses the spec anew.
#[derive(Clone)]
pub struct ChildSpec {
    /// Unique among its siblings and without `/`.
    pub name: String,
    /// When it is restarted.
    pub rule: RestartRule,
    /// The limit for a start, in milliseconds; a start that takes longer counts as a death.
    pub start_ms: u64,
    /// The time between a stop and a kill, in milliseconds.
    pub shutdown_ms: u64,
    /// Whether a stop first lets it handle the messages in its mailbox, within that time.
    pub drains: bool,
    /// Whether its supervisor ends when it dies too often.
    pub critical: bool,
    /// Whether the start of the set waits for it and fails with it. Otherwise a failed first start is a death like
    /// any other.
    pub awaited: bool,
    /// Starts the child's actor.
    pub start: ChildStart,
    /// Called after every death, failed start and stop. Must not block.
    pub on_down: Arc<dyn Fn() + Send + Sync>,
    /// Called with every change of its state. Must not block.
    pub on_event: Arc<dyn Fn(ChildEvent<'_>) + Send + Sync>,
    /// Whether `on_event` logs its deaths; otherwise the set does.
    pub logs_itself: bool,
    /// The number of messages in its mailbox, if it counts them.
    pub queued: Option<Arc<dyn Fn() -> usize + Send + Sync>>,
    /// The actors below it, for a snapshot of the tree.
    pub inside: Option<Subtree>,
    /// Its path and watchdog.
    pub placement: ChildPlacement,
}

impl ChildSpec {
    /// A child without which the runtime cannot work: critical, awaited, first restart without a delay, 20 s to start
    /// and 2 s to stop. `make` returns the actor and its arguments for each start.
    pub fn core<A: Actor<Msg: Kinds>>(
        name: impl Into<String>,
        address: Address<A::Msg>,
        make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        let cleared = address.clone();
        let name = name.into();
        Self {
            name: name.clone(),
            rule: RestartRule::CORE,
            start_ms: 20_000,
            shutdown_ms: 2_000,
            drains: false,
            critical: true,
            awaited: true,
            start: starter(address, make),
            on_down: Arc::new(move || cleared.clear()),
            on_event: Arc::new(|_nobody_asks| {}),
            logs_itself: false,
            queued: None,
            inside: None,
            placement: ChildPlacement { watchdog: Watchdog::default(), path: name.into() },
        }
    }

    /// An actor in front of something outside the process: not awaited, each restart is delayed, and dying too often
    /// leaves it down without ending its supervisor.
    pub fn server<A: Actor<Msg: Kinds>>(
        name: impl Into<String>,
        address: Address<A::Msg>,
        make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        Self { rule: RestartRule::SERVER, critical: false, awaited: false, ..Self::core(name, address, make) }
    }

    /// Clears one more address whenever the child is down: that of an actor below it, which ends with it.
    #[must_use]
    pub fn clearing<M: ractor::Message>(mut self, address: Address<M>) -> Self {
        let before = self.on_down;
        self.on_down = Arc::new(move || {
            before();
            address.clear();
        });
        self
    }

    /// Adds an observer of the child's state.
    #[must_use]
    pub fn observed_by(mut self, on_event: impl Fn(ChildEvent<'_>) + Send + Sync + 'static) -> Self {
        let before = self.on_event;
        self.on_event = Arc::new(move |event| {
            before(event);
            on_event(event);
        });
        self
    }

    /// Emits an event under this path whenever the child was restarted.
    #[must_use]
    pub fn reporting_to(self, feed: &Arc<Feed>, path: impl Into<String>) -> Self {
        let (feed, actor) = (Arc::clone(feed), path.into());
        self.observed_by(move |event| match event {
            ChildEvent::Restarted { restarts, why } => {
                let (actor, reason) = (actor.clone(), why.to_owned());
                feed.emit_of_tree(clock::now(), AgentEvent::ActorRestarted { actor, restarts, reason });
            }
            ChildEvent::Restarting { .. } | ChildEvent::GaveUp { .. } | ChildEvent::Stopped => {}
        })
    }

    /// Has the watchdog observe the child under this path.
    #[must_use]
    pub fn watched_by(mut self, watchdog: &Watchdog, path: impl Into<Arc<str>>) -> Self {
        self.placement = ChildPlacement { watchdog: watchdog.clone(), path: path.into() };
        self
    }

    /// Counts restarts of the child, and that it was left down.
    #[must_use]
    pub fn counted_by(self, metrics: &Arc<Metrics>) -> Self {
        let metrics = Arc::clone(metrics);
        self.observed_by(move |event| {
            match event {
                ChildEvent::Restarted { .. } => metrics.child_restarted(),
                ChildEvent::GaveUp { .. } => metrics.child_gave_up(),
                ChildEvent::Restarting { .. } | ChildEvent::Stopped => {}
            }
            metrics.changed();
        })
    }

    /// Sets how the actors below the child are found.
    #[must_use]
    pub fn inside(mut self, inside: Subtree) -> Self {
        self.inside = Some(inside);
        self
    }

    /// Sets how the messages in the child's mailbox are counted.
    #[must_use]
    pub fn queued(mut self, queued: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        self.queued = Some(Arc::new(queued));
        self
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("name", &self.name)
            .field("rule", &self.rule)
            .field("critical", &self.critical)
            .finish_non_exhaustive()
    }
}

fn starter<A: Actor<Msg: Kinds>>(
    address: Address<A::Msg>,
    make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
) -> ChildStart {
    Arc::new(move |supervisor, ChildPlacement { watchdog, path }| {
        let (actor, arguments) = make();
        let actor = watchdog.wrap(actor, ActorPath::Room(path));
        let address = address.clone();
        Box::pin(async move {
            // Without a name, since names are global to the process and several runtimes live in one.
            let (actor, _ends_with_the_actor) = Actor::spawn_linked(None, actor, arguments, supervisor).await?;
            let cell = actor.get_cell();
            address.fill(actor);
            Ok(cell)
        })
    })
}
