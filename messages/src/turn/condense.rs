//! Condensation: a history that fills too much of the model's context becomes a summary and its newest messages.
//!
//! What is dropped is decided here; the summary comes from the compactor. It is requested at most twice, the second
//! time from half as much text; without a usable one the messages are dropped anyway. Both cases are reported and
//! journaled. A call stays with its results, the message the turn is about stays as it is, and nothing changes before
//! its record: after a crash the history is as it was.

use super::prompt::Frame;
use super::state::{Condensing, Plan, State};
use super::{Effect, Turn, TurnMessage, history};
use crate::chat::{Message, Usage};
use crate::condense::{self, CondenseMethod, CondenseRequest, Condensed, MAX_SUMMARY_BYTES, Summary};
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::session_state::{OpenTurn, Session};
use crate::store::Fact;
use crate::turn_config::TurnConfig;
use std::sync::Arc;

/// How often a summary is asked for.
const ATTEMPTS: u32 = 2;

/// A summary with a cap below this many bytes is not made.
const MIN_SUMMARY_BYTES: usize = 64;

impl Frame {
    /// What is to become of a history with which the next prompt would be too long; `None` when it is not, or when
    /// nothing of it could go.
    pub(super) fn plan(&mut self, turn_config: &TurnConfig, session: &Session, open: &OpenTurn) -> Option<Plan> {
        let rules = turn_config.condense.as_ref()?;
        let room = self.room(turn_config.context_percent, session);
        let whole = self.history_bytes(session);
        if whole <= room {
            return None;
        }
        let (history, most) = (&session.history, turn_config.max_history_messages);
        // What is left out for its number alone makes no prompt too long.
        let asked = history::fit(history, open.message_at, most, usize::MAX, whole);
        let bytes = asked.messages(history).map(|message| message.bytes()).sum::<usize>() + self.summary_bytes();
        if bytes <= room {
            return None;
        }
        let target = self.room(rules.target_percent.min(turn_config.context_percent), session);
        let reserved = (target * 2 / 5).min(MAX_SUMMARY_BYTES + condense::mark_bytes());
        let kept = history::fit(history, open.message_at, most, target - reserved, whole);
        let drops = kept.dropped();
        if drops == 0 {
            return None;
        }
        let gone = whole.saturating_sub(kept.messages(history).map(|message| message.bytes()).sum());
        let summary_bytes = reserved.checked_sub(condense::mark_bytes()).filter(|bytes| *bytes >= MIN_SUMMARY_BYTES);
        Some(Plan {
            length: history.len(),
            keeps: history.len() - kept.start,
            drops,
            summary_bytes: summary_bytes.filter(|_| gone >= target / 8),
            question_bytes: self.fills(turn_config.context_percent, session),
            tokens: self.tokens(bytes, session),
        })
    }
}

impl Turn {
    /// The next prompt would be too long.
    pub(super) fn condense(&mut self, plan: Plan, effects: &mut Vec<Effect>) {
        match plan.summary_bytes {
            Some(max_bytes) => self.ask_for_summary(plan, max_bytes, 1, None, effects),
            None => self.shorten(
                &plan,
                Condensed { summary: None, keeps: 0, usage: None, cost: None, attempts: 0 },
                effects,
            ),
        }
    }

    fn ask_for_summary(
        &mut self,
        plan: Plan,
        max_bytes: usize,
        attempt: u32,
        usage: Option<Usage>,
        effects: &mut Vec<Effect>,
    ) {
        // A model call takes long: the records so far are stored now and not after it.
        self.flush(effects);
        let ticket = self.ticket();
        let (Some(session), Some(turn_config), Some(frame)) = (&self.session, &self.turn_config, &mut self.frame)
        else {
            return;
        };
        let Some(open) = session.running() else { return };
        let (step, limits) = (open.spent.steps + 1, *open.limits());
        let model = turn_config.condense.as_ref().and_then(|rules| rules.model.as_ref()).unwrap_or(&open.model);
        let request = CondenseRequest {
            session: session.id.clone(),
            turn: open.input.turn.clone(),
            context: open.input.context.clone(),
            step,
            model: model.clone(),
            attempt,
            earlier: session.summary.clone(),
            messages: going(session, open, plan.length - plan.keeps),
            max_bytes,
            question_bytes: plan.question_bytes / attempt as usize,
            // The rest is for the answer.
            within_ms: limits.longest_wait_ms(self.now.left_of(limits.turn_timeout_ms)) / 2,
            traceparent: frame.traceparent(&open.input.turn, step),
            tracestate: open.input.tracestate.clone(),
            interactive: open.input.interactive,
        };
        let wait = Condensing { awaiting: ticket, attempts: attempt, plan, usage };
        self.state = State::Condense(Box::new(wait));
        effects.push(Effect::Condense { ticket, request: Arc::new(request) });
    }

    /// There is a summary, or there is none.
    pub(super) fn condensed(
        &mut self,
        wait: Condensing,
        result: Result<Arc<Summary>, AgentError>,
        effects: &mut Vec<Effect>,
    ) {
        self.progressed(effects);
        let Condensing { attempts, plan, mut usage, .. } = wait;
        let summary = result.ok();
        if let Some(cost) = summary.as_ref().and_then(|summary| summary.usage) {
            usage.get_or_insert_default().add(&cost);
        }
        let max_bytes = plan.summary_bytes.unwrap_or(0);
        let text = summary.as_ref().map(|summary| summary.text.trim());
        let text = text.filter(|text| !text.is_empty() && text.len() <= max_bytes).map(Arc::from);
        if text.is_none() && attempts < ATTEMPTS && !self.has_spent(usage.as_ref()) {
            return self.ask_for_summary(plan, max_bytes, attempts + 1, usage, effects);
        }
        let cost = self.frame.as_ref().and_then(|frame| frame.cost(usage.as_ref()));
        self.shorten(&plan, Condensed { summary: text, keeps: 0, usage, cost, attempts }, effects);
    }

    /// Whether the turn has no tokens left for another attempt.
    fn has_spent(&self, usage: Option<&Usage>) -> bool {
        let Some(open) = self.open_turn() else { return true };
        let most = open.limits().max_total_tokens;
        let spent = open.spent.tokens.saturating_add(usage.map_or(0, |usage| usage.total_tokens));
        most > 0 && spent >= most
    }

    /// Applies the plan to the history; steer messages that came meanwhile stay.
    fn shorten(&mut self, plan: &Plan, condensed: Condensed, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let Some(open) = session.running() else { return };
        let step = open.spent.steps + 1;
        let keeps = plan.keeps + session.history.len().saturating_sub(plan.length);
        let (attempts, summary) = (condensed.attempts, condensed.summary.is_some());
        self.record_in_turn(Fact::Condensed(Box::new(Condensed { keeps, ..condensed })));
        let (Some(session), Some(frame)) = (&self.session, &mut self.frame) else { return };
        frame.history_changed(session);
        let bytes = frame.history_bytes(session);
        let tokens_after = frame.tokens(bytes, session);
        let told = AgentEvent::HistoryCondensed {
            method: if summary { CondenseMethod::Summary } else { CondenseMethod::Truncated },
            messages_before: plan.length,
            messages_dropped: plan.drops,
            tokens_before: plan.tokens,
            tokens_after,
            attempts,
        };
        self.emit(effects, || told.in_step(step));
        self.state = State::BuildPrompt;
        effects.push(Effect::Tell(TurnMessage::BuildPrompt));
    }
}

/// The first messages of the history but for the open turn's own.
fn going(session: &Session, open: &OpenTurn, first: usize) -> Vec<Arc<Message>> {
    let all = session.history.iter().take(first).enumerate();
    all.filter(|(at, _)| *at != open.message_at).map(|(_, message)| Arc::clone(message)).collect()
}
