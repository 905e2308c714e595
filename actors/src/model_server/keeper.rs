//! The task that starts a model server, waits until it is ready, and ends it.
//!
//! A keeper lives from the first request until its server has ended, and ends its server when its actor ends for any
//! reason: it watches the actor and does not rely on its cooperation. It sends the replies itself, so no caller waits
//! longer than the keeper lives.

use super::probe::Health;
use super::{ModelServerMessage, ModelServerSpec, Ready};
use crate::child::{Child, ChildSpec, Exit, Stdin, Stdout};
use crate::time_budget::TimeBudget;
use bob_messages::llm::{LlmError, LlmErrorKind};
use bob_messages::reply::Reply;
use ractor::ActorRef;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

/// Between two questions whether the server is ready.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How many lines of a server that is not ready in time are repeated.
const LAST_LINES: usize = 3;

pub(super) struct Keeper {
    pub(super) spec: Arc<ModelServerSpec>,
    pub(super) actor: ActorRef<ModelServerMessage>,
}

/// State of a keeper while its server runs.
#[derive(Default)]
struct Held {
    /// `None` for a server started by another process.
    child: Option<Child>,
    /// There is one process at a time for a provider, also across restarts of the actor: the next keeper waits until
    /// this is released.
    place: Option<OwnedMutexGuard<()>>,
}

impl Keeper {
    /// Starts the server and keeps it. All callers are answered as soon as it is ready, and together when it fails.
    pub(super) async fn keep(self, mut asked: UnboundedReceiver<Reply<Ready>>) {
        let cell = self.actor.get_cell();
        let mut actor_ends = pin!(cell.wait(None));
        let mut held = Held::default();
        let mut waiting = Vec::new();
        let started = {
            let mut start = pin!(self.start(&mut held));
            loop {
                tokio::select! { biased;
                    _ = &mut actor_ends => break None,
                    result = &mut start => break Some(result),
                    Some(reply) = asked.recv() => waiting.push(reply),
                }
            }
        };
        let goes_on = matches!((&started, &held.child), (Some(Ok(())), Some(_)));
        if !goes_on {
            // From now on the actor starts another keeper for further questions.
            asked.close();
            while let Ok(reply) = asked.try_recv() {
                waiting.push(reply);
            }
        }
        for reply in waiting {
            match &started {
                Some(ready) => reply.send(ready.clone()),
                None => drop(reply),
            }
        }
        if let (true, Some(child)) = (goes_on, &mut held.child) {
            tokio::select! { biased;
                _ = &mut actor_ends => {}
                exit = child.exited() => self.report_end(exit, child).await,
                () = answer_all(&mut asked) => {}
            }
        }
        // The last callers do not wait while the process is stopped.
        drop(asked);
        if let Some(mut child) = held.child.take() {
            child.stop(self.spec.ladder).await;
        }
    }

    async fn start(&self, held: &mut Held) -> Ready {
        held.place = Some(Arc::clone(&self.spec.place).lock_owned().await);
        let mut budget = TimeBudget::of(self.spec.ready_timeout);
        match budget.within(self.served_by_another()).await {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return Err(self.never_answered(None)),
        }
        let is_ready = Arc::new(AtomicBool::new(false));
        let child = Child::spawn(self.command(&is_ready), &self.spec.watcher)
            .map_err(|error| self.error(LlmErrorKind::NotStarted, &error.to_string()))?;
        let child = held.child.insert(child);
        let ended = tokio::select! { biased;
            exit = child.exited() => self.ended_early(exit, &child.last_output().await),
            answered = budget.within(self.answers()) => {
                is_ready.store(answered.is_some(), Ordering::Relaxed);
                return answered.ok_or_else(|| self.never_answered(Some(child)));
            }
        };
        // Another process may have started its server at the same time and taken the port.
        match budget.within(self.served_by_another()).await {
            Some(true) => {
                held.child = None;
                Ok(())
            }
            Some(false) | None => Err(ended),
        }
    }

    /// Whether another program runs a server there that is ready; waits for one that is loading.
    async fn served_by_another(&self) -> bool {
        loop {
            match self.spec.endpoint.health().await {
                Health::Ready => return true,
                Health::Absent => return false,
                Health::NotReady => sleep(ASK_EVERY).await,
            }
        }
    }

    async fn answers(&self) {
        while self.spec.endpoint.health().await != Health::Ready {
            sleep(ASK_EVERY).await;
        }
    }

    /// The command, with its output forwarded until it is ready.
    fn command(&self, is_ready: &Arc<AtomicBool>) -> ChildSpec {
        let (spec, is_ready) = (Arc::clone(&self.spec), Arc::clone(is_ready));
        let secrets = spec.command.secrets();
        let pass_on = move |line: &str| {
            if is_ready.load(Ordering::Relaxed) {
                return;
            }
            let line = secrets.hidden_in(line);
            tracing::info!(provider = %spec.provider, line, "the model server starts");
            if let Some(progress) = &spec.progress {
                progress(&spec.provider, &line);
            }
        };
        ChildSpec {
            stdin: Stdin::Null,
            stdout: Stdout::Drained,
            on_line: Some(Arc::new(pass_on)),
            ..self.spec.command.clone()
        }
    }

    /// Reports the exit to the actor, which then ends; its supervisor decides about a restart.
    async fn report_end(&self, exit: Exit, child: &mut Child) {
        let said = child.last_output().await;
        let why = format!("the model server of `{}` {exit}{}", self.spec.provider, self.quoted(&said));
        // An actor that has ended needs no telling.
        drop(self.actor.send_message(ModelServerMessage::Ended { why }));
    }

    fn ended_early(&self, exit: Exit, said: &str) -> LlmError {
        let to_do = if said.is_empty() {
            "it printed nothing; run its command manually to see why"
        } else {
            "fix the problem above, then try again"
        };
        let what = format!("it {exit} before it was ready{}; {to_do}", self.quoted(said));
        self.error(LlmErrorKind::NotStarted, &what)
    }

    fn never_answered(&self, child: Option<&Child>) -> LlmError {
        let authority = self.spec.endpoint.authority();
        let limit_ms = self.spec.ready_timeout.as_millis();
        let what = match child {
            Some(child) => format!(
                "it did not answer on {authority} within {limit_ms} ms{}; raise ready_timeout_ms, or correct the port \
                 in base_url or in its command",
                self.quoted(&child.said().last_lines(LAST_LINES))
            ),
            None => format!(
                "another program listens on {authority} and was not ready within {limit_ms} ms; stop it or change the \
                 port"
            ),
        };
        self.error(LlmErrorKind::NotStarted, &what)
    }

    fn error(&self, kind: LlmErrorKind, what: &str) -> LlmError {
        LlmError::new(kind, format!("the model server of `{}` is not ready: {what}", self.spec.provider))
    }

    /// Its output without its secrets.
    fn quoted(&self, said: &str) -> String {
        match said {
            "" => String::new(),
            said => format!(", last output: {}", self.spec.command.secrets().hidden_in(said)),
        }
    }
}

/// Answers questions while the server is ready. Never ends: when the channel is closed, the actor is about to end,
/// which is noticed elsewhere.
async fn answer_all(asked: &mut UnboundedReceiver<Reply<Ready>>) {
    while let Some(reply) = asked.recv().await {
        reply.send(Ok(()));
    }
    std::future::pending().await
}
