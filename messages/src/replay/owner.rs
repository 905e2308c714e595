//! Infers how an owner of the session began: with an input, with a reply, or with an open turn of its predecessor.
//!
//! A predecessor ends by an orderly stop, by a crash of its actor, or by the end of its program; the records that
//! close the open turn tell which.

use super::cause::is_settled;
use super::driver::Driver;
use crate::error::AgentError;
use crate::ids::TurnId;
use crate::outcome::EndReason;
use crate::session_state::{OpenTurn, Session};
use crate::store::{Ended, Fact, Record};
use crate::turn::{PROGRAM_STOPPED, Recover, TurnMessage};
use crate::turn_config::OnRestart;
use std::sync::Arc;

/// Outcomes of turns whose actor, or whose program, died.
const TOO_OFTEN: &str = "the turn's actor crashed too often";
const PROGRAM_CRASHED: &str = "a crash of the program interrupted";

impl Driver<'_> {
    /// Returns the candidates for the messages that the owner received before it read the journal, most likely first.
    pub(super) fn beginnings(&self) -> Vec<Vec<TurnMessage>> {
        let mut ways = vec![self.beginning()];
        let session = self.next().map(|next| Session::fold(next.session.clone(), &self.journal[..self.done]));
        // Messages received before the journal was read are handled first.
        let arrivals = self.arrivals();
        for first in (1..=arrivals.len()).rev() {
            ways.push(self.beginning().into_iter().chain(arrivals[..first].iter().cloned()).collect());
        }
        ways.extend(self.told_of_ends(session.as_ref().and_then(Session::running)));
        if let Some(open) = session.as_ref().and_then(Session::running) {
            let wake = |recover| TurnMessage::Wake { turn_config: self.turn_config(OnRestart::Report), recover };
            let start = |on_restart| TurnMessage::Start {
                input: Arc::clone(&open.input),
                turn_config: self.turn_config(on_restart),
            };
            let closes = Recover::Close(EndReason::Cancelled);
            let late = Recover::Close(EndReason::TurnTimeout);
            let quiet = Recover::Close(EndReason::NoProgress);
            let others = [Recover::Continue, closes, late, quiet, Recover::GiveUp].map(wake).into_iter();
            for other in others.chain([start(OnRestart::Report)]) {
                ways.push(std::iter::once(other.clone()).chain(arrivals.iter().cloned()).collect());
                ways.push(vec![other]);
            }
        }
        ways
    }

    /// Ways of an owner that was told first what an earlier one had answered as ended: inputs that waited, or the open turn,
    /// which it closed although only a change of the options came.
    fn told_of_ends(&self, open: Option<&OpenTurn>) -> Vec<Vec<TurnMessage>> {
        let ended = |submission: &TurnId, reason| TurnMessage::Ended { submission: submission.clone(), reason };
        let first = self.ahead().take_while(|record| matches!(record.fact, Fact::Withdrawn));
        let withdrawn: Vec<_> =
            first.filter_map(|record| Some(ended(record.turn.as_ref()?, EndReason::Cancelled))).collect();
        let mut ways = Vec::new();
        if !withdrawn.is_empty() {
            let taken_up = || withdrawn.iter().cloned().chain(self.taken_up());
            ways.push(taken_up().collect());
            ways.push(taken_up().chain(self.arrivals()).collect());
        }
        let change = || self.ahead().find_map(|record| self.change(record));
        let reason = self.closing().and_then(|ended| EndReason::of(ended.finish_reason, ended.guard_reason));
        if let (Some(open), Some(reason), Some(change)) = (open, reason, change()) {
            let closed = [ended(&open.submission, reason), change];
            ways.push(withdrawn.into_iter().chain(closed).collect());
        }
        ways
    }

    /// Inputs and changes that may have arrived before the journal was read, up to the turn that begins.
    fn arrivals(&self) -> Vec<TurnMessage> {
        let before = self.ahead().take_while(|record| !matches!(record.fact, Fact::Started { .. })).skip(1);
        let arrived = before.filter_map(|record| match &record.fact {
            Fact::Input(input) => {
                Some(TurnMessage::Start { input: Arc::clone(input), turn_config: self.turn_config(OnRestart::Report) })
            }
            Fact::Configured { .. } => self.change(record),
            _another => None,
        });
        let first = self.next().filter(|next| matches!(next.fact, Fact::Configured { .. }));
        first.and_then(|next| self.change(next)).into_iter().chain(arrived).take(3).collect()
    }

    fn beginning(&self) -> Vec<TurnMessage> {
        let mut begins = self.taken_up();
        // An input that was withdrawn before the journal was read never begins.
        let first = self.next().filter(|next| matches!(next.fact, Fact::Withdrawn));
        begins.extend(first.and_then(|next| Some(TurnMessage::Withdrawn { submission: next.turn.clone()? })));
        begins
    }

    /// The messages by which what an earlier owner left is taken up.
    fn taken_up(&self) -> Vec<TurnMessage> {
        let Some(next) = self.next() else { return Vec::new() };
        let session = Session::fold(next.session.clone(), &self.journal[..self.done]);
        let wake = |recover| TurnMessage::Wake { turn_config: self.turn_config(OnRestart::Report), recover };
        match (session.running(), &next.fact) {
            (Some(open), _) => vec![self.recovery(open)],
            (None, Fact::Options(_) | Fact::Input(_)) => self.input().into_iter().collect(),
            (None, Fact::Resumed { submission, .. }) => {
                let waits = session.waiting.iter().any(|input| input.turn == *submission);
                let resumes = session.open.as_ref().and_then(|open| self.resume(&session, open));
                vec![resumes.filter(|_| !waits).unwrap_or_else(|| wake(Recover::Continue))]
            }
            (None, _) => vec![wake(Recover::Continue)],
        }
    }

    /// How the open turn of the previous owner was handled.
    fn recovery(&self, open: &OpenTurn) -> TurnMessage {
        let turn_config = self.turn_config(OnRestart::Report);
        let in_doubt = self.ahead().take_while(|record| is_settled(record)).any(|record| match &record.fact {
            Fact::Result(result) => result.output.plain() == PROGRAM_STOPPED,
            _another => false,
        });
        // An input may have come before the end was written.
        let ended = self.ahead().find_map(|record| match &record.fact {
            Fact::Outcome(ended) => Some(&**ended),
            _another => None,
        });
        let recover = match ended {
            Some(Ended { error: Some(AgentError::Internal(why)), .. }) if why.starts_with(TOO_OFTEN) => Recover::GiveUp,
            Some(Ended { error: Some(AgentError::Internal(why)), .. }) if why.starts_with(PROGRAM_CRASHED) => {
                // A repeated input is deduplicated and only causes the journal to be read.
                return TurnMessage::Start { input: Arc::clone(&open.input), turn_config };
            }
            Some(_) if !in_doubt => {
                match self.closing().and_then(|ended| EndReason::of(ended.finish_reason, ended.guard_reason)) {
                    Some(reason) => Recover::Close(reason),
                    None => Recover::Continue,
                }
            }
            // It was being closed when this owner died, too.
            None if !in_doubt
                && self.next().is_some_and(|next| matches!(next.fact, Fact::Result(_)) && is_settled(next)) =>
            {
                Recover::Close(EndReason::Cancelled)
            }
            Some(_) | None => Recover::Continue,
        };
        TurnMessage::Wake { turn_config, recover }
    }

    /// Returns the outcome if the open turn was closed immediately.
    fn closing(&self) -> Option<&Ended> {
        let comes_in = |record: &&Record| {
            is_settled(record)
                || matches!(record.fact, Fact::Options(_) | Fact::Input(_) | Fact::Configured { .. } | Fact::Withdrawn)
        };
        match &self.ahead().find(|record| !comes_in(record))?.fact {
            Fact::Outcome(ended) => Some(&**ended),
            _goes_on => None,
        }
    }
}
