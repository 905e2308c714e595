//! The house around one machine: what happens next, and what became of it.

use super::defect::{Defect, Sabotage};
use super::dice::Dice;
use super::monitor::{Monitor, Seen};
use super::plan::{Fault, Plan};
use super::{Run, says};
use crate::ids::{ResumeToken, TurnId};
use crate::llm::{LlmAnswer, LlmError, LlmErrorKind};
use crate::session::Session;
use crate::sessions::TurnNews;
use crate::store::{Append, Record, StoreError};
use crate::turn::state::State;
use crate::turn::world::{Question, World, told};
use crate::turn::{Effect, Turn, TurnMessage};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One run: a machine in its world, the guest book, people, and the monitor.
#[derive(Debug)]
pub(super) struct House {
    pub(super) world: World,
    pub(super) plan: Plan,
    pub(super) monitor: Monitor,
    pub(super) sabotage: Sabotage,
    /// What happens next.
    pub(super) schedule: Dice,
    pub(super) people: Dice,
    model: Dice,
    tools: Dice,
    disk: Dice,
    paper: Dice,
    /// Who waits for an outcome, and what is sent again for them to a new machine.
    pub(super) owed: Vec<(TurnId, TurnMessage)>,
    /// Submissions nobody wants any more.
    pub(super) withdrawn: BTreeSet<TurnId>,
    /// What this machine was told already.
    pub(super) said: Vec<TurnMessage>,
    /// Appends of an owner that is gone, still on their way.
    pub(super) late: Vec<Append>,
    pub(super) inputs: u32,
    pub(super) steerings: u32,
    pub(super) tokens: Vec<ResumeToken>,
    /// What people were asked, for as long as they remember.
    pub(super) asked: Vec<Seen>,
    store_is_down: bool,
    heard: usize,
    messages: usize,
    log: Option<Vec<String>>,
    /// The actor dies at the message of this number, having performed so many effects.
    dies_at: Option<(usize, usize)>,
}

impl House {
    pub(super) fn new(seed: u64, defect: Option<Defect>, traced: bool) -> Self {
        let plan = Plan::of(seed);
        let mut world = World::new(plan.setup.brief());
        world.turn.watched(plan.watched);
        Self {
            world,
            monitor: Monitor::new(),
            sabotage: Sabotage::new(defect, Dice::new(seed, 8)),
            schedule: Dice::new(seed, 2),
            people: Dice::new(seed, 3),
            model: Dice::new(seed, 4),
            tools: Dice::new(seed, 5),
            disk: Dice::new(seed, 6),
            paper: Dice::new(seed, 7),
            owed: Vec::new(),
            withdrawn: BTreeSet::new(),
            said: Vec::new(),
            late: Vec::new(),
            inputs: 0,
            steerings: 0,
            tokens: Vec::new(),
            asked: Vec::new(),
            store_is_down: false,
            heard: 0,
            messages: 0,
            log: traced.then(|| vec![format!("{plan:?}")]),
            plan,
            dies_at: None,
        }
    }

    /// A run without faults but one: the actor dies at this message, in the middle of what
    /// it was told to do.
    pub(super) fn dying(seed: u64, message: usize, performed: usize) -> Self {
        let mut house = Self::new(seed, None, false);
        house.plan.spare();
        Self { dies_at: Some((message, performed)), ..house }
    }

    /// Everything the plan brings, then a good day until nothing is open.
    pub(super) fn run(mut self) -> Run {
        self.input();
        for _ in 0..self.plan.steps {
            if self.monitor.broken.is_some() {
                break;
            }
            let disturbed = self.schedule.rarely(self.plan.calmness);
            match self.plan.disturbances.len() {
                0 => self.answer_next(),
                several if disturbed => {
                    let fault = self.plan.disturbances[self.schedule.pick(several)];
                    self.disturb(fault);
                }
                _ => self.answer_next(),
            }
        }
        self.calm();
        let (broken, seen) = (self.monitor.broken, self.monitor.seen);
        Run { broken, log: self.log.unwrap_or_default(), messages: self.messages, seen }
    }

    fn disturb(&mut self, fault: Fault) {
        self.note(|| format!("-- {fault:?}"));
        match fault {
            Fault::StoreDown => self.store_is_down = !self.store_is_down,
            Fault::OtherOwner => self.world.epoch += 1,
            Fault::Repeats => self.say_again(),
            Fault::Foreign => {
                let message = says::foreign(&self.world.turn.state, &mut self.schedule);
                self.say_to_no_effect(message);
            }
            Fault::Crashes => self.crash(),
            Fault::CutShort => self.crash_in_the_middle(),
            Fault::ProgramDies => self.program_dies(),
            Fault::Cancels => self.stop(crate::sessions::EndReason::Cancelled),
            Fault::Deadlines => self.stop(crate::sessions::EndReason::TurnTimeout),
            Fault::Passivates => self.stop(crate::sessions::EndReason::Passivated),
            Fault::Kills => self.kill(),
            Fault::Crowd => self.input(),
            Fault::Steers => self.steer(),
            Fault::Withdraws => self.withdraw(),
            Fault::People => self.person(),
            Fault::Malformed
            | Fault::ModelFails
            | Fault::ToolErrors
            | Fault::ToolDoubts
            | Fault::StoreFails
            | Fault::StoreDoubts
            | Fault::StartFails
            | Fault::Disorder
            | Fault::Names => {}
        }
    }

    /// A line of the log, made only when somebody reads it.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    pub(super) fn say(&mut self, message: TurnMessage) {
        self.say_and_perform(message, usize::MAX);
    }

    /// Says a message to a machine whose driver gets no further than so many effects.
    pub(super) fn say_and_perform(&mut self, message: TurnMessage, performed: usize) {
        let dies = self.dies_at.filter(|(at, _)| *at == self.messages);
        let performed = dies.map_or(performed, |(_, performed)| performed);
        for effect in self.apply(message).into_iter().take(performed) {
            self.perform(effect);
        }
        self.hear();
        if dies.is_some() {
            self.note(|| "-- dies".to_owned());
            self.monitor.saw("died".to_owned());
            self.dies_at = None;
            self.crash();
        }
    }

    /// Says a message; what it asks for is still to be done.
    pub(super) fn apply(&mut self, message: TurnMessage) -> Vec<Effect> {
        if self.monitor.broken.is_some() {
            return Vec::new();
        }
        self.world.now += 1;
        self.messages += 1;
        let now = self.world.now;
        self.note(|| format!("{now:>4} > {}", short(&message)));
        self.monitor.hears(&message, &self.world);
        let Some(said) = self.sabotage.message(message.clone(), &self.world.turn) else { return Vec::new() };
        let loaded = self.paper.rarely(24).then(|| written_and_read(&self.world.turn));
        let mut effects = self.world.turn.apply(now, said.clone());
        if let Some(mut loaded) = loaded {
            self.check_loaded(&mut loaded, said.clone(), &effects);
        }
        self.sabotage.effects(&mut effects, &said);
        self.monitor.heard(&message, &self.world);
        self.said.push(message);
        effects
    }

    /// Neither writing a machine down and reading it again nor who watches changes anything.
    fn check_loaded(&mut self, loaded: &mut Turn, said: TurnMessage, effects: &[Effect]) {
        let is_seen = |effect: &&Effect| matches!(effect, Effect::Emit(_));
        let now = self.world.now;
        loaded.watched(self.paper.rarely(2));
        let others = loaded.apply(now, said);
        loaded.watched(self.plan.watched);
        let same = others.iter().filter(|effect| !is_seen(effect)).eq(effects.iter().filter(|effect| !is_seen(effect)));
        let same = same && *loaded == self.world.turn;
        self.monitor.must(same, || "a machine that was written down and read again does something else".to_owned());
    }

    pub(super) fn perform(&mut self, effect: Effect) {
        self.note(|| format!("         {}", short(&effect)));
        self.monitor.sees(&effect, &self.world);
        self.remember_question(&effect);
        self.world.keep(effect);
    }

    /// The guest book reads the news.
    pub(super) fn hear(&mut self) {
        for at in self.heard..self.world.news.len() {
            let news = self.world.news[at].clone();
            self.monitor.news(&news);
            if let TurnNews::Finished { submission, .. } | TurnNews::Refused { submission, .. } = &news {
                self.owed.retain(|(owed, _)| owed != submission);
            }
            if let TurnNews::Finished { outcome, .. } = news {
                self.tokens.extend(outcome.token.clone());
            }
        }
        self.heard = self.world.news.len();
    }

    /// One of the questions that are open is answered; when none is, people go on.
    fn answer_next(&mut self) {
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
            let idle = self.open_approval().is_none() && (self.tokens.is_empty() || self.schedule.pick(2) == 0);
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
            // The room was started again while the call ran, or before it was judged.
            Question::Ran(ticket, _) | Question::Check(ticket, _) if doubts && self.tools.rarely(10) => {
                TurnMessage::Checked { ticket: *ticket, verdict: None }
            }
            Question::Call(_, call) | Question::Ran(_, call) => {
                let returned = says::returned(&self.plan, &mut self.tools, self.world.now);
                self.monitor.returns(self.world.turn.journal.epoch, &call.id, &returned);
                return question.returned(returned);
            }
            Question::Append(ticket, append, confirm) => {
                let result = self.append(append);
                return told(*ticket, result, *confirm);
            }
            Question::Claim(ticket) if fails && self.disk.rarely(12) => {
                TurnMessage::Loaded { ticket: *ticket, result: Err(StoreError::Unavailable("no disk".into())) }
            }
            Question::Profile(ticket) if fails && self.disk.rarely(12) => {
                let error = LlmError::new(LlmErrorKind::UnknownModel, "no such model");
                TurnMessage::Profiled { ticket: *ticket, result: Err(error) }
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
    fn say_again(&mut self) {
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
            TurnMessage::Start { .. } | TurnMessage::Resume { .. } | TurnMessage::Withdrawn { .. } => return,
            TurnMessage::Steered { .. } | TurnMessage::Wake { .. } | TurnMessage::Stopped { .. } => return,
            TurnMessage::BuildPrompt => matches!(state, State::BuildPrompt),
            TurnMessage::CallTool => matches!(state, State::CallTool(calling) if !calling.entered),
            TurnMessage::Done { .. } => matches!(state, State::Done(end) if end.version.is_none()),
            TurnMessage::LlmInfer { .. } => matches!(state, State::LlmInfer { asked: false, .. }),
            _ => false,
        };
        if !has_a_place {
            self.say_to_no_effect(message);
        }
    }

    fn say_to_no_effect(&mut self, message: TurnMessage) {
        let mut before = self.world.turn.clone();
        let effects = self.world.turn.apply(self.world.now, message.clone());
        before.now = self.world.turn.now;
        let nothing = effects.is_empty() && before == self.world.turn;
        self.monitor.must(nothing, || format!("out of place and yet something follows: {}", short(&message)));
    }

    /// Everything works from here on, until nothing is open; then the session is usable.
    fn calm(&mut self) {
        self.note(|| "-- a good day".to_owned());
        for dice in [&mut self.schedule, &mut self.people, &mut self.model, &mut self.tools, &mut self.disk] {
            dice.calm();
        }
        self.store_is_down = false;
        self.settle();
        // An owner that was replaced learns it with the first one, and reads again.
        for _ in 0..3 {
            self.input();
            self.settle();
        }
        let (world, monitor) = (&self.world, &mut self.monitor);
        let idle = world.turn.is_idle() && world.questions.is_empty();
        monitor.must(idle, || format!("it waits for nothing that comes: {:?}", world.turn.state));
        monitor.must(monitor.usable || monitor.broken.is_some(), || "the session is not usable".to_owned());
        let owed: Vec<_> = self.owed.iter().map(|(owed, _)| owed).collect();
        monitor.must(owed.is_empty(), || format!("nobody answered {owed:?}"));
        let waits = monitor.shadow.waiting.front().map(|input| input.turn.clone());
        let waits = waits.or_else(|| monitor.shadow.running().map(|open| open.input.turn.clone()));
        monitor.must(waits.is_none(), || format!("{waits:?} is in the journal and never ends"));
    }

    fn settle(&mut self) {
        for _ in 0..2_000 {
            if self.monitor.broken.is_some() {
                return;
            }
            if !self.world.questions.is_empty() {
                self.answer_one(0, usize::MAX);
            } else if self.open_approval().is_some() {
                self.person();
            } else {
                return;
            }
        }
        self.monitor.must(false, || "it goes on for ever".to_owned());
    }
}

/// A machine that was written down and read again.
fn written_and_read(turn: &Turn) -> Turn {
    let text = serde_json::to_string(turn).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A value in one line of bounded length.
fn short(value: &impl std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    text.truncate(text.floor_char_boundary(400));
    text
}

/// The session as the machine has it.
pub(super) fn running(turn: &Turn) -> Option<&crate::session::OpenTurn> {
    turn.session().and_then(Session::running)
}
