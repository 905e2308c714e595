//! What must hold at each step, whatever happens. The monitor sees what is said to the
//! machine, what it asks for and what the store keeps, and believes nobody's own account.

use super::grammar::Grammar;
use crate::chat::{FinishReason, Message};
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ResumeToken, TurnId};
use crate::llm::LlmRequest;
use crate::session::{Session, TurnInput};
use crate::sessions::{Decision, TurnNews, TurnOutcome};
use crate::store::{Answered, Fact, Record};
use crate::tools::{ToolReturn, Verdict};
use crate::turn::approvals::understood;
use crate::turn::pairing::Pairing;
use crate::turn::state::State;
use crate::turn::world::{Question, World, paired, session_id, side_effects};
use crate::turn::{Effect, ResumeReply, Turn, TurnMessage};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was told about a submission.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// How often the journal had been read then: each owner of it tells once.
    owner: u64,
    /// Whether it is in the journal for good, so that nobody may say another thing.
    for_good: bool,
}

/// A call as somebody saw it who was asked about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) approval: ApprovalId,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// What happened between one machine's beginning and its end.
#[derive(Debug, Default)]
struct Life {
    /// Submissions that were accepted or began: their clocks run.
    running: BTreeSet<TurnId>,
    paused: BTreeSet<TurnId>,
    cancelled: BTreeSet<TurnId>,
    allowed: BTreeSet<CallId>,
    steered: Vec<(TurnId, String)>,
    /// How many of them there were when the last prompt was built.
    prompted: usize,
    /// Appends that followed a failed one without anything else having happened.
    insisted: u32,
}

#[derive(Debug)]
pub(super) struct Monitor {
    /// The first thing that did not hold.
    pub(super) broken: Option<String>,
    pub(super) grammar: Grammar,
    /// The fold of what is stored.
    pub(super) shadow: Session,
    pairing: Pairing,
    compared: u64,
    outcomes: Vec<Arc<TurnOutcome>>,
    told: BTreeMap<TurnId, Told>,
    asked: BTreeMap<TurnId, TurnInput>,
    returned: BTreeMap<(u64, CallId), ToolReturn>,
    effects_run: BTreeSet<CallId>,
    decided: Vec<(ApprovalId, bool, Option<Seen>)>,
    resumes: BTreeMap<TurnId, (ResumeToken, ResumeReply)>,
    questions: BTreeMap<ResumeToken, String>,
    responses: BTreeSet<String>,
    last: Option<Arc<Record>>,
    life: Life,
    /// How many owners the journal has had.
    owners: u64,
    /// Whether the last outcome that was told is one of a session that works.
    pub(super) usable: bool,
    /// Kinds of things that were seen, for whoever wants to know that they happen.
    pub(super) seen: BTreeMap<String, usize>,
}

impl Monitor {
    pub(super) fn new() -> Self {
        Self {
            broken: None,
            grammar: Grammar::default(),
            shadow: Session::new(session_id()),
            pairing: Pairing::default(),
            compared: 0,
            outcomes: Vec::new(),
            told: BTreeMap::new(),
            asked: BTreeMap::new(),
            returned: BTreeMap::new(),
            effects_run: BTreeSet::new(),
            decided: Vec::new(),
            resumes: BTreeMap::new(),
            questions: BTreeMap::new(),
            responses: BTreeSet::new(),
            last: None,
            life: Life::default(),
            owners: 0,
            usable: false,
            seen: BTreeMap::new(),
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
        let denies = matches!(understood(decision.clone()), Decision::Deny { .. } | Decision::DenyAlways { .. });
        self.decided.push((approval.clone(), !denies, seen));
    }

    /// A tool returns.
    pub(super) fn returns(&mut self, epoch: u64, call: &CallId, returned: &ToolReturn) {
        self.returned.insert((epoch, call.clone()), returned.clone());
    }

    /// The machine is about to be told this.
    pub(super) fn hears(&mut self, message: &TurnMessage, world: &World) {
        let turn = &world.turn;
        match message {
            TurnMessage::Saved { result: Err(_), .. } => {}
            _ => self.life.insisted = 0,
        }
        match message {
            TurnMessage::Checked { ticket, verdict: Some(Verdict::Allow { .. }) } => {
                if let Some(call) = checked(turn, *ticket) {
                    self.life.allowed.insert(call);
                }
            }
            TurnMessage::Withdrawn { submission } => {
                self.life.cancelled.insert(submission.clone());
            }
            // What this machine held before, it has lost.
            TurnMessage::Loaded { .. } => {
                self.owners += 1;
                self.life.allowed.clear();
                self.life.steered.clear();
                self.life.prompted = 0;
            }
            TurnMessage::Steered { parts } => {
                let runs = turn.session().and_then(Session::running).map(|open| open.input.turn.clone());
                let takes = !matches!(turn.state, State::Idle | State::Done(_));
                let text: Vec<_> = parts.iter().map(crate::chat::ContentPart::as_text).collect();
                self.life.steered.extend(runs.filter(|_| takes).map(|turn| (turn, text.join(""))));
            }
            _ => {}
        }
    }

    /// It was told.
    pub(super) fn heard(&mut self, message: &TurnMessage, world: &World) {
        match message {
            TurnMessage::Steered { .. } => self.check_steered(&world.turn),
            TurnMessage::Loaded { result: Ok(_), .. } => {
                let version = world.turn.session().map(|session| session.version);
                let stored = world.stored.len() as u64;
                self.must(version.is_none_or(|version| version >= stored), || "less is loaded than is stored".into());
            }
            _ => {}
        }
        let Some(session) = world.turn.session() else { return };
        let ghost = session.waiting.iter().find(|input| self.told.get(&input.turn).is_some_and(|told| told.for_good));
        let ghost = ghost.map(|input| input.turn.clone());
        self.must(ghost.is_none(), || format!("{ghost:?} had its outcome and still waits"));
        let owns = world.turn.journal.epoch == world.epoch;
        let stored = world.stored.len() as u64;
        if owns && session.version == stored && self.compared != stored {
            self.compared = stored;
            let same = *session == self.shadow;
            self.must(same, || "the fold of the journal is not the live session".to_owned());
        }
    }

    fn check_steered(&mut self, turn: &Turn) {
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
            Effect::Append { .. } => {
                self.life.insisted += 1;
                let insisted = self.life.insisted;
                self.must(insisted < 8, || {
                    "a store that fails is asked again although nothing has happened".to_owned()
                });
            }
            Effect::Check { check, .. } => {
                let quick = check.run && side_effects(&check.call.name);
                self.must(!quick, || format!("{} may run before its intent is durable", check.call.id));
            }
            Effect::Call { call, grant, .. } => {
                let bound = grant.call == call.id && grant.seal == format!("{}{}", call.name, call.arguments);
                self.must(bound, || format!("{} runs with the permission of something else", call.id));
                self.dispatches(call, world);
            }
            Effect::Tell(TurnMessage::LlmInfer { .. }) => self.life.prompted = self.life.steered.len(),
            Effect::Infer { request, .. } => self.infers(request, world),
            Effect::Release { epoch, .. } => {
                let (epoch, own) = (*epoch, world.turn.journal.epoch);
                self.must(epoch == own, || format!("epoch {own} releases epoch {epoch}"));
            }
            _ => {}
        }
    }

    fn dispatches(&mut self, call: &crate::chat::ToolCall, world: &World) {
        let (id, own) = (&call.id, call.name.own_name());
        self.must(own != "deny" && own != "bad", || format!("{id} runs although it is not allowed"));
        let allowed = self.life.allowed.contains(id);
        self.must(allowed, || format!("{id} runs and was not judged, or was refused"));
        if own.starts_with("read") {
            return;
        }
        let others = world.questions.iter().any(|question| matches!(question, Question::Call(..) | Question::Ran(..)));
        self.must(!others, || format!("{id} changes something and does not run alone"));
        let open = self.grammar.open.as_mut().and_then(|open| open.call(id).ok());
        let Some(kept) = open.filter(|open| open.intent.is_some()) else {
            return self.must(false, || format!("{id} runs before its intent is durable"));
        };
        let same = kept.arguments == call.arguments && kept.name == call.name.as_str();
        let approved = own != "ask" || kept.approval.as_ref().is_some_and(|(_, allowed)| *allowed == Some(true));
        self.must(same, || format!("{id} runs with other arguments than are journaled"));
        self.must(approved, || format!("{id} runs and no person allowed it"));
        if side_effects(&call.name) {
            let first = self.effects_run.insert(id.clone());
            self.must(first, || format!("{id} runs a second time"));
        }
        self.saw(format!("ran {own}"));
    }

    fn infers(&mut self, request: &LlmRequest, world: &World) {
        if let Err(why) = paired(&request.messages) {
            self.must(false, || why);
        }
        let Some(submission) = world.turn.submission() else {
            return self.must(false, || "the model is asked for nobody".to_owned());
        };
        let running = self.life.running.contains(&submission);
        self.must(running, || format!("{submission} runs and was neither accepted nor said to begin"));
        let paused = self.life.paused.contains(&submission);
        self.must(!paused, || format!("{submission} runs while its clock stands"));
        let cancelled = self.life.cancelled.contains(&submission);
        self.must(!cancelled, || format!("{submission} runs after it was cancelled"));
        let told = self.told.get(&submission).is_some_and(|told| told.for_good);
        self.must(!told, || format!("{submission} runs after its outcome was told"));
        let asked = self.asked.get(&request.turn).map(TurnInput::text);
        // A short history may leave out what was said into the turn, and never what it is about.
        let whole = world.brief.max_history_messages > 4;
        let steered = self.life.steered[..self.life.prompted]
            .iter()
            .filter(|(turn, _)| whole && *turn == request.turn)
            .map(|(_, text)| text.clone());
        for text in asked.into_iter().chain(steered).collect::<Vec<_>>() {
            let said = request.messages.iter().any(|message| says(message, &text));
            self.must(said, || format!("the model is not told {text:?}"));
        }
    }

    /// Records that are stored now.
    pub(super) fn reads(&mut self, stored: &[Arc<Record>], owner: u64) {
        let known = usize::try_from(self.shadow.version).unwrap_or(usize::MAX).min(stored.len());
        for record in &stored[known..] {
            let asked = &self.asked;
            let limits = |turn: &TurnId| asked.get(turn).map(|input| input.limits);
            if let Err(why) = self.grammar.read(record, owner, limits) {
                return self.must(false, || format!("the journal is wrong at {}: {why}", record.version));
            }
            self.matches_what_was_said(record);
            self.saw(kind(&record.fact).to_owned());
            self.shadow.apply(record);
            for message in self.shadow.history.iter().skip(self.pairing.messages) {
                if let Err(why) = self.pairing.read(message) {
                    self.broken.get_or_insert(why);
                }
            }
            let owed = self.pairing.owed();
            self.must(owed.is_none(), || format!("a provider would refuse the history: {owed:?} has no result"));
            if let (Fact::Outcome(_), Some(last)) = (&record.fact, &self.shadow.last) {
                self.outcomes.push(Arc::clone(last));
            }
            self.last = Some(Arc::clone(record));
        }
    }

    fn matches_what_was_said(&mut self, record: &Record) {
        match &record.fact {
            Fact::Input(input) => {
                // Its limits are counted by the grammar.
                let asked = self.asked.get(&input.turn);
                let same = asked.is_none_or(|asked| TurnInput { limits: input.limits, ..asked.clone() } == **input);
                self.must(same, || format!("{} was asked something else", input.turn));
            }
            Fact::Answered(Answered { cost, .. }) | Fact::Malformed { cost, .. } => {
                let new = cost.response_id.clone().is_none_or(|response| self.responses.insert(response));
                self.must(new, || "one response of the model is taken for two".to_owned());
            }
            Fact::Result(result) => {
                let returned = self.returned.get(&(record.epoch, result.call.clone()));
                let same = returned.is_none_or(|back| back.status == result.status && back.output == result.output);
                self.must(same, || format!("{} returned something else than is journaled", result.call));
            }
            Fact::ApprovalDecided { approval, allowed, .. } => self.decided_so(approval, *allowed),
            Fact::Resumed { submission, .. } => {
                // A question that is given up is closed under the name of whoever was told it.
                if self.shadow.open.as_ref().is_some_and(|open| open.submission == *submission) {
                    return;
                }
                let open = self.shadow.open.as_ref().and_then(|open| open.suspended.clone());
                let said = self.resumes.get(submission).map(|(token, _)| token.clone());
                let token = open.as_ref().map(|open| open.token.clone());
                let same = said.is_none() || said == token;
                self.must(same, || format!("{submission} answers another question than it was given the token of"));
                let told = token.and_then(|token| self.questions.get(&token).cloned());
                let same = told.is_none() || told == open.map(|open| open.question);
                self.must(same, || format!("{submission} answers {told:?}, which is not asked any more"));
            }
            _ => {}
        }
    }

    /// A decision in the journal is one that a person made about that call.
    fn decided_so(&mut self, approval: &ApprovalId, allowed: bool) {
        let resumed = match self.last.as_ref().map(|record| &record.fact) {
            Some(Fact::Resumed { submission, .. }) => self.resumes.get(submission),
            _ => None,
        };
        if let Some((_, reply)) = resumed {
            let allows = match reply {
                ResumeReply::Answer(_) => false,
                ResumeReply::Decision(decision) => {
                    !matches!(understood(decision.clone()), Decision::Deny { .. } | Decision::DenyAlways { .. })
                }
            };
            return self.must(allows == allowed, || format!("{approval} is decided otherwise than was said"));
        }
        let calls = self.grammar.open.as_ref().map_or(&[][..], |open| &open.calls);
        let call = calls.iter().find(|call| call.approval.as_ref().is_some_and(|(asked, _)| asked == approval));
        let proposed = call.map(|call| call.name.clone());
        let arguments = self.shadow.open.as_ref().and_then(|open| open.step.as_ref()).and_then(|step| {
            let asked =
                |open: &&crate::session::OpenCall| open.approval.as_ref().is_some_and(|asked| asked.id == *approval);
            step.calls.iter().find(asked).map(|open| open.call.arguments.clone())
        });
        let so = self.decided.iter().any(|(id, said, seen)| {
            let saw = seen.as_ref().is_none_or(|seen| {
                Some(&seen.name) == proposed.as_ref() && Some(&seen.arguments) == arguments.as_ref()
            });
            id == approval && *said == allowed && saw
        });
        self.must(so, || format!("{approval} is decided as nobody who saw the call has said"));
    }

    /// The supervisor hears this.
    pub(super) fn news(&mut self, news: &TurnNews) {
        match news {
            TurnNews::Finished { submission, outcome } => {
                if let (Some(token), Some(question)) = (&outcome.token, &outcome.question) {
                    self.questions.insert(token.clone(), question.clone());
                }
                self.life.paused.remove(submission);
                self.acknowledged(submission, outcome);
                self.note_outcome(outcome);
                self.usable = outcome.saved && outcome.finish_reason != FinishReason::Error;
                self.told(submission, outcome.saved);
            }
            TurnNews::Refused { submission, error } => {
                self.told(submission, !matches!(error, AgentError::Store(_)));
            }
            TurnNews::Accepted { submission } => {
                let kept = self.grammar.inputs.contains_key(submission) || self.grammar.resumed.contains(submission);
                self.must(kept, || format!("{submission} is accepted and not stored"));
                self.life.running.insert(submission.clone());
            }
            TurnNews::Began { submission, .. } => {
                self.life.running.insert(submission.clone());
            }
            TurnNews::Paused { submission, .. } => {
                self.life.paused.insert(submission.clone());
            }
            TurnNews::Unpaused { submission } => {
                self.life.paused.remove(submission);
            }
            TurnNews::Left => {}
        }
    }

    fn told(&mut self, submission: &TurnId, for_good: bool) {
        let owner = self.owners;
        self.life.cancelled.remove(submission);
        let before = self.told.insert(submission.clone(), Told { owner, for_good });
        if let Some(before) = before {
            self.must(!before.for_good, || format!("{submission} was told for good and is told again"));
            self.must(before.owner < owner, || format!("{submission} is told twice by one owner of the journal"));
        }
    }

    /// What is said to be saved is what any later owner reads.
    fn acknowledged(&mut self, submission: &TurnId, outcome: &TurnOutcome) {
        if !outcome.saved {
            return;
        }
        let kept = self.outcomes.iter().any(|kept| {
            let named = TurnOutcome {
                request_id: outcome.request_id.clone(),
                labels: outcome.labels.clone(),
                ..(**kept).clone()
            };
            named == *outcome
        });
        let taken_out = self.grammar.withdrawn.contains(&outcome.turn_id);
        let why = || format!("{submission} is told that {:?} is saved, and it is not stored", outcome.finish_reason);
        self.must(kept || taken_out, why);
    }

    fn note_outcome(&mut self, outcome: &TurnOutcome) {
        self.saw(format!("{:?}", outcome.finish_reason));
        if let Some(guard) = outcome.guard_reason {
            self.saw(format!("{guard:?}"));
        }
        for entry in outcome.tool_transcript.iter() {
            self.saw(format!("call {:?}", entry.status));
        }
        self.saw(format!("saved {}", outcome.saved));
    }

    /// Something happened of which there must be some.
    pub(super) fn saw(&mut self, what: String) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// What nobody owes any more, since the program that owed it is gone.
    pub(super) fn forgets(&mut self, submission: &TurnId) {
        self.told.remove(submission);
    }
}

/// The call whose judgement this ticket asks for.
fn checked(turn: &Turn, ticket: crate::ids::Ticket) -> Option<CallId> {
    let State::CallTool(calling) = &turn.state else { return None };
    let is = |slot: &crate::turn::state::Slot| matches!(slot, crate::turn::state::Slot::Checking { ticket: of, .. } if *of == ticket);
    let at = calling.slots.iter().position(is)?;
    turn.call_at(at).map(|call| call.id.clone())
}

fn says(message: &Message, text: &str) -> bool {
    matches!(message, Message::User { parts } if parts.iter().any(|part| part.as_text().contains(text)))
}

fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Options(_) => "options",
        Fact::Input(_) => "input",
        Fact::Started { .. } => "started",
        Fact::Answered(_) => "answered",
        Fact::Malformed { .. } => "malformed",
        Fact::Intent { .. } => "intent",
        Fact::ApprovalAsked { .. } => "approval asked",
        Fact::ApprovalDecided { .. } => "approval decided",
        Fact::Result(_) => "result",
        Fact::Steered { .. } => "steered",
        Fact::Resumed { .. } => "resumed",
        Fact::Withdrawn => "withdrawn",
        Fact::Outcome(_) => "outcome",
    }
}
