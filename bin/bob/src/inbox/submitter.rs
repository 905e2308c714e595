//! Puts messages into an inbox, and waits for what becomes of them in the journal.

use super::journal;
use bob_actors::store::{Inbox, SessionStore};
use bob_messages::Millis;
use bob_messages::error::AgentError;
use bob_messages::event::{Envelope, Rebuild};
use bob_messages::ids::{RequestId, SessionId, TurnId};
use bob_messages::inbox::{InboxKey, InboxMessage, InboxRequest, InboxStanding};
use bob_messages::outcome::TurnOutcome;
use bob_messages::session_state::{OpenTurn, Session};
use bob_messages::store::{Fact, Part, Record};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Between two looks at the journal: short at first, since a store may be unable to tell that something changed.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(250);

/// The most bytes of a message, as JSON: twice what the input of a turn may have with its attachments.
const MOST_BYTES: usize = 32 << 20;

/// How many records are read at a time.
const PAGE: usize = 256;

/// Puts messages into the inbox of a store. It runs nothing.
#[derive(Clone)]
pub struct Submitter {
    store: Arc<dyn SessionStore>,
    inbox: Arc<dyn Inbox>,
}

impl std::fmt::Debug for Submitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submitter").finish_non_exhaustive()
    }
}

impl Submitter {
    /// One for this store; `None` when the store has no inbox.
    pub fn new(store: Arc<dyn SessionStore>) -> Option<Self> {
        let inbox = store.inbox()?;
        Some(Self { store, inbox })
    }

    /// Puts a message, unless its session has its outcome. Messages that run no turn have none: [`taken`](Self::taken) waits for
    /// what becomes of them. It is accepted, durably, when this returns. Repeating one with its request
    /// id is harmless; one that was refused is tried again.
    ///
    /// # Errors
    /// `Store` when it may not be kept: after `InDoubt` it may be repeated with its request id. `Invalid` for more than 32 MiB.
    pub async fn put(&self, message: InboxMessage) -> Result<Pending, AgentError> {
        let bytes = message.to_text()?.len();
        if bytes > MOST_BYTES {
            return Err(AgentError::Invalid(format!("the message has {bytes} bytes; at most {MOST_BYTES} are taken")));
        }
        let (session, request) = (message.session.clone(), message.request_id.clone());
        // What was read before the message was there has nothing of it, unless it is repeated.
        let folded = journal::folded(&*self.store, &session).await?;
        let reply = matches!(message.request, InboxRequest::Resume { .. }).then(|| TurnId::new(request.as_str()));
        // A suspended turn has an outcome under the name of its request, which is the question that a reply answers.
        let has_outcome = match &reply {
            Some(_) => folded.submissions.contains_request(&request),
            None => folded.first_outcome(&request).is_some(),
        };
        let is_known = has_outcome
            || folded.has_forgotten(&request)
            || folded.waiting.iter().any(|input| input.request_id.as_ref() == Some(&request))
            || folded.open.as_ref().is_some_and(|open| open.is_request(&request));
        let rebuild = match is_known {
            true => Rebuild::new(session.clone()),
            false => Rebuild::behind(folded),
        };
        // What the process that takes a decision would make of one that lasts is not known here.
        let rebuild = rebuild.offering_always(false);
        if !has_outcome {
            self.inbox.put(message).await?;
        }
        let read = rebuild.session().version;
        Ok(Pending {
            submitter: self.clone(),
            request,
            reply,
            rebuild,
            read,
            turn: None,
            events: VecDeque::new(),
            outcome: None,
        })
    }

    /// The request whose turn a session has open, or that waits for it longest; `None` when there is nothing to cancel.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn first_request(&self, session: &SessionId) -> Result<Option<RequestId>, AgentError> {
        let folded = journal::folded(&*self.store, session).await?;
        // A turn that no message asked for is named by its submission.
        let named = |open: &OpenTurn| RequestId::new(open.submission.as_str());
        let open = folded.running().map(|open| open.input.request_id.clone().unwrap_or_else(|| named(open)));
        if open.is_some() {
            return Ok(open);
        }
        let waiting = self.inbox.take(session).await?;
        let mut submitted = waiting.into_iter().filter(|entry| entry.request().is_some_and(InboxRequest::runs_a_turn));
        Ok(submitted.next().map(|entry| entry.request_id))
    }

    /// Asks for the end of the turn of a request, or of the request if its turn has not begun. `at` is the time of day, for people.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn cancel(&self, session: &SessionId, of: &RequestId, at: Millis) -> Result<(), AgentError> {
        let message =
            InboxMessage::new(session.clone(), Self::cancellation_of(of), at, InboxRequest::Cancel { of: of.clone() });
        self.inbox.put(message).await.map(drop).map_err(AgentError::from)
    }

    /// The name of the message that cancels a request.
    pub fn cancellation_of(of: &RequestId) -> RequestId {
        RequestId::new(format!("cancel-{of}"))
    }

    /// Waits for the end of a request that was to be [cancelled](Self::cancel), and answers its outcome; `None` for one whose turn
    /// had not begun. The process that ran the turn may have ended with it: the cancellation is removed then.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn cancelled(&self, session: &SessionId, of: &RequestId) -> Result<Option<Box<TurnOutcome>>, AgentError> {
        let key = InboxKey { session: session.clone(), request: Self::cancellation_of(of) };
        loop {
            let standing = self.inbox.standing(key.clone()).await?;
            let (outcome, is_over) = ended(&journal::folded(&*self.store, session).await?, of);
            match standing {
                InboxStanding::Gone => return Ok(outcome),
                InboxStanding::Refused(error) => return Err(*error),
                InboxStanding::Waiting if is_over => {
                    self.inbox.settle(key, None).await?;
                    return Ok(outcome);
                }
                InboxStanding::Waiting => drop(timeout(LAST_LOOK, self.inbox.woken()).await),
            }
        }
    }

    /// The outcome of a request, as far as the session's journal has it still; `None` while it has none.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn outcome_of(
        &self,
        session: &SessionId,
        request: &RequestId,
    ) -> Result<Option<Box<TurnOutcome>>, AgentError> {
        Ok(journal::folded(&*self.store, session).await?.first_outcome(request).map(Box::new))
    }

    /// Waits until a worker has taken a message and is done with it.
    ///
    /// # Errors
    /// Why it was refused; errors of the store.
    pub async fn taken(&self, session: &SessionId, request: &RequestId) -> Result<(), AgentError> {
        let key = InboxKey { session: session.clone(), request: request.clone() };
        loop {
            match self.inbox.standing(key.clone()).await? {
                InboxStanding::Waiting => drop(timeout(LAST_LOOK, self.inbox.woken()).await),
                InboxStanding::Refused(error) => return Err(*error),
                InboxStanding::Gone => return Ok(()),
            }
        }
    }
}

/// A message that was accepted. Dropping it has no effect on the message.
#[derive(Debug)]
pub struct Pending {
    submitter: Submitter,
    request: RequestId,
    /// The submission of a reply to a suspended turn.
    reply: Option<TurnId>,
    rebuild: Rebuild,
    /// The version up to which the journal was read.
    read: u64,
    /// The turn of the message, once its input is in the journal.
    turn: Option<TurnId>,
    events: VecDeque<Envelope>,
    outcome: Option<Box<TurnOutcome>>,
}

impl Pending {
    /// The session of the message.
    pub fn session(&self) -> &SessionId {
        &self.rebuild.session().id
    }

    /// The name of the message.
    pub fn request(&self) -> &RequestId {
        &self.request
    }

    /// The next event of the turn, rebuilt from the journal; `None` when it has its outcome. Events that only exist where the turn
    /// runs, text deltas among them, are missing. Cancel-safe.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub async fn next_event(&mut self) -> Result<Option<Envelope>, AgentError> {
        let mut pause = FIRST_LOOK;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.outcome.is_some() {
                return Ok(None);
            }
            let key = InboxKey { session: self.session().clone(), request: self.request.clone() };
            let standing = self.submitter.inbox.standing(key).await?;
            if self.look().await? {
                continue;
            }
            match standing {
                InboxStanding::Waiting => {}
                // It is kept: another sender of the message may have put it again, or waits for the same refusal.
                InboxStanding::Refused(error) => return Err(*error),
                InboxStanding::Gone => self.look_at_all().await?,
            }
            if self.outcome.is_none() {
                let _told_or_time_to_look = timeout(pause, self.submitter.inbox.woken()).await;
                pause = (pause * 3 / 2).min(LAST_LOOK);
            }
        }
    }

    /// Waits for the outcome. A message that waits is not given up when no process takes it.
    ///
    /// # Errors
    /// Why the message was refused; errors of the store; `Invalid` when the session was deleted meanwhile.
    pub async fn outcome(&mut self) -> Result<Box<TurnOutcome>, AgentError> {
        while self.next_event().await?.is_some() {}
        self.outcome.clone().ok_or_else(|| gone(&self.request))
    }

    /// Reads what is new in the journal. Whether there was something.
    async fn look(&mut self) -> Result<bool, AgentError> {
        let part = Part::Page { behind: self.read, most: PAGE };
        let records = self.submitter.store.load_part(self.session(), part).await?;
        for record in &records {
            self.take(record);
        }
        Ok(!records.is_empty())
    }

    fn take(&mut self, record: &Record) {
        self.read = record.version;
        if let Fact::Input(input) = &record.fact
            && input.request_id.as_ref() == Some(&self.request)
        {
            self.turn = Some(input.turn.clone());
        }
        if let (Fact::Resumed { submission, .. }, Some(reply)) = (&record.fact, &self.reply)
            && submission == reply
        {
            self.turn = record.turn.clone();
        }
        let events = self.rebuild.read(record);
        let is_ours = |event: &Envelope| event.turn_id.is_some() && event.turn_id == self.turn;
        self.events.extend(events.into_iter().filter(is_ours));
        if self.outcome.is_none() && self.turn.is_some() {
            self.outcome = self.outcome_in(self.rebuild.session());
        }
    }

    /// The outcome of the message, as far as the session has it.
    fn outcome_in(&self, session: &Session) -> Option<Box<TurnOutcome>> {
        let of_reply = || session.outcome_of(self.reply.as_ref()?).map(|outcome| Box::new((**outcome).clone()));
        session.first_outcome(&self.request).map(Box::new).or_else(of_reply)
    }

    /// The message is gone, and the journal behind what was read has nothing of it: it was answered long ago, or deleted.
    async fn look_at_all(&mut self) -> Result<(), AgentError> {
        let records = self.submitter.store.load(self.session()).await.map_err(AgentError::from)?;
        let folded = Session::fold(self.session().clone(), &records);
        // What was written between the two looks is read in order.
        if folded.version > self.read {
            return Ok(());
        }
        self.outcome = self.outcome_in(&folded);
        match self.outcome {
            Some(_) => Ok(()),
            None => Err(gone(&self.request)),
        }
    }
}

fn gone(request: &RequestId) -> AgentError {
    let text = format!("the message {request} is gone without an outcome: its session was deleted");
    AgentError::Invalid(text)
}

/// How a request ended, whether its caller named it or it has the name of its turn; and whether it has.
fn ended(folded: &Session, of: &RequestId) -> (Option<Box<TurnOutcome>>, bool) {
    // Of a resumed turn the last outcome is that of its suspension.
    if folded.running().is_some_and(|open| open.is_request(of)) {
        return (None, false);
    }
    let of_turn = || folded.outcome_of(&TurnId::new(of.as_str())).map(|last| TurnOutcome::clone(last));
    let outcome = folded.first_outcome(of).or_else(of_turn).map(Box::new);
    let is_over = outcome.is_some() || folded.submissions.contains_request(of);
    (outcome, is_over)
}
