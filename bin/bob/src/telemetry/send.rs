//! The thread that sends: a bounded queue before it, one request at a time, each within its time.

use super::error::TelemetryError;
use super::metrics::Metrics;
use super::settings::{Own, TelemetrySettings};
use super::spans::Span;
use super::wire;
use bob_messages::Millis;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::warn;

/// Spans that wait to be sent; more are dropped, and counted.
const MOST_WAITING: usize = 8_192;
/// Spans in one request.
const MOST_SENT: usize = 512;
/// The wait after a failure doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LAST_WAIT: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    wake: Notify,
    told: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Span>,
    metrics: Metrics,
    dropped: u64,
    /// Requests to send everything now, and how many of them are done.
    flushes: u64,
    flushed: u64,
    is_over: bool,
}

impl Shared {
    /// Takes a span that ended. Never waits.
    pub(super) fn take(&self, span: Span, is_sampled: bool) {
        let mut state = self.lock();
        state.metrics.count(&span);
        if !is_sampled {
            return;
        }
        if state.waiting.len() >= MOST_WAITING {
            state.dropped += 1;
            return;
        }
        state.waiting.push_back(span);
        drop(state);
        self.wake.notify_one();
    }

    /// Counts something that is no span.
    pub(super) fn measure(&self, count: impl FnOnce(&mut Metrics)) {
        count(&mut self.lock().metrics);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Has everything sent now, and waits for the end of that, at most for `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let mut state = self.lock();
        state.flushes += 1;
        let number = state.flushes;
        self.wake.notify_one();
        let until = Instant::now() + limit;
        while state.flushed < number && !state.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.told.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the thread once the request that runs is over.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn start(settings: TelemetrySettings, shared: Arc<Shared>) -> Result<(), TelemetryError> {
    if let Some(of) = settings.has_other_scheme() {
        return Err(TelemetryError::Address { of });
    }
    let client = client(&settings)?;
    let cannot = |source: std::io::Error| TelemetryError::Start { source };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let (of_traces, of_metrics) = (To::of(&settings, &settings.of_traces)?, To::of(&settings, &settings.of_metrics)?);
    let sender = Sender { client, of_traces, of_metrics, settings, shared, since: now(), is_failing: false };
    let run = move || runtime.block_on(sender.run());
    std::thread::Builder::new().name("telemetry".into()).spawn(run).map(|_ends_by_itself| ()).map_err(cannot)
}

fn client(settings: &TelemetrySettings) -> Result<Client, TelemetryError> {
    // One that another part of the process installed before is as good.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let is_here = |url: &String| ["://127.0.0.1", "://localhost", "://[::1]"].iter().any(|host| url.contains(host));
    let builder = Client::builder().redirect(Policy::none());
    let is_local = [&settings.traces, &settings.metrics].into_iter().flatten().any(is_here);
    let builder = if is_local { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| TelemetryError::Client { source: Box::new(error) })
}

#[derive(Clone)]
struct To {
    headers: HeaderMap,
    timeout: Duration,
}

impl To {
    fn of(settings: &TelemetrySettings, own: &Own) -> Result<Self, TelemetryError> {
        let mut headers = HeaderMap::new();
        for (name, value) in own.headers.as_ref().unwrap_or(&settings.headers) {
            let (name, value) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(TelemetryError::Header);
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        Ok(Self { headers, timeout: own.timeout.unwrap_or(settings.timeout) })
    }
}

struct Sender {
    client: Client,
    of_traces: To,
    of_metrics: To,
    settings: TelemetrySettings,
    shared: Arc<Shared>,
    since: Millis,
    is_failing: bool,
}

impl Sender {
    async fn run(mut self) {
        let each = self.settings.metrics_each;
        let (mut wait, mut next_metrics) = (FIRST_WAIT, Instant::now() + each);
        loop {
            let (spans, flush) = {
                let mut state = self.shared.lock();
                if state.is_over {
                    break;
                }
                let count = state.waiting.len().min(MOST_SENT);
                let flush = (state.flushes > state.flushed).then_some(state.flushes);
                (state.waiting.drain(..count).collect::<Vec<_>>(), flush)
            };
            // Whatever there is of spans: a busy process always has some.
            if Instant::now() >= next_metrics {
                self.metrics().await;
                next_metrics = Instant::now() + each;
            }
            if !spans.is_empty() {
                let is_sent = self.traces(spans).await;
                if is_sent {
                    wait = FIRST_WAIT;
                    continue;
                }
                if flush.is_none() {
                    // A flush or the end cuts the wait; spans that come meanwhile do not.
                    let until = Instant::now() + wait;
                    while !self.is_urgent()
                        && let Some(left) = until.checked_duration_since(Instant::now())
                    {
                        let _woken_or_over = timeout(left, self.shared.wake.notified()).await;
                    }
                    wait = (wait * 2).min(LAST_WAIT);
                    continue;
                }
            }
            if let Some(flush) = flush {
                self.metrics().await;
                next_metrics = Instant::now() + each;
                self.shared.lock().flushed = flush;
                self.shared.told.notify_all();
                continue;
            }
            let left = next_metrics.saturating_duration_since(Instant::now());
            let _woken_or_time = timeout(left, self.shared.wake.notified()).await;
        }
        self.shared.told.notify_all();
    }

    fn is_urgent(&self) -> bool {
        let state = self.shared.lock();
        state.is_over || state.flushes > state.flushed
    }

    /// Sends spans; those that a receiver may take later go back to the queue, as far as there is room.
    async fn traces(&mut self, spans: Vec<Span>) -> bool {
        let Some(url) = self.settings.traces.clone() else { return true };
        let body = wire::traces(&self.settings.resource, &spans);
        let sent = self.post(&url, self.of_traces.clone(), body).await;
        if sent == Sent::Yes {
            return true;
        }
        let mut state = self.shared.lock();
        let room = match sent {
            Sent::Later => MOST_WAITING.saturating_sub(state.waiting.len()),
            Sent::Yes | Sent::Never => 0,
        };
        state.dropped += spans.len().saturating_sub(room) as u64;
        spans.into_iter().take(room).rev().for_each(|span| state.waiting.push_front(span));
        false
    }

    async fn metrics(&mut self) {
        let Some(url) = self.settings.metrics.clone() else { return };
        let series = {
            let state = self.shared.lock();
            state.metrics.series(state.dropped)
        };
        let _counts_are_sent_again = self
            .post(&url, self.of_metrics.clone(), wire::metrics(&self.settings.resource, &series, self.since, now()))
            .await;
    }

    async fn post(&mut self, url: &str, to: To, body: Vec<u8>) -> Sent {
        let request = self.client.post(url).headers(to.headers).timeout(to.timeout);
        let sent = match request.body(body).send().await {
            Ok(response) if response.status().is_success() => Sent::Yes,
            Ok(response) => {
                self.warn(&format!("it answered with {}", response.status()));
                let is_busy = |status| {
                    status == StatusCode::TOO_MANY_REQUESTS
                        || status == StatusCode::BAD_GATEWAY
                        || status == StatusCode::SERVICE_UNAVAILABLE
                        || status == StatusCode::GATEWAY_TIMEOUT
                };
                if is_busy(response.status()) { Sent::Later } else { Sent::Never }
            }
            Err(error) => {
                self.warn(if error.is_timeout() { "it did not answer in time" } else { "it cannot be reached" });
                Sent::Later
            }
        };
        if sent == Sent::Yes {
            self.is_failing = false;
        }
        sent
    }

    /// Tells the first of several failures.
    fn warn(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            warn!(target: "bob::telemetry", why, "telemetry could not be sent; it is tried again, and what does not fit the queue is dropped");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Yes,
    Later,
    Never,
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
