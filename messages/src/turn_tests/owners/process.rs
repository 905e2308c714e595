//! One process: its machine, what it was told to do and has not done, and what it waits to hear.

use super::{Defect, LEASE, Owners};
use crate::approvals::Decision;
use crate::chat::Message;
use crate::llm::{LlmAnswer, LlmRequest};
use crate::store::{Claim, Fact, StoreError};
use crate::submission::TurnNews;
use crate::tools::{ToolOutput, ToolReturn};
use crate::turn::state::State;
use crate::turn::tests::world::{Question, World, answer, side_effects, store, told};
use crate::turn::{Effect, TurnMessage};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) world: World,
    pub(super) clock: i64,
    /// What the machine asked for and its driver has not begun.
    undone: VecDeque<Effect>,
    /// Messages on their way to the machine.
    coming: VecDeque<TurnMessage>,
    /// Until when the session is this process's own.
    held: Option<i64>,
    /// When the renewal was sent that is not answered yet; whether the session was still its own when it arrived.
    renewing: Option<(i64, Option<bool>)>,
    /// When it renewed last.
    renewed: i64,
    /// The epoch of its claim.
    epoch: u64,
    /// Whether it was told that another process has the session.
    fenced: bool,
    /// How many side effects it did not start because its lease was over.
    pub(super) refused: usize,
}

impl Process {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            clock: 0,
            undone: VecDeque::new(),
            coming: VecDeque::new(),
            held: None,
            renewing: None,
            renewed: 0,
            epoch: 0,
            fenced: false,
            refused: 0,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.world.turn.is_idle()
            || !self.world.questions.is_empty()
            || !self.undone.is_empty()
            || !self.coming.is_empty()
    }
}

fn away() -> StoreError {
    StoreError::Away("no answer".into())
}

impl Owners {
    /// A process without work takes the session, if it is free and something is open.
    pub(super) fn claim(&mut self, at: usize) {
        if self.database.is_away || !self.database.is_free() || self.database.is_done(&self.requests) {
            return;
        }
        if self.defect != Some(Defect::EpochNotRaised) || self.database.epoch == 0 {
            self.database.epoch += 1;
        }
        let epoch = self.database.epoch;
        let is_new = self.database.given.insert(epoch);
        self.must(is_new, || format!("epoch {epoch} is given twice"));
        let process = &mut self.processes[at];
        process.world.crash();
        process.fenced = false;
        (process.epoch, process.held) = (self.database.epoch, Some(process.clock + LEASE));
        (self.database.owner, self.database.renewed[at]) = (Some(at), self.database.now);
        (process.renewed, process.renewing) = (process.clock, None);
        let open = self.database.open();
        let new = self.requests.iter().filter(|request| self.database.inputs(&request.turn) == 0);
        let starts: Vec<_> = open.into_iter().chain(new.cloned()).collect();
        for input in starts {
            let turn_config = Arc::clone(&self.processes[at].world.turn_config);
            self.processes[at].coming.push_back(TurnMessage::Start { input, turn_config });
        }
    }

    /// The lease is renewed after a third of it: sent, answered and heard are three moments.
    pub(super) fn renew(&mut self, at: usize) {
        let process = &mut self.processes[at];
        match process.renewing {
            None if process.clock - process.renewed >= LEASE / 3 => {
                (process.renewing, process.renewed) = (Some((process.clock, None)), process.clock);
            }
            None | Some((_, None)) => {}
            Some((sent, Some(is_own))) => {
                let from = if self.defect == Some(Defect::LeaseFromAnswer) { process.clock } else { sent };
                process.held = is_own.then_some(from + LEASE);
                process.renewing = None;
            }
        }
    }

    /// The database gets what this process has sent, whether or not the process stands still: first its renewal, then the
    /// first append. The answer of an append may be lost. While the database is away it gets nothing, and an append is told not to
    /// be stored; where the connection broke, that is in doubt.
    pub(super) fn arrive(&mut self, at: usize, loses: bool) {
        let process = &mut self.processes[at];
        if let Some((_, heard @ None)) = &mut process.renewing
            && !self.database.is_away
        {
            self.database.renewed[at] = self.database.now;
            *heard = Some(self.database.owner == Some(at) && self.database.epoch == process.epoch);
        }
        let asks = |question: &Question| matches!(question, Question::Append(..));
        let Some(first) = process.world.questions.iter().position(asks) else { return };
        let Question::Append(ticket, append, confirm) = process.world.questions.remove(first) else { return };
        self.database.missed += usize::from(self.database.is_away);
        let is_taken_for_done = match self.database.is_away {
            true => self.defect == Some(Defect::AwayIsDone),
            false => loses && self.defect == Some(Defect::DoubtIsDone),
        };
        let result = if is_taken_for_done {
            Ok(append.expected_version + append.records.len() as u64)
        } else if self.database.is_away {
            Err(if loses { StoreError::InDoubt("the connection broke".into()) } else { away() })
        } else {
            let ignored = self.defect == Some(Defect::EpochIgnored);
            let epoch = if ignored { append.epoch } else { self.database.epoch };
            let result = store(&mut self.database.stored, epoch, &append);
            if loses { Err(StoreError::InDoubt("the answer was lost".into())) } else { result }
        };
        let process = &mut self.processes[at];
        process.coming.extend(told(ticket, result, confirm));
        let (newest, judged) = (self.database.epoch, std::mem::take(&mut self.database.judged));
        let old = self.database.stored[judged..].iter().find(|record| record.epoch != newest).map(|old| old.id.clone());
        self.database.judged = self.database.stored.len();
        self.must(old.is_none(), || format!("{old:?} is stored under an epoch that is over"));
    }

    /// The process does one thing: what its machine asked for, what came for it, or an answer; which one, if there are several.
    pub(super) fn step(&mut self, at: usize, which: usize) {
        if let Some(effect) = self.processes[at].undone.pop_front() {
            return self.perform(at, effect);
        }
        if let Some(message) = self.processes[at].coming.pop_front() {
            return self.say(at, message);
        }
        let process = &mut self.processes[at];
        let questions = &process.world.questions;
        // What the turn says to itself comes first; appends are with the database.
        let own = questions.iter().position(|question| matches!(question, Question::Own(_)));
        let here = |at: &usize| !matches!(questions[*at], Question::Append(..));
        let choices: Vec<_> = own.map_or_else(|| (0..questions.len()).filter(here).collect(), |own| vec![own]);
        if choices.is_empty() {
            return self.decide(at);
        }
        let question = process.world.questions.remove(choices[which % choices.len()]);
        if let Some(message) = self.answer(at, question) {
            self.say(at, message);
        }
    }

    fn say(&mut self, at: usize, message: TurnMessage) {
        let process = &mut self.processes[at];
        // Of what was sent behind an append that failed, no answer is waited for: it is sent again.
        if let TurnMessage::Saved { ticket, result: Err(StoreError::Fenced { .. }) } = &message {
            process.fenced |= process.world.turn.outbox.awaits(*ticket);
        }
        process.world.now += 1;
        let now = process.world.now;
        process.undone.extend(process.world.turn.apply(now, message));
    }

    fn perform(&mut self, at: usize, effect: Effect) {
        let works = matches!(effect, Effect::Infer { .. } | Effect::Call { .. } | Effect::Check { .. });
        let fenced = self.processes[at].fenced;
        self.must(!(fenced && works), || format!("process {at} goes on without its session: {effect:?}"));
        match &effect {
            Effect::Release { .. } if self.database.is_away => {}
            Effect::Release { epoch, .. } if self.database.owner == Some(at) && self.database.epoch == *epoch => {
                self.database.owner = None;
            }
            Effect::Report(TurnNews::Finished { outcome, submission }) if outcome.saved => {
                let kept = self.database.outcomes(submission) == 1;
                self.must(kept, || format!("{submission} is told to be saved, and its outcome is not in the journal"));
            }
            _ => {}
        }
        self.processes[at].world.keep(effect);
    }

    /// A person at this process allows the call that is asked about.
    fn decide(&mut self, at: usize) {
        let turn = &self.processes[at].world.turn;
        if !matches!(turn.state, State::CallTool(_)) || turn.unrecovered {
            return;
        }
        let running = turn.session().and_then(|session| session.running());
        let calls = running.and_then(|open| open.step.as_ref()).map_or(&[][..], |step| &step.calls);
        let asked = calls.iter().filter(|open| open.result.is_none()).filter_map(|open| open.approval.as_ref());
        let Some(approval) = asked.filter(|asked| asked.allowed.is_none()).map(|asked| asked.id.clone()).next() else {
            return;
        };
        self.say(at, TurnMessage::Decided { approval, decision: Box::new(Decision::AllowOnce), asker: None });
    }

    fn answer(&mut self, at: usize, question: Question) -> Option<TurnMessage> {
        match &question {
            Question::Claim(ticket, _) => {
                let (epoch, records) = (self.processes[at].epoch, self.database.stored.clone());
                let result = if self.database.is_away {
                    Err(away())
                } else if epoch == self.database.epoch {
                    Ok(Claim { epoch, version: records.len() as u64, records })
                } else {
                    Err(StoreError::Fenced { epoch: self.database.epoch })
                };
                Some(TurnMessage::Loaded { ticket: *ticket, result })
            }
            Question::Infer(ticket, request) => {
                Some(TurnMessage::ParseAction { ticket: *ticket, result: Ok(Arc::new(model_says(request))) })
            }
            Question::Call(_, call) | Question::Ran(_, call) => {
                let output = ToolOutput::text("done");
                let returned = if !side_effects(&call.name) || self.begins(at, call) {
                    ToolReturn { status: crate::chat::CallStatus::Ok, output, duration_ms: 1 }
                } else {
                    ToolReturn::not_run("not run: the session may be another process's by now")
                };
                question.returned(returned)
            }
            question => self.processes[at].world.works(question),
        }
    }

    /// Whether a side effect begins: the lease is asked just before.
    fn begins(&mut self, at: usize, call: &crate::chat::ToolCall) -> bool {
        let process = &mut self.processes[at];
        let is_held = process.held.is_some_and(|until| process.clock < until);
        if !is_held && self.defect != Some(Defect::LeaseNotAsked) {
            process.refused += 1;
            return false;
        }
        let is_own = self.database.owner == Some(at) && self.database.epoch == process.epoch;
        let is_alike = self.alike;
        self.must(is_own || !is_alike, || format!("{} begins in a process without the session", call.id));
        self.must(is_held, || format!("{} begins past the lease", call.id));
        let intent = |fact: &Fact| matches!(fact, Fact::Intent { call: of, .. } if *of == call.id);
        let is_intended = self.database.stored.iter().any(|record| intent(&record.fact));
        self.must(is_intended, || format!("{} begins without an intent", call.id));
        let what = format!("{}{}", call.name, call.arguments);
        let before = self.database.began.insert(what.clone(), at);
        self.must(before.is_none(), || format!("{what} begins twice, in {before:?} and in {at}"));
        true
    }
}

/// What the model says is decided by how far the conversation is, whoever asks.
fn model_says(request: &LlmRequest) -> LlmAnswer {
    let from = request.messages.iter().rposition(|message| matches!(**message, Message::User { .. })).unwrap_or(0);
    let steps =
        request.messages[from..].iter().filter(|message| matches!(***message, Message::Assistant { .. })).count();
    let said = request.messages.iter().filter(|message| matches!(***message, Message::User { .. })).count();
    let call = |number: usize| format!(r#"{{"of":{said},"number":{number}}}"#);
    let [one, two, three, four] = [1, 2, 3, 4].map(call);
    match steps {
        0 => answer("", &[("local/write", &one)]),
        1 => answer("", &[("local/read", &one), ("local/write", &two), ("local/write", &three)]),
        2 => answer("", &[("local/ask", &four), ("local/idem", &one)]),
        _ => answer("All of it is done.", &[]),
    }
}
