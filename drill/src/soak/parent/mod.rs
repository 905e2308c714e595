//! The parent starts the worker, kills it as planned, restarts it on the same data, logs its reports, and samples
//! `/proc`.
//!
//! It runs on one blocking thread; another thread reads the worker's pipe. It relies on the worker only for the
//! events `ready` and `quiet`, and it judges nothing.

mod aim;
mod processes;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::set_child_subreaper;

use super::chaos::Kind;
use super::plan::{Defect, Life, Plan};
use super::schedule::{Strike, strikes};
use super::turns::Place;
use super::wire::{Line, Report};
pub(crate) use processes::{Figures, Looking};

const SAMPLE_EVERY: Duration = Duration::from_millis(500);

const TELL_EVERY: Duration = Duration::from_secs(5);

/// A worker in which no turn begins or ends for so long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// Descriptors and threads that come and go have this long to go.
const SETTLED_WITHIN: Duration = Duration::from_secs(15);

/// Descriptors or threads more than at the start that are no leak.
pub(crate) const FEW: u64 = 5;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Milliseconds since the first life was ready.
    pub(crate) at_ms: u64,
    pub(crate) life: u32,
    pub(crate) figures: Figures,
    /// Live sessions, as last reported.
    pub(crate) live: usize,
    pub(crate) running: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) samples: Vec<Sample>,
    /// When the first life was ready, in milliseconds since the epoch.
    pub(crate) began_at: u64,
    /// Kills: when, in milliseconds since the epoch.
    pub(crate) kills: Vec<u64>,
    /// From the start of a process to its `ready`, in milliseconds.
    pub(crate) starts_ms: Vec<u64>,
    /// Figures and reported actors of the last life, when ready and when quiet.
    pub(crate) ready: Option<(Figures, usize)>,
    pub(crate) quiet: Option<(Figures, usize)>,
    /// Sessions that were live when it was quiet.
    pub(crate) left_live: usize,
    /// Zombies that stayed, and processes that were left behind.
    pub(crate) zombies: Vec<String>,
    pub(crate) orphans: Vec<String>,
    /// The longest time until all processes of a worker were gone after its end, in milliseconds.
    pub(crate) gone_ms: u64,
    /// How the worker ended where it should not have.
    pub(crate) died: Option<String>,
    /// Of several workers: those that ended by themselves, and how many commits lost their answer.
    pub(crate) ended: Vec<String>,
    pub(crate) cuts: u64,
    pub(crate) is_interrupted: bool,
}

/// Runs all lives of the worker. Errors: when the folder cannot be written or a process not be started.
pub(crate) fn oversee(plan: &Plan, stop: &AtomicBool, tell: &dyn Fn(&str)) -> io::Result<Seen> {
    adopt_orphans()?;
    let log = BufWriter::new(File::create(plan.log_path())?);
    plan.write_config()?;
    tell(&format!("to look at it while it runs: cli-agent --config {} top", plan.config_path().display()));
    let kills = strikes(plan.seed, &plan.chaos).filter(|strike| strike.kind == Kind::ProcessKill);
    let kills: Box<dyn Iterator<Item = Strike>> = match plan.chaos.rate(Kind::ProcessKill) > 0.0 {
        true => Box::new(kills),
        false => Box::new(std::iter::empty()),
    };
    let mut overseer = Overseer {
        plan,
        stop,
        tell,
        log,
        kills: kills.peekable(),
        life: Life { next: vec![0; plan.sessions as usize], ..Life::default() },
        seen: Seen::default(),
        looking: Looking::default(),
        answered: 0,
        faults: 0,
        live: (0, 0),
        told_at: Instant::now(),
    };
    while overseer.one_life()? {
        overseer.life.number += 1;
    }
    overseer.log.flush()?;
    overseer.log.get_ref().sync_data()?;
    let Overseer { looking, mut seen, .. } = overseer;
    (seen.zombies, seen.orphans, seen.gone_ms) = (looking.stayed, looking.orphans, looking.gone_ms);
    Ok(seen)
}

/// Orphaned processes are reparented to this process from now on, so none stays unnoticed.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    set_child_subreaper(rustix::process::Pid::from_raw(1)).map_err(io::Error::from)
}

struct Overseer<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    tell: &'a dyn Fn(&str),
    log: BufWriter<File>,
    kills: std::iter::Peekable<Box<dyn Iterator<Item = Strike>>>,
    life: Life,
    seen: Seen,
    looking: Looking,
    answered: u64,
    faults: u64,
    /// Live sessions and running turns, as last reported.
    live: (usize, usize),
    told_at: Instant,
}

struct Running {
    worker: Child,
    stdin: Option<ChildStdin>,
    started: Instant,
    /// When it was told to start the load.
    went: Option<Instant>,
    heard: Instant,
    sampled: Instant,
    is_quiet: bool,
}

impl Overseer<'_> {
    /// One life of the worker; `true` when it was killed and another one follows.
    fn one_life(&mut self) -> io::Result<bool> {
        self.plan.write(&self.life)?;
        let mut worker = Command::new(std::env::current_exe()?)
            .args(["soak-worker".as_ref(), self.plan.folder.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Signals of the terminal reach only the parent; the worker ends with its pipe or is killed.
            .process_group(0)
            .spawn()?;
        let lines = read(worker.stdout.take());
        let now = Instant::now();
        let stdin = worker.stdin.take();
        let mut run = Running { worker, stdin, started: now, went: None, heard: now, sampled: now, is_quiet: false };
        let is_killed = loop {
            match lines.recv_timeout(SAMPLE_EVERY / 4) {
                Ok(line) => self.take(&mut run, &line)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break false,
            }
            self.look(&mut run);
            if self.stop.load(Ordering::Relaxed) {
                self.seen.is_interrupted = true;
                break false;
            }
            if run.heard.elapsed() > SILENCE {
                self.seen.died = Some(format!("no turn began or ended for {} s", SILENCE.as_secs()));
                break false;
            }
            if let Some(kill) = self.kill_that_is_due(&run) {
                aim::wait(self.plan, kill.pick);
                break true;
            }
        };
        self.end(run, &lines, is_killed)?;
        Ok(is_killed)
    }

    /// Ends a life: by a kill, or because it has ended or should have.
    fn end(&mut self, mut run: Running, lines: &Receiver<String>, is_killed: bool) -> io::Result<()> {
        let is_unfinished = is_killed || self.seen.is_interrupted || self.seen.died.is_some();
        if is_unfinished {
            run.worker.kill()?;
        }
        drop(run.stdin.take());
        let status = run.worker.wait()?;
        if is_killed {
            self.seen.kills.push(now_ms());
            self.life.elapsed_ms += run.went.map_or(0, |went| millis(went.elapsed()));
        } else if !(is_unfinished || status.success() && run.is_quiet) {
            self.seen.died = Some(format!("the worker ended with {status} before its work did"));
        }
        self.looking.until_gone(None);
        // Reads the reports that were written before the end.
        while let Ok(line) = lines.recv_timeout(SAMPLE_EVERY) {
            self.note(&line)?;
        }
        Ok(())
    }

    /// Takes a line: writes it down, and acts where it asks for something.
    fn take(&mut self, run: &mut Running, line: &str) -> io::Result<()> {
        let told = self.note(line)?;
        // Samples and faults go on when nothing else does.
        if !matches!(told, None | Some(Report::Sample { .. } | Report::Fault { .. } | Report::Back { .. })) {
            run.heard = Instant::now();
        }
        match told {
            Some(Report::Ready { actors }) => {
                self.seen.starts_ms.push(millis(run.started.elapsed()));
                if let Some(figures) = self.looking.at(run.worker.id()) {
                    self.seen.ready = Some((figures, actors));
                }
                if self.seen.began_at == 0 {
                    self.seen.began_at = now_ms();
                }
                run.went = Some(Instant::now());
                self.say(run)?;
            }
            Some(Report::Quiet { live, actors }) => {
                run.is_quiet = true;
                self.seen.left_live = live;
                self.settle(run, actors);
                self.say(run)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn say(&self, run: &mut Running) -> io::Result<()> {
        match &mut run.stdin {
            Some(stdin) => stdin.write_all(b"on\n"),
            None => Ok(()),
        }
    }

    /// Writes a line down and counts it. One that a kill cut is no line.
    fn note(&mut self, text: &str) -> io::Result<Option<Report>> {
        let Ok(Line { told, .. }) = serde_json::from_str::<Line>(text) else { return Ok(None) };
        self.log.write_all(text.as_bytes())?;
        self.log.write_all(b"\n")?;
        match &told {
            Report::Answered(answer) => {
                if let Some(place) = Place::parse(&answer.request)
                    && let Some(next) = self.life.next.get_mut(place.session as usize)
                {
                    *next = (*next).max(place.turn + 1);
                    self.answered += 1;
                }
            }
            Report::Fault { .. } => self.faults += 1,
            Report::Sample { live, running, .. } => self.live = (*live, *running),
            _nothing_to_count => {}
        }
        Ok(Some(told))
    }

    /// Waits until temporary descriptors and threads are gone, if they go.
    fn settle(&mut self, run: &Running, actors: usize) {
        let until = Instant::now() + SETTLED_WITHIN;
        while let Some(figures) = self.looking.at(run.worker.id()) {
            self.seen.quiet = Some((figures, actors));
            let (at_first, _) = self.seen.ready.unwrap_or_default();
            // Leaked ones stay: a test of the checker need not wait for them.
            let is_planted = self.plan.has(Defect::LeakFds) || self.plan.has(Defect::LeakThreads);
            let is_back = figures.fds <= at_first.fds + FEW && figures.threads <= at_first.threads + FEW;
            if Instant::now() > until || ((is_back || is_planted) && !self.looking.is_in_doubt()) {
                return;
            }
            std::thread::sleep(SAMPLE_EVERY);
        }
    }

    /// Samples the worker when due, and reports progress.
    fn look(&mut self, run: &mut Running) {
        let Some(went) = run.went.filter(|_| !run.is_quiet) else { return };
        if run.sampled.elapsed() >= SAMPLE_EVERY {
            run.sampled = Instant::now();
            if let Some(figures) = self.looking.at(run.worker.id()) {
                let at_ms = self.life.elapsed_ms + millis(went.elapsed());
                let (live, running) = self.live;
                self.seen.samples.push(Sample { at_ms, life: self.life.number, figures, live, running });
            }
        }
        if self.told_at.elapsed() >= TELL_EVERY {
            self.told_at = Instant::now();
            let rss = self.seen.samples.last().map_or(0, |sample| sample.figures.rss_kib / 1_024);
            let of = self.plan.turns.map(|turns| format!(" of {}", u64::from(turns) * u64::from(self.plan.sessions)));
            (self.tell)(&format!(
                "{} s: {}{} turns answered, {} sessions live, {} turns run, {} faults, {} kills, {rss} MiB",
                (self.life.elapsed_ms + millis(went.elapsed())) / 1_000,
                self.answered,
                of.unwrap_or_default(),
                self.live.0,
                self.live.1,
                self.faults,
                self.seen.kills.len(),
            ));
        }
    }

    fn kill_that_is_due(&mut self, run: &Running) -> Option<Strike> {
        let went = run.went.filter(|_| !run.is_quiet)?;
        let elapsed = self.life.elapsed_ms + millis(went.elapsed());
        self.kills.next_if(|kill| kill.at_ms <= elapsed)
    }
}

/// Reads lines until the pipe ends. The last one may be cut.
fn read(pipe: Option<std::process::ChildStdout>) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
            let is_over = line.map_or(true, |line| sender.send(line).is_err());
            if is_over {
                return;
            }
        }
    });
    lines
}

/// Milliseconds since the epoch, as the worker's lines have them.
fn now_ms() -> u64 {
    u64::try_from(bob_actors::clock::now()).unwrap_or(0)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
