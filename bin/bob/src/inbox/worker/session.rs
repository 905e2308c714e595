//! The work on one session: first the turns that were left open, then one message after the other.
//!
//! What is done with each message is decided by [`attend`](bob_messages::inbox::attend).
//!
//! - `messages`: taking them, and doing what was decided

mod messages;

use super::shared::{Shared, Worked};
use crate::facade::finish::finish;
use crate::inbox::message;
use crate::{AgentRunResult, AgentRuntime, Runtime};
use bob_actors::store::Due;
use bob_messages::chat::FinishReason;
use bob_messages::error::AgentError;
use bob_messages::ids::{PoolName, RequestId, ResumeToken, SessionId, TenantId, TurnId};
use bob_messages::inbox::InboxRequest;
use bob_messages::inbox::attend::{Attempt, Failed, Runs, cancelled_before};
use bob_messages::input::ResumeReply;
use bob_messages::options::{Change, OptionsPatch, SessionOptions};
use bob_messages::outcome::TurnOutcome;
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Between two attempts to give a message to a turn that is not there yet, and between two looks at a turn that no message began.
const TRIED_EACH: Duration = Duration::from_millis(100);

/// How many turns a session has one after the other while others may wait for its place.
const MOST_IN_A_ROW: u32 = 8;

pub(super) struct SessionWork {
    shared: Arc<Shared>,
    due: Due,
    /// Whether this process has the session anyway, and keeps it.
    is_owner: bool,
    /// Notified when messages may have come.
    poked: Arc<Notify>,
    /// How many attempts failed one after the other that count.
    failures: u32,
    /// What was settled here, and could not be removed.
    settled: HashSet<RequestId>,
    /// What was left open, and was told when it ended: its turn, and its token if it was suspended again. The messages that asked
    /// for it and that resumed it have this outcome.
    told: HashSet<(TurnId, Option<ResumeToken>)>,
    /// Requests that were cancelled, and whose end was not confirmed by the store in time.
    unconfirmed: HashSet<RequestId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// How many attempts failed one after the other that count.
    pub(super) failures: u32,
    /// Whether it rests before it is worked on again; whether the failure counts.
    pub(super) rests: Option<bool>,
}

struct Running {
    of: RunningOf,
    ends: BoxFuture<'static, Result<Vec<AgentRunResult>, AgentError>>,
}

enum RunningOf {
    /// The turns that an earlier owner left open.
    LeftOpen,
    /// A message, whose turn is cancelled by the token.
    Request(RequestId, CancellationToken),
}

struct Next {
    request: RequestId,
    asked: InboxRequest,
    is_cancelled: bool,
    /// The pool to which the session is bound by it, and is not yet.
    pool: Option<PoolName>,
}

#[derive(Default)]
struct Found {
    next: Option<Next>,
    waits: bool,
    /// Whether there is one that is to be tried again soon, though no message comes.
    again: bool,
    /// Whether something was done with one, or attempted.
    is_changed: bool,
    /// Whether a change of options could not be made yet: the turns behind it wait for it.
    is_held: bool,
}

/// Why the work on a session ends before its messages are done: it rests, and whether the failure counts.
struct Rests(bool);

impl SessionWork {
    pub(super) fn new(shared: Arc<Shared>, due: Due, poked: Arc<Notify>, failures: u32) -> Self {
        let (settled, told, unconfirmed) = Default::default();
        Self { shared, due, is_owner: false, poked, failures, settled, told, unconfirmed }
    }

    /// For a session that this process has, whose turns are begun by others.
    pub(super) fn of_owner(shared: Arc<Shared>, session: SessionId) -> Self {
        let due = Due { session, epoch: None, mark: 0 };
        Self { is_owner: true, ..Self::new(shared, due, Arc::default(), 0) }
    }

    /// Takes the messages once, and does what can be done of them now. Messages that were not taken stay in the inbox, also after an
    /// error. Whether they are to be taken again though none comes: not where only turns wait that others begin.
    pub(super) async fn attend_once(&mut self, runs: Runs<'_>) -> bool {
        self.attend(runs, None).await.map_or(true, |found| found.waits || found.is_changed)
    }

    /// Works until nothing waits that can be done now, or others are to have its place, and lets the session go.
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
        let mut again = true;
        while !self.shared.runtime.close(self.due.session.clone()).await && !self.shared.until.is_cancelled() {
            let came = timeout(TRIED_EACH, self.poked.notified()).await.is_ok();
            if came || again {
                again = self.attend(Runs::Another, None).await.map_or(true, |found| found.again);
            }
        }
    }

    async fn work(&mut self) -> Result<(), Rests> {
        self.let_go().await;
        if self.shared.until.is_cancelled() {
            return Ok(());
        }
        let mut running = self.left_open().await?;
        let mut begun = 0;
        loop {
            let result = self.attended(&mut running).await;
            let is_confirmed = self.ended(running.of, result).await?;
            if self.shared.until.is_cancelled() || (begun >= MOST_IN_A_ROW && self.shared.is_full()) {
                return Ok(());
            }
            if !is_confirmed {
                running = self.left_open().await?;
                continue;
            }
            let found = self.attend(Runs::Nothing, None).await?;
            running = match found.next {
                Some(next) => self.begun(next),
                // Another process, or a newer one, has to do with it.
                None if found.waits => return Err(Rests(false)),
                None => return Ok(()),
            };
            begun += 1;
        }
    }

    /// Waits for the end of what runs, and attends to messages meanwhile: at first, when some may have come, and again while
    /// one could not be given to the turn yet.
    async fn attended(&mut self, running: &mut Running) -> Result<Vec<AgentRunResult>, AgentError> {
        let mut again = true;
        loop {
            // The first poll hands it in: there is a turn then that a cancellation finds.
            let came = async {
                match again {
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
            again = self.attend(runs, token).await.map_or(true, |found| found.again);
        }
    }

    /// The turns that were interrupted, which are finished first. Those that were cancelled meanwhile do not go on.
    async fn left_open(&self) -> Result<Running, Rests> {
        let cancelled = self.cancelled().await?;
        let (runtime, session) = (self.shared.runtime.clone(), self.due.session.clone());
        let ends = async move { finish(&runtime, session, &cancelled).await }.boxed();
        Ok(Running { of: RunningOf::LeftOpen, ends })
    }

    fn begun(&self, Next { request, asked, is_cancelled, pool }: Next) -> Running {
        let (runtime, cancel) = (self.shared.runtime.clone(), CancellationToken::new());
        if is_cancelled {
            cancel.cancel();
        }
        let session = self.due.session.clone();
        let ends = match asked {
            InboxRequest::Submit(submit) => {
                let tenant = submit.context.as_ref().and_then(|context| context.tenant.clone());
                let asked = message::request(&session, request.clone(), *submit, cancel.clone());
                let of = request.clone();
                // One that was cancelled runs nothing, so it binds its session to no pool.
                let pool = pool.filter(|_| !is_cancelled);
                async move {
                    if let Some(pool) = pool {
                        bind(&runtime, session, (pool, tenant), &of).await?;
                    }
                    runtime.run(asked).await.map(|result| vec![result])
                }
                .boxed()
            }
            InboxRequest::Resume { token, reply } => {
                let (submission, cancel) = (TurnId::new(request.as_str()), cancel.clone());
                let resumed = resumed(runtime, session, submission, (token, reply), cancel);
                resumed.map(|result| result.map(|result| vec![result])).boxed()
            }
            // They run no turn.
            InboxRequest::Cancel { .. }
            | InboxRequest::Decide { .. }
            | InboxRequest::Steer { .. }
            | InboxRequest::Configure { .. } => ready(Ok(Vec::new())).boxed(),
        };
        Running { of: RunningOf::Request(request, cancel), ends }
    }

    /// Settles what ended. What was left open has no message, or one that is taken afterwards and recognised. `false` when the
    /// end is to be read from the journal, or made there, before anything else runs.
    async fn ended(&mut self, of: RunningOf, result: Result<Vec<AgentRunResult>, AgentError>) -> Result<bool, Rests> {
        let last = result.as_ref().map(|results| results.last().map(AgentRunResult::response));
        let attempt = match last {
            Ok(None) => return Ok(true),
            Ok(Some(outcome)) => match &of {
                RunningOf::Request(_, cancel) if cancel.is_cancelled() && is_unheard(outcome) => {
                    Attempt::Refused(cancelled_before())
                }
                // It has no place yet, which is not its fault.
                RunningOf::LeftOpen if is_unheard(outcome) => {
                    let why = "a turn that was left open was cancelled before it had a place".to_owned();
                    Attempt::Again(Failed { why, counts: false })
                }
                _ => Attempt::of_run(Ok(outcome)),
            },
            Err(error) => Attempt::of_error(error),
        };
        match (attempt.after(self.failures), &of) {
            (Attempt::Done, _) => self.failures = 0,
            (Attempt::Refused(error), RunningOf::Request(request, _)) => {
                self.failures = 0;
                return self.refuse(request, error).await.map(|()| true);
            }
            // Nothing is to be finished in it, and its messages are refused for the same reason.
            (Attempt::Refused(AgentError::Store(StoreError::Corrupt(_))), RunningOf::LeftOpen) => return Ok(true),
            (Attempt::Refused(error), RunningOf::LeftOpen) => {
                tracing::warn!(session = %self.due.session, %error, "what was left open in a session cannot be finished");
                return self.refuse_first(error).await.map(|()| true);
            }
            // An end by a stop does not wait for long until it is stored. Its place is not given to others before.
            (Attempt::Again(_), RunningOf::Request(request, cancel))
                if cancel.is_cancelled() && result.is_ok() && self.unconfirmed.insert(request.clone()) =>
            {
                return Ok(false);
            }
            (Attempt::Again(Failed { why, counts }), _) => {
                tracing::debug!(session = %self.due.session, why, "a session is left for now");
                self.failures += u32::from(counts);
                return Err(Rests(counts));
            }
        }
        if let RunningOf::Request(request, _) = &of {
            self.settle(request, None).await;
        }
        for ended in result.iter().flatten() {
            let outcome = Box::new(ended.response().clone());
            let told = (outcome.turn_id.clone(), outcome.token.clone());
            if matches!(of, RunningOf::LeftOpen) {
                self.told.insert(told);
            } else if self.told.contains(&told) {
                continue;
            }
            self.tell(outcome.request_id.clone(), Ok(outcome));
        }
        Ok(true)
    }

    /// What was left open cannot be finished, so the oldest message cannot run.
    async fn refuse_first(&mut self, error: AgentError) -> Result<(), Rests> {
        self.failures += 1;
        if let Some(next) = self.attend(Runs::Nothing, None).await?.next {
            self.refuse(&next.request, error).await?;
        }
        Err(Rests(true))
    }

    fn tell(&self, request: Option<RequestId>, result: Result<Box<TurnOutcome>, AgentError>) {
        (self.shared.told)(&Worked::new(self.due.session.clone(), request, result));
    }
}

/// Binds a session to a pool, before its first turn there. It may be repeated. One that is not there yet is its tenant's from
/// the first record on.
async fn bind(
    runtime: &Runtime,
    session: SessionId,
    (pool, tenant): (PoolName, Option<TenantId>),
    of: &RequestId,
) -> Result<(), AgentError> {
    if tenant.is_some() && runtime.last_records(session.clone(), 1).await?.is_empty() {
        let options = SessionOptions { tenant, pool: Some(pool), ..SessionOptions::default() };
        return runtime.open(session, options).await;
    }
    let name = RequestId::new(format!("pool-{of}"));
    let patch = OptionsPatch { pool: Change::Set(pool), ..OptionsPatch::default() };
    runtime.configure(session, patch, Some(name)).await
}

/// Resumes a suspended turn of the session, under this submission: one that was resumed by it before is answered with its outcome.
async fn resumed(
    runtime: Runtime,
    session: SessionId,
    submission: TurnId,
    (token, reply): (ResumeToken, ResumeReply),
    cancel: CancellationToken,
) -> Result<AgentRunResult, AgentError> {
    if token.session().as_ref() != Some(&session) {
        return Err(AgentError::Invalid("the token is not one of this session".to_owned()));
    }
    if cancel.is_cancelled() {
        return Err(AgentError::Invalid("cancelled before it resumed the turn, which stays suspended".to_owned()));
    }
    let mut ends = pin!(runtime.resume_as(submission.clone(), token, reply));
    tokio::select! {
        biased;
        result = &mut ends => return result,
        () = cancel.cancelled() => {}
    }
    // Until it finds its turn, which may have to wait for its place.
    while !runtime.cancel_turn(session.clone(), Some(submission.clone())).await {
        if let Ok(result) = timeout(TRIED_EACH, &mut ends).await {
            return result;
        }
    }
    ends.await
}

/// Whether an input was cancelled before anything of it was kept. A turn that began has a model.
fn is_unheard(outcome: &TurnOutcome) -> bool {
    outcome.finish_reason == FinishReason::Cancelled
        && !outcome.saved
        && outcome.error.is_none()
        && outcome.model.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob_messages::ids::ModelName;

    #[test]
    fn a_turn_that_began_was_not_cancelled_before() {
        let (session, turn) = (SessionId::parse("one").unwrap(), TurnId::new("t"));
        let failed = TurnOutcome::failed(session, turn, AgentError::Invalid("none".to_owned()));
        let unheard =
            TurnOutcome { finish_reason: FinishReason::Cancelled, error: None, model: None, saved: false, ..failed };
        assert!(is_unheard(&unheard));
        let model = Some(ModelName::parse("fake:m-1").unwrap());
        assert!(!is_unheard(&TurnOutcome { model, ..unheard.clone() }), "its end is not saved, and it runs again");
        assert!(!is_unheard(&TurnOutcome { saved: true, ..unheard }));
    }
}
