//! Who answers the machine: model, tools and store, each as the plan lets it, and those
//! who say what was said before or what nobody asked.

use super::harness::{Harness, short};
use super::plan::Fault;
use super::says;
use crate::error::AgentError;
use crate::ids::{ApprovalId, TurnId};
use crate::llm::{LlmAnswer, LlmError, LlmErrorKind};
use crate::store::{Append, Fact, Record, StoreError};
use crate::turn::TurnMessage;
use crate::turn::state::State;
use crate::turn::tests::world::{Question, told};
use std::sync::Arc;

impl Harness {
    /// One of the questions that are open is answered; when none is, people go on.
    pub(super) fn answer_next(&mut self) {
        let disorder = self.plan.has(Fault::Disorder);
        if disorder && !self.late.is_empty() && self.schedule.rarely(6) {
            let at = self.schedule.pick(self.late.len());
            let append = self.late.remove(at);
            self.note(|| "-- an append of an old owner arrives".to_owned());
            let _fenced_or_stored = self.sabotage.store(&append, &mut self.world);
            self.monitor.reads(&self.world.stored, self.world.epoch);
            return;
        }
        if self.world.questions.is_empty() {
            let asks = self.open_approval().is_some() || self.open_limit().is_some();
            let idle = !asks && (self.tokens.is_empty() || self.schedule.pick(2) == 0);
            return if idle { self.input() } else { self.person() };
        }
        // What the turn says to itself is heard before the answer to anything it asks later.
        let own = self.world.questions.iter().position(|question| matches!(question, Question::Own(_)));
        let choices = own.map_or(self.world.questions.len(), |own| own + 1);
        let at = if disorder { self.schedule.pick(choices) } else { 0 };
        self.answer_one(at, usize::MAX);
    }

    pub(super) fn answer_one(&mut self, at: usize, performed: usize) {
        let question = self.world.questions.remove(at);
        if let Some(message) = self.answer(&question) {
            self.say_and_perform(message, performed);
        }
    }

    fn answer(&mut self, question: &Question) -> Option<TurnMessage> {
        let (doubts, fails) = (self.plan.has(Fault::ToolDoubts), self.plan.has(Fault::StartFails));
        Some(match question {
            Question::Infer(ticket, request) => {
                let response_id = Some(format!("response {}", self.world.now));
                let result = says::reply(self.plan.moods(), request, &mut self.model);
                let result = result.map(|answer| Arc::new(LlmAnswer { response_id, ..answer }));
                TurnMessage::ParseAction { ticket: *ticket, result }
            }
            Question::Condense(ticket, request) => {
                let result = says::summary(&self.plan, request, &mut self.model, self.world.now);
                self.monitor.writes(request, &result);
                TurnMessage::Condensed { ticket: *ticket, result: result.map(Arc::new) }
            }
            // The room was started again while the call ran, or before it was judged.
            Question::Ran(ticket, _) | Question::Check(ticket, _) if doubts && self.tools.rarely(10) => {
                TurnMessage::Checked { ticket: *ticket, verdict: None }
            }
            Question::Call(_, call) | Question::Ran(_, call) => {
                let refused = match question {
                    Question::Call(..) => self.refused_at_the_door(call),
                    _ => None,
                };
                let returned = refused.unwrap_or_else(|| says::returned(&self.plan, &mut self.tools, self.world.now));
                self.monitor.returns(self.world.turn.outbox.epoch, &call.id, &returned);
                return question.returned(returned);
            }
            Question::Append(ticket, append, confirm) => {
                let result = self.append(append);
                return told(*ticket, result, *confirm);
            }
            Question::Claim(ticket, _) if fails && self.disk.rarely(12) => {
                TurnMessage::Loaded { ticket: *ticket, result: Err(StoreError::Unavailable("no disk".into())) }
            }
            Question::Profile(ticket) if fails && self.disk.rarely(12) => {
                let error = LlmError::new(LlmErrorKind::UnknownModel, "no such model");
                TurnMessage::Profiled { ticket: *ticket, result: Err(error) }
            }
            Question::Layers(ticket) if fails && self.disk.rarely(12) => {
                let error = AgentError::Invalid("prompt.files names \"SOUL.md\", and there is none".into());
                TurnMessage::LayersRead { ticket: *ticket, result: Err(error) }
            }
            // Most tools are quick: the result is the answer, without a note before it.
            Question::Check(ticket, check) if check.run && self.tools.pick(2) == 1 => {
                let message = self.world.works(question);
                let ran = |next: &mut Question| matches!(next, Question::Ran(running, _) if running == ticket);
                return match self.world.questions.pop_if(ran) {
                    Some(call) => self.answer(&call),
                    None => message,
                };
            }
            question => return self.world.works(question),
        })
    }

    pub(super) fn append(&mut self, append: &Append) -> Result<u64, StoreError> {
        let (fails, doubts) = (self.plan.has(Fault::StoreFails), self.plan.has(Fault::StoreDoubts));
        let full = || Err(StoreError::Unavailable("the disk is full".into()));
        let in_doubt = || Err(StoreError::InDoubt("the answer was lost".into()));
        if self.paper.rarely(16) {
            self.check_readable(append);
        }
        let result = match self.disk.pick(16) {
            _ if self.store_is_down => full(),
            13 if fails => full(),
            14 if doubts => in_doubt(),
            15 if doubts => self.sabotage.store(append, &mut self.world).and(in_doubt()),
            _ => self.sabotage.store(append, &mut self.world),
        };
        self.note(|| format!("         stored to {}: {}", append.expected_version, short(&result)));
        self.monitor.reads(&self.world.stored, self.world.epoch);
        result
    }

    fn check_readable(&mut self, append: &Append) {
        for record in &append.records {
            let text = serde_json::to_string(record).unwrap();
            let read = serde_json::from_str::<Record>(&text);
            let same = read.is_ok_and(|read| read == **record);
            self.monitor.must(same, || format!("a record does not read back as it was: {text}"));
        }
    }

    /// What was said once is said again: late answers and doubled messages.
    pub(super) fn say_again(&mut self) {
        // What was answered is not sent again to the same machine.
        self.read();
        if self.said.is_empty() {
            return;
        }
        let message = self.said[self.schedule.pick(self.said.len())].clone();
        let owed = |submission: &TurnId| self.owed.iter().any(|(owed, _)| owed == submission);
        let state = &self.world.turn.state;
        let has_a_place = match &message {
            // Nobody sends again what was answered; new words are no repetition.
            TurnMessage::Start { input, .. } if owed(&input.turn) => return self.say(message),
            TurnMessage::Resume { submission, .. } if owed(submission) => return self.say(message),
            TurnMessage::Withdrawn { submission } if owed(submission) => return self.say(message),
            // A change that is repeated is told again, and stored once; of an end it is told that it is not open any more.
            TurnMessage::Configure { .. } | TurnMessage::Ended { .. } => return self.say(message),
            TurnMessage::Start { .. } | TurnMessage::Resume { .. } | TurnMessage::Withdrawn { .. } => return,
            // A decision that was lost with the owner who heard it is asked for again, and its repetition answers.
            TurnMessage::Decided { approval, .. } if self.is_asked_anew(approval) => return self.say(message),
            TurnMessage::Steered { .. }
            | TurnMessage::Flush
            | TurnMessage::Wake { .. }
            | TurnMessage::Stopped { .. } => return,
            TurnMessage::BuildPrompt => matches!(state, State::BuildPrompt),
            TurnMessage::CallTool => matches!(state, State::CallTool(calling) if !calling.entered),
            TurnMessage::Done { .. } => matches!(state, State::Done(end) if end.version.is_none()),
            TurnMessage::LlmInfer { .. } => matches!(state, State::LlmInfer { asked: false, .. }),
            // Where the model or a tool is waited for, a turn may make no progress at any time.
            TurnMessage::Quiet => match state {
                State::LlmInfer { asked, .. } => *asked,
                State::Condense(_) => true,
                State::CallTool(calling) => calling.entered,
                _ => false,
            },
            _ => false,
        };
        if !has_a_place {
            self.say_to_no_effect(message);
        }
    }

    /// Whether the journal has this question open, and it was not answered since the journal was read.
    fn is_asked_anew(&self, approval: &ApprovalId) -> bool {
        let since = self.said.iter().rposition(|said| matches!(said, TurnMessage::Loaded { result: Ok(_), .. }));
        let heard = self
            .said
            .iter()
            .rposition(|said| matches!(said, TurnMessage::Decided { approval: decided, .. } if decided == approval));
        let facts = || self.world.stored.iter().map(|record| &record.fact);
        let is_asked =
            facts().any(|fact| matches!(fact, Fact::ApprovalAsked { approval: asked, .. } if asked == approval));
        let is_decided =
            facts().any(|fact| matches!(fact, Fact::ApprovalDecided { approval: decided, .. } if decided == approval));
        since > heard && is_asked && !is_decided
    }

    pub(super) fn say_to_no_effect(&mut self, message: TurnMessage) {
        let mut before = self.world.turn.clone();
        let effects = self.world.turn.apply(self.world.now, message.clone());
        before.now = self.world.turn.now;
        let nothing = effects.is_empty() && before == self.world.turn;
        self.monitor.must(nothing, || format!("out of place and yet something follows: {}", short(&message)));
    }
}
