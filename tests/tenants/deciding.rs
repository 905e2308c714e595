//! What tenants decide in the interleavings: about any question, on the runtime or by a message.

use bob::SessionId;
use bob::approvals::{ApprovalId, Decision};
use bob::events::AgentEvent;
use bob::inbox::InboxRequest;
use bob::sessions::TurnId;

use crate::support::runtime::within;
use crate::tenants::apart::{Play, TENANTS, mark, of};

impl Play {
    /// A tenant decides about any question that was asked, and that it may have guessed the id of.
    pub(super) async fn decide(&mut self, who: usize) -> Result<(), String> {
        let events = self.seen.events();
        let asked: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.event {
                AgentEvent::ApprovalRequested { approval_id, .. } => {
                    Some((event.session_id.clone()?, event.turn_id.clone()?, approval_id.clone()))
                }
                _ => None,
            })
            .collect();
        // The newest ones are open.
        let newest = &asked[asked.len().saturating_sub(4)..];
        let Some((at, _, approval)) = self.rng.choice(newest.to_vec()) else { return Ok(()) };
        // A session that was deleted and begun anew asks under the same ids: the last question is the open one.
        let is_it = |(session, _, other): &&(SessionId, TurnId, ApprovalId)| *session == at && *other == approval;
        let Some((_, turn, _)) = asked.iter().rev().find(is_it).cloned() else { return Ok(()) };
        let begun = events.iter().rev().find_map(|event| match &event.event {
            AgentEvent::TurnStarted { context, .. } if event.turn_id.as_ref() == Some(&turn) => context.clone(),
            _ => None,
        });
        let context = begun.ok_or("a turn without a context")?;
        let identity = of(&context);
        let decision = match self.rng.u32(..4) {
            0 => Decision::AllowAlways,
            1 => Decision::AllowSession,
            2 => Decision::AllowOnce,
            _ => Decision::Deny { reason: mark(who) },
        };
        let is_allowed = !matches!(decision, Decision::Deny { .. });
        let is_lasting = matches!(decision, Decision::AllowAlways | Decision::AllowSession);
        let counts = match self.rng.u32(..4) {
            0 => self.decides_by_message(who, &at, InboxRequest::Decide { approval, decision }).await?,
            _ => {
                let counts = within(self.views[who].decide(at.clone(), approval, decision)).await;
                counts.map_err(|error| format!("a decision failed: {error}"))?
            }
        };
        if !counts {
            return Ok(());
        }
        if identity.0 != who {
            return Err(format!("{} decided about a call of {}", TENANTS[who], TENANTS[identity.0]));
        }
        if is_allowed {
            *self.allowed.entry(identity.clone()).or_default() += 1;
        }
        if is_lasting {
            self.always.insert(identity);
        }
        let mut streams = std::mem::take(&mut self.streams);
        for (_, stream) in streams.iter_mut().filter(|(_, stream)| *stream.session() == at && *stream.turn() == turn) {
            while within(stream.next_event()).await.is_some() {}
        }
        streams.retain(|(_, stream)| stream.ended().is_none());
        self.streams = streams;
        self.read_messages_of(&at, &turn).await
    }
}
