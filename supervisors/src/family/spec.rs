//! A child as data: how it is started, when again, and how long it may take to end.

use super::SupervisorMessage;
use crate::look::NodeState;
use crate::restart::RestartRule;
use bob_actors::address::Address;
use bob_actors::clock;
use bob_actors::feed::Feed;
use bob_actors::metrics::Metrics;
use bob_actors::pulse::{Kinds, Place, Pulses};
use bob_messages::event::AgentEvent;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, SpawnErr};
use std::fmt;
use std::sync::Arc;

/// Starts a child linked to the supervisor it is given, at its place in the tree, and
/// resolves when the child runs and its address is filled. Dropping the future abandons
/// the start.
pub type ChildStart =
    Arc<dyn Fn(ActorCell, Attendance) -> BoxFuture<'static, Result<ActorCell, SpawnErr>> + Send + Sync>;

/// Where a child stands in the tree, and who sees to it that it gets on there.
#[derive(Debug, Clone)]
pub struct Attendance {
    /// Those of its runtime.
    pub pulses: Pulses,
    /// The names of its supervisors below the root and its own, with `/` between.
    pub path: Arc<str>,
}

/// What stands below a child, for the live tree.
#[derive(Clone)]
pub enum Inside {
    /// The child supervises a family of its own.
    Family(Address<SupervisorMessage>),
    /// The child tells in another way; asked in a task and at most for a second.
    Ask(Arc<dyn Fn() -> BoxFuture<'static, Vec<NodeState>> + Send + Sync>),
}

/// What becomes of a child that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It is started again.
    Restarting {
        /// What it ended of.
        why: &'a str,
    },
    /// It runs again.
    Restarted {
        /// How often it was started again since its family began.
        restarts: u32,
        /// What it had ended of.
        why: &'a str,
    },
    /// It died too often and is left down.
    GaveUp {
        /// What it ended of, the last time.
        why: &'a str,
    },
    /// It is not wanted any more: its family ends, or it left.
    Stopped,
}

/// One child of a supervisor. Clones start the same child.
#[derive(Clone)]
pub struct ChildSpec {
    /// Its name, unique among its siblings and without `/`.
    pub name: String,
    /// When it is started again.
    pub rule: RestartRule,
    /// How long a start may take, in milliseconds; a longer one counts as a death.
    pub start_ms: u64,
    /// How long it may take to stop, in milliseconds, before it is killed.
    pub shutdown_ms: u64,
    /// Whether a stop lets it do what it was told before, within its time.
    pub drains: bool,
    /// Whether its supervisor cannot do without it: dying too often then ends the
    /// supervisor too.
    pub critical: bool,
    /// Whether the family's start waits for it, and fails with it. Otherwise it starts
    /// on its own and a failed first start is a death.
    pub awaited: bool,
    /// Starts it.
    pub start: ChildStart,
    /// Called whenever it is down: after every death, failed start and stop. Must not
    /// block.
    pub on_down: Arc<dyn Fn() + Send + Sync>,
    /// Called with what becomes of it after it was down. Must not block.
    pub on_fate: Arc<dyn Fn(Fate<'_>) + Send + Sync>,
    /// Whether whoever hears of its fate logs it; else its family does.
    pub tells: bool,
    /// How many messages wait for it, if it counts them.
    pub queued: Option<Arc<dyn Fn() -> usize + Send + Sync>>,
    /// What stands below it.
    pub inside: Option<Inside>,
    /// Where it stands.
    pub attendance: Attendance,
}

impl ChildSpec {
    /// An actor the house cannot do without: critical, awaited, first restart at once,
    /// 20 s to start and 2 s to stop. `make` gives the actor and its arguments for
    /// every start.
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
            on_fate: Arc::new(|_nobody_asks| {}),
            tells: false,
            queued: None,
            inside: None,
            attendance: Attendance { pulses: Pulses::default(), path: name.into() },
        }
    }

    /// An actor in front of something outside: it starts on its own, each restart waits
    /// a while, and dying too often leaves it down without harm to anybody else.
    pub fn server<A: Actor<Msg: Kinds>>(
        name: impl Into<String>,
        address: Address<A::Msg>,
        make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        Self { rule: RestartRule::SERVER, critical: false, awaited: false, ..Self::core(name, address, make) }
    }

    /// Clears one more address whenever the child is down: that of an actor below it,
    /// which ends with it and cannot tell.
    #[must_use]
    pub fn clearing<M: ractor::Message>(mut self, address: Address<M>) -> Self {
        let before = self.on_down;
        self.on_down = Arc::new(move || {
            before();
            address.clear();
        });
        self
    }

    /// Tells also here what becomes of the child whenever it was down.
    #[must_use]
    pub fn telling(mut self, on_fate: impl Fn(Fate<'_>) + Send + Sync + 'static) -> Self {
        let before = self.on_fate;
        self.on_fate = Arc::new(move |fate| {
            before(fate);
            on_fate(fate);
        });
        self
    }

    /// Tells the feed under this path whenever the child was started again.
    #[must_use]
    pub fn heard_by(self, feed: &Arc<Feed>, path: impl Into<String>) -> Self {
        let (feed, actor) = (Arc::clone(feed), path.into());
        self.telling(move |fate| match fate {
            Fate::Restarted { restarts, why } => {
                let (actor, reason) = (actor.clone(), why.to_owned());
                feed.emit_of_tree(clock::now(), AgentEvent::ActorRestarted { actor, restarts, reason });
            }
            Fate::Restarting { .. } | Fate::GaveUp { .. } | Fate::Stopped => {}
        })
    }

    /// Puts the child among the actors of a runtime, under this path.
    #[must_use]
    pub fn attended(mut self, pulses: &Pulses, path: impl Into<Arc<str>>) -> Self {
        self.attendance = Attendance { pulses: pulses.clone(), path: path.into() };
        self
    }

    /// Counts also that it was started again, or left down.
    #[must_use]
    pub fn counted_by(self, metrics: &Arc<Metrics>) -> Self {
        let metrics = Arc::clone(metrics);
        self.telling(move |fate| {
            match fate {
                Fate::Restarted { .. } => metrics.child_restarted(),
                Fate::GaveUp { .. } => metrics.child_gave_up(),
                Fate::Restarting { .. } | Fate::Stopped => {}
            }
            metrics.changed();
        })
    }

    /// Shows what stands below the child.
    #[must_use]
    pub fn inside(mut self, inside: Inside) -> Self {
        self.inside = Some(inside);
        self
    }

    /// Shows how many messages wait for the child.
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
    Arc::new(move |supervisor, Attendance { pulses, path }| {
        let (actor, arguments) = make();
        let actor = pulses.attend(actor, Place::Room(path));
        let address = address.clone();
        Box::pin(async move {
            // Without a name: names are global to the process, and several runtimes live in one.
            let (actor, _ends_with_the_actor) = Actor::spawn_linked(None, actor, arguments, supervisor).await?;
            let cell = actor.get_cell();
            address.fill(actor);
            Ok(cell)
        })
    })
}
