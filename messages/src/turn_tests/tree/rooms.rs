//! Those who answer: the store, the models, the tools, and who reads a journal.

use super::lanes::{Item, Lane};
use super::{Defect, Tree};
use crate::agent::{NAMESPACE, read};
use crate::chat::CallStatus;
use crate::ids::{SessionId, Ticket};
use crate::session_state::Session;
use crate::store::{Append, Claim, StoreError, latest};
use crate::tools::{ToolReturn, Verdict};
use crate::turn::TurnMessage;
use crate::turn::tests::world::{store, verdict};
use std::sync::Arc;

impl Tree {
    /// The store does what it was asked for first.
    pub(super) fn store(&mut self, session: &SessionId, item: Item) {
        let lost = self.fault(self.plan.loses, 12).then(|| self.dice.pick(3));
        match item {
            Item::Claim { actor, ticket, whole } => {
                if lost == Some(0) {
                    self.saw("a claim is lost");
                    let result = Err(StoreError::Unavailable("it is away".into()));
                    return self.send_to(actor, TurnMessage::Loaded { ticket, result });
                }
                let journal = self.journals.entry(session.clone()).or_default();
                journal.epoch += 1;
                let all = &journal.records;
                let records = if whole { all.clone() } else { latest(all).to_vec() };
                let claim = Claim { epoch: journal.epoch, version: all.len() as u64, records };
                self.send_to(actor, TurnMessage::Loaded { ticket, result: Ok(claim) });
            }
            Item::Append { actor, ticket, confirm, append, closing } => {
                let result = self.append(append, lost);
                if closing {
                    if let Some(Item::Closing { saved, .. }) = self.lanes.first(&Lane::Closing(actor)) {
                        *saved = Some(result.is_ok());
                    }
                } else if confirm || result.is_err() {
                    self.send_to(actor, TurnMessage::Saved { ticket, result });
                }
            }
            item => unreachable!("{item:?}"),
        }
    }

    /// Appends, unless that is lost; or only the answer is.
    pub(super) fn append(&mut self, append: Append, lost: Option<usize>) -> Result<u64, StoreError> {
        if lost.is_some() {
            self.saw("an answer of the store is lost");
        }
        let not_stored = match lost {
            Some(0) => Some(StoreError::Unavailable("it is away".into())),
            Some(1) => Some(StoreError::InDoubt("it went away".into())),
            _ => None,
        };
        if let Some(error) = not_stored {
            return Err(error);
        }
        let journal = self.journals.entry(append.session.clone()).or_default();
        let result = store(&mut journal.records, journal.epoch, &append);
        if result.is_ok() && lost.is_some() { Err(StoreError::InDoubt("it went away".into())) } else { result }
    }

    /// A model, a tool or a journal answers.
    pub(super) fn works(&mut self, actor: u64, ticket: Ticket, item: Item) {
        match item {
            Item::Infer(request) => {
                let depth = self.depth_of(actor);
                let result = Ok(Arc::new(self.plan.says(&request, depth)));
                self.answer_to(actor, ticket, TurnMessage::ParseAction { ticket, result });
            }
            Item::Check(check) => {
                let verdict = match verdict(&check, 0, &[]) {
                    Verdict::Allow { .. } if check.run && check.call.name.as_str().starts_with(NAMESPACE) => {
                        self.lanes.push(Lane::Work(actor, ticket), Item::Wait { is_checked: true });
                        Verdict::Running
                    }
                    Verdict::Allow { traits, .. } if check.run && traits.read_only => {
                        Verdict::Ran(Box::new(ToolReturn::text("seen")))
                    }
                    Verdict::Allow { grant, mut traits } => {
                        traits.idempotent |= self.has(Defect::RepeatsEffects);
                        Verdict::Allow { grant, traits }
                    }
                    verdict => verdict,
                };
                let verdict = Some(verdict);
                self.answer_to(actor, ticket, TurnMessage::Checked { ticket, verdict });
            }
            Item::Call(call, context) if context.child.is_some() => self.delegate(actor, ticket, call, &context),
            Item::Call(call, _) if call.name.as_str().starts_with(NAMESPACE) => {
                self.lanes.push(Lane::Work(actor, ticket), Item::Wait { is_checked: false });
            }
            Item::Call(..) => {
                let is_gone = self.fault(self.plan.loses, 8);
                let gone = || ToolReturn::note(CallStatus::Unknown, "outcome unknown: the tool's actor went away");
                self.returns(actor, ticket, if is_gone { gone() } else { ToolReturn::text("done") });
            }
            Item::Wait { is_checked } => {
                let returned = ToolReturn::note(CallStatus::Error, "a task is followed by a turn only");
                if is_checked {
                    let verdict = Some(Verdict::Ran(Box::new(returned)));
                    return self.answer_to(actor, ticket, TurnMessage::Checked { ticket, verdict });
                }
                self.returns(actor, ticket, returned);
            }
            Item::Read { call, session, turn } => {
                self.saw("a journal of a child is read");
                let records = self.journals.get(&session).map(|journal| journal.records.as_slice());
                let child = Session::fold(session, records.unwrap_or_default());
                let outcome = child.outcome_of(&turn).filter(|_| child.open.is_none());
                let returned = read(&call, outcome.map(Arc::as_ref));
                self.returns(actor, ticket, returned);
            }
            item => unreachable!("{item:?}"),
        }
    }

    fn depth_of(&self, actor: u64) -> u32 {
        let session = self.actors.get(&actor).and_then(|actor| actor.turn.session());
        session.and_then(|session| session.options.parent.as_ref()).map_or(0, |parent| parent.depth)
    }
}
