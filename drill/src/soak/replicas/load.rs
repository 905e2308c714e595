//! The submitters: one for each session, which puts its messages in order and waits for the outcome of each.
//!
//! A submitter repeats a message that may not have arrived, under its name: the first one counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bob::approvals::PermissionMode;
use bob::inbox::{InboxMessage, InboxRequest, SubmitRequest, Submitter};
use bob::model::ContentPart;
use bob::sessions::{RequestId, TurnOutcome};
use bob::{AgentError, SessionId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::log::{Log, now_ms};
use crate::soak::plan::Plan;
use crate::soak::schedule::{draw, exponential_ms};
use crate::soak::turns::{self, Place};
use crate::soak::wire::Report;
use crate::soak::worker::load::answer;

/// Separates the draws made here from others.
const THINK: u64 = 3_000;

/// How long a submitter waits before it asks a database again that was away.
const AGAIN: Duration = Duration::from_millis(200);

/// All submitters. They end when this is dropped.
pub(super) struct Load {
    shared: Arc<Shared>,
    submitters: JoinSet<()>,
}

struct Shared {
    plan: Arc<Plan>,
    submitter: Submitter,
    log: Log,
    began: Instant,
    /// Submitters at work, messages without an outcome, and outcomes.
    at_work: AtomicUsize,
    open: AtomicUsize,
    answered: AtomicU64,
    /// When the last outcome came, in milliseconds since the epoch.
    heard_at: AtomicU64,
}

impl Load {
    pub(super) fn begin(plan: Arc<Plan>, submitter: Submitter, log: Log) -> Self {
        let (sessions, began) = (plan.sessions, Instant::now());
        let shared = Arc::new(Shared {
            plan,
            submitter,
            log,
            began,
            at_work: AtomicUsize::new(sessions as usize),
            open: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            heard_at: AtomicU64::new(now_ms()),
        });
        let mut submitters = JoinSet::new();
        for session in 0..sessions {
            let shared = Arc::clone(&shared);
            submitters.spawn(async move {
                shared.session(session).await;
                shared.at_work.fetch_sub(1, Ordering::SeqCst);
            });
        }
        Self { shared, submitters }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.shared.at_work.load(Ordering::SeqCst) == 0
    }

    /// How many messages have no outcome.
    pub(super) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    pub(super) fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::SeqCst)
    }

    /// For how long messages have waited and none had its outcome.
    pub(super) fn silent_for(&self) -> Duration {
        match self.open() {
            0 => Duration::ZERO,
            _ => Duration::from_millis(now_ms().saturating_sub(self.shared.heard_at.load(Ordering::SeqCst))),
        }
    }

    pub(super) fn end(&mut self) {
        self.submitters.abort_all();
    }
}

impl Shared {
    async fn session(&self, session: u32) {
        let turns = self.plan.turns.unwrap_or(u32::MAX);
        for turn in 0..turns {
            let place = Place { session, turn };
            let think = exponential_ms(draw(self.plan.seed, THINK, &place.numbers()), self.plan.think_ms);
            let think = Duration::from_millis(think);
            if let Some(most) = self.plan.duration_ms.map(Duration::from_millis) {
                let left = most.saturating_sub(self.began.elapsed());
                if think >= left {
                    return;
                }
            }
            sleep(think).await;
            self.turn(place).await;
        }
    }

    async fn turn(&self, place: Place) {
        let Ok(session) = SessionId::parse(&place.session_name()) else { return };
        let request = place.request();
        let (name, started) = (place.session_name(), Instant::now());
        self.log.tell(Report::Asked { session: name.clone(), request: request.clone() });
        if self.open.fetch_add(1, Ordering::SeqCst) == 0 {
            self.heard_at.store(now_ms(), Ordering::SeqCst);
        }
        let told = match self.outcome(session, place).await {
            Ok(outcome) => Report::Answered(Box::new(answer(&outcome, request, started))),
            Err(error) => Report::Refused { session: name, request, why: error.to_string() },
        };
        self.log.tell(told);
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.answered.fetch_add(1, Ordering::SeqCst);
        self.heard_at.store(now_ms(), Ordering::SeqCst);
    }

    /// Puts a message and waits for its outcome, as often as the database is away.
    async fn outcome(&self, session: SessionId, place: Place) -> Result<Box<TurnOutcome>, AgentError> {
        let submit = SubmitRequest {
            parts: vec![ContentPart::text(turns::prompt(place))],
            mode: Some(PermissionMode::Auto),
            ..SubmitRequest::default()
        };
        let request = InboxRequest::Submit(Box::new(submit));
        let name = RequestId::new(place.request());
        let at = i64::try_from(now_ms()).unwrap_or_default();
        let message = InboxMessage::new(session, name, at, request);
        loop {
            let failed = match self.submitter.put(message.clone()).await {
                Ok(mut pending) => match pending.outcome().await {
                    Ok(outcome) => return Ok(outcome),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            match failed {
                AgentError::Store(_) => sleep(AGAIN).await,
                error => return Err(error),
            }
        }
    }
}
