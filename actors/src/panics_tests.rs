use super::Panics;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Counts what is logged.
#[derive(Clone, Default)]
struct Log(Arc<AtomicU64>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_port_that_always_panics_is_caught_each_time_and_logged_ever_more_rarely() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let panics = Panics::of("test");
    assert_eq!(panics.catch("fine", || 7), Some(7));
    assert_eq!(log.0.load(Ordering::Relaxed), 0);
    for _ in 0..50 {
        assert_eq!(panics.catch("now", || -> u8 { panic!("a fault of the port") }), None);
        assert_eq!(panics.catch_in("at once", || -> std::future::Ready<u8> { panic!("a fault") }).await, None);
    }
    assert_eq!(panics.catch_in("later", || async { panic!("a fault of the port") }).await, None::<u8>);
    let logged = 6 + 6 + 1;
    assert_eq!(log.0.load(Ordering::Relaxed), logged, "the first, second, fourth … thirty-second of each method");
}
