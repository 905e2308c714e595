//! The task that starts a model server, waits until it is ready, and ends it.
//!
//! A keeper lives from the first request until its server has ended, and ends its server when its actor ends for any
//! reason: it watches the actor and does not rely on its cooperation. It sends the replies itself, so no caller waits
//! longer than the keeper lives.

use super::probe::{Endpoint, Health, Occupant};
use super::{Answer, ModelServerMessage, ModelServerSpec, PORT, Port, STATE};
use crate::child::{BETWEEN_LINES, Child, ChildSpec, Exit, Stdin, Stdout};
use crate::time_budget::TimeBudget;
use bob_messages::llm::{LlmError, LlmErrorKind};
use ractor::ActorRef;
use std::ffi::OsString;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout_at};

/// Between two questions whether the server is ready.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How many lines of a server that is not ready in time are repeated.
const LAST_LINES: usize = 3;

/// How long a program on the port may say nothing before it counts as no model server.
const SILENT_FOR: Duration = Duration::from_secs(30);

/// How many times its ready timeout a start may take that says something now and then.
const LONGEST: u32 = 20;

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
    pub(super) async fn keep(self, mut asked: UnboundedReceiver<Answer>) {
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
        let goes_on = matches!((&started, &held.child), (Some(Ok(_)), Some(_)));
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
        if let (true, Some(Ok(port)), Some(child)) = (goes_on, started, &mut held.child) {
            tokio::select! { biased;
                _ = &mut actor_ends => {}
                exit = child.exited() => self.report_end(exit, child).await,
                () = answer_all(&mut asked, port) => {}
            }
        }
        // The last callers do not wait while the process is stopped.
        drop(asked);
        if let Some(mut child) = held.child.take() {
            child.stop(self.spec.ladder).await;
        }
    }

    async fn start(&self, held: &mut Held) -> Result<Port, LlmError> {
        held.place = Some(Arc::clone(&self.spec.place).lock_owned().await);
        let mut budget = TimeBudget::of(self.spec.ready_timeout);
        let port = match budget.within(self.look_for_a_port()).await {
            Some(Ok(Some(port))) => port,
            Some(Ok(None)) => return Ok(None),
            Some(Err(error)) => return Err(error),
            None => return Err(self.never_answered(None, &self.spec.endpoint)),
        };
        let endpoint = self.spec.endpoint.at_port(port);
        let moved = (port != self.spec.endpoint.port()).then_some(port);
        let (is_ready, said) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let child = Child::spawn(self.command(port, &is_ready, &said), &self.spec.watcher)
            .map_err(|error| self.error(LlmErrorKind::NotStarted, &error.to_string()).with_source(error))?;
        let child = held.child.insert(child);
        let ended = tokio::select! { biased;
            exit = child.exited() => self.ended_early(exit, &child.last_output().await),
            () = answers(&endpoint) => {
                is_ready.store(true, Ordering::Relaxed);
                return Ok(moved);
            }
            () = self.falls_silent(&said) => return Err(self.never_answered(Some(child), &endpoint)),
        };
        // Another process may have started its server at the same time and taken the port.
        match timeout_at(Instant::now() + self.spec.ready_timeout, self.served_by_another(&endpoint)).await {
            Ok(true) => {
                held.child = None;
                Ok(moved)
            }
            Ok(false) | Err(_) => Err(ended),
        }
    }

    /// The port to start the server at; `None` when another process runs one, which is used. Waits for one that loads.
    async fn look_for_a_port(&self) -> Result<Option<u16>, LlmError> {
        let endpoint = &self.spec.endpoint;
        let (began, mut is_told) = (Instant::now(), false);
        loop {
            match endpoint.occupant().await {
                Occupant::Free => return Ok(Some(endpoint.port())),
                Occupant::Server => return Ok(None),
                Occupant::Loading => {}
                Occupant::Silent if began.elapsed() < SILENT_FOR => {
                    if !std::mem::replace(&mut is_told, true) {
                        let authority = endpoint.authority();
                        let seconds = SILENT_FOR.as_secs();
                        self.tell(&format!("the program on {authority} does not answer; it has {seconds} s to do so"));
                    }
                }
                Occupant::Silent | Occupant::Foreign => return self.another_port().await.map(Some),
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// A free port, where another program has that of the endpoint.
    async fn another_port(&self) -> Result<u16, LlmError> {
        let endpoint = &self.spec.endpoint;
        let foreign = format!("another program listens on {} and is no model server", endpoint.authority());
        let takes_a_port = self.spec.command.args.iter().any(|arg| arg.to_string_lossy().contains(PORT));
        if !takes_a_port {
            let to_do =
                "stop it, change the port in base_url and in the command, or write {port} for the port in `args`";
            return Err(self.error(LlmErrorKind::NotStarted, &format!("{foreign}; {to_do}")));
        }
        let no_port = |error| self.error(LlmErrorKind::NotStarted, &format!("{foreign}, and no port is free: {error}"));
        let port = endpoint.free_port().await.map_err(no_port)?;
        self.tell(&format!("{foreign}; port {port} is taken instead"));
        Ok(port)
    }

    /// Whether another program runs a server there that is ready; waits for one that is loading.
    async fn served_by_another(&self, endpoint: &Endpoint) -> bool {
        loop {
            match endpoint.occupant().await {
                Occupant::Server => return true,
                Occupant::Free | Occupant::Foreign => return false,
                Occupant::Loading | Occupant::Silent => sleep(ASK_EVERY).await,
            }
        }
    }

    /// Returns when a start has said nothing for the ready timeout, or takes many times that.
    async fn falls_silent(&self, said: &Notify) {
        let latest = Instant::now() + self.spec.ready_timeout.saturating_mul(LONGEST);
        loop {
            let mut quiet = TimeBudget::of(self.spec.ready_timeout);
            let is_silent = quiet.within(said.notified()).await.is_none();
            if is_silent || Instant::now() >= latest {
                return;
            }
        }
    }

    fn tell(&self, line: &str) {
        tracing::info!(provider = %self.spec.provider, line, "the model server starts");
        if let Some(progress) = &self.spec.progress {
            progress(&self.spec.provider, line);
        }
    }

    /// The command for a port, with its output forwarded until it is ready.
    fn command(&self, port: u16, is_ready: &Arc<AtomicBool>, said: &Arc<Notify>) -> ChildSpec {
        let (spec, is_ready, said) = (Arc::clone(&self.spec), Arc::clone(is_ready), Arc::clone(said));
        let secrets = spec.command.secrets();
        let pass_on = move |line: &str| {
            if is_ready.load(Ordering::Relaxed) {
                return;
            }
            said.notify_one();
            let line = secrets.hidden_in(line);
            if !line.starts_with(STATE) {
                tracing::info!(provider = %spec.provider, line, "the model server starts");
            }
            if let Some(progress) = &spec.progress {
                progress(&spec.provider, &line);
            }
        };
        let with_port = |arg: &OsString| match arg.to_str() {
            Some(arg) => arg.replace(PORT, &port.to_string()).into(),
            None => arg.clone(),
        };
        ChildSpec {
            args: self.spec.command.args.iter().map(with_port).collect(),
            stdin: Stdin::Null,
            stdout: Stdout::Drained,
            on_line: Some(Arc::new(pass_on)),
            ..self.spec.command.clone()
        }
    }

    /// Reports the exit to the actor, which then ends; its supervisor decides about a restart.
    async fn report_end(&self, exit: Exit, child: &mut Child) {
        let said = child.last_output().await;
        let why = format!("the model server of `{}` {exit}{}", self.spec.provider, self.quoted(&self.unsaid(&said)));
        // An actor that has ended needs no telling.
        drop(self.actor.send_message(ModelServerMessage::Ended { why }));
    }

    fn ended_early(&self, exit: Exit, said: &str) -> LlmError {
        let said = self.unsaid(said);
        let to_do = if said.is_empty() {
            "it printed nothing; run its command manually to see why"
        } else {
            "fix the problem above, then try again"
        };
        let what = format!("it {exit} before it was ready{}; {to_do}", self.quoted(&said));
        self.error(LlmErrorKind::NotStarted, &what)
    }

    fn never_answered(&self, child: Option<&Child>, endpoint: &Endpoint) -> LlmError {
        let authority = endpoint.authority();
        let limit_ms = self.spec.ready_timeout.as_millis();
        let what = match child {
            Some(child) => format!(
                "it did not answer on {authority} within {limit_ms} ms of its last output{}; raise ready_timeout_ms, or \
                 correct the port in base_url or in its command",
                self.quoted(&self.unsaid(&child.said().last_lines(LAST_LINES)))
            ),
            None => format!(
                "the model server of another program on {authority} was not ready within {limit_ms} ms; stop it or \
                 change the port"
            ),
        };
        self.error(LlmErrorKind::NotStarted, &what)
    }

    fn error(&self, kind: LlmErrorKind, what: &str) -> LlmError {
        LlmError::new(kind, format!("the model server of `{}` is not ready: {what}", self.spec.provider))
    }

    /// What of its output an error repeats: no states, and where all of it was shown already, its last line.
    fn unsaid(&self, said: &str) -> String {
        unsaid(said, self.spec.progress.is_some())
    }

    fn quoted(&self, said: &str) -> String {
        match said {
            "" => String::new(),
            said => format!(", last output: {}", self.spec.command.secrets().hidden_in(said)),
        }
    }
}

fn unsaid(said: &str, is_shown: bool) -> String {
    let lines: Vec<&str> = said.split(BETWEEN_LINES).filter(|line| !line.starts_with(STATE)).collect();
    let first = if is_shown { lines.len().saturating_sub(1) } else { 0 };
    lines[first..].join(BETWEEN_LINES)
}

async fn answers(endpoint: &Endpoint) {
    while endpoint.health().await != Health::Ready {
        sleep(ASK_EVERY).await;
    }
}

/// Answers questions while the server is ready. Never ends: when the channel is closed, the actor is about to end,
/// which is noticed elsewhere.
async fn answer_all(asked: &mut UnboundedReceiver<Answer>, port: Port) {
    while let Some(reply) = asked.recv().await {
        reply.send(Ok(port));
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_repeats_no_states_and_little_that_was_shown() {
        let said = "installing | ~ 1 of 3: environment | ~ 2 of 3: 7 MB | cannot reach the index";
        assert_eq!(unsaid(said, false), "installing | cannot reach the index");
        assert_eq!(unsaid(said, true), "cannot reach the index");
        assert_eq!((unsaid("", true).as_str(), unsaid("~ 1 of 3", true).as_str()), ("", ""));
    }
}
