//! The contract suite of a sink of events.

mod kinds;

#[cfg(test)]
#[path = "contract/contract_tests.rs"]
mod tests;

pub use kinds::every_kind;

use super::EventSink;
use crate::contract::{Found, ODD_TEXTS, Suite, holds};
use bob_messages::event::{AgentEvent, Delta, Envelope};
use bob_messages::ids::{SessionId, TurnId};
use std::sync::Arc;

/// How many events are told at once; a sink that falls further behind loses some.
const MANY: u64 = 10_000;

/// Checks a sink against the rules of all sinks. Each rule has a sink of its own, which `make` returns. A sink may do what
/// it likes with an event; it must not panic, since it would lose that event, and it must come back.
pub async fn sink(make: impl Fn() -> Arc<dyn EventSink>) -> Suite {
    let mut suite = Suite::new("event sink");
    suite.rule("it is called in place always, or never", place(make())).await;
    suite.rule("an event of every kind is taken", told(make(), every_kind())).await;
    suite.rule("events with unusual texts are taken", told(make(), odd())).await;
    suite.rule("events of turns that run beside each other are taken", told(make(), interleaved())).await;
    suite.rule("ten thousand pieces of a stream are taken", told(make(), pieces())).await;
    suite.rule("a turn whose beginning was not seen is taken", told(make(), without_beginnings())).await;
    suite
}

async fn place(sink: Arc<dyn EventSink>) -> Found {
    let (first, second) = (sink.is_called_in_place(), sink.is_called_in_place());
    holds(first == second, || format!("{first} and then {second}"))
}

/// Tells them on a thread, as a runtime does.
async fn told(sink: Arc<dyn EventSink>, events: Vec<Envelope>) -> Found {
    let telling = tokio::task::spawn_blocking(move || {
        for event in &events {
            let emit = std::panic::AssertUnwindSafe(|| sink.emit(event));
            if let Err(panic) = std::panic::catch_unwind(emit) {
                let kind = event.to_json()["type"].to_string();
                return Err(format!("a panic at event {} ({kind}): {}", event.seq, crate::contract::text_of(&*panic)));
            }
        }
        Ok(())
    });
    telling.await.map_err(|error| error.to_string())?
}

fn piece(session: &str, turn: &str, seq: u64, text: &str) -> Envelope {
    let session = SessionId::parse(session).unwrap_or_else(|never| unreachable!("{never}"));
    let event = AgentEvent::LlmStreamChunk { message_id: format!("{turn}-1"), delta: Delta::Text(text.to_owned()) };
    Envelope::of_turn(&session, &TurnId::new(turn), 1, seq, None, event.in_step(1))
}

fn odd() -> Vec<Envelope> {
    let texts = ODD_TEXTS.map(str::to_owned).into_iter().chain(["x".repeat(1 << 20)]);
    (1..).zip(texts).map(|(seq, text)| piece("odd", "t", seq, &text)).collect()
}

fn interleaved() -> Vec<Envelope> {
    let of = |session: &'static str| {
        let own = SessionId::parse(session).unwrap_or_else(|never| unreachable!("{never}"));
        every_kind().into_iter().map(move |event| Envelope { session_id: Some(own.clone()), ..event })
    };
    of("one").zip(of("two")).flat_map(|(one, two)| [one, two]).collect()
}

fn pieces() -> Vec<Envelope> {
    (1..=MANY).map(|seq| piece("long", "t", seq, "a piece ")).collect()
}

fn without_beginnings() -> Vec<Envelope> {
    let mut events = every_kind();
    events.reverse();
    events
}
