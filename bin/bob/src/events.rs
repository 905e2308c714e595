//! Events: what a runtime tells while it works, to readers of one turn or session and to sinks of all.

pub use crate::facade::{AgentEvents, AgentStream, EventsFrom, OnDrop};
/// The port of readers of all events, for [`RuntimeBuilder::sink`](crate::RuntimeBuilder::sink).
///
/// ```
/// use bob::events::{AgentEvent, Envelope, EventSink};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Counts the tokens of all turns.
/// #[derive(Default)]
/// struct Bill(AtomicU64);
///
/// impl EventSink for Bill {
///     fn emit(&self, event: &Envelope) {
///         if let AgentEvent::TurnFinished { outcome } = &event.event {
///             self.0.fetch_add(outcome.usage.total_tokens, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub use bob_actors::feed::EventSink;
pub use bob_actors::telemetry::{TracingEventSink, is_for_programs};
pub use bob_messages::event::{
    AgentEvent, AgentStreamEvent, CallState, Delta, Envelope, Progress, SCHEMA, StepEvent, StreamItem, rebuild,
};
pub use bob_messages::turn::AgentAction;
