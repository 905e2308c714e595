//! Drives the machine along a journal and compares each record that it writes.
//!
//! Questions of the machine stay pending until the journal shows their replies. Internal messages (messages to
//! itself, confirmations of appends, the tool list) are delivered when nothing else explains the next record, which
//! leaves room for messages from outside.

use super::cause::Cause;
use super::compare::{comparable, is_same};
use super::{Difference, Replayed, answer, first_difference};
use crate::chat::ToolCall;
use crate::ids::{ModelName, Ticket};
use crate::store::{Claim, Ended, Fact, Record};
use crate::turn::{Child, Effect, Recover, Turn, TurnMessage};
use crate::turn_config::OnRestart;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) struct Driver<'j> {
    pub(super) journal: &'j [Arc<Record>],
    /// How many records the machine wrote as they are in the journal.
    pub(super) done: usize,
    /// The current owner of the session.
    pub(super) owner: Option<Owner>,
    /// Where something from outside may have come later than was tried, newest last.
    choices: Vec<(usize, Choice)>,
}

/// An alternative at one position of the journal.
enum Choice {
    /// An internal message came first; holds the machine before the choice.
    Later(Box<Owner>),
    /// The owner began in one of these ways.
    Begins(Vec<Vec<TurnMessage>>),
}

/// How many alternatives are kept: a wrong choice shows within a few records.
const CHOICES: usize = 64;

/// How often another order is tried until the machine comes further than before.
const TRIES: usize = 256;

/// One owner of the session: its machine, from its claim to its end.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) turn: Turn,
    epoch: u64,
    /// Internal messages that are ready to be delivered.
    pub(super) internal: VecDeque<Internal>,
    /// Questions that wait for a reply from outside.
    pub(super) pending: Vec<Pending>,
    /// Set when the machine was stopped; it writes nothing further.
    stopped: bool,
}

/// A message that needs no input from outside.
#[derive(Clone)]
pub(super) enum Internal {
    Tell(TurnMessage),
    Load(Ticket),
    Saved(Ticket),
    Tools(Ticket),
    Profile(Ticket, ModelName),
    Layers(Ticket),
    Output(Ticket),
}

#[derive(Clone)]
pub(super) enum Pending {
    Infer(Ticket),
    Check(Ticket, Arc<ToolCall>),
    Call(Ticket, Arc<ToolCall>),
    /// How the child of a call has ended.
    Read(Ticket, Arc<ToolCall>),
}

type Step<T> = Result<T, Box<Difference>>;

impl<'j> Driver<'j> {
    pub(super) fn new(journal: &'j [Arc<Record>]) -> Self {
        Self { journal, done: 0, owner: None, choices: Vec::new() }
    }

    pub(super) fn run(mut self) -> Step<Replayed> {
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
                    // An alternative cannot fix this: the next record would fail as well.
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
        Ok(Replayed { records: self.journal.len(), outcomes, owners })
    }

    pub(super) fn next(&self) -> Option<&'j Arc<Record>> {
        self.journal.get(self.done)
    }

    /// The following records of the same owner.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &'j Record> + use<'j> {
        let epoch = self.next().map(|next| next.epoch);
        self.journal[self.done..].iter().map(|record| &**record).take_while(move |record| Some(record.epoch) == epoch)
    }

    fn begin(&mut self, epoch: u64, mut ways: Vec<Vec<TurnMessage>>) -> Step<()> {
        let begins = if ways.is_empty() { Vec::new() } else { ways.remove(0) };
        if !ways.is_empty() {
            self.choose(Choice::Begins(ways));
        }
        let session = self.journal[self.done].session.clone();
        let mut turn = Turn::new(session);
        turn.watched(false);
        self.owner = Some(Owner { turn, epoch, internal: VecDeque::new(), pending: Vec::new(), stopped: false });
        self.drain();
        begins.into_iter().try_for_each(|message| self.deliver(message))
    }

    /// Accepts the next record unchecked, because it depends on inputs that no journal holds (prompt sizes, available
    /// skills). The machine reloads from it.
    fn adopt(&mut self) -> Step<()> {
        let Some(epoch) = self.next().map(|next| next.epoch) else { return Ok(()) };
        self.done += 1;
        // Behind the last record there is nothing to check.
        if self.next().is_none() {
            return Ok(());
        }
        let wake = TurnMessage::Wake { turn_config: self.turn_config(OnRestart::Report), recover: Recover::Continue };
        self.begin(epoch, vec![vec![wake]])
    }

    fn choose(&mut self, choice: Choice) {
        self.choices.push((self.done, choice));
        let old = self.choices.len().saturating_sub(CHOICES);
        self.choices.drain(..old);
    }

    /// Delivers a message that makes the machine write the next record, or that leads there.
    fn explain(&mut self) -> Step<()> {
        if self.owner.as_ref().is_some_and(|owner| owner.stopped) {
            return Err(self.differs(None, "its machine was stopped before it"));
        }
        // What a sub-agent is given follows from the configuration.
        let is_given = |fact: &Fact| {
            let is_skills = matches!(fact, Fact::SkillsSelected(_) | Fact::SkillsReselected(_));
            let depends = is_skills || matches!(fact, Fact::Condensed(_) | Fact::Snapshot(_));
            depends || matches!(fact, Fact::Intent { task: Some(_), .. } | Fact::Waits { child: Some(_), .. })
        };
        if self.next().is_some_and(|next| is_given(&next.fact)) {
            return self.adopt();
        }
        let before = self.done;
        match self.cause() {
            Cause::Outside(messages) => {
                if let Some(owner) = self.owner.as_ref().filter(|owner| !owner.internal.is_empty()) {
                    self.choose(Choice::Later(Box::new(owner.clone())));
                }
                // A message that came too early has no or another effect; an internal message is delivered first.
                let kept = (self.owner.clone(), self.done);
                let mut missed = None;
                for message in messages {
                    match self.deliver(message) {
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

    /// Delivers the next internal message; returns whether there was one.
    fn pump(&mut self) -> Step<bool> {
        let internal = self.owner.as_mut().and_then(|owner| owner.internal.pop_front());
        let Some(internal) = internal else { return Ok(false) };
        let message = match internal {
            Internal::Tell(message) => message,
            Internal::Load(ticket) => {
                let records = self.journal[..self.done].to_vec();
                let epoch = self.owner.as_ref().map_or(0, |owner| owner.epoch);
                let claim = Claim { epoch, version: records.len() as u64, records };
                TurnMessage::Loaded { ticket, result: Ok(claim) }
            }
            Internal::Saved(ticket) => {
                let failed = self.next().and_then(|next| answer::not_stored(&next.fact));
                TurnMessage::Saved { ticket, result: failed.map_or(Ok(self.done as u64), Err) }
            }
            Internal::Tools(ticket) => {
                let tools = Arc::new(answer::tools(self.journal));
                TurnMessage::ToolsListed { ticket, tools, servers: Vec::new() }
            }
            Internal::Profile(ticket, model) => TurnMessage::Profiled { ticket, result: self.profile(model) },
            Internal::Layers(ticket) => TurnMessage::LayersRead { ticket, result: self.layers() },
            Internal::Output(ticket) => {
                let misfit = self.next().and_then(|next| answer::misfit(&next.fact));
                TurnMessage::OutputChecked { ticket, result: misfit.map_or(Ok(()), Err) }
            }
        };
        self.deliver(message).map(|()| true)
    }

    fn reply(&mut self) -> Step<()> {
        let Some(next) = self.next() else { return Ok(()) };
        let is_plain = self.is_plain();
        let answers =
            self.owner.as_ref().map(|owner| answer::to(&owner.pending, &next.fact, is_plain)).unwrap_or_default();
        if answers.is_empty() {
            return self.allow();
        }
        // A reply that could not be understood may be read back in more than one way.
        let kept = (self.owner.clone(), self.done);
        let mut first = None;
        for message in answers {
            (self.owner, self.done) = (kept.0.clone(), kept.1);
            if let Some(owner) = &mut self.owner {
                owner.pending.retain(|pending| message.answers() != Some(pending.ticket()));
            }
            match self.deliver(message) {
                Ok(()) => return Ok(()),
                Err(difference) => drop(first.get_or_insert(difference)),
            }
        }
        Err(first.unwrap_or_else(|| self.nothing()))
    }

    /// Allows a pending call whose verdict left no record, so that the calls behind it can proceed.
    fn allow(&mut self) -> Step<()> {
        let message = self.owner.as_ref().and_then(|owner| answer::allowed(&owner.pending, || self.ahead()));
        let Some(message) = message else { return Err(self.nothing()) };
        if let Some(owner) = &mut self.owner {
            owner.pending.retain(|pending| message.answers() != Some(pending.ticket()));
        }
        self.deliver(message)
    }

    /// Whether the machine has come to its turn's end since.
    fn is_ending(&self, before: &Option<Owner>) -> bool {
        let ends = |owner: &Option<Owner>| owner.as_ref().and_then(Owner::ends).cloned();
        ends(&self.owner).is_some_and(|end| ends(before) != Some(end))
    }

    /// Delivers one message, stores the machine's questions, and compares the records that it writes.
    fn deliver(&mut self, message: TurnMessage) -> Step<()> {
        let at = self.next().or(self.journal.last()).map_or(0, |record| record.at);
        let seen = self.ending().filter(|ended| ended.partial).map(|ended| ended.content.clone());
        let Some(owner) = &mut self.owner else { return Ok(()) };
        if let (Some(output), TurnMessage::Stopped { .. }, Some(Pending::Infer(ticket))) =
            (seen, &message, owner.pending.last())
        {
            let _nothing_follows = owner.turn.apply(at, TurnMessage::SaidSoFar { ticket: *ticket, output });
        }
        owner.stopped |= matches!(message, TurnMessage::Stopped { .. } | TurnMessage::Dismissed { .. });
        let mut written = Vec::new();
        for effect in owner.turn.apply(at, message) {
            match effect {
                Effect::Tell(message) => owner.internal.push_back(Internal::Tell(message)),
                Effect::Claim { ticket, .. } => owner.internal.push_back(Internal::Load(ticket)),
                Effect::Append { ticket, append, .. } => {
                    written.extend(append.records);
                    owner.internal.push_back(Internal::Saved(ticket));
                }
                Effect::ListTools { ticket, .. } => owner.internal.push_back(Internal::Tools(ticket)),
                Effect::Profile { ticket, model } => owner.internal.push_back(Internal::Profile(ticket, model)),
                Effect::Infer { ticket, .. } => owner.pending.push(Pending::Infer(ticket)),
                // What a lasting decision says about an open question is a decision in the journal.
                Effect::Check { check, .. } if is_asked(&owner.turn, &check.call) => {}
                Effect::Check { ticket, check, .. } => owner.pending.push(Pending::Check(ticket, check.call)),
                Effect::Call { ticket, call, .. } => owner.pending.push(Pending::Call(ticket, call)),
                Effect::Child { ticket, call, child } => owner.pending.push(match *child {
                    Child::Works { .. } | Child::Resumes { .. } => Pending::Call(ticket, call),
                    Child::Worked { .. } => Pending::Read(ticket, call),
                }),
                Effect::Abandon { ticket } => owner.pending.retain(|pending| pending.ticket() != ticket),
                Effect::AbandonAll => owner.pending.clear(),
                Effect::ReadLayers { ticket, .. } => owner.internal.push_back(Internal::Layers(ticket)),
                Effect::CheckOutput { ticket, .. } => owner.internal.push_back(Internal::Output(ticket)),
                // Not simulated; their results are read from the journal.
                Effect::ListSkills { .. } | Effect::Condense { .. } | Effect::Remember(_) => {}
                Effect::Release { .. } | Effect::GiveUp { .. } | Effect::Report(_) | Effect::Emit(_) => {}
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
            // Never stored: the owner or the journal ended before.
            None => Ok(()),
            Some(next) if next.epoch != written.epoch => Ok(()),
            Some(next) if is_same(next, written) => {
                self.done = known;
                self.drain_behind(next);
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
        let Some(owner) = &self.owner else { return self.differs(None, "no process owns the session") };
        let waits: Vec<String> = owner.pending.iter().map(Pending::shown).collect();
        match waits.as_slice() {
            [] => self.differs(None, "it waits for nothing that would lead there"),
            waits => self.differs(None, &format!("it waits for {}", waits.join(" and "))),
        }
    }
}

impl Owner {
    /// Returns how the turn ends, once the machine has decided so.
    pub(super) fn ends(&self) -> Option<&Ended> {
        self.internal.iter().find_map(|internal| match internal {
            Internal::Tell(TurnMessage::Done { ended }) => Some(&**ended),
            Internal::Tell(_)
            | Internal::Load(_)
            | Internal::Saved(_)
            | Internal::Tools(_)
            | Internal::Profile(..)
            | Internal::Layers(_)
            | Internal::Output(_) => None,
        })
    }
}

/// Whether a person is asked about this call and has not decided.
fn is_asked(turn: &Turn, call: &ToolCall) -> bool {
    let open = turn.session().and_then(|session| session.open.as_ref()).and_then(|open| open.step.as_ref());
    let calls = open.map_or(&[][..], |step| step.calls.as_slice());
    let asked = calls.iter().find(|open| open.call.id == call.id).and_then(|open| open.approval.as_ref());
    asked.is_some_and(|asked| asked.allowed.is_none())
}
