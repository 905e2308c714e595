//! What the machine asks for, performed.

use super::{Held, Pending, Run, children};
use bob_actors::tools::Gate;
use bob_actors::tools::output::check;
use bob_messages::chat::{CallStatus, ToolCall};
use bob_messages::event::AgentEvent;
use bob_messages::ids::{ApprovalId, CallId, Ticket};
use bob_messages::outcome::TurnOutcome;
use bob_messages::store::Claim;
use bob_messages::submission::TurnNews;
use bob_messages::tools::{CallContext, ToolReturn, ToolSet, Verdict};
use bob_messages::turn::{Effect, TurnMessage};
use std::collections::VecDeque;
use std::sync::Arc;

impl Run {
    /// Sends a message to the machine and answers its questions until it waits.
    pub(super) fn tell(&mut self, message: TurnMessage, gate: impl Into<Option<Gate>>) {
        let mut gate = gate.into();
        let mut queue = VecDeque::from([message]);
        while let Some(message) = queue.pop_front() {
            for effect in self.turn.apply(self.stopwatch.moment(), message) {
                queue.extend(self.perform(effect, gate.as_mut()));
            }
        }
    }

    /// Performs one effect; returns an immediate reply.
    fn perform(&mut self, effect: Effect, gate: Option<&mut Gate>) -> Option<TurnMessage> {
        match effect {
            Effect::Tell(message) => Some(message),
            Effect::Claim { ticket, .. } => {
                let last = self.journal.last();
                let epoch = last.map_or(0, |record| record.epoch) + 1;
                let version = last.map_or(0, |record| record.version);
                let claim = Claim { epoch, version, records: self.journal.clone() };
                Some(TurnMessage::Loaded { ticket, result: Ok(claim) })
            }
            Effect::Append { ticket, append, .. } => {
                self.journal.extend(append.records);
                let version = self.journal.last().map_or(0, |record| record.version);
                Some(TurnMessage::Saved { ticket, result: Ok(version) })
            }
            Effect::ListTools { ticket, allow, .. } => {
                let offered = gate.map(|gate| gate.offered_to(allow.as_ref())).unwrap_or_default();
                Some(TurnMessage::ToolsListed { ticket, tools: Arc::new(ToolSet::from(offered)), servers: Vec::new() })
            }
            Effect::Profile { ticket, .. } => {
                Some(TurnMessage::Profiled { ticket, result: Ok(Arc::clone(&self.profile)) })
            }
            Effect::ReadLayers { ticket, .. } => Some(TurnMessage::LayersRead { ticket, result: Ok(Arc::default()) }),
            // Skills belong to a runtime; a turn configuration that has rules for them gets none here.
            Effect::ListSkills { ticket, .. } => {
                Some(TurnMessage::SkillsListed { ticket, index: Arc::default(), scores: None })
            }
            Effect::CheckOutput { ticket, schema, output } => {
                Some(TurnMessage::OutputChecked { ticket, result: check(&schema, &output) })
            }
            Effect::Infer { ticket, request, .. } => {
                self.asked = Some((ticket, request));
                self.given.clear();
                None
            }
            Effect::Condense { ticket, request } => {
                self.condensing = Some((ticket, request));
                None
            }
            Effect::Check { ticket, check, context } => {
                let denied = || Verdict::Deny { reason: "the rules of this turn cannot be read".to_owned() };
                let verdict = gate.map_or_else(denied, |gate| gate.check(&check, &context));
                self.judged(ticket, check.call, context, verdict)
            }
            Effect::Call { ticket, call, context, .. } => {
                if self.given.contains_key(&call.id) {
                    let returned = Box::new(self.taken(&call));
                    return Some(TurnMessage::ToolReturned { ticket, returned });
                }
                self.hand_out(ticket, call, context)
            }
            Effect::Child { ticket, .. } => {
                let returned = Box::new(children::elsewhere());
                Some(TurnMessage::ToolReturned { ticket, returned })
            }
            // Without a runtime nothing is remembered: the caller decides each time.
            Effect::Remember(_) | Effect::GiveUp { .. } => None,
            Effect::Report(news) => {
                self.hear(news);
                None
            }
            Effect::Emit(event) => {
                if let AgentEvent::ApprovalRequested { approval_id, call, .. } = event.event {
                    self.name_approval(&call.id, approval_id);
                }
                None
            }
            Effect::Release { .. } | Effect::Abandon { .. } | Effect::AbandonAll => None,
        }
    }

    /// Holds a verdict until the call has its result, or passes it on. In a step that calls agents it is passed on at once,
    /// and the machine says when each call runs, since what a child may use is known only then.
    fn judged(
        &mut self,
        ticket: Ticket,
        call: Arc<ToolCall>,
        context: Arc<CallContext>,
        verdict: Verdict,
    ) -> Option<TurnMessage> {
        let is_given = self.given.contains_key(&call.id);
        let in_order = self.calls_agents();
        let (held, now) = match verdict {
            Verdict::Deny { .. } | Verdict::Invalid { .. } | Verdict::Unavailable { .. } | Verdict::Ran(_) => {
                (None, Some(verdict))
            }
            Verdict::Allow { .. } | Verdict::Running if is_given => (None, Some(self.ran(verdict, &call))),
            Verdict::Allow { .. } if in_order => (None, Some(verdict)),
            Verdict::Running if in_order => (Some(Held::Verdict(Verdict::Running)), Some(verdict)),
            Verdict::Ask { ref reason, .. } => (Some(Held::Approval(reason.clone(), None)), Some(verdict)),
            Verdict::Allow { .. } | Verdict::Running => (Some(Held::Verdict(verdict)), None),
        };
        self.pending.extend(held.map(|held| Pending { ticket, call, context, held }));
        now.map(|verdict| TurnMessage::Checked { ticket, verdict: Some(verdict) })
    }

    /// A call without side effects has run when its result is available.
    pub(super) fn ran(&mut self, verdict: Verdict, call: &ToolCall) -> Verdict {
        match verdict {
            Verdict::Running => {
                self.given.remove(&call.id).map_or(Verdict::Running, |result| Verdict::Ran(Box::new(result)))
            }
            verdict => verdict,
        }
    }

    /// The result that was given for a call.
    pub(super) fn taken(&mut self, call: &ToolCall) -> ToolReturn {
        let nothing = || ToolReturn::note(CallStatus::Unknown, "outcome unknown: there is no result");
        self.given.remove(&call.id).unwrap_or_else(nothing)
    }

    fn hear(&mut self, news: TurnNews) {
        match news {
            // The runner's journal keeps all appends, also those of a cancelled turn.
            TurnNews::Finished { submission, outcome } if submission == self.submission => {
                self.ended = Some(Ok(Box::new(TurnOutcome { saved: true, ..*outcome })));
            }
            TurnNews::Refused { submission, error } if submission == self.submission => self.ended = Some(Err(error)),
            TurnNews::Finished { .. }
            | TurnNews::Refused { .. }
            | TurnNews::Began { .. }
            | TurnNews::Paused { .. }
            | TurnNews::AtLimit { .. }
            | TurnNews::GivenUp { .. }
            | TurnNews::Unpaused { .. }
            | TurnNews::Configured { .. }
            | TurnNews::Steered { .. }
            | TurnNews::Orphaned { .. }
            | TurnNews::ChildGivenUp { .. }
            | TurnNews::TasksEnd { .. }
            | TurnNews::Closed
            | TurnNews::NotOpen { .. }
            | TurnNews::Flushed
            | TurnNews::BetweenSteps
            | TurnNews::Decided { .. }
            | TurnNews::Left => {}
        }
    }

    fn name_approval(&mut self, call: &CallId, name: ApprovalId) {
        let held = self.pending.iter_mut().find(|held| held.call.id == *call);
        if let Some(Pending { held: Held::Approval(_, id), .. }) = held {
            *id = Some(name);
        }
    }
}
