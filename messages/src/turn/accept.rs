//! New inputs and new replies to suspended turns: journaled, and run at once or queued.
//!
//! An input is accepted when it is durable.

use super::acks::Ack;
use super::news::{began, refused, refused_token};
use super::{Effect, Turn};
use crate::approvals::Decision;
use crate::error::AgentError;
use crate::ids::{ResumeToken, TenantId, TurnId};
use crate::input::{ResumeReply, TurnInput};
use crate::options::SessionOptions;
use crate::outcome::SuspendReason;
use crate::store::Fact;
use std::sync::Arc;

impl Turn {
    /// An input comes to a session in which nothing runs: it begins a turn, or is the answer to the question of one.
    pub(super) fn take_input(&mut self, input: Arc<TurnInput>, effects: &mut Vec<Effect>) {
        let suspension = self.session.as_ref().and_then(|session| session.open.as_ref()?.suspended.as_ref());
        match suspension.map(|suspension| (suspension.reason, suspension.token.clone())) {
            Some((SuspendReason::AskUser, token)) => {
                // The answer is a text of its own, and no record would name the artifact.
                if input.parts.iter().any(|part| part.artifact().is_some()) {
                    let text = "the session asked a question while this input was taken in; send it again";
                    return effects.push(refused(&input.turn, AgentError::busy(text)));
                }
                if let Some(error) = no_answer(&input).or_else(|| self.binds_to_another_pool(&input)) {
                    return effects.push(refused(&input.turn, error));
                }
                let reply = ResumeReply::Answer(input.text());
                return self.take_resume(input.turn.clone(), &token, reply, Some(&input), false, effects);
            }
            Some((SuspendReason::ApprovalRequired | SuspendReason::ExternalWait, _)) => self.close_suspended(effects),
            None => {}
        }
        // What waits brings its options along when its turn begins.
        let session = self.session.as_ref();
        let changes = session.is_some_and(|session| {
            input.options.as_ref().is_some_and(|options| session.or_in_its_pool(options) != session.options)
        });
        self.accept(input, changes);
        self.begin_next(effects);
    }

    /// An input comes while a turn runs: it waits, unless too many do.
    pub(super) fn queue_input(&mut self, input: Arc<TurnInput>, effects: &mut Vec<Effect>) {
        let max_waiting = self.turn_config.as_ref().map_or(0, |turn_config| turn_config.max_waiting);
        let waiting = self.session.as_ref().map_or(0, |session| session.waiting.len());
        if waiting >= max_waiting {
            let text = format!("the session has {waiting} inputs waiting; try again when it has answered");
            return effects.push(refused(&input.turn, AgentError::busy(text)));
        }
        if let Some(error) = self.binds_to_another_pool(&input) {
            return effects.push(refused(&input.turn, error));
        }
        self.accept(input, false);
        self.flush(effects);
    }

    /// Why an input cannot join a turn that runs or waits, if it names another pool than the session is bound to: a record of
    /// options would move the session at once.
    fn binds_to_another_pool(&self, input: &TurnInput) -> Option<AgentError> {
        let pool = input.options.as_ref()?.pool.as_ref()?;
        let bound = self.session.as_ref()?.latest_options().pool.as_ref();
        let text = format!(
            "the session is in a turn, and an input that waits cannot bind it to the pool {pool}; change its options, or send \
             the input when the turn has ended"
        );
        (bound != Some(pool)).then(|| AgentError::busy(text))
    }

    fn accept(&mut self, input: Arc<TurnInput>, changes_options: bool) {
        let Some(session) = &self.session else { return };
        if changes_options || !session.opened {
            let options = input.options.as_ref().map(|options| session.or_in_its_pool(options));
            let options =
                owned(options.as_ref().unwrap_or(&session.options), session.tenant.as_ref().or(input.tenant()));
            self.record(None, Fact::Options(options));
        }
        let turn = input.turn.clone();
        self.record(Some(turn.clone()), Fact::Input(input));
        self.acknowledge(Ack::Input(turn));
    }

    /// A person answers a suspended turn. Only a session in which nothing runs has one.
    pub(super) fn take_resume(
        &mut self,
        submission: TurnId,
        token: &ResumeToken,
        reply: ResumeReply,
        brought_by: Option<&Arc<TurnInput>>,
        by_caller: bool,
        effects: &mut Vec<Effect>,
    ) {
        let open = self.session.as_ref().and_then(|session| session.open.as_ref());
        let suspended = open.and_then(|open| Some((open, open.suspended.as_ref()?)));
        let Some((open, suspension)) = suspended.filter(|(_, suspension)| suspension.token == *token) else {
            return effects.push(refused_token(&submission));
        };
        if !by_caller && brought_by.is_none() && Self::is_resumed_by_caller(open) {
            let text = "the session works for a call of another one, whose token is the one to answer with";
            return effects.push(refused(&submission, AgentError::Invalid(text.into())));
        }
        // A reply to the session itself needs no token. A token is valid across processes, so it expires by the wall
        // clock: a clock that is set forward ends it early, one that is set back late.
        if brought_by.is_none() && suspension.expires_at.is_some_and(|at| self.now.wall >= at) {
            let text = "the token has expired; send the session a message to continue";
            return effects.push(refused(&submission, AgentError::Invalid(text.into())));
        }
        if suspension.reason == SuspendReason::ExternalWait && !matches!(reply, ResumeReply::Answer(_)) {
            let text = "the turn waits for a result from outside and not for a decision";
            return effects.push(refused(&submission, AgentError::Invalid(text.into())));
        }
        // The answer to a question, and a result, is no decision about a call beside it.
        let decides = suspension.reason == SuspendReason::ApprovalRequired;
        let step = open.step.as_ref().filter(|_| decides);
        let mut undecided = step.into_iter().flat_map(|step| &step.calls).filter_map(|call| call.undecided().cloned());
        let (asked, text) = match &reply {
            ResumeReply::Answer(text) => (undecided.next(), text.clone()),
            ResumeReply::Decision(_) => (undecided.next(), String::new()),
            ResumeReply::Decided { approval, .. } => match undecided.find(|asked| asked == approval) {
                // A decision about one call does not apply to another, and does not answer a question.
                None => {
                    let text = "the turn does not wait for this decision; it may have been made already";
                    return effects.push(refused(&submission, AgentError::Invalid(text.into())));
                }
                asked => (asked, String::new()),
            },
        };
        // Its options are in a record of its own, and apply like those of a queued input.
        if let Some(input) = brought_by.filter(|input| input.options.is_some()) {
            self.record(Some(input.turn.clone()), Fact::Input(Arc::clone(input)));
        }
        self.record_in_turn(resumed(submission.clone(), text, brought_by.map(Arc::as_ref)));
        // The submission does not say which turn goes on, and whether a person is asked at its limits.
        if let Some(open) = self.open_turn() {
            effects.push(began(&open.submission, &open.input));
        }
        if let Some(approval) = asked {
            // Anything that is not a decision to allow denies.
            let decision = match reply {
                ResumeReply::Decision(decision) | ResumeReply::Decided { decision, .. } => {
                    super::approvals::understood(decision)
                }
                ResumeReply::Answer(reason) => Decision::Deny { reason },
            };
            self.record_decision(&approval, &decision, effects);
        }
        self.acknowledge(Ack::Input(submission));
        self.gather(effects);
    }
}

fn owned(options: &Arc<SessionOptions>, tenant: Option<&TenantId>) -> Arc<SessionOptions> {
    let mut options = Arc::clone(options);
    if options.tenant.as_ref() != tenant {
        Arc::make_mut(&mut options).tenant = tenant.cloned();
    }
    options
}

/// Why an input cannot answer the question of a turn, if it cannot: an answer is text.
pub(super) fn no_answer(input: &TurnInput) -> Option<AgentError> {
    let part = input.parts.iter().find(|part| !part.is_told_as_text())?;
    let text = format!(
        "the session waits for the answer to a question, which is text: it takes no {} part; answer the question first, and send it then",
        part.kind()
    );
    Some(AgentError::Invalid(text))
}

/// A suspended turn goes on, perhaps by a plain input.
pub(super) fn resumed(submission: TurnId, reply: String, brought_by: Option<&TurnInput>) -> Fact {
    let request_id = brought_by.and_then(|input| input.request_id.clone());
    let labels = brought_by.map(|input| input.labels.clone()).unwrap_or_default();
    Fact::Resumed { submission, reply, request_id, labels }
}
