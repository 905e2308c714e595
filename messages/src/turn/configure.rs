//! A change of the session's options: journaled at once, in force from the next turn.
//!
//! It begins nothing: a session whose journal was read only for this is left as it is, with
//! whatever an earlier process left in it, until an input comes.

use super::{Effect, Turn};
use crate::error::AgentError;
use crate::ids::RequestId;
use crate::session::{Configuring, SessionChange};
use crate::sessions::TurnNews;
use crate::store::Fact;
use std::sync::Arc;

impl Turn {
    /// Takes a change up, once: one whose name is known is only told of when it is durable.
    pub(super) fn take_configure(&mut self, asked: &Arc<Configuring>, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let request_id = &asked.request_id;
        if !session.configured.contains(request_id) {
            match &asked.change {
                SessionChange::Open(options) if session.version == 0 => {
                    self.record(None, Fact::Options((**options).clone()));
                }
                SessionChange::Open(options) if session.opened && *session.latest_options() == **options => {}
                SessionChange::Open(_) => {
                    let text = "the session is there and has other options; change them with configure";
                    return effects.push(configured(request_id, Err(AgentError::Invalid(text.to_owned()))));
                }
                SessionChange::Patch(patch) => {
                    let options = patch.applied_to(session.latest_options());
                    self.record(None, Fact::Configured { request_id: request_id.clone(), options });
                }
            }
        }
        let version = self.awaited();
        if version <= self.journal.durable {
            return effects.push(configured(request_id, Ok(())));
        }
        self.configuring.push((version, request_id.clone()));
        self.flush(effects);
    }

    /// Tells of the changes that are durable.
    pub(super) fn tell_configured(&mut self, effects: &mut Vec<Effect>) {
        let durable = self.journal.durable;
        self.configuring.retain(|(version, request_id)| {
            let is_durable = *version <= durable;
            if is_durable {
                effects.push(configured(request_id, Ok(())));
            }
            !is_durable
        });
    }

    /// Tells of the changes that are not known to be durable why.
    pub(super) fn tell_unconfigured(&mut self, error: &AgentError, effects: &mut Vec<Effect>) {
        effects.extend(self.configuring.drain(..).map(|(_, request_id)| configured(&request_id, Err(error.clone()))));
    }
}

pub(super) fn configured(request_id: &RequestId, result: Result<(), AgentError>) -> Effect {
    Effect::Report(TurnNews::Configured { request_id: request_id.clone(), result })
}
