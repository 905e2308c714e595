//! Commands in the background: each belongs to the session that started it.
//!
//! One ends by itself, when it is stopped, at its time limit if it has one, with its session, and with the actor that hosts
//! the tools, however that ends; also with this process, which the watcher sees to. What it put out last is kept until then,
//! and for a while after its own end.

use super::LAST_WORDS;
use super::command::{Running, Shell, Started};
use super::kept::{Ring, read};
use crate::child::{Exit, ExitWatch, Group};
use crate::tools::port::{Leaving, ToolError};
use bob_messages::ids::SessionId;
use bob_messages::tools::{BackgroundCommand, CallContext};
use rustix::process::Signal;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::time::Instant;

/// How many commands of a session, and of all, run in the background at once.
const MAX_RUNNING: (usize, usize) = (8, 64);
/// How many of a session, and of all, are kept, those that ended included.
const MAX_KEPT: (usize, usize) = (16, 128);

/// How long a command that is stopped has to end by itself, and after that to be killed.
const TO_END: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(2));

/// The commands in the background of all sessions. Locked for a look or a change only.
#[derive(Debug, Default)]
pub(in crate::tools::local) struct Jobs(Mutex<HashMap<SessionId, OfSession>>);

#[derive(Debug, Default)]
struct OfSession {
    started: u32,
    /// In the order of their numbers.
    jobs: Vec<Arc<Job>>,
}

/// A command in the background. Dropping it kills its whole group.
#[derive(Debug)]
pub(in crate::tools::local) struct Job {
    /// Its number in its session, from 1.
    pub(super) id: u32,
    pub(super) line: String,
    pub(super) began: Instant,
    running: Running,
    output: Arc<Output>,
}

#[derive(Debug, Default)]
struct Output {
    ring: Mutex<Ring>,
    /// When everything was read.
    ended: watch::Sender<Option<Instant>>,
    is_late: AtomicBool,
}

pub(super) struct Look {
    /// How it ended; `None`: it runs.
    pub(super) exit: Option<Exit>,
    pub(super) lasted: Duration,
    pub(super) is_late: bool,
    pub(super) output: String,
}

impl Jobs {
    /// Starts a command for a session. Errors: when too many run already, or it does not start.
    pub(super) fn start(
        &self,
        shell: &Shell,
        context: &CallContext,
        line: &str,
        folder: &Path,
        limit: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        let session = &context.session;
        self.look_for_room(session)?;
        let Started { running, stdout, stderr } = shell.start(line, folder, &context.roots)?;
        let output = Arc::<Output>::default();
        tokio::spawn(Arc::clone(&output).follow(
            stdout,
            stderr,
            running.exit.clone(),
            Arc::clone(&running.group),
            limit,
        ));
        let mut sessions = self.lock();
        let of_session = sessions.entry(session.clone()).or_default();
        of_session.started += 1;
        let (id, line, began) = (of_session.started, line.to_owned(), Instant::now());
        let job = Arc::new(Job { id, line, began, running, output });
        of_session.jobs.push(Arc::clone(&job));
        Ok(job)
    }

    /// Forgets the oldest that ended, where there are too many.
    fn look_for_room(&self, session: &SessionId) -> Result<(), ToolError> {
        let mut sessions = self.lock();
        let running = |jobs: &OfSession| jobs.jobs.iter().filter(|job| job.is_running()).count();
        let (here, all) = (sessions.get(session).map_or(0, running), sessions.values().map(running).sum::<usize>());
        if here >= MAX_RUNNING.0 {
            let told = format!("{here} commands run in the background of this session; stop one with shell_stop first");
            return Err(ToolError::new(told));
        }
        if all >= MAX_RUNNING.1 {
            return Err(ToolError::new(format!(
                "{all} commands of all sessions run in the background; try again later"
            )));
        }
        if let Some(of_session) = sessions.get_mut(session) {
            while of_session.jobs.len() >= MAX_KEPT.0 && of_session.forget_oldest().is_some() {}
        }
        while sessions.values().map(|of_session| of_session.jobs.len()).sum::<usize>() >= MAX_KEPT.1 {
            let oldest = |of_session: &&mut OfSession| of_session.oldest_ended().map(|at| of_session.jobs[at].began);
            let with_ended = sessions.values_mut().filter(|of_session| of_session.oldest_ended().is_some());
            if with_ended.min_by_key(oldest).and_then(OfSession::forget_oldest).is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The command of this number. Errors: when the session has none, with those that it has.
    pub(in crate::tools::local) fn get(&self, session: &SessionId, id: u32) -> Result<Arc<Job>, ToolError> {
        let sessions = self.lock();
        let jobs = sessions.get(session).map_or(&[][..], |of_session| &of_session.jobs);
        if let Some(job) = jobs.iter().find(|job| job.id == id) {
            return Ok(Arc::clone(job));
        }
        let known: Vec<_> = jobs.iter().map(|job| job.id.to_string()).collect();
        Err(ToolError::new(match known.as_slice() {
            [] => "no command was started in the background of this session since the program began".to_owned(),
            known => format!("there is no command {id} in the background; there are {}", known.join(", ")),
        }))
    }

    pub(in crate::tools::local) fn all(&self, session: &SessionId) -> Vec<Arc<Job>> {
        self.lock().get(session).map_or_else(Vec::new, |of_session| of_session.jobs.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, OfSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaving for Jobs {
    fn host_ended(&self) {
        let sessions = std::mem::take(&mut *self.lock());
        sessions.into_values().for_each(OfSession::end);
    }

    fn session_ended(&self, session: &SessionId) {
        let ended = self.lock().remove(session);
        ended.into_iter().for_each(OfSession::end);
    }
}

impl OfSession {
    fn oldest_ended(&self) -> Option<usize> {
        self.jobs.iter().position(|job| !job.is_running())
    }

    fn forget_oldest(&mut self) -> Option<Arc<Job>> {
        self.oldest_ended().map(|at| self.jobs.remove(at))
    }

    /// Also one that a call is looking at.
    fn end(self) {
        self.jobs.iter().for_each(|job| job.signal(Signal::KILL));
    }
}

impl Job {
    /// Asks it to end, and kills it if it does not.
    pub(in crate::tools::local) async fn stop(&self) {
        self.signal(Signal::TERM);
        self.ended(TO_END.0).await;
        self.signal(Signal::KILL);
        self.ended(TO_END.1).await;
    }

    pub(in crate::tools::local) fn shown(&self) -> BackgroundCommand {
        let ended = *self.output.ended.borrow();
        let lasted = ended.unwrap_or_else(Instant::now).duration_since(self.began);
        BackgroundCommand {
            id: self.id,
            command: self.line.clone(),
            is_running: self.is_running(),
            lasted_ms: u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.exit.now().is_none()
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.running.group.signal(signal);
    }

    /// Waits for its end, at most so long, and until its output was read.
    pub(super) async fn ended(&self, within: Duration) {
        let mut ended = self.output.ended.subscribe();
        drop(tokio::time::timeout(within, ended.wait_for(Option::is_some)).await);
    }

    /// What there is of it now: the output since the last look, or all that is kept.
    pub(super) fn look(&self, all: bool) -> Look {
        let ended = *self.output.ended.borrow();
        let exit = ended.and_then(|_| self.running.exit.now());
        let lasted = ended.unwrap_or_else(Instant::now).duration_since(self.began);
        let output = self.output.ring.lock().unwrap_or_else(PoisonError::into_inner).show(all);
        Look { exit, lasted, is_late: self.output.is_late.load(Ordering::Relaxed), output }
    }
}

impl Output {
    /// Reads both pipes until the command has ended; kills it at its limit.
    async fn follow(
        self: Arc<Self>,
        stdout: Option<impl AsyncRead + Unpin>,
        stderr: Option<impl AsyncRead + Unpin>,
        mut exit: ExitWatch,
        group: Arc<Group>,
        limit: Option<Duration>,
    ) {
        let push = |bytes: &[u8]| self.ring.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        let reading = async { tokio::join!(read(stdout, push), read(stderr, push)) };
        let late = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(reading, late);
        let mut is_read = false;
        loop {
            tokio::select! {
                biased;
                _ = exit.exited() => break,
                _ = &mut reading, if !is_read => is_read = true,
                () = &mut late, if !self.is_late.load(Ordering::Relaxed) => {
                    self.is_late.store(true, Ordering::Relaxed);
                    group.signal(Signal::KILL);
                }
            }
        }
        if !is_read {
            drop(tokio::time::timeout(LAST_WORDS, reading).await);
        }
        self.ended.send_replace(Some(Instant::now()));
    }
}
