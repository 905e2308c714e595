//! A turn at a limit: a person may be asked whether it goes on, before it ends.
//!
//! Only a turn whose input allows it asks. A counted limit is asked about where it would end the turn: before the next
//! model call, or before the calls of a step that exceed it. Nothing is in flight then. A lack of progress is reported
//! by the supervisor while the machine waits for the model or a tool, and their answer answers the question, too.
//! Without one, signs of life since the question let the turn continue when the time for a decision is over.
//!
//! The question and the decision are in the journal, so a turn that is continued asks again, or has its larger limit.

use super::state::State;
use super::{Effect, Turn};
use crate::approvals::{Decision, Heard, LimitQuestion};
use crate::chat::GuardReason;
use crate::event::AgentEvent;
use crate::ids::ApprovalId;
use crate::input::ApprovalsMode;
use crate::outcome::EndReason;
use crate::store::Fact;
use crate::submission::TurnNews;

impl Turn {
    /// Asks a person whether the turn goes on beyond a counted limit. Returns whether the turn waits for that.
    pub(super) fn ask_at_limit(&mut self, guard: GuardReason, effects: &mut Vec<Effect>) -> bool {
        // A yes to a limit of nothing would add nothing.
        let is_none = self.open_turn().is_none_or(|open| open.input.limits.of(guard) == 0);
        if is_none || !self.may_ask_beyond() {
            return false;
        }
        let open = self.limit_asked().filter(|(asked, _)| *asked == guard).map(|(_, question)| question);
        let question = open.unwrap_or_else(|| self.note_limit(guard));
        self.state = State::AtLimit(question);
        self.flush(effects);
        self.ask_beyond(effects);
        true
    }

    /// The turn made no progress for the time that its limits allow.
    pub(super) fn ask_when_quiet(&mut self, effects: &mut Vec<Effect>) {
        let waits = match &self.state {
            State::LlmInfer { asked, .. } => *asked,
            State::Condense(_) => true,
            State::CallTool(calling) => calling.entered,
            _waits_for_nothing_long => false,
        };
        if !waits || !self.may_ask_beyond() || self.limit_asked().is_some() || self.asks_a_person() {
            return;
        }
        self.note_limit(GuardReason::NoProgress);
        self.flush(effects);
        self.ask_beyond(effects);
    }

    /// Answers an open question about a lack of progress, since there was some.
    pub(super) fn progressed(&mut self, effects: &mut Vec<Effect>) {
        let quiet = self.limit_asked().filter(|(guard, _)| *guard == GuardReason::NoProgress);
        let Some((_, question)) = quiet else { return };
        self.record_in_turn(Fact::LimitDecided { question: question.clone(), goes_on: true });
        effects.push(super::news::decision_heard(&question, None, Heard::Counts));
        self.goes_on_in_time(effects);
    }

    /// A person decided about the open question.
    pub(super) fn limit_decided(
        &mut self,
        state: State,
        question: &ApprovalId,
        decision: &Decision,
        effects: &mut Vec<Effect>,
    ) {
        let goes_on = match decision {
            Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways | Decision::Edit { .. } => true,
            Decision::Deny { .. } | Decision::DenyAlways { .. } => false,
        };
        let is_quiet = self.limit_asked().is_some_and(|(guard, _)| guard == GuardReason::NoProgress);
        self.record_in_turn(Fact::LimitDecided { question: question.clone(), goes_on });
        self.goes_on_in_time(effects);
        let is_at_limit = matches!(state, State::AtLimit(_));
        self.state = state;
        self.flush(effects);
        if is_at_limit {
            match self.open_turn().is_some_and(|open| open.step.is_some()) {
                true => self.enter_calls(effects),
                false => self.go_on(effects),
            }
        } else if is_quiet
            && !goes_on
            && let Some(submission) = self.submission()
        {
            effects.push(Effect::Report(TurnNews::GivenUp { submission, reason: EndReason::NoProgress }));
        }
    }

    pub(super) fn is_limit_question(&self, question: &ApprovalId) -> bool {
        self.limit_asked().is_some_and(|(_, asked)| asked == *question)
    }

    /// Whether the turn's time stands still, since it waits for a person.
    pub(super) fn asks_a_person(&self) -> bool {
        if self.asks_about_limit() {
            return true;
        }
        let State::CallTool(calling) = &self.state else { return false };
        if self.asked_below {
            return true;
        }
        self.approvals() == ApprovalsMode::Wait && calling.slots.iter().any(|slot| slot.question().is_some())
    }

    /// Whether a person is being asked about a limit by this actor.
    fn asks_about_limit(&self) -> bool {
        let is_asked = match &self.state {
            State::AtLimit(_) => true,
            State::LlmInfer { asked, .. } => *asked,
            State::Condense(_) | State::CallTool(_) => true,
            _not_yet_or_no_longer => false,
        };
        is_asked && self.limit_asked().is_some()
    }

    fn limit_asked(&self) -> Option<(GuardReason, ApprovalId)> {
        let asked = self.open_turn()?.at_limit.as_deref()?;
        asked.goes_on.is_none().then(|| (asked.guard, asked.question.clone()))
    }

    /// Whether the turn asks at its limits, and no such question was answered with no.
    pub(super) fn may_ask_beyond(&self) -> bool {
        let Some(open) = self.open_turn().filter(|_| !self.is_sub_agent()) else { return false };
        let is_over = open.at_limit.as_ref().is_some_and(|asked| asked.goes_on == Some(false));
        open.input.may_ask_at_limits() && !is_over
    }

    fn note_limit(&mut self, guard: GuardReason) -> ApprovalId {
        let version = self.version() + 1;
        let question = ApprovalId::new(self.owned(format!("{}-limit{version}", self.id)));
        self.record_in_turn(Fact::LimitAsked { question: question.clone(), guard });
        question
    }

    fn ask_beyond(&self, effects: &mut Vec<Effect>) {
        let (Some(open), Some((guard, question))) = (self.open_turn(), self.limit_asked()) else { return };
        let (approval_id, limit) = (question.clone(), open.limits().of(guard));
        self.emit(effects, || AgentEvent::LimitAsked { approval_id, guard, limit });
        let question = Box::new(LimitQuestion {
            session: self.id.clone(),
            context: open.input.context.clone(),
            turn: open.input.turn.clone(),
            approval_id: question,
            guard,
            limit: open.limits().of(guard),
            portion: open.input.limits.of(guard),
            timeout_ms: open.input.limits.approval_timeout_ms,
        });
        effects.push(Effect::Report(TurnNews::AtLimit { submission: open.submission.clone(), question }));
    }

    fn goes_on_in_time(&self, effects: &mut Vec<Effect>) {
        if let Some(submission) = self.submission() {
            effects.push(Effect::Report(TurnNews::Unpaused { submission }));
        }
    }
}
