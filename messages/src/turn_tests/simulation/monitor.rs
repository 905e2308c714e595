//! What must hold at each step, whatever happens. The monitor sees what is said to the
//! machine, what it asks for and what the store keeps, and believes nobody's own account.

use super::book::Runs;
use super::changes::Changes;
use super::decisions::{Decisions, comes_to};
use super::grammar::Grammar;
use super::reselects::Reselects;
use super::steering::Steers;
use crate::approvals::{Decision, Scope};
use crate::chat::Message;
use crate::condense::{CondenseRequest, Summary};
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, RequestId, ResumeToken, TurnId};
use crate::input::{ResumeReply, TurnInput};
use crate::llm::LlmRequest;
use crate::outcome::TurnOutcome;
use crate::session_state::Session;
use crate::store::Record;
use crate::tools::{ToolReturn, Verdict};
use crate::turn::state::State;
use crate::turn::tests::chance::Setup;
use crate::turn::tests::pairing::Pairing;
use crate::turn::tests::world::{Question, World, paired, session_id, side_effects};
use crate::turn::{Effect, Turn, TurnMessage};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was told about a submission.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// How often the journal had been read then: each owner of it tells once.
    pub(super) owner: u64,
    /// Whether it is in the journal for good, so that nobody may say another thing.
    pub(super) for_good: bool,
}

/// A call as somebody saw it who was asked about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) approval: ApprovalId,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// What a person said of a question.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) approval: ApprovalId,
    pub(super) allowed: bool,
    pub(super) scope: Option<Scope>,
    /// The call as they had seen it, if they had.
    pub(super) seen: Option<Seen>,
}

/// What happened between one machine's beginning and its end.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Submissions that were stored or said to begin: their clocks run.
    pub(super) running: BTreeSet<TurnId>,
    pub(super) paused: BTreeSet<TurnId>,
    pub(super) cancelled: BTreeSet<TurnId>,
    pub(super) allowed: BTreeSet<CallId>,
    pub(super) steered: Vec<(TurnId, String)>,
    /// The names of all that was said into turns and is taken.
    pub(super) taken: BTreeSet<RequestId>,
    /// How many of them there were when the last prompt was built.
    pub(super) prompted: usize,
    /// Whether a yes was remembered for ever, and a no.
    pub(super) remembered: BTreeSet<bool>,
    /// Whether the machine had not read its journal when it heard its last message.
    pub(super) is_unread: bool,
    /// Appends that followed a failed one without anything else having happened: those at once, and those after a pause.
    pub(super) insisted: u32,
    pub(super) waited: u32,
}

#[derive(Debug)]
pub(super) struct Monitor {
    /// The first thing that did not hold.
    pub(super) broken: Option<String>,
    pub(super) grammar: Grammar,
    /// The fold of what is stored.
    pub(super) shadow: Session,
    /// The same as a live session keeps it.
    pub(super) twin: Session,
    pub(super) pairing: Pairing,
    pub(super) compared: u64,
    pub(super) outcomes: Vec<Arc<TurnOutcome>>,
    pub(super) told: BTreeMap<TurnId, Told>,
    pub(super) asked: BTreeMap<TurnId, TurnInput>,
    pub(super) returned: BTreeMap<(u64, CallId), ToolReturn>,
    pub(super) effects_run: BTreeSet<CallId>,
    pub(super) decided: Vec<Said>,
    pub(super) resumes: BTreeMap<TurnId, (ResumeToken, ResumeReply)>,
    /// The last resumption answers a question about a call, and not one of the model.
    pub(super) resumes_approval: bool,
    pub(super) questions: BTreeMap<ResumeToken, String>,
    pub(super) shown: BTreeMap<ApprovalId, Seen>,
    pub(super) steers: Steers,
    pub(super) responses: BTreeSet<String>,
    /// Summaries that were written and may be taken, each once.
    pub(super) summaries: BTreeSet<String>,
    pub(super) last: Option<Arc<Record>>,
    pub(super) changes: Changes,
    pub(super) reselects: Reselects,
    pub(super) runs: Runs,
    pub(super) decisions: Decisions,
    pub(super) life: Life,
    /// How many owners the journal has had.
    pub(super) owners: u64,
    /// Whether the last outcome that was told is one of a session that works.
    pub(super) usable: bool,
    /// Kinds of things that were seen, for whoever wants to know that they happen.
    pub(super) seen: BTreeMap<String, usize>,
    /// Whether final answers must fit a schema, and whether there are skills.
    pub(super) structured: bool,
    pub(super) skilled: bool,
}

impl Monitor {
    /// For a machine that is set up so.
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            broken: None,
            grammar: Grammar::default(),
            shadow: Session::new(session_id()),
            twin: Session::fold_keeping(session_id(), setup.max_history, []),
            pairing: Pairing::default(),
            compared: 0,
            outcomes: Vec::new(),
            told: BTreeMap::new(),
            asked: BTreeMap::new(),
            returned: BTreeMap::new(),
            effects_run: BTreeSet::new(),
            decided: Vec::new(),
            resumes: BTreeMap::new(),
            resumes_approval: false,
            questions: BTreeMap::new(),
            shown: BTreeMap::new(),
            steers: Steers::default(),
            responses: BTreeSet::new(),
            summaries: BTreeSet::new(),
            last: None,
            changes: Changes::default(),
            reselects: Reselects::default(),
            runs: Runs::default(),
            decisions: Decisions::default(),
            life: Life::default(),
            owners: 0,
            usable: false,
            seen: BTreeMap::new(),
            structured: setup.schema,
            skilled: setup.skills,
        }
    }

    /// Notes the first thing that does not hold; the run ends there.
    pub(super) fn must(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds && self.broken.is_none() {
            self.broken = Some(why());
        }
    }

    /// A new machine.
    pub(super) fn new_life(&mut self) {
        self.owners += 1;
        self.life = Life::default();
    }

    /// Somebody is owed an outcome.
    pub(super) fn owes(&mut self, message: &TurnMessage) {
        match message {
            TurnMessage::Start { input, .. } => {
                self.asked.entry(input.turn.clone()).or_insert_with(|| (**input).clone());
            }
            TurnMessage::Resume { submission, token, reply, .. } => {
                self.resumes.insert(submission.clone(), (token.clone(), (**reply).clone()));
            }
            _ => {}
        }
    }

    /// A person decides about what they saw.
    pub(super) fn decides(&mut self, approval: &ApprovalId, decision: &Decision, seen: Option<Seen>) {
        let (allowed, scope) = comes_to(decision);
        self.decided.push(Said { approval: approval.clone(), allowed, scope, seen });
    }

    /// A person is shown a call.
    pub(super) fn shows(&mut self, shown: &Seen) {
        let before = self.shown.entry(shown.approval.clone()).or_insert_with(|| shown.clone()).clone();
        self.must(before == *shown, || format!("one name for two questions: {before:?} and {shown:?}"));
    }

    /// A tool returns.
    pub(super) fn returns(&mut self, epoch: u64, call: &CallId, returned: &ToolReturn) {
        if returned.output.waits_for.is_none() {
            self.returned.insert((epoch, call.clone()), returned.clone());
        }
    }

    /// The machine is about to be told this.
    pub(super) fn hears(&mut self, message: &TurnMessage, world: &World) {
        self.life.is_unread = world.turn.session().is_none();
        let turn = &world.turn;
        match message {
            TurnMessage::Saved { result: Err(_), .. } => {}
            _ => (self.life.insisted, self.life.waited) = (0, 0),
        }
        match message {
            TurnMessage::Checked { ticket, verdict: Some(Verdict::Allow { .. }) } => {
                if let Some(call) = checked(turn, *ticket) {
                    self.life.allowed.insert(call);
                }
            }
            // What was told an end is not stopped any more by whoever has not read it yet.
            TurnMessage::Withdrawn { submission } if !self.told.contains_key(submission) => {
                self.life.cancelled.insert(submission.clone());
            }
            // What this machine held before, it has lost.
            TurnMessage::Loaded { .. } => {
                self.owners += 1;
                self.life.allowed.clear();
                self.life.steered.clear();
                self.life.prompted = 0;
            }
            _ => {}
        }
    }

    /// It was told.
    pub(super) fn heard(&mut self, message: &TurnMessage, world: &World) {
        self.follows_steers(message, world);
        if let TurnMessage::Loaded { result: Ok(_), .. } = message {
            let version = world.turn.session().map(|session| session.version);
            let stored = world.stored.len() as u64;
            self.must(version.is_none_or(|version| version >= stored), || "less is loaded than is stored".into());
        }
        let Some(session) = world.turn.session() else { return };
        let ghost = session.waiting.iter().find(|input| self.told.get(&input.turn).is_some_and(|told| told.for_good));
        let ghost = ghost.map(|input| input.turn.clone());
        self.must(ghost.is_none(), || format!("{ghost:?} had its outcome and still waits"));
        let owns = world.turn.outbox.epoch == world.epoch;
        let stored = world.stored.len() as u64;
        if owns && session.version == stored && self.compared != stored {
            self.compared = stored;
            let same = *session == self.twin;
            self.must(same, || "the fold of the journal is not the live session".to_owned());
        }
    }

    pub(super) fn check_steered(&mut self, turn: &Turn) {
        let (Some((of, text)), Some(open)) = (self.life.steered.last(), turn.session().and_then(Session::running))
        else {
            return;
        };
        let session = turn.session().map_or(&[][..], |session| session.history.as_slice());
        let kept = session.iter().chain(&open.steered).any(|message| says(message, text));
        let lost = (*of == open.input.turn && !kept).then(|| text.clone());
        self.must(lost.is_none(), || format!("what was said into the turn is lost: {lost:?}"));
    }

    /// One effect is about to be performed.
    pub(super) fn sees(&mut self, effect: &Effect, world: &World) {
        match effect {
            Effect::Append { append, pause_ms, .. } => {
                self.remembers_before(append);
                let counts = if *pause_ms > 0 { &mut self.life.waited } else { &mut self.life.insisted };
                *counts += 1;
                let is_bounded = self.life.insisted < 8 && self.life.waited <= 4;
                let why = || "a store that fails is asked again although nothing has happened".to_owned();
                self.must(is_bounded, why);
            }
            Effect::Check { check, context, .. } => {
                self.limits_tools(context, world);
                self.is_told_what_stands(check, world);
                let quick = check.run && side_effects(&check.call.name);
                self.must(!quick, || format!("{} may run before its intent is durable", check.call.id));
            }
            Effect::Call { call, grant, .. } => {
                let judged = grant.seal.rsplit_once('#').map(|(judged, _)| judged.to_owned());
                let bound = grant.call == call.id && judged == Some(format!("{}{}", call.name, call.arguments));
                self.must(bound, || format!("{} runs with the permission of something else", call.id));
                self.dispatches(call, world);
            }
            Effect::Tell(TurnMessage::LlmInfer { .. }) => self.life.prompted = self.life.steered.len(),
            Effect::Remember(standing) => self.remembers(standing),
            Effect::Infer { request, .. } => self.infers(request, world),
            Effect::Condense { request, .. } => self.condenses(request, world),
            Effect::Release { epoch, .. } => {
                let (epoch, own) = (*epoch, world.turn.outbox.epoch);
                // An owner that has lost the session has let go of it in the same breath.
                self.must(epoch == own || own == 0, || format!("epoch {own} releases epoch {epoch}"));
            }
            _ => {}
        }
    }

    fn dispatches(&mut self, call: &crate::chat::ToolCall, world: &World) {
        let (id, own) = (&call.id, call.name.own_name());
        self.must(own != "deny" && own != "bad", || format!("{id} runs although it is not allowed"));
        let allowed = self.life.allowed.contains(id);
        self.must(allowed, || format!("{id} runs and was not judged, or was refused"));
        if own.starts_with("read") || own == "use_skill" {
            return;
        }
        let others = world.questions.iter().any(|question| matches!(question, Question::Call(..) | Question::Ran(..)));
        self.must(!others, || format!("{id} changes something and does not run alone"));
        let open = self.grammar.open.as_mut().and_then(|open| open.call(id).ok());
        let Some(kept) = open.filter(|open| open.intent.is_some()) else {
            return self.must(false, || format!("{id} runs before its intent is durable"));
        };
        let same = kept.arguments == *call.arguments && kept.name == call.name.as_str();
        let approved = kept.approval.as_ref().is_none_or(|(_, allowed)| *allowed == Some(true));
        self.must(same, || format!("{id} runs with other arguments than are journaled"));
        self.must(approved, || format!("{id} runs and a person did not allow it"));
        if side_effects(&call.name) {
            let first = self.effects_run.insert(id.clone());
            self.must(first, || format!("{id} runs a second time"));
        }
        self.saw(format!("ran {own}"));
    }

    /// Somebody writes a summary.
    pub(super) fn writes(&mut self, request: &CondenseRequest, result: &Result<Summary, AgentError>) {
        let Ok(summary) = result else { return };
        let text = summary.text.trim();
        if !text.is_empty() && text.len() <= request.max_bytes {
            self.summaries.insert(text.to_owned());
        }
    }

    fn condenses(&mut self, request: &CondenseRequest, world: &World) {
        if let Err(why) = paired(&request.messages) {
            self.must(false, || why);
        }
        self.may_ask(world);
        let own = self.asked.get(&request.turn).map(TurnInput::text);
        let own = own.filter(|own| request.messages.iter().any(|message| says(message, own)));
        self.must(own.is_none(), || format!("what the turn is about is condensed: {own:?}"));
        self.must(!request.messages.is_empty(), || "nothing is condensed".to_owned());
    }

    fn infers(&mut self, request: &LlmRequest, world: &World) {
        self.has_its_skills(request, world);
        self.infers_under(request);
        if let Err(why) = paired(&request.messages) {
            self.must(false, || why);
        }
        self.may_ask(world);
        // It began in the journal before anybody was asked for it, and has not ended there.
        let owns = world.turn.outbox.epoch == world.epoch;
        let is_open = self.grammar.open.as_ref().is_some_and(|open| open.turn == request.turn);
        self.must(is_open || !owns, || format!("the model is asked for {}, which is not open", request.turn));
        let summary = world.turn.session().and_then(|session| session.summary.clone());
        let told = summary.is_none_or(|summary| request.messages.iter().any(|message| says(message, &summary)));
        self.must(told, || "the model is not told the summary".to_owned());
        let asked = self.asked.get(&request.turn).map(TurnInput::text);
        // A short history may leave out what was said into the turn, and never what it is about.
        let whole = world.turn_config.max_history_messages > 4 && world.capabilities.context_tokens > 1_000;
        self.infers_behind(request, world, is_open && owns && whole);
        let steered = self.life.steered[..self.life.prompted]
            .iter()
            .filter(|(turn, _)| whole && *turn == request.turn)
            .map(|(_, text)| text.clone());
        for text in asked.into_iter().chain(steered).collect::<Vec<_>>() {
            let said = request.messages.iter().any(|message| says(message, &text));
            self.must(said, || format!("the model is not told {text:?}"));
        }
    }

    /// A model may be asked for this turn now.
    fn may_ask(&mut self, world: &World) {
        let Some(submission) = world.turn.submission() else {
            return self.must(false, || "the model is asked for nobody".to_owned());
        };
        let running = self.life.running.contains(&submission);
        self.must(running, || format!("{submission} runs and was neither stored now nor said to begin"));
        let paused = self.life.paused.contains(&submission);
        self.must(!paused, || format!("{submission} runs while its clock stands"));
        let cancelled = self.life.cancelled.contains(&submission);
        self.must(!cancelled, || format!("{submission} runs after it was cancelled"));
        let told = self.told.get(&submission).is_some_and(|told| told.for_good);
        self.must(!told, || format!("{submission} runs after its outcome was told"));
    }
}

/// The call whose judgement this ticket asks for.
fn checked(turn: &Turn, ticket: crate::ids::Ticket) -> Option<CallId> {
    let State::CallTool(calling) = &turn.state else { return None };
    let is = |slot: &crate::turn::state::Slot| matches!(slot, crate::turn::state::Slot::Checking { ticket: of, .. } if *of == ticket);
    let at = calling.slots.iter().position(is)?;
    turn.call_at(at).map(|call| call.id.clone())
}

pub(super) fn says(message: &Message, text: &str) -> bool {
    matches!(message, Message::User { parts } if parts.iter().any(|part| part.as_text().contains(text)))
}
