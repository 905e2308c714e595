//! The clients: one for each session, which runs its turns in order, and bursts of overload.
//!
//! A client names its requests and repeats one whose reply was lost in a kill; the runtime must return the first
//! outcome and run nothing twice.

use std::sync::Arc;
use std::time::Duration;

use crate::traps::Traps;
use bob::approvals::PermissionMode;
use bob::sessions::SessionFilter;
use bob::{AgentRequest, AgentRunResult, AgentRuntime, Runtime, SessionId};
use bob_messages::chat::FinishReason;
use bob_messages::error::AgentError;
use bob_messages::ids::RequestId;
use bob_messages::outcome::TurnOutcome;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::defects::FrontEnd;
use super::probe::Probe;
use super::telling::Telling;
use crate::soak::chaos::Kind;
use crate::soak::plan::{Life, Plan};
use crate::soak::schedule::{draw, exponential_ms, meets};
use crate::soak::turns::{self, Place};
use crate::soak::wire::{Answer, CancelTime, Report};

/// Separate the draws made here from others.
const THINK: u64 = 3_000;
const CANCEL: u64 = 3_001;

/// A running turn is cancelled within this time of its request, in milliseconds.
const CANCEL_WITHIN_MS: u64 = 60;

/// How long a refused client waits before it asks again.
const AGAIN: Duration = Duration::from_millis(200);

/// How long finishing interrupted turns is retried.
const FINISH_WITHIN: Duration = Duration::from_secs(20);

/// Sessions of a burst, and requests to each of them.
const BURST: (u64, u64) = (4, 16);

/// Sessions for turns before the run, which open everything that is opened lazily. The first creates the store's
/// database, the second makes it read.
pub(crate) const WARM_UP: [&str; 2] = ["warm-up-1", "warm-up-2"];

#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) runtime: Runtime,
    /// Traps for actors of the runtime.
    pub(crate) traps: Traps,
    pub(crate) plan: Arc<Plan>,
    pub(crate) telling: Telling,
    pub(crate) front: Arc<FrontEnd>,
    /// Reference for the latency of cancels.
    pub(crate) probe: Arc<Probe>,
    /// When the run began, of which earlier lives have used up some.
    pub(crate) began: Instant,
}

impl Clients {
    /// Lists sessions, which opens the store, and runs unchecked turns, but none with a model that may cost money.
    pub(crate) async fn warm_up(&self) {
        let unasked = if self.plan.own.is_some() { &[][..] } else { &WARM_UP };
        for session in unasked.iter().filter_map(|name| SessionId::parse(name).ok()) {
            let _whatever_it_says = self.runtime.run(AgentRequest::text(session, "hello")).await;
        }
        let _whatever_it_says = self.runtime.sessions(SessionFilter::default(), None).await;
    }

    /// Runs all sessions to their ends.
    pub(crate) async fn run(&self, life: &Life) {
        let mut clients = JoinSet::new();
        for session in 0..self.plan.sessions {
            let first = life.next.get(session as usize).copied().unwrap_or(0);
            clients.spawn(self.clone().session(session, first, life.number > 0));
        }
        while clients.join_next().await.is_some() {}
    }

    async fn session(self, session: u32, first: u32, is_back: bool) {
        // Every second session has its interrupted turn finished; for the rest the runtime reports it.
        if is_back && session % 2 == 1 {
            self.finish(&format!("s{session}")).await;
        }
        let turns = self.plan.turns.unwrap_or(u32::MAX);
        for turn in first..turns {
            let place = Place { session, turn };
            let think = exponential_ms(draw(self.plan.seed, THINK, &place.numbers()), self.plan.think_ms);
            let think = Duration::from_millis(think);
            if let Some(most) = self.plan.duration_ms.map(Duration::from_millis) {
                // A turn that would start after the end is skipped.
                let left = most.saturating_sub(self.began.elapsed());
                tokio::time::sleep(think.min(left)).await;
                if think >= left {
                    // The interrupted turn would stay open, because its request is not repeated.
                    if is_back && turn == first {
                        self.finish(&format!("s{session}")).await;
                    }
                    return;
                }
            } else {
                tokio::time::sleep(think).await;
            }
            while !self.turn(place).await {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Finishes the interrupted turns of a session and reports their outcomes. Store failures are retried for a while.
    async fn finish(&self, name: &str) {
        let Ok(session) = SessionId::parse(name) else { return };
        let started = Instant::now();
        loop {
            let mut why = None;
            match self.runtime.finish(session.clone()).await {
                Ok(results) => {
                    for result in results {
                        let response = result.response();
                        // One that was refused has not run; it is still there.
                        match &response.error {
                            Some(error) if response.model.is_none() => why = Some(error.to_string()),
                            Some(_) | None => self.tell_finished(name, response, started),
                        }
                    }
                }
                Err(error) => why = Some(error.to_string()),
            }
            match why {
                None => return,
                Some(_) if started.elapsed() < FINISH_WITHIN => tokio::time::sleep(AGAIN).await,
                Some(why) => {
                    let (session, request) = (name.to_owned(), format!("{name} is finished"));
                    self.telling.tell(Report::Asked { session: session.clone(), request: request.clone() });
                    return self.telling.tell(Report::Refused { session, request, why });
                }
            }
        }
    }

    fn tell_finished(&self, name: &str, outcome: &TurnOutcome, started: Instant) {
        let request = outcome.request_id.as_ref().map(ToString::to_string).unwrap_or_default();
        self.telling.tell(Report::Asked { session: name.to_owned(), request: request.clone() });
        self.front.tell(answer(outcome, request, started));
    }

    /// Clients of bursts do not repeat requests that were lost in a crash of the sessions supervisor; this finishes
    /// them, as an operator would.
    pub(crate) async fn finish_bursts(&self) {
        for session in 0..BURST.0 {
            self.finish(&format!("b{session}")).await;
        }
    }

    /// Runs one turn; returns `false` if it was rejected and should be retried.
    async fn turn(&self, place: Place) -> bool {
        let text = match &self.plan.own {
            None => turns::prompt(place),
            Some(own) => {
                let index = (place.session as usize + place.turn as usize) % own.prompts.len().max(1);
                own.prompts.get(index).cloned().unwrap_or_default()
            }
        };
        let is_cancelled = meets(self.plan.seed, &self.plan.chaos, Kind::Cancel, &place.numbers());
        let after = draw(self.plan.seed, CANCEL, &place.numbers()) % CANCEL_WITHIN_MS;
        let after = is_cancelled.then(|| Duration::from_millis(after));
        self.ask(place.session_name(), place.request(), text, after).await
    }

    async fn ask(&self, name: String, request: String, text: String, cancel_after: Option<Duration>) -> bool {
        let Ok(session) = SessionId::parse(&name) else { return true };
        self.telling.tell(Report::Asked { session: name.clone(), request: request.clone() });
        let started = Instant::now();
        let asked = AgentRequest {
            request_id: Some(RequestId::new(request.clone())),
            mode: self.plan.own.is_none().then_some(PermissionMode::Auto),
            ..AgentRequest::text(session.clone(), text)
        };
        let mut run = self.runtime.run(asked);
        let mut cancelled = None;
        let result = match cancel_after {
            None => run.await,
            Some(after) => tokio::select! {
                biased;
                result = &mut run => result,
                () = tokio::time::sleep(after) => {
                    self.telling.fault(Kind::Cancel, request.clone(), vec![name.clone()]);
                    let at = Instant::now();
                    if self.runtime.cancel(session).await {
                        cancelled = Some(at);
                    }
                    self.front.after_cancel().await;
                    run.await
                }
            },
        };
        match result {
            Ok(AgentRunResult::Finished(outcome) | AgentRunResult::Suspended { response: outcome, .. }) => {
                let mut told = answer(&outcome, request, started);
                if let Some(since) = cancelled.filter(|_| outcome.finish_reason == FinishReason::Cancelled) {
                    told.cancel = Some(self.cancel_time(since).await);
                }
                self.front.tell(told);
                true
            }
            Err(error) => {
                let is_wrong = matches!(error, AgentError::Invalid(_) | AgentError::Policy(_) | AgentError::Skill(_));
                self.telling.tell(Report::Refused { session: name, request, why: error.to_string() });
                is_wrong
            }
        }
    }

    /// Returns the time since the cancel and the scheduling latency in that time.
    async fn cancel_time(&self, since: Instant) -> CancelTime {
        let now = Instant::now();
        // The latency of the task that is waiting now is known once it has run.
        self.probe.turn_round().await;
        CancelTime { us: micros(now - since), late_us: micros(self.probe.late_between(since, now)) }
    }

    /// Far more requests than their sessions take. Returns when each has its answer.
    pub(crate) async fn burst(self, number: u64) {
        let (sessions, requests) = BURST;
        let mut all = JoinSet::new();
        for session in 0..sessions {
            let name = format!("b{session}");
            self.telling.fault(Kind::Overload, name.clone(), vec![name.clone()]);
            for request in 0..requests {
                let (this, name) = (self.clone(), name.clone());
                let request = format!("{name}n{number}r{request}");
                all.spawn(async move { this.ask(name, request, "one of many".to_owned(), None).await });
            }
        }
        while all.join_next().await.is_some() {}
    }
}

pub(crate) fn answer(outcome: &TurnOutcome, request: String, started: Instant) -> Answer {
    Answer {
        session: outcome.session_id.to_string(),
        request,
        turn: outcome.turn_id.to_string(),
        reason: outcome.finish_reason,
        content: outcome.content.clone(),
        saved: outcome.saved,
        steps: outcome.steps,
        calls: outcome.tool_transcript.iter().map(|call| (call.id.to_string(), call.status)).collect(),
        error: outcome.error.as_ref().map(ToString::to_string),
        took_us: micros(started.elapsed()),
        cancel: None,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
