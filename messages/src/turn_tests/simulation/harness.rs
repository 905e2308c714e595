//! The harness around one machine: what happens next, and what became of it.

use super::defect::Defect;
use super::dice::Dice;
use super::monitor::{Monitor, Seen};
use super::plan::{Fault, Plan};
use super::sabotage::Sabotage;
use super::{Run, says};
use crate::ids::{CallId, RequestId, ResumeToken, TurnId};
use crate::options::Configuring;
use crate::outcome::EndReason;
use crate::session_state::Session;
use crate::store::Append;
use crate::tools::Grant;
use crate::turn::tests::world::World;
use crate::turn::{Effect, Turn, TurnMessage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How a run is interrupted.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The actor dies when so many effects of the message are performed.
    Dies(usize),
    /// The program dies.
    ProgramDies,
    /// The actor is stopped.
    Stops(EndReason),
    /// Somebody cancels, cancels again, and cancels what nobody knows.
    CancelsTwice,
}

/// One run: a machine in its world, the guest book, people, and the monitor.
#[derive(Debug)]
pub(super) struct Harness {
    pub(super) world: World,
    pub(super) plan: Plan,
    pub(super) monitor: Monitor,
    pub(super) sabotage: Sabotage,
    /// What happens next.
    pub(super) schedule: Dice,
    pub(super) people: Dice,
    pub(super) model: Dice,
    pub(super) tools: Dice,
    pub(super) disk: Dice,
    pub(super) paper: Dice,
    pub(super) book: Dice,
    /// Who waits for an outcome, and what is sent again for them to a new machine.
    pub(super) owed: Vec<(TurnId, TurnMessage)>,
    /// What was told to have ended from outside and is not known to be stored: each new machine is told first.
    pub(super) ended: Vec<(TurnId, EndReason)>,
    /// Submissions nobody wants any more.
    pub(super) withdrawn: BTreeSet<TurnId>,
    /// What was handed in when it may have been in the journal already.
    pub(super) handed_again: BTreeSet<TurnId>,
    /// What this machine was told already.
    pub(super) said: Vec<TurnMessage>,
    /// Appends of an owner that is gone, still on their way.
    pub(super) late: Vec<Append>,
    pub(super) inputs: u32,
    pub(super) steerings: u32,
    pub(super) changes: u32,
    /// Changes of the options nobody was told of yet.
    pub(super) changing: Vec<Arc<Configuring>>,
    /// Readers who wait until what was written is on its way to the store: up to which version.
    pub(super) readers: VecDeque<u64>,
    /// What was said into turns and not answered yet; said again to a new machine.
    pub(super) steering: Vec<(RequestId, TurnMessage)>,
    pub(super) tokens: Vec<ResumeToken>,
    /// With which grants calls were sent to their tools.
    pub(super) grants: BTreeMap<CallId, Grant>,
    /// What people were asked, for as long as they remember.
    pub(super) asked: Vec<Seen>,
    pub(super) store_is_down: bool,
    /// How much of the news the book has read, and the monitor heard.
    pub(super) heard: usize,
    pub(super) listened: usize,
    /// For how many more messages the book reads nothing.
    pub(super) behind: usize,
    pub(super) messages: usize,
    pub(super) log: Option<Vec<String>>,
    /// What happens at the message of this number, besides all else.
    ends_at: Option<(usize, End)>,
}

impl Harness {
    pub(super) fn new(seed: u64, defect: Option<Defect>, traced: bool) -> Self {
        let plan = Plan::of(seed);
        let mut world = World::new(plan.setup.turn_config());
        world.turn.watched(plan.watched);
        world.capabilities.context_tokens = plan.context_tokens;
        Self {
            world,
            monitor: Monitor::new(&plan.setup),
            sabotage: Sabotage::new(defect, Dice::new(seed, 8)),
            schedule: Dice::new(seed, 2),
            people: Dice::new(seed, 3),
            model: Dice::new(seed, 4),
            tools: Dice::new(seed, 5),
            disk: Dice::new(seed, 6),
            paper: Dice::new(seed, 7),
            book: Dice::new(seed, 9),
            owed: Vec::new(),
            ended: Vec::new(),
            withdrawn: BTreeSet::new(),
            handed_again: BTreeSet::new(),
            said: Vec::new(),
            late: Vec::new(),
            inputs: 0,
            steerings: 0,
            changes: 0,
            changing: Vec::new(),
            readers: VecDeque::new(),
            steering: Vec::new(),
            tokens: Vec::new(),
            grants: BTreeMap::new(),
            asked: Vec::new(),
            store_is_down: false,
            heard: 0,
            listened: 0,
            behind: 0,
            messages: 0,
            log: traced.then(|| vec![format!("{plan:?}")]),
            plan,
            ends_at: None,
        }
    }

    /// A run without faults but one, at this message.
    pub(super) fn ending(seed: u64, message: usize, end: End) -> Self {
        let mut harness = Self::new(seed, None, false);
        harness.plan.spare();
        Self { ends_at: Some((message, end)), ..harness }
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
        let journal = self.world.stored;
        let (broken, seen) = (self.monitor.broken, self.monitor.seen);
        Run { broken, journal, log: self.log.unwrap_or_default(), messages: self.messages, seen }
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
            Fault::SupervisorDies => self.supervisor_dies(),
            Fault::Cancels => self.stop(EndReason::Cancelled),
            Fault::Deadlines if self.plan.asks_at_limits && self.schedule.rarely(2) => self.say(TurnMessage::Quiet),
            Fault::Deadlines => self.stop(EndReason::TurnTimeout),
            Fault::Passivates => self.stop(EndReason::Passivated),
            Fault::Kills => self.kill(),
            Fault::Crowd => self.input(),
            Fault::Steers => self.steer(),
            Fault::Withdraws => self.withdraw(),
            Fault::People => self.person(),
            Fault::Changes => self.configure(),
            Fault::Skills => self.skills_change(),
            Fault::Drift => self.drift(),
            Fault::Malformed
            | Fault::ModelFails
            | Fault::ToolErrors
            | Fault::ToolDoubts
            | Fault::StoreFails
            | Fault::StoreDoubts
            | Fault::StartFails
            | Fault::Disorder
            | Fault::Names
            | Fault::Behind
            | Fault::Summaries => {}
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
        let end = self.ends_at.take_if(|(at, _)| *at == self.messages).map(|(_, end)| end);
        let performed = if let Some(End::Dies(performed)) = end { performed } else { performed };
        for effect in self.apply(message).into_iter().take(performed) {
            self.perform(effect);
        }
        self.hear();
        if let Some(end) = end {
            self.note(|| format!("-- {end:?}"));
            self.monitor.saw("ended".to_owned());
            self.ends(end);
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
        self.sabotage.effects(&mut effects, &said, &self.world);
        self.monitor.heard(&message, &self.world);
        self.monitor.looks_ahead(&effects);
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
        if let Effect::Call { call, grant, .. } = &effect {
            self.grants.insert(call.id.clone(), grant.clone());
        }
        self.world.keep(effect);
    }

    /// Everything works from here on, until nothing is open; then the session is usable.
    fn calm(&mut self) {
        self.note(|| "-- a good day".to_owned());
        let all =
            [&mut self.schedule, &mut self.people, &mut self.model, &mut self.tools, &mut self.disk, &mut self.book];
        all.into_iter().for_each(Dice::calm);
        self.store_is_down = false;
        self.read();
        self.settle();
        // An owner that was replaced learns it with the first one, and reads again.
        for _ in 0..3 {
            self.input();
            self.settle();
            // Whoever comes after the program that died finds it alive.
            self.ends_at = None;
        }
        self.configure_again();
        self.settle();
        let untold: Vec<_> = self.changing.iter().map(|asked| asked.request_id.clone()).collect();
        self.monitor.must(untold.is_empty(), || format!("nobody is told of {untold:?}"));
        let (world, monitor) = (&self.world, &mut self.monitor);
        let idle = world.turn.is_idle() && world.questions.is_empty();
        monitor.must(idle, || format!("it waits for nothing that comes: {:?}", world.turn.state));
        monitor.must(monitor.usable || monitor.broken.is_some(), || "the session is not usable".to_owned());
        let owed: Vec<_> = self.owed.iter().map(|(owed, _)| owed).collect();
        monitor.must(owed.is_empty(), || format!("nobody answered {owed:?}"));
        monitor.must(self.readers.is_empty(), || "somebody who reads along waits for ever".to_owned());
        let unanswered: Vec<_> = self.steering.iter().map(|(request, _)| request).collect();
        monitor.must(unanswered.is_empty(), || format!("nobody said whether {unanswered:?} was taken"));
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
            } else if self.open_approval().is_some() || self.open_limit().is_some() {
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
pub(super) fn short(value: &impl std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    text.truncate(text.floor_char_boundary(400));
    text
}

/// The session as the machine has it.
pub(super) fn running(turn: &Turn) -> Option<&crate::session_state::OpenTurn> {
    turn.session().and_then(Session::running)
}
