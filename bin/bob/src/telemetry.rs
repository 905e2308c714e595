//! Telemetry: spans and metrics of a runtime, sent to a receiver of OTLP over HTTP.
//!
//! [`Telemetry`] is an event sink. It makes spans of events, with the names of the OpenTelemetry conventions for
//! generative models, and sends each as soon as it ends, so little is lost when a process is killed. Ids are derived from
//! turn, step and call: a turn that another process finishes is one trace. Contents of messages, arguments and results
//! are sent only where the settings say so. A receiver that is away or slow slows no turn: the queue is bounded, and what is dropped is counted.
//!
//! ```no_run
//! use bob::telemetry::{Telemetry, TelemetrySettings};
//!
//! # fn main() -> Result<(), bob::telemetry::TelemetryError> {
//! let settings = TelemetrySettings::new("http://127.0.0.1:4318", "my-service")
//!     .header("authorization", "Bearer …")
//!     .resource("deployment.environment.name", "staging")
//!     .sampled(0.1);
//! let telemetry = Telemetry::start(settings)?;
//! // RuntimeBuilder::sink(telemetry.clone()) …; after the runtime's shutdown:
//! telemetry.flush(std::time::Duration::from_secs(2));
//! # Ok(())
//! # }
//! ```

mod contents;
mod environment;
mod error;
mod metrics;
mod send;
mod settings;
mod spans;
mod wire;

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;

use crate::events::{AgentEvent, Envelope, EventSink};
use bob_messages::ids::TurnId;
pub use error::TelemetryError;
use send::Shared;
use settings::Sampler;
pub use settings::TelemetrySettings;
use spans::Spans;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sends what happens in a runtime to a receiver of telemetry.
pub struct Telemetry {
    spans: Mutex<Spans>,
    sampler: Sampler,
    shared: Arc<Shared>,
    /// When requests were submitted whose runs have not begun.
    submitted: Mutex<HashMap<TurnId, Instant>>,
}

impl Telemetry {
    /// Starts the thread that sends.
    ///
    /// # Errors
    /// An address or a header cannot be used, or the thread or its HTTP client cannot start.
    pub fn start(settings: TelemetrySettings) -> Result<Arc<Self>, TelemetryError> {
        let shared = Arc::<Shared>::default();
        let (sampler, spans) = (settings.sampler, Spans::new(settings.service.clone(), settings.has_contents));
        send::start(settings, Arc::clone(&shared))?;
        Ok(Arc::new(Self { spans: Mutex::new(spans), sampler, shared, submitted: Mutex::default() }))
    }

    /// Starts what the standard `OTEL_*` variables of the environment ask for; `None` without an address in them.
    ///
    /// # Errors
    /// A variable has a value that cannot be used, or the thread cannot start.
    pub fn from_env(service: &str) -> Result<Option<Arc<Self>>, TelemetryError> {
        let settings = TelemetrySettings::from_variables(&|name| std::env::var(name).ok(), service)?;
        settings.map(Self::start).transpose()
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<TurnId, Instant>> {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many spans were dropped: the queue was full, or the receiver refused them.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped()
    }

    /// Has everything sent now, with the metrics, and waits for it, at most for `limit`. It blocks: not for a task.
    pub fn flush(&self, limit: Duration) {
        self.shared.flush(limit);
    }
}

impl EventSink for Telemetry {
    fn emit(&self, event: &Envelope) {
        match &event.event {
            AgentEvent::TurnStarted { submission, .. } => {
                if let Some(at) = self.waiting().remove(submission) {
                    self.shared.measure(|metrics| metrics.waited(at.elapsed().as_secs_f64()));
                }
            }
            AgentEvent::ActorRestarted { actor, .. } => self.shared.measure(|metrics| metrics.restarted(actor)),
            _spans_only => {}
        }
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let is_sampled = |trace: &str, traceparent: Option<&str>| self.sampler.takes(trace, traceparent);
        spans.take(event, is_sampled, |span, is_sampled| self.shared.take(span, is_sampled));
    }

    fn submitted(&self, submission: &TurnId) -> bool {
        self.waiting().insert(submission.clone(), Instant::now());
        true
    }

    fn answered(&self, submission: &TurnId) {
        self.waiting().remove(submission);
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}
