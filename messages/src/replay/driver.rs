//! The machine, what it waits for, and the comparison of what it writes.
//!
//! Whatever the machine asks of its rooms is kept until the journal tells what was answered. What has one answer only
//! (what it tells itself, that records are stored, which tools there are) is said when nothing else explains the next
//! record, so that whatever came from outside in between has its place.

use super::answer;
use super::cause::Cause;
use super::first_difference;
use super::same::{comparable, is_same};
use super::{Difference, Same};
use crate::brief::OnRestart;
use crate::chat::ToolCall;
use crate::ids::{ModelName, Ticket};
use crate::store::{Claim, Ended, Fact, Record};
use crate::turn::{Effect, Recover, Turn, TurnMessage};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;

/// A replay on its way.
pub(super) struct Driver<'j> {
    pub(super) journal: &'j [Arc<Record>],
    /// How many records the machine wrote as they are in the journal.
    pub(super) done: usize,
    /// Who writes at the moment.
    pub(super) owner: Option<Owner>,
    /// Where something from outside may have come later than was tried, newest last.
    choices: Vec<(usize, Choice)>,
}

/// What else may have happened at a place.
enum Choice {
    /// Something inside came first; the machine as it was.
    Later(Box<Owner>),
    /// The owner began in one of these ways.
    Begins(Vec<Vec<TurnMessage>>),
}

/// How many of these places are kept: what went differently shows within a few records.
const CHOICES: usize = 64;

/// How often another order is tried until the machine comes further than before.
const TRIES: usize = 256;

/// One owner of the session: its machine, from its claim to its end.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) turn: Turn,
    epoch: u64,
    /// What can be said with nothing from outside.
    pub(super) inner: VecDeque<Inner>,
    /// What somebody outside must answer.
    pub(super) asked: Vec<Asked>,
    /// It was stopped, and says nothing any more.
    stopped: bool,
}

/// What needs nobody outside.
#[derive(Clone)]
pub(super) enum Inner {
    Tell(TurnMessage),
    Load(Ticket),
    Saved(Ticket),
    Tools(Ticket),
    Profile(Ticket, ModelName),
    Layers(Ticket),
    Output(Ticket),
}

/// A question to a model or a tool.
#[derive(Clone)]
pub(super) enum Asked {
    Infer(Ticket),
    Check(Ticket, Arc<ToolCall>),
    Call(Ticket, Arc<ToolCall>),
}

type Step<T> = Result<T, Box<Difference>>;

impl<'j> Driver<'j> {
    pub(super) fn new(journal: &'j [Arc<Record>]) -> Self {
        Self { journal, done: 0, owner: None, choices: Vec::new() }
    }

    pub(super) fn run(mut self) -> Step<Same> {
        let mut furthest: Option<Box<Difference>> = None;
        let mut tries = 0;
        while let Some(next) = self.next() {
            let gone_on = match self.owner.as_ref().is_none_or(|owner| owner.epoch != next.epoch) {
                true => self.begin(next.epoch, self.beginnings()),
                false => self.explain(),
            };
            let Err(difference) = gone_on else { continue };
            if furthest.as_ref().is_none_or(|furthest| difference.record > furthest.record) {
                (furthest, tries) = (Some(difference), 0);
            }
            tries += 1;
            match (self.choices.pop(), furthest.take()) {
                (Some((done, choice)), difference) if tries < TRIES => {
                    (self.done, furthest) = (done, difference);
                    // What is wrong here is wrong at the next record as well.
                    let _another_way = match choice {
                        Choice::Later(owner) => {
                            self.owner = Some(*owner);
                            self.pump().map(drop)
                        }
                        Choice::Begins(ways) => self.begin(self.journal[done].epoch, ways),
                    };
                }
                (_, Some(difference)) => return Err(difference),
                (_, None) => {}
            }
        }
        let mut epochs: Vec<u64> = self.journal.iter().map(|record| record.epoch).collect();
        epochs.dedup();
        let owners = epochs.len();
        let outcomes = self.journal.iter().filter(|record| matches!(record.fact, Fact::Outcome(_))).count();
        Ok(Same { records: self.journal.len(), outcomes, owners })
    }

    /// The record that the machine is to write next.
    pub(super) fn next(&self) -> Option<&'j Arc<Record>> {
        self.journal.get(self.done)
    }

    /// The records from the next one on that the same owner wrote.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &'j Record> + use<'j> {
        let epoch = self.next().map(|next| next.epoch);
        self.journal[self.done..].iter().map(|record| &**record).take_while(move |record| Some(record.epoch) == epoch)
    }

    /// Somebody takes the session over.
    fn begin(&mut self, epoch: u64, mut ways: Vec<Vec<TurnMessage>>) -> Step<()> {
        let begins = if ways.is_empty() { Vec::new() } else { ways.remove(0) };
        if !ways.is_empty() {
            self.choose(Choice::Begins(ways));
        }
        let session = self.journal[self.done].session.clone();
        let mut turn = Turn::new(session);
        turn.watched(false);
        self.owner = Some(Owner { turn, epoch, inner: VecDeque::new(), asked: Vec::new(), stopped: false });
        begins.into_iter().try_for_each(|message| self.say(message))
    }

    /// Takes a record as it is that follows from what no journal holds, how long prompts were and which skills there
    /// were: a machine that reads it goes on from there.
    fn adopt(&mut self) -> Step<()> {
        let Some(epoch) = self.next().map(|next| next.epoch) else { return Ok(()) };
        self.done += 1;
        let wake = TurnMessage::Wake { brief: self.brief(OnRestart::Report), recover: Recover::Continue };
        self.begin(epoch, vec![vec![wake]])
    }

    fn choose(&mut self, choice: Choice) {
        self.choices.push((self.done, choice));
        let old = self.choices.len().saturating_sub(CHOICES);
        self.choices.drain(..old);
    }

    /// Says what makes the machine write the next record, or something on the way there.
    fn explain(&mut self) -> Step<()> {
        if self.owner.as_ref().is_some_and(|owner| owner.stopped) {
            return Err(self.differs(None, "its machine was stopped before it"));
        }
        if self
            .next()
            .is_some_and(|next| matches!(next.fact, Fact::Condensed(_) | Fact::SkillsSelected(_) | Fact::Snapshot(_)))
        {
            return self.adopt();
        }
        let before = self.done;
        match self.cause() {
            Cause::Outside(messages) => {
                if let Some(owner) = self.owner.as_ref().filter(|owner| !owner.inner.is_empty()) {
                    self.choose(Choice::Later(Box::new(owner.clone())));
                }
                // What came too early changes nothing, or something else: what it came behind is said first.
                let kept = (self.owner.clone(), self.done);
                let mut missed = None;
                for message in messages {
                    match self.say(message) {
                        Ok(()) if self.done > before || self.is_ending(&kept.0) => return Ok(()),
                        Ok(()) => {}
                        Err(difference) => missed = Some(difference),
                    }
                    (self.owner, self.done) = (kept.0.clone(), kept.1);
                }
                match self.pump()? {
                    true => Ok(()),
                    false => Err(missed.unwrap_or_else(|| self.nothing())),
                }
            }
            Cause::Inside => match self.pump()? {
                true => Ok(()),
                false => self.reply(),
            },
        }
    }

    /// Says the next of what needs nobody outside; whether there was something.
    fn pump(&mut self) -> Step<bool> {
        let inner = self.owner.as_mut().and_then(|owner| owner.inner.pop_front());
        let Some(inner) = inner else { return Ok(false) };
        let message = match inner {
            Inner::Tell(message) => message,
            Inner::Load(ticket) => {
                let records = self.journal[..self.done].to_vec();
                let epoch = self.owner.as_ref().map_or(0, |owner| owner.epoch);
                let claim = Claim { epoch, version: records.len() as u64, records };
                TurnMessage::Loaded { ticket, result: Ok(claim) }
            }
            Inner::Saved(ticket) => {
                let failed = self.next().and_then(|next| answer::not_stored(&next.fact));
                TurnMessage::Saved { ticket, result: failed.map_or(Ok(self.done as u64), Err) }
            }
            Inner::Tools(ticket) => {
                let tools = Arc::new(answer::tools(self.journal));
                TurnMessage::ToolsListed { ticket, tools, servers: Vec::new() }
            }
            Inner::Profile(ticket, model) => TurnMessage::Profiled { ticket, result: self.profile(model) },
            Inner::Layers(ticket) => TurnMessage::LayersRead { ticket, result: self.layers() },
            Inner::Output(ticket) => {
                let misfit = self.next().and_then(|next| answer::misfit(&next.fact));
                TurnMessage::OutputChecked { ticket, result: misfit.map_or(Ok(()), Err) }
            }
        };
        self.say(message).map(|()| true)
    }

    /// Answers the question that the next record is the answer to.
    fn reply(&mut self) -> Step<()> {
        let Some(next) = self.next() else { return Ok(()) };
        let is_plain = self.is_plain();
        let answers =
            self.owner.as_ref().map(|owner| answer::to(&owner.asked, &next.fact, is_plain)).unwrap_or_default();
        if answers.is_empty() {
            return self.allow();
        }
        // A reply that could not be understood may be read back in more than one way.
        let kept = (self.owner.clone(), self.done);
        let mut first = None;
        for message in answers {
            (self.owner, self.done) = (kept.0.clone(), kept.1);
            if let Some(owner) = &mut self.owner {
                owner.asked.retain(|asked| message.answers() != Some(asked.ticket()));
            }
            match self.say(message) {
                Ok(()) => return Ok(()),
                Err(difference) => drop(first.get_or_insert(difference)),
            }
        }
        Err(first.unwrap_or_else(|| self.nothing()))
    }

    /// Lets a call through whose verdict wrote nothing: until it was judged, others could not go on.
    fn allow(&mut self) -> Step<()> {
        let message = self.owner.as_ref().and_then(|owner| answer::let_through(&owner.asked, || self.ahead()));
        let Some(message) = message else { return Err(self.nothing()) };
        if let Some(owner) = &mut self.owner {
            owner.asked.retain(|asked| message.answers() != Some(asked.ticket()));
        }
        self.say(message)
    }

    /// Whether the machine has come to its turn's end since.
    fn is_ending(&self, before: &Option<Owner>) -> bool {
        let ends = |owner: &Option<Owner>| owner.as_ref().and_then(Owner::ends).cloned();
        ends(&self.owner).is_some_and(|end| ends(before) != Some(end))
    }

    /// Says one thing to the machine, keeps what it asks, and compares what it writes.
    fn say(&mut self, message: TurnMessage) -> Step<()> {
        let at = self.next().or(self.journal.last()).map_or(0, |record| record.at);
        let Some(owner) = &mut self.owner else { return Ok(()) };
        owner.stopped |= matches!(message, TurnMessage::Stopped { .. } | TurnMessage::Dismissed { .. });
        let mut written = Vec::new();
        for effect in owner.turn.apply(at, message) {
            match effect {
                Effect::Tell(message) => owner.inner.push_back(Inner::Tell(message)),
                Effect::Claim { ticket, .. } => owner.inner.push_back(Inner::Load(ticket)),
                Effect::Append { ticket, append, .. } => {
                    written.extend(append.records);
                    owner.inner.push_back(Inner::Saved(ticket));
                }
                Effect::ListTools { ticket, .. } => owner.inner.push_back(Inner::Tools(ticket)),
                Effect::Profile { ticket, model } => owner.inner.push_back(Inner::Profile(ticket, model)),
                Effect::Infer { ticket, .. } => owner.asked.push(Asked::Infer(ticket)),
                Effect::Check { ticket, check, .. } => owner.asked.push(Asked::Check(ticket, check.call)),
                Effect::Call { ticket, call, .. } => owner.asked.push(Asked::Call(ticket, call)),
                Effect::AbandonAll => owner.asked.clear(),
                Effect::ReadLayers { ticket, .. } => owner.inner.push_back(Inner::Layers(ticket)),
                Effect::CheckOutput { ticket, .. } => owner.inner.push_back(Inner::Output(ticket)),
                // Nobody is asked for these here: what came of them is taken from the journal.
                Effect::ListSkills { .. } | Effect::Condense { .. } | Effect::Remember(_) => {}
                Effect::Release { .. } | Effect::Report(_) | Effect::Emit(_) => {}
            }
        }
        written.extend(owner.turn.unsent().iter().cloned());
        written.into_iter().try_for_each(|record| self.compare(&record))
    }

    fn compare(&mut self, written: &Arc<Record>) -> Step<()> {
        let known = usize::try_from(written.version).unwrap_or(usize::MAX);
        if known != self.done + 1 {
            return Ok(());
        }
        match self.next() {
            // What the store never got: the owner, or the journal, ended before.
            None => Ok(()),
            Some(next) if next.epoch != written.epoch => Ok(()),
            Some(next) if is_same(next, written) => {
                self.done = known;
                Ok(())
            }
            Some(_) => Err(self.differs(Some(written), "")),
        }
    }

    /// The machine wrote something else, or nothing.
    fn differs(&self, written: Option<&Record>, why: &str) -> Box<Difference> {
        let json =
            |record: Option<&Record>| record.map_or(Value::Null, |record| comparable(record).unwrap_or_default());
        let expected = json(self.next().map(|next| &**next));
        let got = json(written);
        let sides = ["the journal has", "the machine writes"];
        let what = match written {
            Some(_) => first_difference(sides, "record", &expected, &got).unwrap_or_default(),
            None => format!("the machine does not write it, since {why}"),
        };
        Box::new(Difference { record: self.done as u64 + 1, expected, got, what })
    }

    fn nothing(&self) -> Box<Difference> {
        let Some(owner) = &self.owner else { return self.differs(None, "nobody owns the session") };
        let waits: Vec<String> = owner.asked.iter().map(Asked::shown).collect();
        match waits.as_slice() {
            [] => self.differs(None, "it waits for nothing that would lead there"),
            waits => self.differs(None, &format!("it waits for {}", waits.join(" and "))),
        }
    }
}

impl Owner {
    /// How the turn ends, once the machine has said so to itself.
    pub(super) fn ends(&self) -> Option<&Ended> {
        self.inner.iter().find_map(|inner| match inner {
            Inner::Tell(TurnMessage::Done { ended }) => Some(&**ended),
            Inner::Tell(_)
            | Inner::Load(_)
            | Inner::Saved(_)
            | Inner::Tools(_)
            | Inner::Profile(..)
            | Inner::Layers(_)
            | Inner::Output(_) => None,
        })
    }
}

impl Asked {
    fn ticket(&self) -> Ticket {
        match self {
            Self::Infer(ticket) | Self::Check(ticket, _) | Self::Call(ticket, _) => *ticket,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Infer(_) => "the model".to_owned(),
            Self::Check(_, call) => format!("the verdict on call {} of {}", call.id, call.name),
            Self::Call(_, call) => format!("the result of call {} of {}", call.id, call.name),
        }
    }
}
