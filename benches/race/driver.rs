//! Runs turns in the way a mode asks for, and takes the figures. The peers of the race are driven by this file as well.

use crate::arguments::Arguments;
use crate::figures::{cpu, percentile, resident, since_start};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often the memory of sessions in flight is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// What is driven. Clones share it.
pub(crate) trait Contender: Clone + Send + Sync + 'static {
    /// Its name in the line that is printed.
    const NAME: &'static str;
    /// What keeps a session in memory.
    type Kept: Send + 'static;

    /// Runs the turns of one new session, and checks their outcomes.
    fn session(&self, number: usize) -> impl Future<Output = Self::Kept> + Send;

    /// Waits until no session is in memory; for a contender whose sessions leave it by themselves.
    fn rest(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The threads a run has.
pub(crate) fn runtime(arguments: &Arguments) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if arguments.threads > 0 {
        builder.worker_threads(arguments.threads);
    }
    builder.enable_all().build().unwrap()
}

/// One run; the line to print.
pub(crate) async fn drive<C: Contender>(arguments: Arguments, workload: C) -> String {
    let before_first = Instant::now();
    workload.session(usize::MAX).await;
    let first_turn = before_first.elapsed().as_secs_f64();
    let (start, start_cpu) = (since_start(), cpu());
    if !matches!(arguments.mode.as_str(), "hold" | "start") {
        for number in 0..arguments.warmup {
            workload.session(usize::MAX - 1 - number).await;
        }
    }
    let (resident_before, cpu_before, began) = (resident(), cpu(), Instant::now());
    let ((mut seconds, kept), peak) = match arguments.mode.as_str() {
        "start" => ((Vec::new(), Vec::new()), 0),
        "idle" if arguments.passivate > 0 => {
            let ran = lanes(&arguments, &workload).await;
            workload.rest().await;
            (ran, resident())
        }
        "load" | "idle" | "deltas" => (lanes(&arguments, &workload).await, resident()),
        "hold" => {
            let (seconds, peak) = held(&arguments, &workload).await;
            ((seconds, Vec::new()), peak)
        }
        other => panic!("the mode {other:?} is not known: use load, hold, idle, start, deltas, appends or cancel"),
    };
    let (wall, used) = (began.elapsed().as_secs_f64(), cpu() - cpu_before);
    drop(kept);
    let sessions = arguments.n as f64;
    let turns = sessions * arguments.turns as f64;
    let steps = turns * (arguments.k + 1) as f64;
    json!({
        "peer": C::NAME, "backend": arguments.backend, "store": arguments.store, "mode": arguments.mode, "n": arguments.n,
        "turns": arguments.turns, "conc": arguments.conc, "k": arguments.k, "latency": arguments.latency,
        "words": arguments.words, "passivate": arguments.passivate,
        "wall_s": wall,
        "cpu_us_turn": used * 1e6 / turns,
        "cpu_us_step": used * 1e6 / steps,
        "wall_us_turn": wall * 1e6 / turns,
        "turns_s": turns / wall,
        "p50_ms": percentile(&mut seconds, 0.5) * 1e3,
        "p99_ms": percentile(&mut seconds, 0.99) * 1e3,
        "rss_base_mb": resident_before as f64 / 1e6,
        "rss_delta_b_session": peak.saturating_sub(resident_before) as f64 / sessions,
        "start_ms": start * 1e3,
        "start_cpu_ms": start_cpu * 1e3,
        "first_turn_ms": first_turn * 1e3,
    })
    .to_string()
}

/// Lanes that each run one session after another until all have run. What keeps them is kept in the mode `idle` only.
async fn lanes<C: Contender>(arguments: &Arguments, workload: &C) -> (Vec<f64>, Vec<C::Kept>) {
    let keep = arguments.mode == "idle";
    let next = Arc::new(AtomicUsize::new(0));
    let lane = |_| {
        let (next, workload, sessions) = (Arc::clone(&next), workload.clone(), arguments.n);
        tokio::spawn(async move {
            let (mut seconds, mut kept) = (Vec::new(), Vec::new());
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= sessions {
                    break (seconds, kept);
                }
                let (took, session) = timed(&workload, number).await;
                seconds.push(took);
                if keep {
                    kept.push(session);
                }
            }
        })
    };
    let lanes: Vec<_> = (0..arguments.conc).map(lane).collect();
    let (mut seconds, mut kept) = (Vec::with_capacity(arguments.n), Vec::new());
    for lane in lanes {
        let (took, sessions) = lane.await.unwrap();
        seconds.extend(took);
        kept.extend(sessions);
    }
    (seconds, kept)
}

/// All sessions at once, and their peak memory.
async fn held<C: Contender>(arguments: &Arguments, workload: &C) -> (Vec<f64>, usize) {
    let over = Arc::new(AtomicBool::new(false));
    let sampled = Arc::clone(&over);
    let sampler = std::thread::spawn(move || {
        let mut peak = 0;
        while !sampled.load(Relaxed) {
            peak = peak.max(resident());
            std::thread::sleep(SAMPLE_EVERY);
        }
        peak
    });
    let start = |number| {
        let workload = workload.clone();
        tokio::spawn(async move { timed(&workload, number).await.0 })
    };
    let all: Vec<_> = (0..arguments.n).map(start).collect();
    let mut seconds = Vec::with_capacity(arguments.n);
    for one in all {
        seconds.push(one.await.unwrap());
    }
    over.store(true, Relaxed);
    (seconds, sampler.join().unwrap())
}

async fn timed<C: Contender>(workload: &C, number: usize) -> (f64, C::Kept) {
    let began = Instant::now();
    let kept = workload.session(number).await;
    (began.elapsed().as_secs_f64(), kept)
}
