//! A sink that keeps the rules, and one for each rule that breaks it.

use super::*;
use crate::contract::testing::each_rule_is_broken;
use crate::telemetry::TracingEventSink;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    AnyPlace,
    NoReset,
    NoControls,
    OneTurn,
    Few,
    BeginningFirst,
}

#[derive(Default)]
struct Seen {
    sessions: BTreeSet<SessionId>,
    began: bool,
}

struct Faulty(Fault, AtomicU64, Mutex<Seen>);

impl EventSink for Faulty {
    fn emit(&self, event: &Envelope) {
        let Self(fault, count, seen) = self;
        let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        seen.sessions.extend(event.session_id.clone());
        seen.began |= matches!(event.event, AgentEvent::TurnStarted { .. });
        let has_controls = event.to_json()["delta"]["text"].as_str().is_some_and(|text| text.contains('\u{0}'));
        let is_kept = match fault {
            Fault::None | Fault::AnyPlace => true,
            Fault::NoReset => !matches!(event.event, AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. }),
            Fault::NoControls => !has_controls,
            Fault::OneTurn => seen.sessions.len() < 2,
            Fault::Few => count.fetch_add(1, Ordering::SeqCst) < 1_000,
            Fault::BeginningFirst => seen.began || !matches!(event.event, AgentEvent::TurnFinished { .. }),
        };
        assert!(is_kept, "not foreseen");
    }

    fn is_called_in_place(&self) -> bool {
        self.0 == Fault::AnyPlace && self.1.fetch_add(1, Ordering::SeqCst) > 0
    }
}

async fn of(fault: Fault) -> Suite {
    sink(|| Arc::new(Faulty(fault, AtomicU64::new(0), Mutex::default()))).await
}

#[tokio::test]
async fn each_rule_of_a_sink_is_broken_by_one_with_its_fault() {
    of(Fault::None).await.assert();
    let mut suites = Vec::new();
    for (rule, fault) in [
        ("it is called in place always, or never", Fault::AnyPlace),
        ("an event of every kind is taken", Fault::NoReset),
        ("events with unusual texts are taken", Fault::NoControls),
        ("events of turns that run beside each other are taken", Fault::OneTurn),
        ("ten thousand pieces of a stream are taken", Fault::Few),
        ("a turn whose beginning was not seen is taken", Fault::BeginningFirst),
    ] {
        suites.push((rule, of(fault).await));
    }
    each_rule_is_broken(suites);
}

#[tokio::test]
async fn the_sink_of_spans_keeps_the_rules() {
    sink(|| Arc::new(TracingEventSink::default())).await.assert();
}
