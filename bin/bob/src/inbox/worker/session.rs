//! The work on one session: first the turns that were left open, then one message after the other.
//!
//! What is done with each message is decided by [`attend`](bob_messages::inbox::attend).

use super::shared::{Shared, Worked};
use crate::inbox::message;
use crate::{AgentRunResult, AgentRuntime};
use bob_actors::store::Due;
use bob_messages::chat::FinishReason;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, TurnId};
use bob_messages::inbox::attend::{Attempt, Failed, Runs, Step, Unfinished, steps};
use bob_messages::inbox::{InboxEntry, InboxRequest, SubmitRequest};
use bob_messages::outcome::TurnOutcome;
use bob_messages::session_state::Session;
use bob_messages::store::{Part, StoreError};
use futures_util::future::{BoxFuture, FutureExt};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Between two attempts to give a message to a turn that is not there yet, and between two looks at a turn that no message began.
const TRIED_EACH: Duration = Duration::from_millis(100);

/// How often a message is settled while the store fails.
const SETTLED_TIMES: u32 = 3;

pub(super) struct SessionWork {
    shared: Arc<Shared>,
    due: Due,
    /// Notified when messages may have come.
    poked: Arc<Notify>,
    /// How many attempts failed one after the other that count.
    failures: u32,
    /// What was settled here, also where the store could not remove it.
    settled: HashSet<RequestId>,
    /// Requests whose turn was left open, and was told when it ended.
    told: HashSet<RequestId>,
}

/// How the work on a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// How many attempts failed one after the other that count.
    pub(super) failures: u32,
    /// Whether it rests before it is worked on again; whether the failure counts.
    pub(super) rests: Option<bool>,
}

/// What runs now, and its end.
struct Running {
    of: RunningOf,
    ends: BoxFuture<'static, Result<Vec<AgentRunResult>, AgentError>>,
}

/// What runs now.
enum RunningOf {
    /// The turns that an earlier owner left open.
    LeftOpen,
    /// A message, whose turn is cancelled by the token.
    Request(RequestId, CancellationToken),
}

/// What was found among the messages.
enum Found {
    /// The next turn, and whether it was cancelled.
    Turn(RequestId, Box<SubmitRequest>, bool),
    /// Something that has to wait.
    Waiting,
    Nothing,
}

/// Why the work on a session ends before its messages are done: it rests, and whether the failure counts.
struct Rests(bool);

impl SessionWork {
    pub(super) fn new(shared: Arc<Shared>, due: Due, poked: Arc<Notify>, failures: u32) -> Self {
        Self { shared, due, poked, failures, settled: HashSet::new(), told: HashSet::new() }
    }

    /// Works until nothing waits that can be done now, and lets the session go.
    pub(super) async fn run(mut self) -> Ended {
        let rests = self.work().await.err().map(|Rests(counts)| counts);
        // A decision may have resumed a turn.
        self.let_go().await;
        if let Some(epoch) = self.due.epoch {
            self.shared.store.release(&self.due.session, epoch).await;
        }
        Ended { failures: self.failures, rests }
    }

    /// Has no actor in the session. A turn that runs, and that no message began, is waited for; its messages are attended to.
    async fn let_go(&mut self) {
        while !self.shared.runtime.close(self.due.session.clone()).await && !self.shared.until.is_cancelled() {
            let _looked_again_anyhow = self.attend(Runs::Another, None).await;
            let _a_message_or_time = timeout(TRIED_EACH, self.poked.notified()).await;
        }
    }

    async fn work(&mut self) -> Result<(), Rests> {
        self.let_go().await;
        let mut running = self.left_open();
        loop {
            let result = self.attended(&mut running).await;
            self.ended(running.of, result).await?;
            if self.shared.until.is_cancelled() {
                return Ok(());
            }
            running = match self.attend(Runs::Nothing, None).await? {
                Found::Turn(request, submit, is_cancelled) => self.begun(request, *submit, is_cancelled),
                // Another process, or a newer one, has to do with it.
                Found::Waiting => return Err(Rests(false)),
                Found::Nothing => return Ok(()),
            };
        }
    }

    /// Waits for the end of what runs, and attends to messages meanwhile: at first, when some may have come, and again while
    /// one could not be given to the turn yet.
    async fn attended(&mut self, running: &mut Running) -> Result<Vec<AgentRunResult>, AgentError> {
        let mut is_due = true;
        loop {
            // The first poll hands it in: there is a turn then that a cancellation finds.
            let came = async {
                match is_due {
                    true => drop(timeout(TRIED_EACH, self.poked.notified()).await),
                    false => self.poked.notified().await,
                }
            };
            tokio::select! {
                biased;
                result = &mut running.ends => return result,
                () = came => {}
            }
            let (runs, token) = match &running.of {
                RunningOf::LeftOpen => (Runs::Another, None),
                RunningOf::Request(request, token) => (Runs::Message(request), Some(token)),
            };
            is_due = !matches!(self.attend(runs, token).await, Ok(Found::Nothing));
        }
    }

    /// The turns that were interrupted, which are finished first.
    fn left_open(&self) -> Running {
        let (runtime, session) = (self.shared.runtime.clone(), self.due.session.clone());
        Running { of: RunningOf::LeftOpen, ends: async move { runtime.finish(session).await }.boxed() }
    }

    fn begun(&self, request: RequestId, submit: SubmitRequest, is_cancelled: bool) -> Running {
        let (runtime, cancel) = (self.shared.runtime.clone(), CancellationToken::new());
        if is_cancelled {
            cancel.cancel();
        }
        let asked = message::request(&self.due.session, request.clone(), submit, cancel.clone());
        let ends = async move { runtime.run(asked).await.map(|result| vec![result]) }.boxed();
        Running { of: RunningOf::Request(request, cancel), ends }
    }

    /// Settles what ended. What was left open has no message, or one that is taken afterwards and recognised.
    async fn ended(&mut self, of: RunningOf, result: Result<Vec<AgentRunResult>, AgentError>) -> Result<(), Rests> {
        let last = result.as_ref().map(|results| results.last().map(AgentRunResult::response));
        let attempt = match last {
            Ok(None) => return Ok(()),
            Ok(Some(outcome)) => match &of {
                RunningOf::Request(_, cancel) if cancel.is_cancelled() && is_unheard(outcome) => {
                    let why = "cancelled before its turn began; nothing was kept of the message".to_owned();
                    Attempt::Refused(AgentError::Stopped(why))
                }
                _ => Attempt::of_run(Ok(outcome)),
            },
            Err(error) => Attempt::of_error(error),
        };
        let refusal = match (attempt.after(self.failures), &of) {
            (Attempt::Done, _) => None,
            (Attempt::Refused(error), RunningOf::Request(..)) => Some(error),
            // Its messages are refused one by one, for the same reason.
            (Attempt::Refused(error), RunningOf::LeftOpen) => {
                tracing::warn!(session = %self.due.session, %error, "what was left open in a session cannot be finished");
                return self.refuse_first(error).await;
            }
            (Attempt::Again(Failed { why, counts }), _) => {
                tracing::debug!(session = %self.due.session, why, "a session is left for now");
                self.failures += u32::from(counts);
                return Err(Rests(counts));
            }
        };
        self.failures = 0;
        if let RunningOf::Request(request, _) = &of {
            self.settle(request, refusal.clone()).await;
            if let Some(error) = refusal {
                self.tell(Some(request.clone()), Err(error));
                return Ok(());
            }
            if self.told.remove(request) {
                return Ok(());
            }
        }
        for ended in result.iter().flatten() {
            let outcome = Box::new(ended.response().clone());
            if matches!(of, RunningOf::LeftOpen) {
                self.told.extend(outcome.request_id.clone());
            }
            self.tell(outcome.request_id.clone(), Ok(outcome));
        }
        Ok(())
    }

    /// What was left open cannot be finished, so the oldest message cannot run.
    async fn refuse_first(&mut self, error: AgentError) -> Result<(), Rests> {
        self.failures += 1;
        if let Found::Turn(request, ..) = self.attend(Runs::Nothing, None).await? {
            self.settle(&request, Some(error.clone())).await;
            self.tell(Some(request), Err(error));
        }
        Err(Rests(true))
    }

    fn tell(&self, request: Option<RequestId>, result: Result<Box<TurnOutcome>, AgentError>) {
        (self.shared.told)(&Worked { session: self.due.session.clone(), request, result });
    }

    /// Takes the messages, and does with each what is to be done now; says what is left.
    async fn attend(&mut self, runs: Runs<'_>, token: Option<&CancellationToken>) -> Result<Found, Rests> {
        let mut waiting = self.shared.inbox.take(&self.due.session).await.map_err(|error| {
            tracing::warn!(session = %self.due.session, %error, "the messages to a session cannot be taken");
            Rests(false)
        })?;
        waiting.retain(|entry| !self.settled.contains(&entry.request_id));
        let asks_the_journal = |entry: &InboxEntry| {
            matches!(entry.request(), Some(InboxRequest::Cancel { .. } | InboxRequest::Steer { .. }))
        };
        let folded = match waiting.iter().any(asks_the_journal) {
            true => Some(self.folded().await?),
            false => None,
        };
        let unfinished = folded.as_ref().map(Unfinished::of).unwrap_or_default();
        let mut found = Found::Nothing;
        for (entry, step) in waiting.iter().zip(steps(&waiting, runs, &unfinished)) {
            match (step, entry.request()) {
                (Step::Run { is_cancelled }, Some(InboxRequest::Submit(submit))) => {
                    // One that has its outcome is recognised when it is repeated, and not cancelled.
                    let request = entry.request_id.clone();
                    let has_ended = folded.as_ref().is_some_and(|folded| {
                        folded.first_outcome(&request).is_some() || folded.has_forgotten(&request)
                    });
                    found = Found::Turn(request, submit.clone(), is_cancelled && !has_ended);
                }
                (Step::Try, Some(request)) => {
                    if !self.given(entry, request).await && matches!(found, Found::Nothing) {
                        found = Found::Waiting;
                    }
                }
                (Step::Settle(refusal), _) => self.settle(&entry.request_id, refusal).await,
                (Step::Cancel(of), _) => {
                    match (token, &folded) {
                        (Some(token), _) => token.cancel(),
                        (None, Some(folded)) => self.cancel(folded, &of).await,
                        (None, None) => {}
                    }
                    if matches!(found, Found::Nothing) {
                        found = Found::Waiting;
                    }
                }
                // The turn that runs comes first.
                (Step::Wait, Some(InboxRequest::Submit(_))) if runs != Runs::Nothing => {}
                (Step::Wait | Step::Run { .. } | Step::Try, _) => {
                    if matches!(found, Found::Nothing) {
                        found = Found::Waiting;
                    }
                }
            }
        }
        Ok(found)
    }

    /// The session as its journal has it.
    async fn folded(&self) -> Result<Session, Rests> {
        let (session, store) = (&self.due.session, &self.shared.store);
        let failed = |error: StoreError| {
            tracing::warn!(%session, %error, "the journal of a session cannot be read");
            Rests(false)
        };
        let newest = store.load_part(session, Part::Latest).await.map_err(failed)?;
        match Session::fold_latest(session.clone(), None, &newest) {
            Some(folded) => Ok(folded),
            None => Ok(Session::fold(session.clone(), &store.load(session).await.map_err(failed)?)),
        }
    }

    /// Cancels the turn of a request that was left open, or waits behind it. It is asked again until the turn has ended.
    async fn cancel(&self, folded: &Session, of: &RequestId) {
        let waits = folded.waiting.iter().filter(|input| input.request_id.as_ref() == Some(of));
        let open = folded.running().filter(|open| open.is_request(of));
        let open = open.into_iter().flat_map(|open| [open.submission.clone(), open.input.turn.clone()]);
        let turns: Vec<TurnId> = open.chain(waits.map(|input| input.turn.clone())).collect();
        for turn in turns {
            if self.shared.runtime.cancel_turn(self.due.session.clone(), Some(turn)).await {
                return;
            }
        }
    }

    /// Gives a message to the runtime. Whether nothing is left to be done with it.
    async fn given(&mut self, entry: &InboxEntry, request: &InboxRequest) -> bool {
        let (runtime, session) = (&self.shared.runtime, self.due.session.clone());
        let attempt = match request {
            InboxRequest::Decide { approval, decision } => {
                match runtime.decide(session, approval.clone(), decision.clone()).await {
                    Ok(true) => Attempt::Done,
                    Ok(false) => {
                        Attempt::Refused(AgentError::Invalid("no such question is open in the session".into()))
                    }
                    Err(error) => Attempt::of_error(&error),
                }
            }
            InboxRequest::Steer { parts } => {
                match runtime.steer_as(session, entry.request_id.clone(), parts.clone()).await {
                    Ok(true) => Attempt::Done,
                    // Its turn is not there yet, or has just ended.
                    Ok(false) => return false,
                    Err(error) => Attempt::of_error(&error),
                }
            }
            InboxRequest::Submit(_) | InboxRequest::Cancel { .. } => return true,
        };
        match attempt {
            Attempt::Done => self.settle(&entry.request_id, None).await,
            Attempt::Refused(error) => self.settle(&entry.request_id, Some(error)).await,
            Attempt::Again(Failed { why, .. }) => {
                tracing::debug!(session = %self.due.session, why, "a message is taken again");
                return false;
            }
        }
        true
    }

    async fn settle(&mut self, request: &RequestId, refusal: Option<AgentError>) {
        self.settled.insert(request.clone());
        for _attempt in 0..SETTLED_TIMES {
            match self.shared.inbox.settle(&self.due.session, request, refusal.clone()).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(session = %self.due.session, %error, "a message that is done is still there")
                }
            }
        }
    }
}

/// Whether an input was cancelled before anything of it was kept.
fn is_unheard(outcome: &TurnOutcome) -> bool {
    outcome.finish_reason == FinishReason::Cancelled && !outcome.saved && outcome.error.is_none()
}
