//! The guest book: it reads what the machine tells when it comes to it, which may be several turns later, and says again
//! to a new machine what it believes to be owed.

use super::harness::Harness;
use super::monitor::Monitor;
use super::plan::Fault;
use crate::error::AgentError;
use crate::ids::{RequestId, TurnId};
use crate::outcome::EndReason;
use crate::store::{Fact, Record, StoreError};
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn_config::{OnRestart, TurnConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many messages the book may be behind.
const BEHIND: usize = 60;

/// What was promised to callers, and how often their inputs ran.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// What was refused, or told to have failed so that it may be sent again: it never runs.
    never: BTreeSet<TurnId>,
    /// How often what was said began to run, by its words, whatever names it had.
    begun: BTreeMap<String, u32>,
    /// The requests that began to run, by their callers' names.
    named: BTreeSet<RequestId>,
}

impl Harness {
    /// The machine has told something: the monitor hears it at once, and the book perhaps later.
    pub(super) fn hear(&mut self) {
        self.listen();
        if self.behind > 0 {
            self.behind -= 1;
            return;
        }
        if self.plan.has(Fault::Behind) && self.book.rarely(16) {
            self.behind = 1 + self.book.pick(BEHIND);
            return;
        }
        self.read();
    }

    fn listen(&mut self) {
        for at in self.listened..self.world.news.len() {
            let news = self.world.news[at].clone();
            self.monitor.news(&news);
        }
        self.listened = self.world.news.len();
    }

    /// The book reads all there is to read.
    pub(super) fn read(&mut self) {
        self.listen();
        self.behind = 0;
        for at in self.heard..self.world.news.len() {
            let news = self.world.news[at].clone();
            self.keep_end(&news);
            if let TurnNews::Finished { submission, .. } | TurnNews::Refused { submission, .. } = &news {
                let debts = self.owed.len();
                self.owed.retain(|(owed, _)| owed != submission);
                // Whoever hands in a second time says of a refusal that it may be kept all the same.
                let may_be_kept = self.handed_again.contains(submission) && matches!(news, TurnNews::Refused { .. });
                if self.owed.len() < debts && !may_be_kept {
                    self.monitor.is_paid(&news);
                }
            }
            if let TurnNews::Configured { request_id, result } = &news {
                self.told_of_change(request_id, result);
            }
            if matches!(news, TurnNews::Flushed) {
                self.read_along();
            }
            if let TurnNews::Steered { request_id, .. } = &news {
                self.steering.retain(|(known, _)| known != request_id);
            }
            if let TurnNews::Finished { outcome, .. } = news {
                self.tokens.extend(outcome.token.clone());
            }
        }
        self.heard = self.world.news.len();
    }

    /// What was told to have ended from outside is kept until it is stored.
    fn keep_end(&mut self, news: &TurnNews) {
        let (submission, reason) = match news {
            TurnNews::Finished { submission, outcome } if !outcome.saved => {
                (submission, EndReason::of(outcome.finish_reason, outcome.guard_reason))
            }
            TurnNews::Finished { submission, .. } | TurnNews::NotOpen { submission } => {
                return self.ended.retain(|(known, _)| known != submission);
            }
            _ => return,
        };
        if self.ended.iter().all(|(known, _)| known != submission) {
            self.ended.extend(reason.map(|reason| (submission.clone(), reason)));
        }
    }

    /// A new machine is told what ended before it: nothing of that goes on.
    pub(super) fn tell_ended(&mut self) {
        for (submission, reason) in self.ended.clone() {
            self.monitor.saw("told of an end".to_owned());
            self.monitor.life.cancelled.insert(submission.clone());
            self.say(TurnMessage::Ended { submission, reason });
        }
    }

    /// The sessions supervisor is gone, and with it what it had not read: callers who had no answer hand their inputs in
    /// again, and the turns of this process go on.
    pub(super) fn supervisor_dies(&mut self) {
        self.listen();
        let unread = self.world.news.len() - self.heard;
        self.monitor.saw(if unread > 0 { "lost unread" } else { "lost nothing" }.to_owned());
        (self.heard, self.behind) = (self.world.news.len(), 0);
        self.ended.clear();
        let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*self.world.turn_config).clone() });
        for (submission, message) in &mut self.owed {
            self.handed_again.insert(submission.clone());
            // Nobody heard what the machine has told of it.
            self.monitor.forgets(submission);
            match message {
                TurnMessage::Start { turn_config: of, .. } | TurnMessage::Resume { turn_config: of, .. } => {
                    *of = Arc::clone(&turn_config)
                }
                _ => {}
            }
        }
        self.steering.iter().for_each(|(request, _)| self.monitor.steers.forgets(request));
        self.new_machine(None);
    }
}

impl Monitor {
    /// A caller is answered: what they may send again never runs, now or later.
    fn is_paid(&mut self, news: &TurnNews) {
        let may_be_kept =
            |error: &AgentError| matches!(error, AgentError::Kept(_) | AgentError::Store(StoreError::InDoubt(_)));
        let submission = match news {
            TurnNews::Refused { submission, error } => {
                if may_be_kept(error) {
                    self.saw(format!("refused and {}", error.kind()));
                    return self.must(!error.is_retryable(), || format!("{submission} may be kept: {error:?}"));
                }
                submission
            }
            TurnNews::Finished { submission, outcome } if !outcome.saved && outcome.is_retryable() => submission,
            TurnNews::Finished { outcome, .. } => {
                if let Some(error) = outcome.error.as_ref().filter(|error| may_be_kept(error)) {
                    self.saw(format!("failed and {}", error.kind()));
                }
                return;
            }
            _ => return,
        };
        let waits = self.grammar.waiting.contains(submission);
        let runs = self.grammar.open.as_ref().is_some_and(|open| open.turn == *submission);
        self.must(!waits && !runs, || format!("{submission} may be sent again, and is in the journal: {news:?}"));
        self.runs.never.insert(submission.clone());
    }

    /// A record is stored: each input runs once, and none of which its caller was told that it does not.
    pub(super) fn counts_runs(&mut self, record: &Record) {
        let (submission, request) = match &record.fact {
            Fact::Input(input) => (Some(&input.turn), None),
            Fact::Started { .. } => {
                let input = record.turn.as_ref().and_then(|turn| self.grammar.inputs.get(turn));
                (record.turn.as_ref(), input.and_then(|input| input.request_id.clone()))
            }
            Fact::Resumed { submission, request_id, .. } => (Some(submission), request_id.clone()),
            _ => return,
        };
        let refused = submission.filter(|submission| self.runs.never.contains(submission));
        let refused = refused.cloned();
        self.must(refused.is_none(), || format!("{refused:?} was told that it may be sent again, and is taken"));
        if let Some(request) = request {
            let is_first = self.runs.named.insert(request.clone());
            self.must(is_first, || format!("the request {request} runs a second time"));
        }
        if let (Fact::Started { .. }, Some(turn)) = (&record.fact, &record.turn) {
            let Some(text) = self.grammar.inputs.get(turn).map(crate::input::TurnInput::text) else { return };
            let times = self.runs.begun.entry(text.clone()).or_default();
            *times += 1;
            let is_once = *times == 1;
            self.must(is_once, || format!("{text:?} runs a second time"));
        }
    }
}
