//! What is said into turns: by people who repeat themselves, and what was promised of it.

use super::harness::Harness;
use super::monitor::Monitor;
use super::plan::Fault;
use crate::chat::{ContentPart, FinishReason};
use crate::error::AgentError;
use crate::ids::{RequestId, TurnId};
use crate::input::Steer;
use crate::limits::Limits;
use crate::outcome::TurnOutcome;
use crate::turn::TurnMessage;
use crate::turn::tests::world::{Question, World};
use std::collections::{BTreeMap, BTreeSet};

/// What the monitor knows of what was said into turns.
#[derive(Debug, Default)]
pub(super) struct Steers {
    pub(super) texts: BTreeMap<RequestId, String>,
    stored: BTreeSet<RequestId>,
    said: BTreeSet<String>,
    told: BTreeMap<RequestId, bool>,
    /// Said more than once, so that an append of an earlier machine may still bring it.
    repeated: BTreeSet<RequestId>,
}

impl Steers {
    /// Nobody heard what was told of it.
    pub(super) fn forgets(&mut self, request: &RequestId) {
        self.told.remove(request);
    }

    /// It is said again.
    pub(super) fn repeats(&mut self, request: &RequestId) {
        self.repeated.insert(request.clone());
    }
}

impl Harness {
    /// Somebody says something into whatever runs, or says again what they said before.
    pub(super) fn steer(&mut self) {
        if self.people.rarely(3) {
            return self.reads_along();
        }
        if self.steerings > 0 && self.people.rarely(4) {
            let again = 1 + self.people.pick(usize::try_from(self.steerings).unwrap_or(1));
            let request = RequestId::new(format!("s{again}"));
            // Whoever was answered with no may have said it as an input of its own meanwhile.
            if self.monitor.steers.told.get(&request) != Some(&false) {
                return self.say_into(request);
            }
        }
        self.steerings += 1;
        self.say_into(RequestId::new(format!("s{}", self.steerings)));
    }

    /// Somebody begins to read the session along.
    pub(super) fn reads_along(&mut self) {
        self.readers.push_back(self.world.turn.session().map_or(0, |session| session.version));
        self.say(TurnMessage::Flush);
    }

    /// What was written when they began is with the store, unless the store fails.
    pub(super) fn read_along(&mut self) {
        let Some(until) = self.readers.pop_front() else {
            return self.monitor.must(false, || "somebody who does not read is told".to_owned());
        };
        let world = &self.world;
        let on_the_way = world.questions.iter().filter_map(|question| match question {
            Question::Append(_, append, _) => Some(append.expected_version + append.records.len() as u64),
            _ => None,
        });
        let sent = on_the_way.max().unwrap_or(0).max(world.stored.len() as u64);
        let works = !self.plan.has(Fault::StoreFails) && !self.plan.has(Fault::StoreDoubts) && !self.store_is_down;
        let works = works && !self.plan.has(Fault::OtherOwner) && !self.plan.has(Fault::StoreDown);
        self.monitor.must(!works || sent >= until, || format!("told at {sent} who reads until {until}"));
    }

    fn say_into(&mut self, request_id: RequestId) {
        let text = format!("and this is {request_id};");
        if self.monitor.steers.texts.insert(request_id.clone(), text.clone()).is_some() {
            self.monitor.steers.repeats(&request_id);
        }
        // The supervisor names the run that is meant, as far as it knows.
        let submission = self.owed.first().map(|(owed, _)| owed.clone()).filter(|_| self.people.rarely(2));
        let steer =
            Box::new(Steer { request_id: request_id.clone(), submission, parts: vec![ContentPart::text(text)] });
        let message = TurnMessage::Steered { steer };
        self.steering.retain(|(known, _)| *known != request_id);
        self.steering.push((request_id, message.clone()));
        self.say(message);
    }
}

impl Monitor {
    /// What a machine has taken since it read its journal.
    pub(super) fn follows_steers(&mut self, message: &TurnMessage, world: &World) {
        let Some(session) = world.turn.session() else { return };
        if matches!(message, TurnMessage::Loaded { .. }) {
            self.life.taken = self.steers.stored.clone();
        }
        let new: Vec<_> = session.steers.iter().filter(|id| !self.life.taken.contains(*id)).cloned().collect();
        let turn = world.turn.turn_id().cloned();
        for id in new {
            self.life.taken.insert(id.clone());
            let text = self.steers.texts.get(&id).cloned();
            self.life.steered.extend(turn.clone().zip(text));
            self.check_steered(&world.turn);
        }
    }

    /// A record of it is stored.
    pub(super) fn keeps_steer(&mut self, request: &RequestId, parts: &[ContentPart]) {
        let text: String = parts.iter().map(ContentPart::as_text).collect();
        let is_new = self.steers.stored.insert(request.clone()) && self.steers.said.insert(text);
        self.must(is_new, || format!("{request} is taken twice"));
        let refused = self.steers.told.get(request) == Some(&false);
        self.must(!refused, || format!("{request} is taken and was told not to be"));
    }

    /// Whoever said it is answered.
    pub(super) fn tells_steer(&mut self, request: &RequestId, result: &Result<bool, AgentError>) {
        let Ok(taken) = result else { return self.saw("steered in doubt".to_owned()) };
        self.saw(format!("steered {taken}"));
        let stored = self.steers.stored.contains(request);
        // A machine that has read nothing answers a repeated one that nothing runs, whatever became of it before.
        let is_news = stored && self.life.is_unread;
        self.must(stored == *taken || is_news, || format!("{request} is told {taken}, and stored is {stored}"));
        // The facade does not pass this "no" on: it reads the journal first, behind every append on its way.
        if !taken && self.life.is_unread && self.steers.repeated.contains(request) {
            return self.saw("steered again, unread".to_owned());
        }
        self.steers.told.insert(request.clone(), *taken);
    }

    /// A turn that ends of itself has heard all that was said into it, as long as it had a step left.
    pub(super) fn has_heard_all(&mut self, outcome: &TurnOutcome) {
        let spent = |limits: &Limits| {
            let tokens = limits.max_total_tokens > 0 && outcome.usage.total_tokens >= limits.max_total_tokens;
            tokens || outcome.steps >= limits.max_steps
        };
        let is_spent = self.asked.get(&outcome.turn_id).is_none_or(|input| spent(&input.limits));
        if outcome.finish_reason == FinishReason::Final && !is_spent {
            let unheard = unheard(&self.life.steered[self.life.prompted..], &outcome.turn_id);
            self.must(unheard.is_none(), || format!("the turn ends and has not heard {unheard:?}"));
        }
    }
}

fn unheard(said: &[(TurnId, String)], turn: &TurnId) -> Option<String> {
    said.iter().find(|(of, _)| of == turn).map(|(_, text)| text.clone())
}
