//! Small actors that fail on demand, and a tree of them. Tests only.

use crate::children::{ChildSpec, StartError};
use crate::look::{NodeState, NodeStatus};
use crate::tree::{Tree, start_children};
use bob_actors::address::Address;
use bob_actors::feed::Feed;
use bob_actors::rooms::Rooms;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than any delay a test waits for.
pub(crate) const LONG: Duration = Duration::from_secs(3_600);

/// What a test does to an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poke {
    Panic,
    Fail,
    Hang,
    Stop,
    Kill,
}

bob_actors::kinds!(Poke: Panic, Fail, Hang, Stop, Kill);

/// The log of events, in order: `+name` for a start, `-name` for an orderly end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    /// Takes the log since the last call.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

/// One child: the state shared by its starts.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) address: Address<Poke>,
    diary: Diary,
    /// How many of the next starts fail.
    pub(crate) failing: Arc<AtomicU32>,
    /// How many of the next starts never end.
    pub(crate) stuck: Arc<AtomicU32>,
    /// How many of the next starts end before the start is reported.
    pub(crate) dying_young: Arc<AtomicU32>,
}

#[derive(Debug, Clone, Copy)]
struct Fake;

impl Part {
    pub(crate) fn new(name: &'static str, diary: &Diary) -> Self {
        Self {
            name,
            address: Address::default(),
            diary: diary.clone(),
            failing: Arc::default(),
            stuck: Arc::default(),
            dying_young: Arc::default(),
        }
    }

    pub(crate) fn core(&self) -> ChildSpec {
        let part = self.clone();
        ChildSpec::core(self.name, self.address.clone(), move || (Fake, part.clone()))
    }

    pub(crate) fn server(&self) -> ChildSpec {
        let part = self.clone();
        ChildSpec::server(self.name, self.address.clone(), move || (Fake, part.clone()))
    }

    /// Ends the actor in this way and waits until it has ended.
    pub(crate) async fn end(&self, how: Poke) {
        end(&self.address.actor().unwrap(), how).await;
    }
}

async fn end(actor: &ActorRef<Poke>, how: Poke) {
    match how {
        Poke::Stop => actor.stop(None),
        Poke::Kill => actor.kill(),
        Poke::Panic | Poke::Fail => actor.send_message(how).unwrap(),
        Poke::Hang => panic!("a hanging actor does not end"),
    }
    actor.get_cell().wait(None).await.unwrap();
}

impl Actor for Fake {
    type Msg = Poke;
    type State = Part;
    type Arguments = Part;

    async fn pre_start(&self, _myself: ActorRef<Poke>, part: Part) -> Result<Part, ActorProcessingErr> {
        if take_one(&part.stuck) {
            std::future::pending::<()>().await;
        }
        if take_one(&part.failing) {
            return Err("no luck".into());
        }
        part.diary.write(format!("+{}", part.name));
        Ok(part)
    }

    async fn post_start(&self, _myself: ActorRef<Poke>, part: &mut Part) -> Result<(), ActorProcessingErr> {
        if take_one(&part.dying_young) { Err("too young".into()) } else { Ok(()) }
    }

    async fn handle(&self, _myself: ActorRef<Poke>, poke: Poke, _part: &mut Part) -> Result<(), ActorProcessingErr> {
        match poke {
            Poke::Panic => panic!("as told"),
            Poke::Fail => Err("as told".into()),
            Poke::Hang => std::future::pending().await,
            Poke::Stop | Poke::Kill => Ok(()),
        }
    }

    async fn post_stop(&self, _myself: ActorRef<Poke>, part: &mut Part) -> Result<(), ActorProcessingErr> {
        part.diary.write(format!("-{}", part.name));
        Ok(())
    }
}

fn take_one(count: &AtomicU32) -> bool {
    count.try_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

/// A tree of fakes.
pub(crate) struct Fixture {
    pub(crate) tree: Tree,
}

impl Fixture {
    pub(crate) async fn of(children: Vec<ChildSpec>) -> Result<Self, StartError> {
        let tree = start_children(Rooms::default(), Feed::new(Vec::new()), children).await?;
        Ok(Self { tree })
    }

    pub(crate) async fn node(&self, name: &str) -> NodeState {
        self.tree.tree().await.into_iter().find(|node| node.name == name).unwrap()
    }

    /// Ends a child and waits for its successor. After the end, the death is handled
    /// before the question is, so the address the question finds is not the old one's.
    pub(crate) async fn reborn(&self, part: &Part, how: Poke) -> ActorRef<Poke> {
        part.end(how).await;
        self.settled(part).await
    }

    pub(crate) async fn settled(&self, part: &Part) -> ActorRef<Poke> {
        self.node(part.name).await;
        for _ in 0..10_000 {
            let actor = part.address.wait_for_actor_within(LONG).await.unwrap();
            let still_there = part.address.actor().is_some_and(|it| it.get_id() == actor.get_id());
            if self.node(part.name).await.state == NodeStatus::Running && still_there {
                return actor;
            }
        }
        panic!("{} does not come back", part.name);
    }
}
