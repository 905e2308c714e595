//! Condenses the history of a session on request, between two turns.

use super::runtime::Runtime;
use super::sessions::{new_name, send};
use bob_actors::llm::tokens_per_kb;
use bob_messages::chat::Message;
use bob_messages::condense::{CondenseRequest, MAX_SUMMARY_BYTES};
use bob_messages::error::AgentError;
use bob_messages::ids::{ModelName, SessionId, TurnId};
use bob_messages::llm::TOKENS_PER_KB;
use bob_messages::options::{Configuring, HistoryChange, SessionChange};
use bob_messages::reply::Reply;
use bob_messages::session_state::Session;
use bob_messages::store::Fact;
use bob_messages::trace;
use std::sync::Arc;

/// A history that was condensed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CondensedHistory {
    /// How many messages the summary replaces.
    pub messages: usize,
    /// About how many tokens they had, with an earlier summary.
    pub tokens_before: u64,
    /// About how many tokens the summary has.
    pub tokens_after: u64,
}

/// How often a summary is asked for.
const ATTEMPTS: u32 = 2;

/// The longest wait for a summary.
const MOST_MS: u64 = 10 * 60 * 1000;

pub(super) fn nothing_to_condense() -> AgentError {
    AgentError::Invalid("the session has no messages to condense".to_owned())
}

impl Runtime {
    /// Replaces the history of a session by a summary of it, now and whatever its size. The summary is written by
    /// `model`, by default the one the configuration has for summaries, else that of the session. The journal keeps every message.
    /// Dropping the future leaves the history as it is.
    ///
    /// # Errors
    /// `Invalid` when nothing was said yet, `Busy` when a turn is not over or another one began meanwhile, errors of the
    /// model, and `Internal` when it wrote no usable summary.
    pub async fn condense(&self, session: SessionId, model: Option<ModelName>) -> Result<CondensedHistory, AgentError> {
        let records = self.journal(session.clone()).await?;
        let turn_config = Arc::clone(self.turn_config());
        let folded = Session::fold_keeping(session.clone(), turn_config.max_history_messages, &records);
        if folded.open.is_some() {
            return Err(AgentError::busy("the session has a turn that is not over"));
        }
        if folded.history.is_empty() {
            return Err(nothing_to_condense());
        }
        let of_rules = turn_config.condense.as_ref().and_then(|rules| rules.model.clone());
        let of_session = folded.latest_options().model.clone();
        let model = of_rules.or(model).or(of_session).unwrap_or_else(|| turn_config.default_model.clone());
        let context = self.0.model.capabilities(&model).map_err(AgentError::from)?.context_tokens;
        let per_kb = match folded.tokens_per_kb {
            TOKENS_PER_KB => tokens_per_kb(&*self.0.model, &model),
            counted => counted,
        };
        let tokens = |bytes: usize| bytes as u64 * per_kb / 1_000;
        let earlier = folded.summary.as_ref().map_or(0, |summary| summary.len());
        let before = folded.history.iter().map(|message| Message::bytes(message)).sum::<usize>() + earlier;
        // A summary that is no shorter than what it replaces is none.
        let max_bytes = (before / 2).clamp(256, MAX_SUMMARY_BYTES);
        let question_tokens = u64::from(context) * u64::from(turn_config.context_percent) / 100;
        let question_bytes = usize::try_from(question_tokens * 1_000 / per_kb.max(1)).unwrap_or(usize::MAX);
        // A model that is chosen by tenant is that of the last request.
        let last = records.iter().rev().find_map(|record| match &record.fact {
            Fact::Input(input) => Some(input.context.clone()),
            _another => None,
        });
        let (span, limits) = (new_name().as_str().replace('-', ""), self.0.limits);
        let mut change = HistoryChange { version: folded.version, summary: Arc::from(""), usage: None };
        for attempt in 1..=ATTEMPTS {
            let request = CondenseRequest {
                session: session.clone(),
                turn: TurnId::new(span.clone()),
                step: 1,
                model: model.clone(),
                context: last.clone().flatten(),
                attempt,
                earlier: folded.summary.clone(),
                messages: folded.history.to_vec(),
                max_bytes,
                question_bytes: question_bytes / attempt as usize,
                within_ms: limits.longest_wait_ms(MOST_MS),
                traceparent: trace::traceparent(&span, &span[..16], trace::Flags::default()).into(),
                tracestate: None,
                interactive: true,
            };
            let (reply, answer) = Reply::channel();
            let rooms = &self.0.tree.rooms;
            rooms.compactor.ask(&rooms.llm, Arc::new(request), reply);
            let written = answer.await.unwrap_or_else(|| Err(self.gone()))?;
            if let Some(usage) = written.usage {
                change.usage.get_or_insert_default().add(&usage);
            }
            let text = written.text.trim();
            if !text.is_empty() && text.len() <= max_bytes {
                change.summary = text.into();
                break;
            }
        }
        if change.summary.is_empty() {
            return Err(AgentError::Internal(format!(
                "the model {model} wrote no summary of at most {max_bytes} bytes; the history is as it was"
            )));
        }
        let done = CondensedHistory {
            messages: folded.history.len(),
            tokens_before: tokens(before),
            tokens_after: tokens(change.summary.len()),
        };
        let change = SessionChange::Condense(Box::new(change));
        send(self, session, Configuring { request_id: new_name(), change }).await?;
        Ok(done)
    }
}
