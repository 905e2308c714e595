//! Ctrl-Z: the terminal is given back as it was found before this process is stopped, and taken again when it goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpgrp, getsid, kill_current_process_group};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::terminal::{print, settings};

/// How long after the signal the process may still run; it is stopped within a moment, however busy the machine is.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);

/// How often it is looked whether the process goes on.
const EVERY: Duration = Duration::from_millis(5);

/// How often the process was told to go on.
static TOLD_TO_GO_ON: AtomicU64 = AtomicU64::new(0);

/// Tells that the process goes on.
static GOES_ON: Notify = Notify::const_new();

/// Whether a stop is under way.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

/// Catches Ctrl-Z from now on. Where it cannot be caught, it stops the process as the terminal is.
pub(crate) fn catch() {
    let of = |wanted: Signal| signal(SignalKind::from_raw(wanted.as_raw()));
    let (Ok(mut told_to_go_on), Ok(mut asked)) = (of(Signal::CONT), of(Signal::TSTP)) else { return };
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = told_to_go_on.recv() => {
                    TOLD_TO_GO_ON.fetch_add(1, Ordering::AcqRel);
                    GOES_ON.notify_waiters();
                }
                Some(()) = asked.recv() => {
                    tokio::task::spawn_blocking(stop);
                }
                else => return,
            }
        }
    });
}

/// Waits until the process goes on after a stop that begins later than this.
pub(crate) async fn goes_on() {
    GOES_ON.notified().await;
}

/// Stops this process and all others of its job, until they are told to go on. Blocks.
pub(crate) fn stop() {
    // The first process of a terminal has no shell above it that could have it go on.
    let is_a_job = getsid(None).is_ok_and(|session| session != getpgrp());
    if !is_a_job || IS_STOPPING.swap(true, Ordering::AcqRel) {
        return;
    }
    print::aside_from_all(|| {
        let before = TOLD_TO_GO_ON.load(Ordering::Acquire);
        let taken = settings::give_back();
        if kill_current_process_group(Signal::STOP).is_ok() {
            // Another thread may receive the signal, a moment later.
            let until = Instant::now() + STOPPED_WITHIN;
            while TOLD_TO_GO_ON.load(Ordering::Acquire) == before && Instant::now() < until {
                thread::sleep(EVERY);
            }
        }
        settings::take_again(taken);
    });
    IS_STOPPING.store(false, Ordering::Release);
}
