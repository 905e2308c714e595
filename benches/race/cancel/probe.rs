//! What the machine itself adds to every wait: an empty task, from its spawn to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How long the probe waits between two tasks.
const EVERY: Duration = Duration::from_millis(5);

/// Measures until it is ended.
pub(super) struct Probe {
    over: Arc<AtomicBool>,
    /// Seconds.
    took: JoinHandle<Vec<f64>>,
}

impl Probe {
    pub(super) fn start() -> Self {
        let over = Arc::<AtomicBool>::default();
        let until = Arc::clone(&over);
        let took = tokio::spawn(async move {
            let mut took = Vec::new();
            while !until.load(Relaxed) || took.is_empty() {
                tokio::time::sleep(EVERY).await;
                let began = Instant::now();
                tokio::spawn(async {}).await.unwrap();
                took.push(began.elapsed().as_secs_f64());
            }
            took
        });
        Self { over, took }
    }

    pub(super) async fn end(self) -> Vec<f64> {
        self.over.store(true, Relaxed);
        self.took.await.unwrap()
    }
}

/// So many threads use the processor until the process ends.
pub(super) fn burn(threads: usize) {
    for _ in 0..threads {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
}
