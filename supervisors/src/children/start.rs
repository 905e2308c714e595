//! Starting children: the first time in order, later each in a task of its own.

use super::{Child, ChildEvent, ChildSet, ChildSpec, Death, Next, Phase, StartNews, SupervisorMessage};
use crate::restart::Died;
use bob_messages::cause::Cause;
use futures_util::FutureExt;
use ractor::{ActorCell, SpawnErr};
use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long to wait for a killed child or an abandoned start. A kill takes effect when the child next awaits; one
/// that never does is left behind.
pub(super) const KILLED_LIMIT: Duration = Duration::from_millis(50);

/// A child that the tree needs could not be started.
///
/// The error of the child is its [`source`](Error::source), where it had one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartError {
    /// The name of the child.
    pub child: String,
    /// The error of the start.
    pub why: String,
    cause: Cause,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to start {}: {}", self.child, self.why)
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.error()
    }
}

impl StartError {
    /// What went wrong with a child that is not the root's own error.
    pub(crate) fn of(child: impl Into<String>, failed: Failed) -> Self {
        let Failed { why, cause } = failed;
        Self { child: child.into(), why, cause }
    }
}

/// Why a start failed, for the user, and the error that it failed with.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(super) why: String,
    cause: Cause,
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self { why, cause: Cause::default() }
    }
}

impl From<SpawnErr> for Failed {
    fn from(error: SpawnErr) -> Self {
        match error {
            // The actor's own error says more than that of the start.
            SpawnErr::StartupFailed(error) => Self { why: error.to_string(), cause: Cause::of(error) },
            error @ (SpawnErr::ActorAlreadyStarted | SpawnErr::ActorAlreadyRegistered(_)) => error.to_string().into(),
        }
    }
}

/// A restart in progress. Dropping it abandons the restart.
#[derive(Debug)]
pub(super) struct Restart {
    hurry: Arc<Notify>,
    task: JoinHandle<Option<ActorCell>>,
}

impl Restart {
    /// Cuts the delay short; a start that has begun is not affected.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Abandons it. Returns the child if it was started all the same. A start that blocks its thread is waited for
    /// until `limit`.
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

impl ChildSet {
    /// Starts the children in order and waits for those that are awaited.
    ///
    /// # Errors
    /// The first child that could not be started. Those before it have been stopped by then.
    pub async fn start(&mut self) -> Result<(), StartError> {
        for index in 0..self.children.len() {
            let spec = &self.children[index].spec;
            if !spec.awaited {
                self.restart_after(index, 0);
                continue;
            }
            match begin(spec, self.me.get_cell()).await {
                Ok(actor) => self.runs(index, actor),
                Err(failed) => {
                    let child = spec.name.clone();
                    (spec.on_down)();
                    self.stop(None).await;
                    return Err(StartError::of(child, failed));
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
            let outcome = begin(&spec, me.get_cell()).await.map_err(|failed| failed.why);
            let actor = outcome.as_ref().ok().cloned();
            // Fails only when the supervisor has ended; the child ends with it.
            let _ended = me.send_message(SupervisorMessage::News(StartNews::Started { child: key, outcome }));
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

    /// Handles the end of a restart. Abandoned ones are reported separately.
    pub(super) fn started(&mut self, key: u64, outcome: Result<ActorCell, String>) -> Next {
        let is_it = |child: &Child| child.key == key && matches!(child.phase, Phase::Restarting(_));
        let Some(index) = self.children.iter().position(is_it) else { return Next::Continue };
        let next = match outcome {
            Ok(actor) => {
                let died_already = self.unclaimed.remove(&actor.get_id());
                self.runs(index, actor);
                died_already.map_or(Next::Continue, |death| self.died(index, death))
            }
            Err(why) => self.died(index, Death { died: Died { normally: false }, why }),
        };
        self.drop_unclaimed();
        next
    }

    /// Forgets ends that no start can claim any more.
    pub(super) fn drop_unclaimed(&mut self) {
        if !self.is_starting() {
            self.unclaimed.clear();
        }
    }

    fn runs(&mut self, index: usize, actor: ActorCell) {
        let now_ms = self.now_ms();
        let child = &mut self.children[index];
        child.log.started(now_ms);
        child.enter(Phase::Running { actor, restart_requested: false });
        if let Some(why) = child.died_of.take() {
            (child.spec.on_event)(ChildEvent::Restarted { restarts: child.restarts, why: &why });
        }
    }
}

/// Makes one start. Returns within its time limit and never panics.
async fn begin(spec: &ChildSpec, supervisor: ActorCell) -> Result<ActorCell, Failed> {
    let limit = Duration::from_millis(spec.start_ms);
    let start = AssertUnwindSafe(async { (spec.start)(supervisor, spec.placement.clone()).await }).catch_unwind();
    match tokio::time::timeout(limit, start).await {
        Ok(Ok(Ok(actor))) => Ok(actor),
        Ok(Ok(Err(error))) => Err(error.into()),
        Ok(Err(_panic)) => Err("the making of it panicked".to_owned().into()),
        Err(_elapsed) => Err(format!("it did not start within {} ms", spec.start_ms).into()),
    }
}
