use super::*;
use crate::watchdog::{Monitor, Watchdog};

const KINDS: &[&str] = &["Check", "Call"];

/// A watch that looks when the test says so.
struct Bench {
    watchdog: Watchdog,
    watch: Watch,
}

impl Bench {
    fn new() -> Self {
        let watchdog = Watchdog::default();
        watchdog.0.is_watched.store(true, Ordering::Release);
        let watch = Watch::new(Arc::downgrade(&watchdog.0), BLOCKED_AFTER);
        Self { watchdog, watch }
    }

    fn monitor(&self, path: &str) -> Monitor {
        self.watchdog.monitor(ActorPath::Room(path.into()), KINDS)
    }

    fn look_after(&mut self, millis: u64) {
        self.watch.clock += Duration::from_millis(millis);
        self.watch.look(&self.watchdog.0);
    }

    fn told(&self) -> Vec<(String, &'static str, u64, bool)> {
        let told = self.watchdog.blocked().into_iter();
        told.map(|it| (it.path.to_string(), it.message, it.for_ms, it.is_over)).collect()
    }
}

#[test]
fn a10_a_handler_that_blocks_is_told_of_once_with_its_actor_and_message() {
    let mut bench = Bench::new();
    let (store, other) = (bench.monitor("store"), bench.monitor("llm"));
    let enter = store.enter(1);
    drop(other.enter(0));
    bench.look_after(50);
    bench.look_after(99);
    assert!(bench.told().is_empty(), "not before its time");
    bench.look_after(1);
    assert_eq!(bench.told(), [("store".to_owned(), "Call", 100, false)]);
    bench.look_after(500);
    assert_eq!(bench.told(), [("store".to_owned(), "Call", 100, false)], "once");
    bench.look_after(400);
    assert_eq!(bench.told(), [("store".to_owned(), "Call", 1_000, false)], "and again after a second");
    bench.look_after(9_000);
    assert_eq!(bench.told(), [("store".to_owned(), "Call", 10_000, false)], "and after ten");
    drop(enter);
    bench.look_after(2_000);
    assert_eq!(bench.told(), [("store".to_owned(), "Call", 12_000, true)]);
    assert_eq!(bench.watchdog.times_blocked(), 1, "one incident");
    let _again = store.enter(0);
    bench.look_after(0);
    bench.look_after(100);
    assert_eq!(bench.watchdog.times_blocked(), 2, "the next is another one");
}

#[test]
fn a10_an_actor_with_many_quick_messages_never_blocks() {
    let mut bench = Bench::new();
    let store = bench.monitor("store");
    for kind in [0, 1, 0, 1, 0, 1] {
        let _beat = store.enter(kind);
        bench.look_after(90);
    }
    // One that has nothing to do does not block either.
    bench.look_after(60_000);
    bench.look_after(60_000);
    assert!(bench.told().is_empty());
}

#[test]
fn a10_an_actor_that_ended_is_forgotten_and_incidents_are_bounded() {
    let mut bench = Bench::new();
    for number in 0..MOST_KEPT + 10 {
        let actor = bench.monitor(&format!("tools/{number}"));
        let _beat = actor.enter(0);
        bench.look_after(0);
        bench.look_after(200);
    }
    bench.look_after(0);
    assert!(bench.watch.seen.is_empty());
    let told = bench.told();
    assert_eq!((told.len(), told[0].0.as_str()), (MOST_KEPT, "tools/10"));
    assert!(told.iter().all(|(.., is_over)| *is_over), "{told:?}");
}

#[test]
fn a10_the_thread_ends_with_its_runtime() {
    for told in [true, false] {
        let watchdog = Watchdog::default();
        watchdog.watch(Duration::from_millis(2));
        let weak = Arc::downgrade(&watchdog.0);
        if told {
            watchdog.stop();
        }
        drop(watchdog);
        let begun = Instant::now();
        while weak.strong_count() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it holds nothing");
            std::thread::yield_now();
        }
    }
}
