//! Events: what a runtime tells while it works, to readers of one turn or session and to sinks of all.

pub use crate::facade::{AgentEvents, AgentStream, EventsFrom, OnDrop};
pub use bob_actors::feed::EventSink;
pub use bob_actors::telemetry::TracingEventSink;
pub use bob_messages::event::{
    AgentEvent, AgentStreamEvent, CallState, Delta, Envelope, Progress, SCHEMA, StepEvent, StreamItem, rebuild,
};
pub use bob_messages::turn::AgentAction;
