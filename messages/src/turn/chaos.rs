//! A world in which everything happens in any order, and a guest book that watches
//! who was promised an answer. Every message is checked against what must always hold.

use super::chance::{Dice, Setup, foreign, reply, returned};
use super::state::State;
use super::world::{Question, World, input, side_effects, told};
use super::{Effect, Recover, ResumeReply, Turn, TurnMessage};
use crate::chat::ContentPart;
use crate::error::AgentError;
use crate::ids::{ApprovalId, RequestId, ResumeToken, TurnId};
use crate::llm::{LlmError, LlmErrorKind};
use crate::session::{Session, TurnInput};
use crate::sessions::{Decision, EndReason, TurnNews, TurnOutcome};
use crate::store::{Append, Fact, Record, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The promise a run looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Watch {
    ToldOnce,
    Paired,
    Guards,
    SavedAndLoaded,
    FoldIsLive,
    EffectsOnce,
    OutOfPlace,
    OneTurn,
}

/// What was told about a submission.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    /// By the machine that held the journal in this epoch.
    epoch: u64,
    /// Whether it is in the journal for good, so that nobody may say another thing.
    for_good: bool,
}

#[derive(Debug)]
pub(super) struct Chaos {
    pub(super) world: World,
    setup: Setup,
    watch: Watch,
    inputs: u32,
    /// Who waits for an outcome, and what is sent again for them to a new machine.
    owed: BTreeMap<TurnId, TurnMessage>,
    told: BTreeMap<TurnId, Told>,
    /// Submissions nobody wants any more.
    withdrawn: BTreeSet<TurnId>,
    pub(super) outcomes: Vec<TurnOutcome>,
    heard: usize,
    /// What this machine was told already.
    said: Vec<TurnMessage>,
    effects_run: BTreeSet<String>,
    tokens: Vec<ResumeToken>,
}

impl Chaos {
    fn new(setup: Setup, watch: Watch) -> Self {
        Self {
            world: World::new(setup.brief()),
            setup,
            watch,
            inputs: 0,
            owed: BTreeMap::new(),
            told: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            outcomes: Vec::new(),
            heard: 0,
            said: Vec::new(),
            effects_run: BTreeSet::new(),
            tokens: Vec::new(),
        }
    }

    /// A whole run: every decision, then a good day until nothing is open.
    pub(super) fn run(setup: Setup, decisions: &[u64], watch: Watch) -> Self {
        let mut chaos = Self::new(setup, watch);
        chaos.input(&mut Dice(0));
        for decision in decisions {
            chaos.decide(Dice(*decision));
        }
        chaos.calm();
        chaos
    }

    fn decide(&mut self, mut dice: Dice) {
        match dice.pick(41) {
            0..=29 => self.answer_any(&mut dice),
            30 | 31 => self.input(&mut dice),
            32 => self.say(TurnMessage::Steered { parts: vec![ContentPart::text("and this")] }),
            33 | 34 => self.say_again(&mut dice),
            35 | 36 => self.say_foreign(&mut dice),
            37 => self.crash(&mut dice),
            38 => self.stop(&mut dice),
            39 => self.withdraw(&mut dice),
            _ => self.person(&mut dice),
        }
    }

    fn say(&mut self, message: TurnMessage) {
        self.say_and_perform(message, usize::MAX);
    }

    /// Says a message to a machine whose driver gets no further than so many effects.
    fn say_and_perform(&mut self, message: TurnMessage, performed: usize) {
        let saved = (self.watch == Watch::SavedAndLoaded).then(|| load(&self.world.turn));
        self.world.now += 1;
        let effects = self.world.turn.apply(self.world.now, message.clone());
        if let Some(mut saved) = saved {
            assert_eq!(saved.apply(self.world.now, message.clone()), effects, "a loaded machine does the same");
            assert_eq!(saved, self.world.turn, "a loaded machine becomes the same");
        }
        self.said.push(message);
        for effect in effects.into_iter().take(performed) {
            self.check_dispatch(&effect);
            self.world.keep(effect);
        }
        self.check_session();
        self.hear();
    }

    fn check_dispatch(&mut self, effect: &Effect) {
        let Effect::Call { call, .. } = effect else { return };
        if self.watch == Watch::EffectsOnce && side_effects(&call.name) {
            let intent = |record: &Arc<Record>| matches!(&record.fact, Fact::Intent { call: of, .. } if *of == call.id);
            assert!(self.world.stored.iter().any(intent), "{} runs before its intent is durable", call.id);
            assert!(self.effects_run.insert(call.id.to_string()), "{} runs a second time", call.id);
        }
    }

    fn check_session(&self) {
        let Some(session) = self.world.turn.session() else { return };
        let told_for_good = |turn| self.told.get(turn).is_some_and(|told| told.for_good);
        let ghost = session.waiting.iter().find(|input| told_for_good(&input.turn));
        assert!(ghost.is_none(), "an input that had its outcome still waits");
        match (self.watch, &session.open) {
            (Watch::Paired, _) => super::world::assert_paired(&session.history),
            (Watch::Guards, Some(open)) => {
                let (spent, limits) = (&open.spent, &open.input.limits);
                assert!(spent.steps <= limits.max_steps, "steps");
                assert!(spent.tool_calls <= limits.max_tool_calls, "tool calls");
                assert!(spent.identical_calls <= limits.max_identical_calls, "identical calls");
                assert!(spent.consecutive_errors <= limits.max_consecutive_errors, "errors in a row");
            }
            (Watch::FoldIsLive, _) => {
                let owns = self.world.turn.journal.epoch == self.world.epoch;
                if owns && session.version == self.world.stored.len() as u64 {
                    assert_eq!(self.world.folded(), *session, "the fold of the journal is the live session");
                }
            }
            _ => {}
        }
    }

    /// In the journal a turn begins when no other one is open, and ends once.
    fn check_journal(&self) {
        let mut open: Option<&TurnId> = None;
        for record in &self.world.stored {
            match &record.fact {
                Fact::Started { .. } => {
                    assert_eq!(open, None, "a turn begins inside another one");
                    open = record.turn.as_ref();
                }
                Fact::Outcome(ended) => {
                    assert_eq!(open, record.turn.as_ref(), "an outcome is the open turn's");
                    open = open.filter(|_| ended.suspended.is_some());
                }
                Fact::Answered(_) | Fact::Malformed { .. } | Fact::Intent { .. } | Fact::Result(_) => {
                    assert_eq!(open, record.turn.as_ref(), "a step is the open turn's");
                }
                Fact::Resumed { .. } | Fact::Steered { .. } => assert_eq!(open, record.turn.as_ref()),
                Fact::Options(_) | Fact::Input(_) | Fact::Withdrawn => {}
                Fact::ApprovalAsked { .. } | Fact::ApprovalDecided { .. } => {}
            }
        }
    }

    /// The guest book reads the news.
    fn hear(&mut self) {
        let news = self.world.news[self.heard..].to_vec();
        self.heard = self.world.news.len();
        for news in news {
            let (submission, for_good) = match news {
                TurnNews::Finished { submission, outcome } => {
                    let saved = outcome.saved;
                    self.tokens.extend(outcome.token.clone());
                    self.outcomes.push(*outcome);
                    (submission, saved)
                }
                TurnNews::Refused { submission, error } => (submission, !matches!(error, AgentError::Store(_))),
                TurnNews::Began { .. }
                | TurnNews::Accepted { .. }
                | TurnNews::Paused { .. }
                | TurnNews::Unpaused { .. }
                | TurnNews::Left => continue,
            };
            let told = Told { epoch: self.world.epoch, for_good };
            let before = self.told.insert(submission.clone(), told);
            if let Some(before) = before.filter(|_| self.watch == Watch::ToldOnce) {
                assert!(!before.for_good, "{submission} was told for good and is told again");
                assert!(before.epoch < told.epoch, "{submission} is told twice by one owner of the journal");
            }
            self.owed.remove(&submission);
        }
    }

    fn start(&mut self, input: TurnInput) {
        let input = Arc::new(input);
        let message = TurnMessage::Start { input: Arc::clone(&input), brief: Arc::clone(&self.world.brief) };
        self.owed.insert(input.turn.clone(), message.clone());
        self.say(message);
    }

    fn input(&mut self, dice: &mut Dice) {
        self.inputs += 1;
        let request_id = dice.rarely(4).then(|| RequestId::new(format!("r{}", dice.pick(3))));
        let approvals = self.setup.approvals;
        let said = input(self.inputs, &format!("message {}", self.inputs), self.setup.limits);
        let labels = request_id.iter().map(|name| ("of".to_owned(), format!("{name} in {}", said.turn))).collect();
        let said = TurnInput { labels, ..said };
        self.start(TurnInput { approvals, request_id, ..said });
    }

    /// Somebody no longer wants what they are owed: what waits for its turn never runs.
    fn withdraw(&mut self, dice: &mut Dice) {
        if self.owed.is_empty() {
            return;
        }
        let Some(submission) = self.owed.keys().nth(dice.pick(self.owed.len())).cloned() else { return };
        self.withdrawn.insert(submission.clone());
        self.say(TurnMessage::Withdrawn { submission });
    }

    /// A person decides, answers a question, or resumes.
    fn person(&mut self, dice: &mut Dice) {
        let decision = match dice.pick(4) {
            0 => Decision::AllowOnce,
            1 => Decision::Edit { arguments: serde_json::json!({"a": 7}) },
            2 => Decision::Deny { reason: "no".into() },
            _ => Decision::Edit { arguments: serde_json::Value::Null },
        };
        if let Some(approval) = self.open_approval() {
            return self.say(TurnMessage::Decided { approval, decision: Box::new(decision) });
        }
        let Some(token) = self.tokens.get(self.tokens.len().saturating_sub(1 + dice.pick(2))).cloned() else { return };
        let reply = if dice.rarely(3) { ResumeReply::Answer("blue".into()) } else { ResumeReply::Decision(decision) };
        self.resume(token, reply);
    }

    fn resume(&mut self, token: ResumeToken, reply: ResumeReply) {
        self.inputs += 1;
        let submission = TurnId::new(format!("t{}", self.inputs));
        let brief = Arc::clone(&self.world.brief);
        let message = TurnMessage::Resume { submission: submission.clone(), token, reply: Box::new(reply), brief };
        self.owed.insert(submission, message.clone());
        self.say(message);
    }

    /// A question to a person that waits inside the running turn.
    fn open_approval(&self) -> Option<ApprovalId> {
        let step = self.world.turn.session().and_then(Session::running)?.step.as_ref()?;
        let asked = |approval: &&crate::session::OpenApproval| approval.allowed.is_none();
        let open = step.calls.iter().filter(|open| open.result.is_none());
        open.filter_map(|open| open.approval.as_ref()).find(asked).map(|approval| approval.id.clone())
    }

    fn answer_any(&mut self, dice: &mut Dice) {
        if self.world.questions.is_empty() {
            return;
        }
        let at = dice.pick(self.world.questions.len());
        let question = self.world.questions.remove(at);
        if let Some(message) = self.answer(&question, dice) {
            self.say(message);
        }
    }

    fn answer(&mut self, question: &Question, dice: &mut Dice) -> Option<TurnMessage> {
        Some(match question {
            Question::Infer(ticket, request) => {
                TurnMessage::ParseAction { ticket: *ticket, result: reply(request, dice).map(Arc::new) }
            }
            // The room was started again while the call ran.
            Question::Ran(ticket, _) if dice.rarely(8) => TurnMessage::Checked { ticket: *ticket, verdict: None },
            Question::Call(..) | Question::Ran(..) => return question.returned(returned(dice)),
            Question::Append(ticket, append, confirm) => {
                let result = self.append(append, dice);
                return told(*ticket, result, *confirm);
            }
            Question::Claim(ticket) if dice.rarely(12) => {
                TurnMessage::Loaded { ticket: *ticket, result: Err(StoreError::Unavailable("no disk".into())) }
            }
            Question::Profile(ticket) if dice.rarely(12) => {
                let error = LlmError::new(LlmErrorKind::UnknownModel, "no such model");
                TurnMessage::Profiled { ticket: *ticket, result: Err(error) }
            }
            Question::Check(ticket, _) if dice.rarely(12) => TurnMessage::Checked { ticket: *ticket, verdict: None },
            // Most tools are quick: the result is the answer, without a note before it.
            Question::Check(ticket, check) if check.run && dice.rarely(2) => {
                let message = self.world.works(question);
                match self.world.questions.pop_if(|next| matches!(next, Question::Ran(running, _) if running == ticket))
                {
                    Some(call) => return call.returned(returned(dice)),
                    None => return message,
                }
            }
            question => return self.world.works(question),
        })
    }

    fn append(&mut self, append: &Append, dice: &mut Dice) -> Result<u64, StoreError> {
        for record in append.records.iter().filter(|_| self.watch == Watch::SavedAndLoaded) {
            let text = serde_json::to_string(record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), **record, "a record reads back as it was");
        }
        match dice.pick(12) {
            0..=8 => self.world.store(append),
            9 => Err(StoreError::Unavailable("the disk is full".into())),
            10 => self.world.store(append).and(Err(StoreError::InDoubt("the answer was lost".into()))),
            _ => {
                self.world.epoch += u64::from(dice.rarely(3));
                self.world.store(append)
            }
        }
    }

    /// What was said once is said again: late answers and doubled messages.
    fn say_again(&mut self, dice: &mut Dice) {
        if self.said.is_empty() {
            return;
        }
        let message = self.said[dice.pick(self.said.len())].clone();
        match &message {
            // Nobody sends again what was answered; new words are no repetition.
            TurnMessage::Start { input, .. } if self.owed.contains_key(&input.turn) => return self.say(message),
            TurnMessage::Resume { submission, .. } if self.owed.contains_key(submission) => return self.say(message),
            TurnMessage::Withdrawn { submission } if self.owed.contains_key(submission) => return self.say(message),
            TurnMessage::Start { .. } | TurnMessage::Resume { .. } | TurnMessage::Withdrawn { .. } => return,
            TurnMessage::Steered { .. } | TurnMessage::Wake { .. } => return,
            _ => {}
        }
        let own_place = match &message {
            TurnMessage::BuildPrompt => matches!(self.world.turn.state, State::BuildPrompt),
            TurnMessage::CallTool => matches!(&self.world.turn.state, State::CallTool(calling) if !calling.entered),
            TurnMessage::Done { .. } => matches!(&self.world.turn.state, State::Done(end) if end.version.is_none()),
            TurnMessage::LlmInfer { .. } => matches!(&self.world.turn.state, State::LlmInfer { asked: false, .. }),
            _ => false,
        };
        if !own_place {
            self.say_to_no_effect(message);
        }
    }

    fn say_foreign(&mut self, dice: &mut Dice) {
        let message = foreign(&self.world.turn.state, dice);
        self.say_to_no_effect(message);
    }

    fn say_to_no_effect(&mut self, message: TurnMessage) {
        let mut before = self.world.turn.clone();
        let effects = self.world.turn.apply(self.world.now, message.clone());
        before.now = self.world.turn.now;
        if self.watch == Watch::OutOfPlace {
            assert_eq!(effects, vec![], "out of place: {message:?}");
            assert_eq!(self.world.turn, before, "out of place: {message:?}");
        }
    }

    /// The actor is gone, perhaps in the middle of what it was told to do.
    fn crash(&mut self, dice: &mut Dice) {
        if dice.rarely(3) && !self.world.questions.is_empty() {
            let question = self.world.questions.remove(dice.pick(self.world.questions.len()));
            if let Some(message) = self.answer(&question, dice) {
                self.say_and_perform(message, dice.pick(3));
            }
        }
        self.new_machine(dice);
    }

    fn stop(&mut self, dice: &mut Dice) {
        let reasons = [EndReason::Cancelled, EndReason::TurnTimeout, EndReason::Shutdown, EndReason::Passivated];
        let reason = reasons[dice.pick(4)];
        let meant = if self.owed.is_empty() || dice.rarely(2) { None } else { Some(dice.pick(self.owed.len())) };
        let submission = meant.and_then(|at| self.owed.keys().nth(at).cloned());
        self.say(TurnMessage::Stopped { reason, submission });
        self.new_machine(dice);
    }

    /// What was on its way to the store arrives or does not; then a new machine is
    /// told what became of the old one, and everything that is owed is sent again.
    fn new_machine(&mut self, dice: &mut Dice) {
        for question in std::mem::take(&mut self.world.questions) {
            match question {
                // One that belongs to an owner before the last is refused here too.
                Question::Append(_, append, _) if !dice.rarely(2) => drop(self.world.store(&append)),
                _ => {}
            }
        }
        self.world.crash();
        self.said.clear();
        let recover = match dice.pick(6) {
            0..=2 => Some(Recover::Continue),
            3 => Some(Recover::Close(EndReason::Cancelled)),
            4 => Some(Recover::GiveUp),
            _ => None,
        };
        if let Some(recover) = recover {
            self.say(TurnMessage::Wake { brief: Arc::clone(&self.world.brief), recover });
        }
        for message in self.owed.values().cloned().collect::<Vec<_>>() {
            self.say(message);
        }
        let unwanted: Vec<_> = self.withdrawn.iter().filter(|id| self.owed.contains_key(*id)).cloned().collect();
        for submission in unwanted {
            self.say(TurnMessage::Withdrawn { submission });
        }
    }

    /// Everything works from here on, until nothing is open.
    fn calm(&mut self) {
        for _ in 0..3_000 {
            if !self.world.questions.is_empty() {
                let question = self.world.questions.remove(0);
                if let Some(message) = self.answer(&question, &mut Dice(0)) {
                    self.say(message);
                }
            } else if let Some(approval) = self.open_approval() {
                self.say(TurnMessage::Decided { approval, decision: Box::new(Decision::AllowOnce) });
            } else {
                break;
            }
        }
        if self.watch == Watch::OneTurn {
            self.check_journal();
        }
        assert!(self.world.questions.is_empty(), "it goes on for ever");
        assert!(self.world.turn.is_idle(), "it waits for nothing that comes: {:?}", self.world.turn.state);
        assert!(self.owed.is_empty(), "nobody answered {:?}", self.owed.keys());
    }
}

/// A machine that was written down and read again.
pub(super) fn load(turn: &Turn) -> Turn {
    let loaded: Turn = serde_json::from_str(&serde_json::to_string(turn).unwrap()).unwrap();
    assert_eq!(loaded, *turn, "saving and loading changes nothing");
    loaded
}
