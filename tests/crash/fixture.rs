//! A whole tree whose actors a test can reach, and submissions to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bob::approvals::PermissionMode;
use bob::events::{Envelope, EventSink};
use bob::model::ScriptedLlm;
use bob::sessions::TurnId;
use bob::store::{MemoryStore, SessionStore};
use bob::tools::{FnTool, Policy, ToolPort};
use bob::{AgentError, AgentResponse};
use bob_actors::address::Address;
use bob_actors::feed::Feed;
use bob_actors::llm::RetryPolicy;
use bob_actors::rooms::Rooms;
use bob_actors::watchdog::Watchdog;
use bob_drill::traps::Traps;
use bob_messages::input::TurnInput;
use bob_messages::reply::{Answer, Reply};
use bob_messages::submission::SessionsMessage;
use bob_supervisors::{Tree, TreeSpec, sessions, start};
use ractor::ActorCell;

use crate::support::runtime::{DEADLINE, Recorder, model_name, session, within};

pub(crate) type Owed = Answer<Result<Box<AgentResponse>, AgentError>>;

/// Counts submissions: their names must not repeat in another fixture over one store.
static TURNS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Fixture {
    pub(crate) tree: Tree,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) traps: Traps,
}

impl Fixture {
    pub(crate) async fn new(model: ScriptedLlm, tools: Vec<FnTool>) -> Self {
        Self::over(model, tools, MemoryStore::new()).await
    }

    pub(crate) async fn over(model: ScriptedLlm, tools: Vec<FnTool>, store: Arc<dyn SessionStore>) -> Self {
        Self::killing(model, tools, store, usize::MAX).await
    }

    /// Kills every TurnActor there is within the emit of the n-th event.
    pub(crate) async fn killing(
        model: ScriptedLlm,
        tools: Vec<FnTool>,
        store: Arc<dyn SessionStore>,
        at: usize,
    ) -> Self {
        let recorder = Recorder::new();
        let traps = Traps::default();
        let rooms = Rooms { watchdog: Watchdog::with_hook(Some(traps.hook())), ..Rooms::default() };
        let killer = Killer { sessions: rooms.sessions.clone(), left: at.into() };
        let feed = Feed::new(vec![recorder.clone(), Arc::new(killer)]);
        let spec = TreeSpec {
            sessions: sessions::child(&rooms, &feed, sessions::SessionRules::default()),
            servers: Default::default(),
            further: Vec::new(),
            rooms,
            feed,
            store,
            llm: Arc::new(model),
            retry: RetryPolicy::default(),
            tools: tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn ToolPort>).collect(),
            policy: Policy { mode: Some(PermissionMode::Auto), ..Policy::default() },
        };
        let tree = within(start(spec)).await.expect("a tree");
        Self { tree, recorder, traps }
    }

    /// Submits a message; its outcome is owed from here on.
    pub(crate) fn submit(&self, to: &str, text: &str) -> Owed {
        let number = TURNS.fetch_add(1, Ordering::SeqCst);
        let token = bob::sessions::ResumeToken::new(format!("token{number}"));
        let words = vec![bob::model::ContentPart::text(text)];
        let input = Arc::new(TurnInput::bare(TurnId::new(format!("t{number}")), token, words));
        let (reply, owed) = Reply::channel();
        let turn_config = Arc::new(bob::config::TurnConfig::new(model_name()));
        self.tree.rooms.sessions.tell(SessionsMessage::Submit {
            session: session(to),
            input,
            turn_config,
            is_repeated: false,
            reply,
        });
        owed
    }

    /// The outcome of a submission that was taken.
    pub(crate) async fn outcome(&self, owed: Owed) -> AgentResponse {
        *within(owed).await.expect("an answer").expect("the submission is taken")
    }

    pub(crate) async fn run(&self, text: &str) -> AgentResponse {
        self.outcome(self.submit("s", text)).await
    }

    /// The actors of the live sessions.
    pub(crate) fn turn_actors(&self) -> Vec<ActorCell> {
        let supervisor = self.tree.rooms.sessions.actor().expect("the sessions supervisor lives");
        supervisor.get_cell().get_children()
    }

    /// Kills the one TurnActor there is.
    pub(crate) fn kill_turn(&self) {
        let actors = self.turn_actors();
        assert_eq!(actors.len(), 1, "one session is live");
        actors[0].kill();
    }

    pub(crate) async fn stop(self) {
        within(self.tree.stop(Duration::from_secs(3))).await;
    }
}

/// Kills at one event: between two moves of a turn.
struct Killer {
    sessions: Address<SessionsMessage>,
    left: AtomicUsize,
}

impl EventSink for Killer {
    fn emit(&self, _: &Envelope) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(supervisor) = self.sessions.actor()
        {
            supervisor.get_cell().get_children().iter().for_each(ActorCell::kill);
        }
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

/// Kills an actor and waits for its successor.
pub(crate) async fn replace<M: ractor::Message>(room: &Address<M>) {
    let old = room.actor().expect("somebody is there");
    old.kill();
    within(async {
        loop {
            match room.wait_for_actor_within(DEADLINE).await {
                Some(new) if new.get_id() != old.get_id() => return,
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await;
}
