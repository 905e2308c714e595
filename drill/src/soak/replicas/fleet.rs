//! The processes of the workers: started, killed, stopped and resumed, and started again.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::log::Log;
use crate::soak::error::SoakError;
use crate::soak::parent::{Figures, Looking, Seen};
use crate::soak::plan::{DATABASE, Life, Plan};

/// How long all workers may take to be ready at first.
const READY_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long behind its end a worker is started again, as by a service manager.
const STARTED_AFTER: Duration = Duration::from_secs(1);

/// How long a worker that was told to end may take, its grace period included.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// How long the last lines of a worker are waited for. A tool server that outlives it for a moment has no copy of its pipe.
const READ_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Fleet {
    plan: Plan,
    log: Log,
    members: Vec<Member>,
    kills: u32,
    pauses: u32,
}

struct Member {
    life: Life,
    state: State,
}

enum State {
    Runs(Box<Running>),
    /// It was killed, and starts again at this time.
    Down(Instant),
}

struct Running {
    process: Child,
    stdin: Option<ChildStdin>,
    reading: JoinHandle<()>,
    is_ready: Arc<AtomicBool>,
    /// Whether it was told to begin.
    goes: bool,
    is_killed: bool,
    paused_until: Option<Instant>,
}

impl Running {
    fn pid(&self) -> Option<Pid> {
        self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _already_gone = kill_process(pid, signal);
        }
    }

    /// Has it begin as soon as it is ready.
    async fn go(&mut self) {
        if !self.goes
            && self.is_ready.load(Ordering::SeqCst)
            && let Some(stdin) = &mut self.stdin
        {
            self.goes = true;
            // One that has just been killed does not read.
            let _written = stdin.write_all(b"on\n").await;
        }
    }
}

impl Fleet {
    pub(super) fn new(plan: Plan, log: Log) -> Self {
        Self { plan, log, members: Vec::new(), kills: 0, pauses: 0 }
    }

    pub(super) async fn start_all(&mut self) -> Result<(), SoakError> {
        let count = self.plan.replicas.as_ref().map_or(1, |replicas| replicas.count);
        for number in 0..count {
            let life = Life { replica: Some(number), ..Life::default() };
            let state = State::Runs(self.start(&life)?);
            self.members.push(Member { life, state });
        }
        let until = Instant::now() + READY_WITHIN;
        loop {
            let mut goes = 0;
            for member in &mut self.members {
                let State::Runs(running) = &mut member.state else { continue };
                running.go().await;
                goes += usize::from(running.goes);
                if let Ok(Some(status)) = running.process.try_wait() {
                    let who = member.life.who();
                    return Err(SoakError::internal(format!("the worker {who} ended with {status} at its start")));
                }
            }
            if goes == self.members.len() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(SoakError::internal(format!("the workers are not ready after {READY_WITHIN:?}")));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn start(&self, life: &Life) -> Result<Box<Running>, SoakError> {
        let who = life.who();
        let folder = self.plan.folder.join(&who);
        let url = self.plan.replicas.as_ref().and_then(|replicas| replicas.url.as_deref()).unwrap_or_default();
        let begun = || {
            std::fs::create_dir_all(&folder)?;
            self.plan.write_into(&folder, life)?;
            Command::new(std::env::current_exe()?)
                .arg("soak-worker")
                .arg(&folder)
                .env(DATABASE, url)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // Signals of the terminal reach only the parent.
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
        };
        let mut process = begun().map_err(SoakError::of_run)?;
        self.log.started(who.clone());
        let (stdin, is_ready) = (process.stdin.take(), Arc::<AtomicBool>::default());
        let reading = tokio::spawn(read(process.stdout.take(), who, self.log.clone(), Arc::clone(&is_ready)));
        Ok(Box::new(Running { process, stdin, reading, is_ready, goes: false, is_killed: false, paused_until: None }))
    }

    /// Does what is due: a stopped one goes on, a killed one is started, one that is ready begins. One that ended by itself
    /// is noted and started again.
    pub(super) async fn look(&mut self, seen: &mut Seen) -> Result<(), SoakError> {
        for at in 0..self.members.len() {
            let Some(member) = self.members.get_mut(at) else { continue };
            let now = Instant::now();
            match &mut member.state {
                State::Runs(running) => {
                    running.go().await;
                    if running.paused_until.is_some_and(|until| now >= until) {
                        running.paused_until = None;
                        running.signal(Signal::CONT);
                    }
                    let ended = match running.process.try_wait() {
                        Ok(ended) => ended.map(|status| status.to_string()),
                        // It was reaped elsewhere.
                        Err(error) => Some(error.to_string()),
                    };
                    if let Some(status) = ended {
                        if !running.is_killed {
                            seen.ended.push(format!("{} ended with {status}", member.life.who()));
                        }
                        member.state = State::Down(now + STARTED_AFTER);
                    }
                }
                State::Down(until) if now >= *until => {
                    let life = Life { number: member.life.number + 1, ..member.life.clone() };
                    let state = State::Runs(self.start(&life)?);
                    if let Some(member) = self.members.get_mut(at) {
                        *member = Member { life, state };
                    }
                }
                State::Down(_) => {}
            }
        }
        Ok(())
    }

    /// Kills one of those that work. Says which.
    pub(super) fn kill(&mut self, pick: u64) -> Option<String> {
        let member = self.picked(pick)?;
        let State::Runs(running) = &mut member.state else { return None };
        running.process.start_kill().ok()?;
        running.is_killed = true;
        let who = member.life.who();
        self.kills += 1;
        Some(who)
    }

    /// Stops one of those that work for a while. Says which.
    pub(super) fn pause(&mut self, pick: u64, time: Duration) -> Option<String> {
        let member = self.picked(pick)?;
        let State::Runs(running) = &mut member.state else { return None };
        running.signal(Signal::STOP);
        running.paused_until = Some(Instant::now() + time);
        let who = member.life.who();
        self.pauses += 1;
        Some(who)
    }

    /// One of the workers that are at work.
    fn picked(&mut self, pick: u64) -> Option<&mut Member> {
        let is_at_work = |member: &&mut Member| match &member.state {
            State::Runs(running) => running.goes && !running.is_killed && running.paused_until.is_none(),
            State::Down(_) => false,
        };
        let mut at_work: Vec<&mut Member> = self.members.iter_mut().filter(is_at_work).collect();
        let at = usize::try_from(pick).unwrap_or(0).checked_rem(at_work.len())?;
        Some(at_work.swap_remove(at))
    }

    pub(super) fn alive(&self) -> usize {
        self.members.iter().filter(|member| matches!(&member.state, State::Runs(running) if running.goes)).count()
    }

    pub(super) fn kills(&self) -> u32 {
        self.kills
    }

    pub(super) fn pauses(&self) -> u32 {
        self.pauses
    }

    pub(super) fn figures(&self, looking: &mut Looking) -> Figures {
        let ids = self.members.iter().filter_map(|member| match &member.state {
            State::Runs(running) => running.process.id(),
            State::Down(_) => None,
        });
        looking.at_all(&ids.collect::<Vec<_>>())
    }

    pub(super) fn resume_all(&mut self) {
        for member in &mut self.members {
            if let State::Runs(running) = &mut member.state
                && running.paused_until.take().is_some()
            {
                running.signal(Signal::CONT);
            }
        }
    }

    pub(super) async fn kill_all(&mut self) {
        for member in &mut self.members {
            if let State::Runs(running) = &mut member.state {
                let _already_gone = running.process.kill().await;
                let _late = timeout(READ_WITHIN, &mut running.reading).await;
            }
        }
    }

    /// Has all of them hand over and end.
    pub(super) async fn end(&mut self, seen: &mut Seen) {
        for member in &mut self.members {
            if let State::Runs(running) = &mut member.state {
                running.stdin = None;
            }
        }
        for member in &mut self.members {
            let who = member.life.who();
            let State::Runs(running) = &mut member.state else { continue };
            match timeout(ENDED_WITHIN, running.process.wait()).await {
                // A kill may have come last.
                Ok(Ok(status)) if status.success() || running.is_killed => {}
                Ok(Ok(status)) => seen.ended.push(format!("{who} ended with {status}")),
                Ok(Err(error)) => seen.ended.push(format!("{who}: {error}")),
                Err(_late) => {
                    seen.ended.push(format!("{who} did not end within {ENDED_WITHIN:?}"));
                    let _already_gone = running.process.kill().await;
                }
            }
            let _late = timeout(READ_WITHIN, &mut running.reading).await;
        }
    }
}

/// Writes the lines of a worker down until its pipe ends.
async fn read(pipe: Option<ChildStdout>, who: String, log: Log, is_ready: Arc<AtomicBool>) {
    let Some(pipe) = pipe else { return };
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if log.heard(&who, &line) {
            is_ready.store(true, Ordering::SeqCst);
        }
    }
}
