//! Starting children: the first time in order, later each in a task of its own.

use super::{Child, ChildSpec, Death, Family, FamilyNews, Fate, Next, Phase, SupervisorMessage};
use crate::restart::Died;
use futures_util::FutureExt;
use ractor::{ActorCell, SpawnErr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long a killed child and an abandoned start are waited for. A kill acts when the child next waits for
/// something; one that never does is left behind.
pub(super) const KILLED_LIMIT: Duration = Duration::from_millis(50);

/// A child that a tree cannot do without could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to start {child}: {why}")]
pub struct StartError {
    /// Which child.
    pub child: String,
    /// What it, or the one below it, said.
    pub why: String,
}

/// A restart under way. Dropping it abandons the restart.
#[derive(Debug)]
pub(super) struct Restart {
    hurry: Arc<Notify>,
    task: JoinHandle<Option<ActorCell>>,
}

impl Restart {
    /// Waits no longer for the delay; a start that has begun goes on.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Abandons it, and gives the child if it was started all the same. A start that
    /// blocks its thread is waited for only as long as the limit says.
    pub(super) async fn abandon(mut self, limit: Duration) -> Option<ActorCell> {
        self.task.abort();
        tokio::time::timeout(limit, &mut self.task).await.ok()?.ok().flatten()
    }
}

impl Drop for Restart {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Family {
    /// Starts the children in order and waits for those that are awaited.
    ///
    /// # Errors
    /// The first that could not be started. Those before it are stopped again by then.
    pub async fn start(&mut self) -> Result<(), StartError> {
        for index in 0..self.children.len() {
            let spec = &self.children[index].spec;
            if !spec.awaited {
                self.restart_after(index, 0);
                continue;
            }
            match begin(spec, self.me.get_cell()).await {
                Ok(actor) => self.runs(index, actor),
                Err(why) => {
                    let child = spec.name.clone();
                    (spec.on_down)();
                    self.stop(None).await;
                    return Err(StartError { child, why });
                }
            }
        }
        Ok(())
    }

    /// Starts the child after a delay, in a task that ends with the supervisor.
    pub(super) fn restart_after(&mut self, index: usize, delay_ms: u64) {
        let hurry = Arc::new(Notify::new());
        let (me, hurried) = (self.me.clone(), Arc::clone(&hurry));
        let (key, spec) = (self.children[index].key, self.children[index].spec.clone());
        let owner = me.get_cell();
        let work = async move {
            if delay_ms > 0 {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(delay_ms)) => {}
                    () = hurried.notified() => {}
                }
            }
            let outcome = begin(&spec, me.get_cell()).await;
            let actor = outcome.as_ref().ok().cloned();
            // A supervisor that has ended needs no news: the child ends with it.
            let _ended = me.send_message(SupervisorMessage::News(FamilyNews::Started { child: key, outcome }));
            actor
        };
        let task = tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = owner.wait(None) => None,
                actor = work => actor,
            }
        });
        self.children[index].enter(Phase::Restarting(Restart { hurry, task }));
    }

    /// A restart has come to its end. One that was abandoned is told of elsewhere.
    pub(super) fn started(&mut self, key: u64, outcome: Result<ActorCell, String>) -> Next {
        let is_it = |child: &Child| child.key == key && matches!(child.phase, Phase::Restarting(_));
        let Some(index) = self.children.iter().position(is_it) else { return Next::GoOn };
        let next = match outcome {
            Ok(actor) => {
                let died_already = self.early.remove(&actor.get_id());
                self.runs(index, actor);
                died_already.map_or(Next::GoOn, |death| self.died(index, death))
            }
            Err(why) => self.died(index, Death { died: Died { normally: false }, why }),
        };
        self.forget_early();
        next
    }

    /// Ends that nobody can ask for any more are forgotten.
    pub(super) fn forget_early(&mut self) {
        if !self.is_starting() {
            self.early.clear();
        }
    }

    fn runs(&mut self, index: usize, actor: ActorCell) {
        let now_ms = self.now_ms();
        let child = &mut self.children[index];
        child.log.started(now_ms);
        child.enter(Phase::Running { actor, asked: false });
        if let Some(why) = child.died_of.take() {
            (child.spec.on_fate)(Fate::Restarted { restarts: child.restarts, why: &why });
        }
    }
}

/// One start: it ends in time and never panics. The error is a sentence for people.
async fn begin(spec: &ChildSpec, supervisor: ActorCell) -> Result<ActorCell, String> {
    let limit = Duration::from_millis(spec.start_ms);
    let start = AssertUnwindSafe(async { (spec.start)(supervisor, spec.attendance.clone()).await }).catch_unwind();
    match tokio::time::timeout(limit, start).await {
        Ok(Ok(Ok(actor))) => Ok(actor),
        // Its own words say more than that it could not be started.
        Ok(Ok(Err(SpawnErr::StartupFailed(error)))) => Err(error.to_string()),
        Ok(Ok(Err(error))) => Err(error.to_string()),
        Ok(Err(_panic)) => Err("the making of it panicked".to_owned()),
        Err(_elapsed) => Err(format!("it did not start within {} ms", spec.start_ms)),
    }
}
