//! What tenants send through the inbox in the interleavings, and what they are told of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bob::approvals::ApprovalsMode;
use bob::events::{AgentEvent, Envelope};
use bob::inbox::{InboxMessage, InboxRequest, Pending, SubmitRequest, Submitter};
use bob::model::ContentPart;
use bob::sessions::{RequestId, TurnId};
use bob::{AgentError, SessionId};
use futures_util::FutureExt;

use crate::support::runtime::{session, within};
use crate::tenants::apart::{Play, TENANTS, mark};
use crate::tenants::stage::context;

/// A submission whose outcome its tenant has not been told yet.
pub(super) struct Sent {
    who: usize,
    pending: Pending,
    turn: Option<TurnId>,
}

/// How far a submission has come.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// Its turn asks.
    Asks,
    /// Its outcome was told.
    Told,
    /// It has none, and the reason was told.
    Refused,
}

impl Sent {
    pub(super) fn is_of(&self, at: &SessionId, turn: &TurnId) -> bool {
        self.is_to(at) && self.turn.as_ref() == Some(turn)
    }

    pub(super) fn is_to(&self, at: &SessionId) -> bool {
        self.pending.session() == at
    }
}

/// The messages of an interleaving.
pub(super) struct Messages {
    submitters: [Submitter; 2],
    sent: Vec<Sent>,
    /// How many messages were put that no other may have the name of.
    named: usize,
    /// How often each of these happened.
    pub(super) happened: BTreeMap<&'static str, usize>,
}

impl Messages {
    pub(super) fn new(submitters: [Submitter; 2]) -> Self {
        let counted = ["outcomes told to acme", "outcomes told to globex", "messages refused to the other tenant"];
        let counted = counted.into_iter().chain(["decisions by message", "first of two messages"]);
        Self { submitters, sent: Vec::new(), named: 0, happened: counted.map(|what| (what, 0)).collect() }
    }

    /// Whether a submission to this session has no outcome yet.
    pub(super) fn wait_at(&self, at: &SessionId) -> bool {
        self.sent.iter().any(|sent| sent.is_to(at))
    }

    fn count(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    /// A name that no other message has.
    fn name(&mut self) -> RequestId {
        self.named += 1;
        RequestId::new(format!("own-{}", self.named))
    }
}

impl Play {
    /// A tenant sends a message, or asks for what became of one.
    pub(super) async fn sends(&mut self, who: usize, id: &'static str) -> Result<(), String> {
        match self.rng.u32(..8) {
            0..2 if !self.owners.contains_key(id) => self.both_submit(id).await,
            0..4 => self.submits(who, id).await,
            4 => self.asks_for_outcomes(who, id).await,
            of => {
                let at = session(id);
                let (name, request) = match of {
                    5 => (self.messages.name(), InboxRequest::Steer { parts: vec![ContentPart::text(mark(who))] }),
                    _ => {
                        let of = self.request_id();
                        (Submitter::cancellation_of(&of), InboxRequest::Cancel { of })
                    }
                };
                let put = within(self.messages.submitters[who].put(InboxMessage::new(at, name, 0, request))).await;
                self.admitted(who, id, put.err(), "steered or cancelled by message").map(drop)
            }
        }
    }

    /// A message to a session of the other tenant was refused without a word about it. Whether a message was admitted.
    fn admitted(&mut self, who: usize, id: &str, refusal: Option<AgentError>, what: &str) -> Result<bool, String> {
        let is_own = self.owners.get(id) == Some(&who);
        match refusal {
            Some(AgentError::Invalid(text)) => {
                self.shows(who, &text, "a refusal")?;
                if self.owners.get(id).is_some_and(|owner| *owner != who) {
                    self.messages.count("messages refused to the other tenant");
                }
                Ok(false)
            }
            Some(other) => Err(format!("a message of {} failed: {other}", TENANTS[who])),
            None if is_own => Ok(true),
            None => Err(format!("{} {what} in a session that it does not own", TENANTS[who])),
        }
    }

    /// A submission whose calls wait for a decision, or are denied.
    fn submission(&mut self, who: usize, waits: bool) -> InboxRequest {
        let (text, principal) = self.text_and_principal(who);
        let parts = vec![ContentPart::text(text)];
        let approvals = waits.then_some(ApprovalsMode::Wait);
        let context = Some(Arc::new(context(TENANTS[who], principal)));
        InboxRequest::Submit(Box::new(SubmitRequest { parts, approvals, context, ..SubmitRequest::default() }))
    }

    async fn submits(&mut self, who: usize, id: &'static str) -> Result<(), String> {
        let (at, waits) = (session(id), self.rng.bool());
        let (name, request) = (self.request_id(), self.submission(who, waits));
        // In a session that nobody has, nothing runs.
        let is_behind = self.owners.get(id) == Some(&who) && self.is_busy(&at);
        let put = within(self.messages.submitters[who].put(InboxMessage::new(at, name, 0, request))).await;
        let is_foreign = self.owners.get(id).is_some_and(|owner| *owner != who);
        let pending = match put {
            Ok(pending) => pending,
            Err(refusal) => return self.admitted(who, id, Some(refusal), "").map(drop),
        };
        let mut sent = Sent { who, pending, turn: None };
        if is_behind {
            self.messages.sent.push(sent);
            return Ok(());
        }
        let came = self.reads(&mut sent).await?;
        if came == Came::Refused {
            return Ok(());
        }
        if is_foreign {
            return Err(format!("{} was told of a turn in a session of the other", TENANTS[who]));
        }
        self.owners.insert(id, who);
        if came == Came::Asks {
            self.messages.sent.push(sent);
        }
        Ok(())
    }

    /// Both tenants send a message of one name to a session that nobody has, at the same time: one of them is told its outcome.
    async fn both_submit(&mut self, id: &'static str) -> Result<(), String> {
        let (at, name, first) = (session(id), self.request_id(), self.rng.usize(..2));
        let mut sent = Vec::new();
        for who in [first, 1 - first] {
            let message = InboxMessage::new(at.clone(), name.clone(), 0, self.submission(who, false));
            match within(self.messages.submitters[who].put(message)).await {
                Ok(pending) => sent.push(Sent { who, pending, turn: None }),
                Err(refusal) => drop(self.admitted(who, id, Some(refusal), "")?),
            }
        }
        let mut owner = None;
        for sent in &mut sent {
            if self.reads(sent).await? == Came::Told && owner.replace(sent.who).is_some() {
                return Err("both tenants were told the outcome of one message".to_owned());
            }
        }
        if let Some(owner) = owner {
            self.owners.insert(id, owner);
            self.messages.count("first of two messages");
        }
        Ok(())
    }

    /// Reads what its tenant is told of a submission, up to the question of its turn or to its outcome.
    async fn reads(&mut self, sent: &mut Sent) -> Result<Came, String> {
        loop {
            let next = within(sent.pending.next_event()).await;
            let is_question =
                matches!(&next, Ok(Some(event)) if matches!(event.event, AgentEvent::ApprovalRequested { .. }));
            match self.told(sent, next).await? {
                Some(came) => return Ok(came),
                None if is_question => return Ok(Came::Asks),
                None => {}
            }
        }
    }

    /// Its tenant is told an event of a submission, or that there is none any more.
    async fn told(
        &mut self,
        sent: &mut Sent,
        next: Result<Option<Envelope>, AgentError>,
    ) -> Result<Option<Came>, String> {
        match next {
            Ok(Some(event)) => {
                self.shows(sent.who, &event.to_json().to_string(), "an event of a message")?;
                sent.turn = event.turn_id;
                Ok(None)
            }
            Ok(None) => {
                let outcome = within(sent.pending.outcome()).await.map_err(|error| format!("no outcome: {error}"))?;
                self.shows(sent.who, &outcome.content, "an outcome")?;
                self.messages.count(["outcomes told to acme", "outcomes told to globex"][sent.who]);
                Ok(Some(Came::Told))
            }
            Err(error) => {
                self.shows(sent.who, &error.to_string(), "a refusal")?;
                Ok(Some(Came::Refused))
            }
        }
    }

    /// Reads the submissions of a turn to their ends.
    pub(super) async fn read_messages_of(&mut self, at: &SessionId, turn: &TurnId) -> Result<(), String> {
        for mut sent in std::mem::take(&mut self.messages.sent) {
            if !sent.is_of(at, turn) {
                self.messages.sent.push(sent);
                continue;
            }
            while self.reads(&mut sent).await? == Came::Asks {}
        }
        Ok(())
    }

    /// Reads what is there of each submission.
    pub(super) async fn read_messages(&mut self) -> Result<(), String> {
        for mut sent in std::mem::take(&mut self.messages.sent) {
            let mut came = None;
            while came.is_none()
                && let Some(next) = sent.pending.next_event().now_or_never()
            {
                came = self.told(&mut sent, next).await?;
            }
            if came.is_none() {
                self.messages.sent.push(sent);
            }
        }
        Ok(())
    }

    /// The names of messages are no secret: asking by one tells nothing of the other tenant.
    async fn asks_for_outcomes(&mut self, who: usize, id: &'static str) -> Result<(), String> {
        let (at, of) = (session(id), self.request_id());
        let submitter = &self.messages.submitters[who];
        let outcome = within(submitter.outcome_of(&at, &of)).await.map_err(|error| error.to_string())?;
        let first = within(submitter.first_request(&at)).await.map_err(|error| error.to_string())?;
        if self.owners.get(id).is_some_and(|owner| *owner != who) && (outcome.is_some() || first.is_some()) {
            return Err(format!("{} was told of a request to a session of the other", TENANTS[who]));
        }
        match outcome {
            Some(outcome) => self.shows(who, &outcome.content, "an outcome"),
            None => Ok(()),
        }
    }

    /// Decides by a message. Whether the decision counts.
    pub(super) async fn decides_by_message(
        &mut self,
        who: usize,
        at: &SessionId,
        request: InboxRequest,
    ) -> Result<bool, String> {
        let name = self.messages.name();
        let message = InboxMessage::new(at.clone(), name.clone(), 0, request);
        let put = within(self.messages.submitters[who].put(message)).await;
        if !self.admitted(who, at.as_str(), put.err(), "decided by message")? {
            return Ok(false);
        }
        let counts = within(self.messages.submitters[who].taken(at, &name)).await.is_ok();
        if counts {
            self.messages.count("decisions by message");
        }
        Ok(counts)
    }
}
