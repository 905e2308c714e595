//! How actors and programs end, and what begins behind them.

use super::lanes::{Item, Lane};
use super::person::Person;
use super::{Leaving, Pending, Tree};
use crate::error::AgentError;
use crate::ids::{SessionId, TurnId};
use crate::outcome::{EndReason, TurnOutcome};
use crate::turn::{Recover, TurnMessage};
use std::sync::Arc;

/// How often an actor is restarted in one turn.
const MOST_RESTARTS: u32 = 3;

impl Tree {
    /// Handles the end of an actor, behind its last reports.
    pub(super) fn actor_ended(&mut self, actor: u64, polite: bool) {
        let Some(session) = self.homes.get(&actor).cloned() else { return };
        let Some(entry) = self.table.get_mut(&session) else { return };
        if entry.actor.take_if(|current| *current == actor).is_none() {
            return;
        }
        match &mut entry.stopping {
            Some(stopping) if polite => {
                stopping.ended = true;
                self.close_when_reported(&session);
            }
            Some(stopping) => {
                let meant = stopping.submission.is_some();
                let recover = if meant { Recover::Close(stopping.reason) } else { Recover::Continue };
                entry.stopping = None;
                self.reopen(&session, recover);
            }
            None => self.crashed(&session),
        }
    }

    fn crashed(&mut self, session: &SessionId) {
        let Some(entry) = self.table.get_mut(session) else { return };
        entry.crashes += 1;
        match entry.crashes {
            ..=MOST_RESTARTS => {
                let recover = entry.closing.map_or(Recover::Continue, Recover::Close);
                self.reopen(session, recover);
            }
            crashes if crashes == MOST_RESTARTS + 1 => {
                self.saw("an actor died too often");
                self.reopen(session, Recover::GiveUp);
            }
            _ => {
                // As its outcome says: what the journal has of the turn is not known here, and stays as it is.
                self.watch.unsaved.insert(session.clone());
                while let Some(pending) = self.table.get_mut(session).and_then(|entry| entry.pending.pop_front()) {
                    let error = AgentError::Internal("the session's actor crashed too often".into());
                    let outcome = TurnOutcome::failed(session.clone(), pending.submission.clone(), error);
                    self.answers(session, &pending, &Ok(Box::new(outcome)));
                }
                let Some(entry) = self.table.get_mut(session) else { return };
                (entry.recovered, entry.given_up) = (None, None);
                self.cancel_children(session, |child| child.ends_with_turn(None));
                self.remove_if_gone(session);
            }
        }
    }

    /// Restarts the actor and sends it all requests again. Without any, the next one starts it.
    pub(super) fn reopen(&mut self, session: &SessionId, recover: Recover) {
        self.reopens(session, recover);
        self.tell_given_up(session);
        self.remove_if_gone(session);
    }

    fn reopens(&mut self, session: &SessionId, recover: Recover) {
        let Some(entry) = self.table.get_mut(session) else { return };
        entry.recovered = None;
        if entry.pending.is_empty() {
            let is_followed = entry.is_followed;
            if !is_followed && entry.given_up.is_none() {
                entry.crashes = 0;
            }
            if !is_followed || entry.actor.is_some() {
                return;
            }
        }
        let Some(entry) = self.table.get_mut(session) else { return };
        entry.closing = match recover {
            Recover::Close(reason) => Some(reason),
            Recover::Continue | Recover::GiveUp => None,
        };
        entry.pending.iter_mut().for_each(|pending| pending.is_repeated = true);
        let requests: Vec<_> = entry.pending.iter().map(|pending| pending.request.clone()).collect();
        let cancelled = entry.pending.iter().filter(|pending| pending.cancelled);
        let cancelled: Vec<TurnId> = cancelled.map(|pending| pending.submission.clone()).collect();
        let turn_config = Arc::clone(&entry.turn_config);
        self.open(session);
        self.send(session, TurnMessage::Wake { turn_config, recover });
        for request in requests {
            self.send(session, request);
        }
        for submission in cancelled {
            self.send(session, TurnMessage::Withdrawn { submission });
        }
    }

    pub(super) fn remove_if_gone(&mut self, session: &SessionId) {
        let is_gone =
            |entry: &super::Entry| entry.actor.is_none() && entry.stopping.is_none() && entry.pending.is_empty();
        if self.table.get(session).is_some_and(is_gone) {
            self.table.remove(session);
        }
    }

    pub(super) fn reported_all(&mut self, session: &SessionId) {
        if let Some(stopping) = self.table.get_mut(session).and_then(|entry| entry.stopping.as_mut()) {
            stopping.reported_all = true;
            self.close_when_reported(session);
        }
    }

    fn close_when_reported(&mut self, session: &SessionId) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let Some(stopping) = entry.stopping.take_if(|stopping| stopping.ended && stopping.reported_all) else { return };
        let Leaving { reason, submission, .. } = stopping;
        if let Some(submission) = submission {
            let pending = entry.pending.iter().find(|pending| pending.submission == submission);
            let may_be_journaled = |pending: &Pending| pending.is_repeated || pending.parent().is_some();
            if pending.is_some_and(may_be_journaled) {
                return self.reopen(session, Recover::Close(reason));
            }
            let (finish_reason, guard_reason) = reason.finishes();
            let outcome = TurnOutcome::bare(session.clone(), submission.clone(), finish_reason, "not begun");
            self.settles(session, &submission, Ok(Box::new(TurnOutcome { guard_reason, ..outcome })));
        }
        self.reopen(session, Recover::Continue);
    }

    /// The program ends: part of the queued appends are stored; all pending replies are dropped.
    pub(super) fn program_ends(&mut self) {
        self.saw("the program ends");
        self.note(|| "the program ends".to_owned());
        for (lane, items) in self.lanes.take_all() {
            if !matches!(lane, Lane::Store(_)) {
                continue;
            }
            let done = self.dice.pick(items.len() + 1);
            for item in items.into_iter().take(done) {
                if let Item::Append { append, .. } = item {
                    drop(self.append(append, None));
                }
            }
        }
        self.actors.clear();
        self.table.clear();
        self.program_began();
        self.person_is_alone();
    }

    /// Something goes wrong, or a person acts.
    pub(super) fn disturb(&mut self) {
        let living: Vec<u64> = self.actors.keys().copied().collect();
        match self.dice.pick(8) {
            0 | 1 if self.plan.kills && !living.is_empty() => {
                let actor = living[self.dice.pick(living.len())];
                let is_stopping = self.lanes.has(&Lane::Stop(actor));
                self.saw(match (is_stopping, self.homes.get(&actor).is_some_and(|home| *home == Person::root())) {
                    (true, _) => "an actor dies while it stops",
                    (false, true) => "the actor of the root dies",
                    (false, false) => "the actor of a child dies",
                });
                self.note(|| format!("actor {actor} dies"));
                self.dies(actor, false);
            }
            2 if self.plan.ends_programs && self.dice.rarely(3) => self.program_ends(),
            3 if self.plan.cancels => {
                let sessions: Vec<SessionId> = self.table.keys().cloned().collect();
                // Half of them at the root.
                let at = if self.dice.rarely(2) { 0 } else { self.dice.pick(sessions.len()) };
                if let Some(session) = sessions.get(at).cloned() {
                    self.saw(if session == Person::root() { "the root is cancelled" } else { "a child is cancelled" });
                    self.note(|| format!("{session} is cancelled"));
                    self.cancel(&session, None);
                }
            }
            4 if self.plan.times_out => {
                let running = self.table.iter().filter(|(_, entry)| entry.running().is_some());
                let running: Vec<SessionId> = running.map(|(session, _)| session.clone()).collect();
                if !running.is_empty() {
                    let session = running[self.dice.pick(running.len())].clone();
                    self.saw("a turn runs out of time");
                    self.note(|| format!("{session} runs out of time"));
                    self.stop(&session, EndReason::TurnTimeout);
                }
            }
            5 if self.plan.rests => {
                let idle = self.table.iter().filter(|(_, entry)| entry.is_idle());
                let idle: Vec<SessionId> = idle.map(|(session, _)| session.clone()).collect();
                if !idle.is_empty() {
                    let session = idle[self.dice.pick(idle.len())].clone();
                    self.saw("an idle actor is stopped");
                    self.stop(&session, EndReason::Passivated);
                }
            }
            _ => self.person_acts(),
        }
    }
}
