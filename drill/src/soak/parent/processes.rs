//! Reads the process tree below this process from `/proc`, independently of the worker.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use procfs::process::{Process, Stat};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// An ended child must have been waited for within this time.
const ZOMBIE_AFTER: Duration = Duration::from_secs(1);

/// All processes of a worker must be gone within this time of its end.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Resident memory, in KiB.
    pub(crate) rss_kib: u64,
    pub(crate) fds: u64,
    pub(crate) threads: u64,
    pub(crate) children: u64,
    /// Processor time it used, in milliseconds.
    pub(crate) cpu_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Looking {
    /// Zombies by process and start, and since when they are seen.
    zombies: HashMap<(i32, u64), (Instant, bool)>,
    /// Violations: lasting zombies, and orphaned processes.
    pub(crate) stayed: Vec<String>,
    pub(crate) orphans: Vec<String>,
    /// The longest time until all processes of a worker were gone after its end, in milliseconds.
    pub(crate) gone_ms: u64,
}

impl Looking {
    /// Returns the worker's figures; `None` if it is gone. Records zombies.
    pub(crate) fn at(&mut self, worker: u32) -> Option<Figures> {
        let worker = i32::try_from(worker).ok()?;
        let process = Process::new(worker).ok()?;
        let stat = process.stat().ok()?;
        let below = below(worker);
        let now = Instant::now();
        let seen: Vec<(i32, u64)> =
            below.iter().filter(|stat| stat.state == 'Z').map(|stat| (stat.pid, stat.starttime)).collect();
        self.zombies.retain(|id, _| seen.contains(id));
        for stat in below.iter().filter(|stat| stat.state == 'Z') {
            let (since, is_told) = self.zombies.entry((stat.pid, stat.starttime)).or_insert((now, false));
            if now.duration_since(*since) > ZOMBIE_AFTER && !*is_told {
                *is_told = true;
                self.stayed.push(format!("{} ({})", stat.pid, stat.comm));
            }
        }
        Some(Figures {
            rss_kib: stat.rss * procfs::page_size() / 1_024,
            fds: process.fd_count().ok().and_then(|count| u64::try_from(count).ok())?,
            threads: u64::try_from(stat.num_threads).ok()?,
            children: u64::try_from(below.len()).ok()?,
            cpu_ms: (stat.utime + stat.stime) * 1_000 / procfs::ticks_per_second().max(1),
        })
    }

    /// Whether some zombies have not been seen long enough to count.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.zombies.values().any(|(_, is_told)| !is_told)
    }

    /// The figures of several workers together.
    #[cfg(feature = "postgres")]
    pub(crate) fn at_all(&mut self, workers: &[u32]) -> Figures {
        // Each look keeps the zombies below its own worker.
        let mut zombies = std::mem::take(&mut self.zombies);
        let mut seen = HashMap::new();
        let mut sum = Figures::default();
        for worker in workers {
            self.zombies = std::mem::take(&mut zombies);
            let before = self.zombies.clone();
            if let Some(figures) = self.at(*worker) {
                sum.rss_kib += figures.rss_kib;
                sum.fds += figures.fds;
                sum.threads += figures.threads;
                sum.children += figures.children;
                sum.cpu_ms += figures.cpu_ms;
            }
            seen.extend(std::mem::take(&mut self.zombies));
            zombies = before;
        }
        self.zombies = seen;
        sum
    }

    /// After a worker's end, waits until its processes are gone, except for this one and what is below it. Remaining ones
    /// are recorded and killed.
    pub(crate) fn until_gone(&mut self, but: Option<i32>) {
        let began = Instant::now();
        let its = |root: i32| std::iter::once(root).chain(below(root).into_iter().map(|stat| stat.pid)).collect();
        loop {
            let spared: Vec<i32> = but.map(its).unwrap_or_default();
            let mut left = left_behind();
            left.retain(|stat| !spared.contains(&stat.pid));
            if left.is_empty() {
                break;
            }
            if began.elapsed() > GONE_WITHIN {
                for stat in left {
                    self.orphans.push(format!("{} ({})", stat.pid, stat.comm));
                    if let Some(pid) = Pid::from_raw(stat.pid) {
                        let _already_gone = kill_process(pid, Signal::KILL);
                    }
                }
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.zombies.clear();
        self.gone_ms = self.gone_ms.max(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    }
}

/// Returns all processes below this one, which adopts orphans. Adopted processes that have ended are reaped here.
fn left_behind() -> Vec<Stat> {
    let Ok(me) = i32::try_from(std::process::id()) else { return Vec::new() };
    let mut left = below(me);
    left.retain(|stat| {
        let is_ours_to_reap = stat.ppid == me && stat.state == 'Z';
        if let (true, Some(pid)) = (is_ours_to_reap, Pid::from_raw(stat.pid)) {
            let _reaped = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        !is_ours_to_reap
    });
    left
}

fn below(root: i32) -> Vec<Stat> {
    let all = procfs::process::all_processes().into_iter().flatten();
    let mut all: Vec<Stat> = all.filter_map(|process| process.ok()?.stat().ok()).collect();
    let mut parents = vec![root];
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        let (children, others): (Vec<Stat>, Vec<Stat>) = all.into_iter().partition(|stat| stat.ppid == parent);
        all = others;
        parents.extend(children.iter().map(|stat| stat.pid));
        found.extend(children);
    }
    found
}
