//! Waits for what becomes of a message in the journal.

use super::journal;
use bob_actors::store::{Inbox, SessionStore};
use bob_messages::error::{AgentError, other_tenant};
use bob_messages::event::{Envelope, Rebuild};
use bob_messages::ids::{RequestId, SessionId, TenantId, TurnId};
use bob_messages::inbox::{InboxKey, InboxStanding};
use bob_messages::outcome::TurnOutcome;
use bob_messages::session_state::Session;
use bob_messages::store::{Fact, Part, Record};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Between two looks where a store is unable to tell that something changed, and at the events of a turn that runs elsewhere, which
/// are not told. Short at first.
const FIRST_LOOK: Duration = Duration::from_millis(20);
pub(super) const LAST_LOOK: Duration = Duration::from_millis(250);

/// Between two looks for events of a turn that has not begun: it is told when its message is refused or withdrawn.
const NOT_BEGUN_LOOK: Duration = Duration::from_secs(1);

/// Between two looks of one who is told of what it waits for: what it was told may have been lost.
const SWEPT_EACH: Duration = Duration::from_millis(2_500);

/// How many records are read at a time.
const PAGE: usize = 256;

#[derive(Clone)]
pub(super) struct Place {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) inbox: Arc<dyn Inbox>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl Place {
    /// What tells that something of a message to this session may have changed, from now on.
    pub(super) fn told_of(&self, session: &SessionId) -> Told {
        Told(self.inbox.told_of(session))
    }

    /// Waits until something may have changed, or it is time to look in any case. Whether it was told.
    pub(super) async fn changed(&self, told: Told, within: Duration) -> bool {
        let told = match told.0 {
            Some(told) => timeout(varied(within), told).await,
            None => timeout(varied(within), self.inbox.woken()).await,
        };
        told.is_ok()
    }
}

/// Made before it is looked, so that nothing is missed that comes between a look and the waiting.
pub(super) struct Told(Option<BoxFuture<'static, ()>>);

impl Told {
    fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// After how long it is looked in any case: sooner where nothing may be told.
    pub(super) fn swept_each(&self, unless_told: Duration) -> Duration {
        if self.is_heard() { SWEPT_EACH } else { unless_told }
    }
}

/// About this long. Many that began at once, as after a restart of a database, look at different times.
fn varied(pause: Duration) -> Duration {
    pause.mul_f64(0.8 + 0.4 * fastrand::f64())
}

/// Of which sessions the sender of a message is told something.
#[derive(Debug, Clone)]
pub(super) enum Sight {
    /// All: it is the operator's.
    All,
    /// Those of this tenant, or those of none.
    Of(Option<TenantId>),
}

impl Sight {
    /// Refuses a message whose sender is told nothing of this session.
    pub(super) fn check(&self, session: &Session) -> Result<(), AgentError> {
        match self {
            Self::Of(tenant) if session.is_closed_to(tenant.as_ref()) => {
                Err(other_tenant(&session.id, tenant.as_ref()))
            }
            Self::All | Self::Of(_) => Ok(()),
        }
    }

    /// Refuses a message with the name of a submission that waits, whose sender is told nothing of that one.
    pub(super) fn check_waiting(&self, session: &SessionId, of: Option<&TenantId>) -> Result<(), AgentError> {
        match self {
            Self::Of(tenant) if of != tenant.as_ref() => Err(other_tenant(session, tenant.as_ref())),
            Self::All | Self::Of(_) => Ok(()),
        }
    }
}

/// A message that was accepted. Dropping it has no effect on the message.
#[derive(Debug)]
pub struct Pending {
    at: Place,
    request: RequestId,
    sight: Sight,
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
    /// Of a message that is in the inbox, or whose outcome is in the journal.
    pub(super) fn new(at: Place, request: RequestId, sight: Sight, reply: Option<TurnId>, rebuild: Rebuild) -> Self {
        let read = rebuild.session().version;
        let (turn, events, outcome) = Default::default();
        Self { at, request, sight, reply, rebuild, read, turn, events, outcome }
    }

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
        self.next(true).await
    }

    /// The next event. Those of the turn are found as soon as they are there, or with what is told of the message.
    async fn next(&mut self, is_followed: bool) -> Result<Option<Envelope>, AgentError> {
        let (mut pause, mut asks_at) = (FIRST_LOOK, Instant::now());
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.outcome.is_some() {
                return Ok(None);
            }
            let key = InboxKey { session: self.session().clone(), request: self.request.clone() };
            let told = self.at.told_of(self.session());
            let is_heard = told.is_heard();
            let standing = match !is_followed || !is_heard || Instant::now() >= asks_at {
                true => {
                    asks_at = Instant::now() + SWEPT_EACH;
                    self.at.inbox.standing(key).await?
                }
                // It would have been told.
                false => InboxStanding::Waiting,
            };
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
                let within = if is_followed { pause } else { told.swept_each(pause) };
                if self.at.changed(told, within).await {
                    asks_at = Instant::now();
                }
                let most = if is_heard && self.turn.is_none() { NOT_BEGUN_LOOK } else { LAST_LOOK };
                pause = (pause * 3 / 2).min(most);
            }
        }
    }

    /// Waits for the outcome. A message that waits is not given up when no process takes it.
    ///
    /// # Errors
    /// Why the message was refused; errors of the store; `Invalid` when the session was deleted meanwhile, and when it has become
    /// another tenant's.
    pub async fn outcome(&mut self) -> Result<Box<TurnOutcome>, AgentError> {
        while self.next(false).await?.is_some() {}
        self.outcome.clone().ok_or_else(|| gone(&self.request))
    }

    /// Reads what is new in the journal. Whether there was something.
    async fn look(&mut self) -> Result<bool, AgentError> {
        let part = Part::Page { behind: self.read, most: PAGE };
        let records = self.at.store.load_part(self.session(), part).await?;
        for record in &records {
            self.take(record)?;
        }
        Ok(!records.is_empty())
    }

    fn take(&mut self, record: &Record) -> Result<(), AgentError> {
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
        // Another message of its name to a session that did not exist may have been the first, and be another tenant's.
        let session = self.rebuild.session();
        // In a journal of an earlier program the first records of a tenant's session may name none.
        if session.tenant.is_some() || self.turn.is_some() {
            self.sight.check(session)?;
        }
        let is_ours = |event: &Envelope| event.turn_id.is_some() && event.turn_id == self.turn;
        self.events.extend(events.into_iter().filter(is_ours));
        if self.outcome.is_none() && self.turn.is_some() {
            self.outcome = self.outcome_in(self.rebuild.session());
        }
        Ok(())
    }

    /// The outcome of the message, as far as the session has it.
    fn outcome_in(&self, session: &Session) -> Option<Box<TurnOutcome>> {
        let of_reply = || session.outcome_of(self.reply.as_ref()?).map(|outcome| Box::new((**outcome).clone()));
        session.first_outcome(&self.request).map(Box::new).or_else(of_reply)
    }

    /// The message is gone, and the journal behind what was read has nothing of it: it was answered long ago, or deleted.
    async fn look_at_all(&mut self) -> Result<(), AgentError> {
        let mut folded = journal::folded(&*self.at.store, self.session()).await?;
        // The newest part has the outcomes of the newest requests, and the names of all others.
        let is_older = folded.has_forgotten(&self.request) || self.reply.is_some();
        if is_older && folded.version <= self.read && self.outcome_in(&folded).is_none() {
            let records = self.at.store.load(self.session()).await.map_err(AgentError::from)?;
            folded = Session::fold(self.session().clone(), &records);
        }
        // What was written between the two looks is read in order.
        if folded.version > self.read {
            return Ok(());
        }
        self.sight.check(&folded)?;
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
