use super::{Found, Next, Rests, SessionWork};
use crate::AgentRuntime;
use crate::inbox::journal;
use bob_messages::approvals::Decision;
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, RequestId, TurnId};
use bob_messages::inbox::attend::{Attempt, Failed, Runs, Step, Unfinished, steps};
use bob_messages::inbox::{InboxEntry, InboxKey, InboxRequest, InboxStanding};
use bob_messages::options::Change;
use bob_messages::session_state::Session;
use bob_messages::store::{Fact, Part, StoreError};
use tokio_util::sync::CancellationToken;

/// How often a message is settled while the store fails.
const SETTLED_TIMES: u32 = 3;

fn is_set<T>(change: &Change<T>) -> bool {
    matches!(change, Change::Set(_))
}

impl SessionWork {
    async fn take(&self) -> Result<Vec<InboxEntry>, Rests> {
        let mut waiting = self.shared.inbox.take(&self.due.session).await.map_err(|error| {
            tracing::warn!(session = %self.due.session, %error, "the messages to a session cannot be taken");
            Rests(false)
        })?;
        waiting.retain(|entry| !self.settled.contains(&entry.request_id));
        Ok(waiting)
    }

    pub(super) async fn cancelled(&self) -> Result<Vec<RequestId>, Rests> {
        let waiting = self.take().await?;
        let cancels = waiting.iter().filter_map(|entry| match entry.request() {
            Some(InboxRequest::Cancel { of }) => Some(of.clone()),
            _ => None,
        });
        Ok(cancels.collect())
    }

    /// Takes the messages, and does with each what is to be done now. `token` cancels the message that runs.
    pub(super) async fn attend(&mut self, runs: Runs<'_>, token: Option<&CancellationToken>) -> Result<Found, Rests> {
        let waiting = self.take().await?;
        let asks_the_journal = |entry: &InboxEntry| {
            let asks = |request: &InboxRequest| match request {
                InboxRequest::Cancel { .. } | InboxRequest::Steer { .. } | InboxRequest::Configure { .. } => true,
                // A change of options may have bound the session elsewhere while a turn ran. The owner begins no turn for it.
                InboxRequest::Submit(_) | InboxRequest::Resume { .. } => {
                    (runs == Runs::Nothing && !self.is_owner) || request.pool().is_some()
                }
                InboxRequest::Decide { .. } => false,
            };
            entry.request().is_some_and(asks)
        };
        let folded = match waiting.iter().any(asks_the_journal) {
            true => self.folded().await?,
            false => None,
        };
        let unfinished = folded.as_ref().map(|folded| Unfinished::of(folded, &waiting)).unwrap_or_default();
        let mut found = Found::default();
        for (entry, step) in waiting.iter().zip(steps(&waiting, runs, &unfinished, &self.shared.pools)) {
            match (step, entry.request()) {
                // What is asked for behind a change runs with it.
                (Step::Run { .. }, _) if found.is_held => found.waits = true,
                (Step::Run { is_cancelled }, Some(asked)) => {
                    let request = entry.request_id.clone();
                    let pool = asked.pool().filter(|pool| unfinished.pool.as_ref() != Some(pool)).cloned();
                    found.next = Some(Next { request, asked: asked.clone(), is_cancelled, pool });
                }
                (Step::Try, Some(request)) => {
                    found.is_changed = true;
                    if !self.given(entry, request).await? {
                        (found.waits, found.again) = (true, true);
                        found.is_held |= matches!(request, InboxRequest::Configure { .. });
                    }
                }
                // What it cancels may be among those that a store has left out.
                (Step::Settle(None), Some(InboxRequest::Cancel { of })) if self.still_waits(of).await => {
                    found.waits = true;
                }
                (Step::Settle(refusal), _) => {
                    found.is_changed = true;
                    match refusal {
                        None => drop(self.settle(&entry.request_id, None).await),
                        Some(error) => self.refuse_quietly(&entry.request_id, error).await?,
                    }
                }
                (Step::Cancel(of), _) => {
                    found.waits = true;
                    match (runs, token, &folded) {
                        // It is watched as long as its turn runs.
                        (Runs::Message(running), Some(token), _) if *running == of => token.cancel(),
                        (_, _, Some(folded)) => {
                            found.again = true;
                            self.cancel(folded, &of).await;
                        }
                        _ => {}
                    }
                }
                // The turn that runs, or is next, comes first; an owner begins none for it.
                (Step::Wait, Some(asked))
                    if asked.runs_a_turn() && (self.is_owner || runs != Runs::Nothing || found.next.is_some()) => {}
                (Step::Wait | Step::Run { .. } | Step::Try, _) => found.waits = true,
            }
        }
        Ok(found)
    }

    /// The session as its journal has it; `None` for a damaged one, in which nothing can be open.
    async fn folded(&self) -> Result<Option<Session>, Rests> {
        match journal::folded(&*self.shared.store, &self.due.session).await {
            Ok(folded) => Ok(Some(folded)),
            Err(StoreError::Corrupt(_)) => Ok(None),
            Err(error) => Err(self.unread(&error)),
        }
    }

    fn unread(&self, error: &StoreError) -> Rests {
        tracing::warn!(session = %self.due.session, %error, "the journal of a session cannot be read");
        Rests(false)
    }

    /// Whether the message of a request waits, also beyond what was taken.
    async fn still_waits(&self, request: &RequestId) -> bool {
        let key = InboxKey { session: self.due.session.clone(), request: request.clone() };
        matches!(self.shared.inbox.standing(key).await, Ok(InboxStanding::Waiting) | Err(_))
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
    async fn given(&mut self, entry: &InboxEntry, request: &InboxRequest) -> Result<bool, Rests> {
        let (runtime, session) = (&self.shared.runtime, self.due.session.clone());
        let attempt = match request {
            // An earlier owner took it, and ended before it removed it.
            InboxRequest::Decide { approval, decision }
                if self.is_decided(approval, decision, Some(Part::Latest)).await? =>
            {
                Attempt::Done
            }
            InboxRequest::Decide { approval, decision } => {
                match runtime.decide(session.clone(), approval.clone(), decision.clone()).await {
                    // It stays until the journal has it: this process may end before, or no longer own the session.
                    Ok(true) => {
                        runtime.send_buffered(&session).await;
                        match self.is_open(approval).await? {
                            false => Attempt::Done,
                            true => return Ok(false),
                        }
                    }
                    // It was given before, and is on its way into the journal.
                    Ok(false) if self.is_open(approval).await? => return Ok(false),
                    Ok(false) if self.is_decided(approval, decision, None).await? => Attempt::Done,
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
                    Ok(false) => return Ok(false),
                    Err(error) => Attempt::of_error(&error),
                }
            }
            // Write access to the inbox does not include starting programs.
            InboxRequest::Configure { patch } if is_set(&patch.servers) || is_set(&patch.parent) => {
                let why =
                    "a message brings no tool servers and no parent; pass them in the program that runs the session";
                Attempt::Refused(AgentError::Invalid(why.to_owned()))
            }
            // A session knows the names of its last changes.
            InboxRequest::Configure { patch } => {
                let name = Some(entry.request_id.clone());
                match runtime.configure(session, (**patch).clone(), name).await {
                    Ok(()) => Attempt::Done,
                    Err(error) => Attempt::of_error(&error),
                }
            }
            InboxRequest::Submit(_) | InboxRequest::Resume { .. } | InboxRequest::Cancel { .. } => return Ok(true),
        };
        match attempt {
            Attempt::Done => {
                let _removed_or_known_here = self.settle(&entry.request_id, None).await;
                if let InboxRequest::Configure { patch } = request
                    && let Change::Set(pool) = &patch.pool
                    && !self.is_owner
                    && !self.shared.pools.reach(Some(pool))
                {
                    // It goes on in that pool. What is behind the change was looked at before it.
                    return Err(Rests(false));
                }
            }
            Attempt::Refused(error) => self.refuse_quietly(&entry.request_id, error).await?,
            Attempt::Again(Failed { why, .. }) => {
                tracing::debug!(session = %self.due.session, why, "a message is taken again");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether this part of the journal has this decision about this question, or all of it. A session may be long, and a
    /// message is looked at often: all of it is read only for one that is refused otherwise.
    async fn is_decided(&self, question: &ApprovalId, decision: &Decision, part: Option<Part>) -> Result<bool, Rests> {
        let (store, session) = (&self.shared.store, &self.due.session);
        let records = match part {
            Some(part) => store.load_part(session, part).await,
            None => store.load(session).await,
        };
        let records = records.map_err(|error| self.unread(&error))?;
        let allows = !matches!(decision, Decision::Deny { .. } | Decision::DenyAlways { .. });
        Ok(records.iter().any(|record| match &record.fact {
            Fact::ApprovalDecided { approval, allowed, .. } => approval == question && *allowed == allows,
            Fact::LimitDecided { question: asked, goes_on } => asked == question && *goes_on == allows,
            _ => false,
        }))
    }

    /// Whether the journal has this question as one without an answer. One of a sub-agent is not in it.
    async fn is_open(&self, question: &ApprovalId) -> Result<bool, Rests> {
        let folded = self.folded().await?;
        Ok(folded.and_then(|folded| folded.open).is_some_and(|open| open.asks(question)))
    }

    /// Refuses a message that asked for a turn, and tells of it.
    pub(super) async fn refuse(&mut self, request: &RequestId, error: AgentError) -> Result<(), Rests> {
        self.refuse_quietly(request, error.clone()).await?;
        self.tell(Some(request.clone()), Err(error));
        Ok(())
    }

    /// Refuses a message. One to a session that another process owns is left to that: it may be able to run it.
    async fn refuse_quietly(&mut self, request: &RequestId, error: AgentError) -> Result<(), Rests> {
        let claimed = self.owned().await?;
        let is_refused = self.settle(request, Some(error)).await;
        if let Some(epoch) = claimed {
            self.shared.store.release(&self.due.session, epoch).await;
        }
        if is_refused { Ok(()) } else { Err(Rests(false)) }
    }

    /// Has the session be this process's. The epoch to be released is that of a claim that was made for it.
    async fn owned(&self) -> Result<Option<u64>, Rests> {
        let (store, session) = (&self.shared.store, &self.due.session);
        // Its actor has claimed the session where a turn runs.
        if self.is_owner || self.due.epoch.is_some() || !self.shared.runtime.close(session.clone()).await {
            return Ok(None);
        }
        match store.claim_latest(session).await {
            Ok(claim) => Ok(Some(claim.epoch)),
            // A damaged session has no owner; neither has one of another pool, or its store refuses nothing for it.
            Err(StoreError::Corrupt(_) | StoreError::Unreachable { .. }) => Ok(None),
            Err(error) => {
                tracing::debug!(%session, %error, "a message is left to the owner of its session");
                Err(Rests(false))
            }
        }
    }

    /// Removes a message, or keeps why it was refused. Whether it did so: not where another process owns the session.
    pub(super) async fn settle(&mut self, request: &RequestId, refusal: Option<AgentError>) -> bool {
        let key = InboxKey { session: self.due.session.clone(), request: request.clone() };
        for _attempt in 0..SETTLED_TIMES {
            match self.shared.inbox.settle(key.clone(), refusal.clone()).await {
                Ok(is_settled) => return is_settled,
                Err(error) => {
                    tracing::warn!(session = %self.due.session, %error, "a message that is done is still there")
                }
            }
        }
        self.settled.insert(key.request);
        true
    }
}
