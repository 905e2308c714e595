//! A change of the session's options, or a summary in place of its history: journaled at once, in force from the next
//! turn.
//!
//! It begins nothing: a session whose journal was read only for this is left as it is, including what an earlier
//! process left in it, until an input comes.

use super::acks::Ack;
use super::news::configured;
use super::{Effect, Turn};
use crate::condense::Condensed;
use crate::error::AgentError;
use crate::options::{Configuring, SessionChange};
use crate::store::Fact;
use std::sync::Arc;

/// The most notices that wait for the end of a turn; a further one is refused.
const MOST_NOTICES: usize = 8;

impl Turn {
    /// Applies a change once: a known one is only acknowledged when it is durable.
    pub(super) fn configure(&mut self, asked: &Configuring, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let request_id = &asked.request_id;
        if let SessionChange::Open(options) = &asked.change
            && session.tenant.is_some()
            && session.tenant != options.tenant
        {
            let text = format!("the session {} belongs to another tenant; choose another session id", self.id);
            return effects.push(configured(request_id, Err(AgentError::Invalid(text))));
        }
        if !session.configured.contains(request_id) {
            match &asked.change {
                SessionChange::Open(options) if session.version == 0 => {
                    self.record(None, Fact::Options(Arc::new((**options).clone())));
                }
                SessionChange::Open(options) if session.opened && *session.latest_options() == **options => {}
                SessionChange::Open(_) => {
                    let text = "the session is there and has other options; change them with configure";
                    return effects.push(configured(request_id, Err(AgentError::Invalid(text.to_owned()))));
                }
                SessionChange::Patch(patch) if patch.notice.is_some() && session.notices.len() >= MOST_NOTICES => {
                    let text = format!("{MOST_NOTICES} notices wait for the end of the session's turn; try again then");
                    return effects.push(configured(request_id, Err(AgentError::busy(text))));
                }
                SessionChange::Patch(patch) => {
                    let options = Arc::new(patch.applied_to(session.latest_options()));
                    let (request_id, notice) = (request_id.clone(), patch.notice.clone());
                    self.record(None, Fact::Configured { request_id, options, notice });
                }
                // It was asked for again.
                SessionChange::Condense(change) if session.summary.as_ref() == Some(&change.summary) => {}
                SessionChange::Condense(change) => {
                    let refused = match () {
                        () if session.open.is_some() => "the session has a turn that is not over",
                        () if session.version != change.version => "the session went on while its summary was written",
                        () => "",
                    };
                    if !refused.is_empty() {
                        return effects.push(configured(request_id, Err(AgentError::busy(refused))));
                    }
                    let (summary, usage) = (Some(Arc::clone(&change.summary)), change.usage);
                    self.record(
                        None,
                        Fact::Condensed(Box::new(Condensed { summary, keeps: 0, usage, cost: None, attempts: 1 })),
                    );
                }
            }
        }
        if self.version() <= self.outbox.durable {
            return effects.push(configured(request_id, Ok(())));
        }
        self.acknowledge(Ack::Configured(request_id.clone()));
        self.flush(effects);
    }
}
