//! The work on one session: first the turn that was left open, then one message after the other.

use super::shared::{Shared, Worked};
use crate::inbox::message;
use crate::{AgentRunResult, AgentRuntime};
use bob_actors::store::Due;
use bob_messages::error::AgentError;
use bob_messages::ids::RequestId;
use bob_messages::inbox::{Attempt, InboxMessage, InboxRequest, SubmitRequest};
use bob_messages::session_state::Session;
use bob_messages::store::{Part, StoreError};
use futures_util::future::{BoxFuture, FutureExt};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a session rests behind a failure that may pass.
const RESTED_FOR: Duration = Duration::from_millis(500);

/// Between two attempts to let a session go in which a turn runs that no message asked for.
const LET_GO_EACH: Duration = Duration::from_millis(100);

/// How often a message is settled while the store fails.
const SETTLED_TIMES: u32 = 3;

pub(super) struct SessionWork {
    shared: Arc<Shared>,
    due: Due,
    /// Notified when messages may have come.
    poked: Arc<Notify>,
    /// What was settled here, also where the store could not remove it.
    settled: HashSet<RequestId>,
    /// Requests whose turn was left open, and was told when it ended.
    told: HashSet<RequestId>,
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

/// What follows the end of something.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Message,
    /// Something failed that may pass.
    Rest,
}

impl SessionWork {
    pub(super) fn new(shared: Arc<Shared>, due: Due, poked: Arc<Notify>) -> Self {
        Self { shared, due, poked, settled: HashSet::new(), told: HashSet::new() }
    }

    /// Works until nothing waits, and lets the session go.
    pub(super) async fn run(mut self) {
        let rests = self.work().await == Next::Rest;
        let session = self.due.session.clone();
        // A decision may have resumed a turn.
        while !self.shared.runtime.close(session.clone()).await && !self.shared.until.is_cancelled() {
            let _a_message_or_time = timeout(LET_GO_EACH, self.poked.notified()).await;
        }
        if let Some(epoch) = self.due.epoch {
            self.shared.store.release(&session, epoch).await;
        }
        if rests {
            let _the_end_comes_first = timeout(RESTED_FOR, self.shared.until.cancelled()).await;
        }
    }

    async fn work(&mut self) -> Next {
        let mut running = self.left_open();
        loop {
            let result = loop {
                let _what_waits = self.attend(Some(&running.of)).await;
                tokio::select! {
                    biased;
                    result = &mut running.ends => break result,
                    () = self.poked.notified() => {}
                }
            };
            if self.ended(running.of, result).await == Next::Rest {
                return Next::Rest;
            }
            let waiting = match self.attend(None).await {
                _ if self.shared.until.is_cancelled() => return Next::Message,
                Ok(waiting) => waiting,
                Err(Waits) => return Next::Rest,
            };
            match waiting.into_iter().find_map(submitted) {
                Some((request, submit)) => running = self.begun(request, submit),
                None => return Next::Message,
            }
        }
    }

    /// The turns that were interrupted, which are finished first.
    fn left_open(&self) -> Running {
        let (runtime, session) = (self.shared.runtime.clone(), self.due.session.clone());
        Running { of: RunningOf::LeftOpen, ends: async move { runtime.finish(session).await }.boxed() }
    }

    fn begun(&self, request: RequestId, submit: SubmitRequest) -> Running {
        let (runtime, cancel) = (self.shared.runtime.clone(), CancellationToken::new());
        let asked = message::request(&self.due.session, request.clone(), submit, cancel.clone());
        let ends = async move { runtime.run(asked).await.map(|result| vec![result]) }.boxed();
        Running { of: RunningOf::Request(request, cancel), ends }
    }

    /// Settles what ended. What was left open has no message, or one that is taken afterwards and recognised.
    async fn ended(&mut self, of: RunningOf, result: Result<Vec<AgentRunResult>, AgentError>) -> Next {
        let last = result.as_ref().map(|results| results.last().map(AgentRunResult::response));
        let attempt = match last {
            Ok(Some(outcome)) => Attempt::of_run(Ok(outcome)),
            Ok(None) => return Next::Message,
            Err(error) => Attempt::of_error(error),
        };
        let refusal = match attempt {
            Attempt::Done => None,
            Attempt::Refused(error) => Some(error),
            Attempt::Again(why) => {
                tracing::debug!(session = %self.due.session, why, "a session is left for now");
                return Next::Rest;
            }
        };
        match of {
            RunningOf::LeftOpen => {
                self.told.extend(result.iter().flatten().filter_map(|ended| ended.response().request_id.clone()));
            }
            RunningOf::Request(request, _) => {
                self.settle(&request, refusal).await;
                if self.told.remove(&request) {
                    return Next::Message;
                }
            }
        }
        let session = self.due.session.clone();
        match result {
            Ok(results) => {
                for result in results {
                    let outcome = Box::new(result.response().clone());
                    let request = outcome.request_id.clone();
                    (self.shared.told)(&Worked { session: session.clone(), request, result: Ok(outcome) });
                }
            }
            Err(error) => (self.shared.told)(&Worked { session, request: None, result: Err(error) }),
        }
        Next::Message
    }

    /// Takes the messages, and attends to those that run no turn. Answers the others.
    async fn attend(&mut self, running: Option<&RunningOf>) -> Result<Vec<InboxMessage>, Waits> {
        let mut waiting = self.shared.inbox.take(&self.due.session).await.map_err(|error| {
            tracing::warn!(session = %self.due.session, %error, "the messages to a session cannot be taken");
            Waits
        })?;
        waiting.retain(|message| !self.settled.contains(&message.request_id));
        let mut at = 0;
        while at < waiting.len() {
            let InboxMessage { request_id, request, .. } = &waiting[at];
            let attempt = match request {
                InboxRequest::Submit(_) => {
                    at += 1;
                    continue;
                }
                InboxRequest::Cancel { of } => {
                    let of = of.clone();
                    let attempt = self.cancel(&of, running, &waiting).await;
                    let request_id = waiting[at].request_id.clone();
                    waiting.retain(|message| message.request_id != of || message.request_id == request_id);
                    at = waiting.iter().position(|message| message.request_id == request_id).unwrap_or_default();
                    attempt
                }
                InboxRequest::Decide { approval, decision } => {
                    let decided =
                        self.shared.runtime.decide(self.due.session.clone(), approval.clone(), decision.clone());
                    taken(decided.await, "no such question is open in the session")
                }
                InboxRequest::Steer { parts } => {
                    let (session, request) = (self.due.session.clone(), request_id.clone());
                    let steered = self.shared.runtime.steer_as(session, request, parts.clone());
                    taken(steered.await, "no turn runs in the session")
                }
            };
            let message = waiting.remove(at);
            match attempt {
                Attempt::Done => self.settle(&message.request_id, None).await,
                Attempt::Refused(error) => self.settle(&message.request_id, Some(error)).await,
                Attempt::Again(why) => tracing::debug!(session = %self.due.session, why, "a message is taken again"),
            }
        }
        Ok(waiting)
    }

    /// Cancels the turn of a request, or refuses a request that waits. One that has ended stays as it is.
    async fn cancel(&mut self, of: &RequestId, running: Option<&RunningOf>, waiting: &[InboxMessage]) -> Attempt {
        match running {
            Some(RunningOf::Request(request, cancel)) if request == of => cancel.cancel(),
            Some(RunningOf::LeftOpen) if self.is_left_open(of).await => {
                self.shared.runtime.cancel(self.due.session.clone()).await;
            }
            _another_one_or_none => {
                if waiting.iter().any(|message| message.request_id == *of) {
                    let why = "cancelled before its turn began; nothing was kept of the message".to_owned();
                    self.settle(of, Some(AgentError::Stopped(why))).await;
                }
            }
        }
        Attempt::Done
    }

    /// Whether the open turn of the session is that of a request.
    async fn is_left_open(&self, of: &RequestId) -> bool {
        let (session, store) = (&self.due.session, &self.shared.store);
        let Ok(newest) = store.load_part(session, Part::Latest).await else { return false };
        let folded = Session::fold_latest(session.clone(), None, &newest);
        folded.is_some_and(|folded| folded.running().is_some_and(|open| open.is_request(of)))
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

/// The messages cannot be taken now.
struct Waits;

fn submitted(message: InboxMessage) -> Option<(RequestId, SubmitRequest)> {
    match message.request {
        InboxRequest::Submit(submit) => Some((message.request_id, *submit)),
        InboxRequest::Cancel { .. } | InboxRequest::Decide { .. } | InboxRequest::Steer { .. } => None,
    }
}

fn taken(result: Result<bool, AgentError>, otherwise: &str) -> Attempt {
    match result {
        Ok(true) => Attempt::Done,
        Ok(false) => Attempt::Refused(AgentError::Invalid(otherwise.to_owned())),
        // The turn has it; it is recognised when it is repeated.
        Err(AgentError::Store(StoreError::InDoubt(why))) => Attempt::Again(why),
        Err(error) => Attempt::of_error(&error),
    }
}
