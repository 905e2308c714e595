//! Puts messages into an inbox.

use super::journal;
use super::pending::{LAST_LOOK, Pending, Place, Sight};
use crate::facade::bounds::refuse_request_id;
use bob_actors::store::SessionStore;
use bob_messages::Millis;
use bob_messages::context::RequestContext;
use bob_messages::error::AgentError;
use bob_messages::event::Rebuild;
use bob_messages::ids::{RequestId, SessionId, TenantId, TurnId};
use bob_messages::inbox::attend::{Runs, Step, Unfinished, steps};
use bob_messages::inbox::{InboxKey, InboxMessage, InboxRequest, InboxStanding};
use bob_messages::outcome::TurnOutcome;
use bob_messages::session_state::{OpenTurn, Session};
use bob_messages::store::Pools;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes of a message, as JSON: twice what the input of a turn may have with its attachments.
const MOST_BYTES: usize = 32 << 20;

/// How the request id of a message begins that cancels another request, and of no other message.
const CANCELS: &str = "cancel-";

/// How long the processes of a pool have for a cancelled message before it is withdrawn without them. What one of them took before
/// the cancellation came is in the journal by then.
const WITHDRAWN_AFTER: Duration = Duration::from_secs(1);

/// Puts messages into the inbox of a store. It runs nothing.
///
/// One without a tenant is the operator's: it sees every session, and refuses a submission whose context names another tenant than
/// that of its session. One [of a tenant](Self::of_tenant) sees the sessions of that tenant.
#[derive(Clone)]
pub struct Submitter {
    at: Place,
    tenant: Option<TenantId>,
}

impl std::fmt::Debug for Submitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submitter").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl Submitter {
    /// One for this store; `None` when the store has no inbox.
    pub fn new(store: Arc<dyn SessionStore>) -> Option<Self> {
        let inbox = store.inbox()?;
        Some(Self { at: Place { store, inbox }, tenant: None })
    }

    /// The submitter as this tenant sees it. Each submission is given the tenant. Other messages are taken for sessions of the tenant,
    /// and cancellations of its submissions that wait as well. Sessions of others do not exist for it.
    ///
    /// # Errors
    /// `Invalid` when the name of the tenant is empty, too long, or has a control character.
    pub fn of_tenant(self, tenant: impl Into<TenantId>) -> Result<Self, AgentError> {
        let tenant = tenant.into();
        RequestContext::of_tenant(tenant.clone()).check()?;
        Ok(Self { tenant: Some(tenant), ..self })
    }

    /// Puts a message, unless its session has its outcome. Messages that run no turn have none: [`taken`](Self::taken) waits for
    /// what becomes of them. It is accepted, durably, when this returns. Repeating one with its request
    /// id is harmless; one that was refused is tried again.
    ///
    /// # Errors
    /// `Store` when it may not be kept: after `InDoubt` it may be repeated with its request id. `Invalid` for more than 32 MiB, for a
    /// submission to a session of another tenant than its context names, for what this tenant may not send, and for a request id
    /// that is empty, has more than 1,024 bytes, or begins with `cancel-`, unless it is of a cancellation.
    pub async fn put(&self, message: InboxMessage) -> Result<Pending, AgentError> {
        let mut message = message;
        let is_own = |of| Self::cancellation_of(of) == message.request_id;
        let is_cancellation = matches!(&message.request, InboxRequest::Cancel { of } if is_own(of));
        if !is_cancellation {
            refuse_request_id(&message.request_id)?;
        }
        if !is_cancellation && message.request_id.as_str().starts_with(CANCELS) {
            // The cancellation of another request would be taken for this one, which would then go with it.
            return Err(AgentError::Invalid(format!(
                "a request id that begins with {CANCELS:?} is of the cancellation of another"
            )));
        }
        self.own(&mut message.request)?;
        let bytes = message.to_text()?.len();
        if bytes > MOST_BYTES {
            return Err(AgentError::Invalid(format!("the message has {bytes} bytes; at most {MOST_BYTES} are taken")));
        }
        let (session, request) = (message.session.clone(), message.request_id.clone());
        // What was read before the message was there has nothing of it, unless it is repeated.
        let folded = journal::folded(&*self.at.store, &session).await?;
        let sight = self.admitted(&folded, &message.request).await?;
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
        if !has_outcome
            && !self.at.inbox.put(message).await?
            && let Some(waits @ InboxRequest::Submit(_)) = self.waiting(&session, &request).await?
        {
            sight.check_waiting(&session, tenant_of(&waits))?;
        }
        Ok(Pending::new(self.at.clone(), request, sight, reply, rebuild))
    }

    fn own(&self, request: &mut InboxRequest) -> Result<(), AgentError> {
        let (Some(tenant), InboxRequest::Submit(submit)) = (&self.tenant, request) else { return Ok(()) };
        let named = &mut Arc::make_mut(submit.context.get_or_insert_default()).tenant;
        match named.get_or_insert_with(|| tenant.clone()) {
            own if *own == *tenant => Ok(()),
            other => {
                let text = format!("the message names the tenant {other}, and is sent by the tenant {tenant}");
                Err(AgentError::Invalid(text))
            }
        }
    }

    /// Refuses a message that may not be sent to this session. Otherwise of which sessions its sender is told something.
    async fn admitted(&self, folded: &Session, request: &InboxRequest) -> Result<Sight, AgentError> {
        let sight = match (request, &self.tenant) {
            (InboxRequest::Submit(_), _) => Sight::Of(tenant_of(request).cloned()),
            (_, Some(tenant)) => Sight::Of(Some(tenant.clone())),
            (_, None) => Sight::All,
        };
        let is_allowed = match request {
            InboxRequest::Submit(_) => return sight.check(folded).map(|()| sight),
            InboxRequest::Cancel { of } => self.may_cancel(folded, of).await?,
            InboxRequest::Decide { .. }
            | InboxRequest::Steer { .. }
            | InboxRequest::Resume { .. }
            | InboxRequest::Configure { .. } => self.sees(folded),
        };
        match is_allowed {
            true => Ok(sight),
            false => Err(no_session(&folded.id)),
        }
    }

    /// Whether the session exists for this submitter.
    fn sees(&self, folded: &Session) -> bool {
        self.tenant.is_none() || self.tenant == folded.tenant
    }

    /// Whether the request is one of a session that is seen, or a submission of the tenant that waits.
    async fn may_cancel(&self, folded: &Session, of: &RequestId) -> Result<bool, AgentError> {
        if self.sees(folded) {
            return Ok(true);
        }
        if let Some(waits) = self.waiting(&folded.id, of).await? {
            return Ok(tenant_of(&waits) == self.tenant.as_ref());
        }
        // It may have gone to the journal meanwhile.
        Ok(self.sees(&journal::folded(&*self.at.store, &folded.id).await?))
    }

    /// The request of a message that waits, as far as it can be read.
    async fn waiting(&self, session: &SessionId, request: &RequestId) -> Result<Option<InboxRequest>, AgentError> {
        let waiting = self.at.inbox.take(session).await?;
        let named = waiting.into_iter().find(|entry| entry.request_id == *request);
        Ok(named.and_then(|entry| entry.message.ok()).map(|message| message.request))
    }

    /// The request whose turn a session has open, or that waits for it longest; `None` when there is nothing to cancel.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn first_request(&self, session: &SessionId) -> Result<Option<RequestId>, AgentError> {
        let folded = journal::folded(&*self.at.store, session).await?;
        // A turn that no message asked for is named by its submission.
        let named = |open: &OpenTurn| RequestId::new(open.submission.as_str());
        let open = folded.running().map(|open| open.input.request_id.clone().unwrap_or_else(|| named(open)));
        if open.is_some() && self.sees(&folded) {
            return Ok(open);
        }
        let is_seen = |request: &InboxRequest| match (&self.tenant, request) {
            (Some(tenant), InboxRequest::Submit(_)) => tenant_of(request) == Some(tenant),
            _ => self.sees(&folded),
        };
        let is_one = |request: &InboxRequest| request.runs_a_turn() && is_seen(request);
        let waiting = self.at.inbox.take(session).await?;
        Ok(waiting.into_iter().find(|entry| entry.request().is_some_and(is_one)).map(|entry| entry.request_id))
    }

    /// Asks for the end of the turn of a request, or of the request if its turn has not begun. `at` is the time of day, for people.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn cancel(&self, session: &SessionId, of: &RequestId, at: Millis) -> Result<(), AgentError> {
        let message =
            InboxMessage::new(session.clone(), Self::cancellation_of(of), at, InboxRequest::Cancel { of: of.clone() });
        if self.tenant.is_some() {
            let folded = journal::folded(&*self.at.store, session).await?;
            self.admitted(&folded, &message.request).await?;
        }
        self.at.inbox.put(message).await.map(drop).map_err(AgentError::from)
    }

    /// The name of the message that cancels a request.
    pub fn cancellation_of(of: &RequestId) -> RequestId {
        RequestId::new(format!("{CANCELS}{of}"))
    }

    /// Waits for the end of a request that was to be [cancelled](Self::cancel), and answers its outcome; `None` for one whose turn
    /// had not begun. The process that ran the turn may have ended with it: the cancellation is removed then. A message that waits
    /// for a pool, which may have no process for ever, is withdrawn here.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn cancelled(&self, session: &SessionId, of: &RequestId) -> Result<Option<Box<TurnOutcome>>, AgentError> {
        let key = InboxKey { session: session.clone(), request: Self::cancellation_of(of) };
        let mut withdrawn_at = Instant::now() + WITHDRAWN_AFTER;
        loop {
            let told = self.at.told_of(session);
            let standing = self.at.inbox.standing(key.clone()).await?;
            let folded = journal::folded(&*self.at.store, session).await?;
            let (outcome, mut is_over) = match self.sees(&folded) {
                true => ended(&folded, of),
                // What is cancelled may have been about to begin the session.
                false if folded.tenant.is_none() => (None, false),
                false => return Ok(None),
            };
            if standing == InboxStanding::Waiting && !is_over && Instant::now() >= withdrawn_at {
                withdrawn_at = Instant::now() + WITHDRAWN_AFTER;
                is_over = self.is_withdrawn(&folded, of).await?;
            }
            match standing {
                InboxStanding::Gone => return Ok(outcome),
                InboxStanding::Refused(error) => return Err(*error),
                InboxStanding::Waiting if is_over => {
                    self.at.inbox.settle(key, None).await?;
                    return Ok(outcome);
                }
                InboxStanding::Waiting => drop(self.at.changed(told, LAST_LOOK).await),
            }
        }
    }

    /// Withdraws a message that was cancelled and waits for a pool in which this process is not. Whether it did so. A process that
    /// takes it from now on takes its cancellation, too, and a store of several machines refuses nothing for an owner.
    async fn is_withdrawn(&self, folded: &Session, of: &RequestId) -> Result<bool, AgentError> {
        let waiting = self.at.inbox.take(&folded.id).await?;
        let pools = match self.at.store.pools() {
            // It runs no turns.
            Pools::All => Pools::default(),
            ours => ours,
        };
        let steps = steps(&waiting, Runs::Nothing, &Unfinished::of(folded, &waiting), &pools);
        let step = waiting.iter().zip(steps).find(|(entry, _)| entry.request_id == *of).map(|(_, step)| step);
        let Some(Step::Settle(Some(why @ AgentError::Stopped(_)))) = step else { return Ok(false) };
        let key = InboxKey { session: folded.id.clone(), request: of.clone() };
        Ok(self.at.inbox.settle(key, Some(why)).await?)
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
        let folded = journal::folded(&*self.at.store, session).await?;
        Ok(folded.first_outcome(request).filter(|_| self.sees(&folded)).map(Box::new))
    }

    /// Waits until a worker has taken a message and is done with it.
    ///
    /// # Errors
    /// Why it was refused; errors of the store.
    pub async fn taken(&self, session: &SessionId, request: &RequestId) -> Result<(), AgentError> {
        let key = InboxKey { session: session.clone(), request: request.clone() };
        loop {
            let told = self.at.told_of(session);
            let standing = self.at.inbox.standing(key.clone()).await?;
            if self.tenant.is_some() {
                let folded = journal::folded(&*self.at.store, session).await?;
                match (self.sees(&folded), &standing) {
                    (true, _) => {}
                    (false, _) if folded.tenant.is_some() => return Ok(()),
                    (false, InboxStanding::Refused(_)) => return Err(no_session(session)),
                    (false, InboxStanding::Waiting | InboxStanding::Gone) => {}
                }
            }
            match standing {
                InboxStanding::Waiting => {
                    let within = told.swept_each(LAST_LOOK);
                    self.at.changed(told, within).await;
                }
                InboxStanding::Refused(error) => return Err(*error),
                InboxStanding::Gone => return Ok(()),
            }
        }
    }
}

fn tenant_of(request: &InboxRequest) -> Option<&TenantId> {
    match request {
        InboxRequest::Submit(submit) => submit.context.as_ref()?.tenant.as_ref(),
        InboxRequest::Cancel { .. }
        | InboxRequest::Decide { .. }
        | InboxRequest::Steer { .. }
        | InboxRequest::Resume { .. }
        | InboxRequest::Configure { .. } => None,
    }
}

fn no_session(session: &SessionId) -> AgentError {
    AgentError::Invalid(format!("there is no session {session}"))
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
