//! What must hold while it runs: who may work, and what may run.

use super::ledger::Ledger;
use super::{Actor, Tree};
use crate::chat::{FinishReason, ToolCall};
use crate::ids::{CallId, SessionId, TurnId};
use crate::limits::Limits;
use crate::llm::LlmRequest;
use crate::options::{OnParentEnd, ParentTurn};
use crate::outcome::TurnOutcome;
use crate::session_state::Session;
use crate::store::{Fact, Record};
use crate::tools::CallContext;
use crate::turn::tests::world::side_effects;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The side effects that began.
    effects: BTreeSet<String>,
    /// What a person decided, by the key in the question.
    decided: BTreeMap<String, bool>,
    /// The turns whose end was reported in this program, and whether that is durable.
    ended: BTreeMap<(SessionId, TurnId), (FinishReason, bool)>,
    /// The sessions whose turn has ended while that is not durable.
    pub(super) unsaved: BTreeSet<SessionId>,
    /// The call that each session works for.
    pub(super) parents: BTreeMap<SessionId, ParentTurn>,
    /// The agents above and with each session.
    pub(super) lines: BTreeMap<SessionId, Vec<String>>,
    /// What the calls of a turn were promised.
    pub(super) promised: BTreeMap<(SessionId, TurnId), BTreeMap<CallId, Limits>>,
}

impl Actor {
    /// All that it knows to be written, or is about to write.
    pub(super) fn records(&self) -> Vec<Arc<Record>> {
        let unsent = self.turn.unsent();
        let known =
            self.written.iter().filter(|record| unsent.first().is_none_or(|first| record.version < first.version));
        known.chain(unsent).cloned().collect()
    }

    /// The turn that runs.
    pub(super) fn running(&self) -> Option<(TurnId, Limits)> {
        let open = self.turn.session().and_then(Session::running)?;
        Some((open.input.turn.clone(), open.input.limits))
    }
}

impl Watch {
    /// A turn begins, or goes on by a decision. An end that was not stored is none for the next owner, with whom it goes on.
    pub(super) fn begins_again(&mut self, session: &SessionId, turn: &TurnId) {
        let of = (session.clone(), turn.clone());
        if self.ended.get(&of).is_some_and(|(_, saved)| !saved) {
            self.ended.remove(&of);
        }
    }
}

impl Tree {
    pub(super) fn program_began(&mut self) {
        self.watch.ended.clear();
    }

    pub(super) fn note_end(&mut self, session: &SessionId, outcome: &TurnOutcome) {
        let reason = outcome.finish_reason;
        self.saw(match reason {
            FinishReason::Final => "a turn ends with an answer",
            FinishReason::GuardExceeded => "a turn ends at a limit",
            FinishReason::Cancelled => "a turn is cancelled",
            FinishReason::Suspended => "a turn is suspended",
            FinishReason::Error => "a turn fails",
        });
        self.watch.ended.insert((session.clone(), outcome.turn_id.clone()), (reason, outcome.saved));
        if !outcome.saved {
            self.saw("the end of a turn is not saved");
            self.watch.unsaved.insert(session.clone());
        }
    }

    /// A session is to ask a model or run a tool: none of those above it has ended.
    pub(super) fn works_below(&mut self, session: &SessionId, what: &str) {
        let mut below = session.clone();
        while let Some(parent) = self.watch.parents.get(&below).cloned() {
            let ended = self.watch.ended.get(&(parent.session.clone(), parent.turn.clone())).map(|(how, _)| *how);
            // What is being stopped ends what works for it.
            if self.table.get(&below).is_some_and(|entry| entry.stopping.is_some() || entry.closing.is_some()) {
                return;
            }
            let goes_on = match ended {
                None => true,
                Some(FinishReason::Cancelled) => false,
                Some(FinishReason::Suspended) => parent.on_parent_end != Some(OnParentEnd::Cancel),
                Some(_by_itself) => Self::outlives(&parent),
            };
            self.must(goes_on, || format!("{what} in {session}, below a turn that has ended: {ended:?} {parent:?}"));
            if Self::outlives(&parent) {
                return;
            }
            below = parent.session;
        }
    }

    /// The turn of this session goes on.
    fn check_not_over(&mut self, session: &SessionId, turn: &TurnId) {
        let ended = self.watch.ended.remove(&(session.clone(), turn.clone()));
        let is_over = matches!(ended, Some((how, true)) if how != FinishReason::Suspended);
        self.must(!is_over, || format!("{turn} of {session} goes on behind its end: {ended:?}"));
    }

    /// A model is asked: the turn has not reached a limit, with all that worked for it.
    pub(super) fn infers(&mut self, session: &SessionId, request: &LlmRequest) {
        self.check_not_over(session, &request.turn);
        let Some(actor) = self.actors.values().find(|actor| actor.session == *session) else { return };
        let Some((turn, limits)) = actor.running() else { return };
        let all = Ledger::of(&actor.records()).turn(&turn).in_line();
        let tokens = limits.max_total_tokens == 0 || all.tokens < limits.max_total_tokens;
        let cost = limits.max_cost.is_zero() || all.nanos < limits.max_cost.nanos();
        let holds = all.steps < limits.max_steps && tokens && cost;
        self.must(holds, || format!("{session} asks its model beyond its limits: {all:?} of {limits:?}"));
    }

    /// A tool runs.
    pub(super) fn runs(&mut self, session: &SessionId, call: &ToolCall, context: &CallContext) {
        self.check_not_over(session, &context.turn);
        if !side_effects(&call.name) {
            return;
        }
        self.saw("a side effect begins");
        let key = context.idempotency_key(&call.id);
        let is_new = self.watch.effects.insert(key.clone());
        self.must(is_new, || format!("the side effect {key} begins twice"));
        let is_intended = self.journals.get(session).is_some_and(|journal| {
            journal.records.iter().any(|record| matches!(&record.fact, Fact::Intent { call: of, .. } if *of == call.id))
        });
        self.must(is_intended, || format!("the side effect {key} is in no journal"));
        if call.name.own_name() == "ask" {
            let asked = call.arguments["key"].as_str().unwrap_or_default();
            let decided = self.watch.decided.get(asked).copied();
            self.saw("what a person allowed runs");
            self.must(decided == Some(true), || format!("{key} runs, and was decided so: {decided:?}"));
        }
    }

    /// A person decides: the question names the agents of the session that asks.
    pub(super) fn note_decision(&mut self, question: &str, allows: bool) {
        let key = question.split("\"key\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let asks = SessionId::parse(key.split(':').next().unwrap_or_default());
        let line = asks.ok().and_then(|asks| self.watch.lines.get(&asks)).map(|line| line.join(" > "));
        let names = match &line {
            Some(line) => question.ends_with(&format!("(asked by the agent {line})")),
            None => !question.contains("asked by"),
        };
        if line.is_some_and(|line| line.contains('>')) {
            self.saw("a grandchild asks");
        }
        self.must(names, || format!("the question does not name who asks: {question}"));
        // A question whose decision was lost with a program is asked again: the last decision counts.
        self.watch.decided.insert(key.to_owned(), allows);
    }
}
