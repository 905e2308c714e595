use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bob::store::Record;
use bob_messages::chat::{CallStatus, FinishReason};
use bob_messages::store::{Ended, Fact};

use super::evidence::SessionReports;
use crate::soak::wire::Answer;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Flaw {
    /// An outcome reported as saved is missing from the journal.
    Lost,
    /// An outcome differs from the journal, or was reported in two versions.
    Changed,
    /// A request has more replies than submissions.
    AnsweredTwice,
    /// A request was not answered.
    Unanswered,
    /// The journal has a request, or a turn's outcome, twice.
    Duplicated,
    /// The end of a turn was reported by no event or by two.
    EndReportedWrongly,
    /// A turn was begun and never ended.
    Open,
    /// A call has no result, or more than one; or a result no call.
    Unpaired,
    /// Versions or epochs are out of order, or answers are not in the order they were given.
    Disorder,
    /// A side effect happened twice.
    EffectTwice,
    /// A side effect happened whose intent is not in the journal.
    EffectWithoutIntent,
    /// A side effect reported by a call did not happen.
    EffectLost,
}

pub(crate) struct SessionEvidence<'a> {
    pub(crate) name: &'a str,
    /// Whether ends are told by events, too.
    pub(crate) has_events: bool,
    pub(crate) heard: &'a SessionReports,
    pub(crate) records: &'a [Arc<Record>],
    pub(crate) effects: &'a HashMap<String, u32>,
    /// When the worker was killed, in milliseconds since the epoch.
    pub(crate) kills: &'a [u64],
    /// Whether the last life was not allowed to end its work.
    pub(crate) is_cut: bool,
}

pub(crate) fn check(session: &SessionEvidence<'_>) -> Vec<(Flaw, String)> {
    let mut flaws = Flaws { name: session.name, found: Vec::new() };
    let journal = Journal::read(session.records, &mut flaws);
    answered_once(session, &mut flaws);
    told_is_kept(session, &journal, &mut flaws);
    if session.has_events {
        ends_are_told(session, &mut flaws);
    }
    for answer in session.heard.worked.iter().filter(|answer| answer.saved) {
        is_there(answer, &journal, &mut flaws);
    }
    journal.check(session, &mut flaws);
    journal.check_effects(session.effects, &mut flaws);
    flaws.found
}

struct Flaws<'a> {
    name: &'a str,
    found: Vec<(Flaw, String)>,
}

impl Flaws<'_> {
    fn note(&mut self, flaw: Flaw, what: impl std::fmt::Display) {
        self.found.push((flaw, format!("{}: {what}", self.name)));
    }
}

struct Call {
    token: Option<String>,
    has_intent: bool,
    results: Vec<CallStatus>,
}

/// A journal, read in another way than the runtime reads it.
#[derive(Default)]
struct Journal<'a> {
    /// Turn and request of each input, in order.
    inputs: Vec<(String, Option<String>)>,
    /// Of each turn: its last record's version and its outcome.
    outcomes: HashMap<String, (u64, &'a Ended)>,
    withdrawn: HashSet<String>,
    /// Calls by turn and id, in order.
    calls: BTreeMap<(String, String), Call>,
}

impl<'a> Journal<'a> {
    fn read(records: &'a [Arc<Record>], flaws: &mut Flaws<'_>) -> Self {
        let mut journal = Self::default();
        let mut epoch = 0;
        for (record, version) in records.iter().zip(1_u64..) {
            if record.version != version || record.epoch < epoch || record.session.as_str() != flaws.name {
                flaws.note(Flaw::Disorder, format_args!("record {version} is version {}", record.version));
            }
            epoch = record.epoch;
            journal.take(record, flaws);
        }
        journal
    }

    fn take(&mut self, record: &'a Record, flaws: &mut Flaws<'_>) {
        let turn = record.turn.as_ref().map(ToString::to_string).unwrap_or_default();
        match &record.fact {
            Fact::Input(input) => {
                let request = input.request_id.as_ref().map(ToString::to_string);
                let is_known = |(other, asked): &(String, Option<String>)| {
                    *other == turn || (asked.is_some() && *asked == request)
                };
                if self.inputs.iter().any(is_known) {
                    flaws.note(Flaw::Duplicated, format_args!("{request:?} was taken twice"));
                }
                self.inputs.push((turn, request));
            }
            Fact::Answered(answered) => {
                for call in answered.calls.iter().filter(|call| !call.name.is_ask_user()) {
                    let has_effect = call.name.own_name() == "append";
                    let token = call.arguments.get("line").and_then(|line| line.as_str()).filter(|_| has_effect);
                    let call_id = call.id.to_string();
                    let call = Call { token: token.map(str::to_owned), has_intent: false, results: Vec::new() };
                    if self.calls.insert((turn.clone(), call_id.clone()), call).is_some() {
                        flaws.note(Flaw::Unpaired, format_args!("two calls are called {call_id}"));
                    }
                }
            }
            Fact::Intent { call, .. } => match self.calls.get_mut(&(turn, call.to_string())) {
                Some(call) => call.has_intent = true,
                None => flaws.note(Flaw::Unpaired, format_args!("an intent of {call}, which nobody asked for")),
            },
            Fact::Result(result) => match self.calls.get_mut(&(turn, result.call.to_string())) {
                Some(call) => call.results.push(result.status),
                None if result.name.is_ask_user() => {}
                None => flaws.note(Flaw::Unpaired, format_args!("a result of {}, which nobody asked for", result.call)),
            },
            Fact::Outcome(ended) => {
                let before = self.outcomes.insert(turn.clone(), (record.version, ended));
                if before.is_some_and(|(_, before)| before.finish_reason != FinishReason::Suspended) {
                    flaws.note(Flaw::Duplicated, format_args!("turn {turn} ended twice"));
                }
            }
            Fact::Withdrawn => {
                self.withdrawn.insert(turn);
            }
            Fact::Options(_)
            | Fact::Configured { .. }
            | Fact::Started { .. }
            | Fact::Malformed { .. }
            | Fact::ApprovalAsked { .. }
            | Fact::ApprovalDecided { .. }
            | Fact::LimitAsked { .. }
            | Fact::LimitDecided { .. }
            | Fact::SkillsSelected(_)
            | Fact::SkillsReselected(_)
            | Fact::Snapshot(_)
            | Fact::Waits { .. }
            | Fact::Steered { .. }
            | Fact::Condensed(_)
            | Fact::Resumed { .. } => {}
        }
    }

    /// Every turn has its end and every call its one result.
    fn check(&self, session: &SessionEvidence<'_>, flaws: &mut Flaws<'_>) {
        let has_ended = |turn: &str| self.outcomes.contains_key(turn) || self.withdrawn.contains(turn);
        // A caller that was told that its outcome is unsaved knows that the journal may lack it.
        let is_owed = |turn: &str| !session.is_cut && !has_ended(turn) && !was_unsaved(session.heard, turn);
        for (turn, request) in self.inputs.iter().filter(|(turn, _)| is_owed(turn)) {
            flaws.note(Flaw::Open, format_args!("{request:?} (turn {turn}) has no end"));
        }
        for ((turn, id), call) in &self.calls {
            if call.results.len() > 1 || (call.results.is_empty() && has_ended(turn)) {
                flaws.note(Flaw::Unpaired, format_args!("call {id} has {} results", call.results.len()));
            }
        }
    }

    fn check_effects(&self, effects: &HashMap<String, u32>, flaws: &mut Flaws<'_>) {
        for ((_, id), call) in &self.calls {
            let Some(token) = &call.token else { continue };
            let times = effects.get(token).copied().unwrap_or(0);
            if times > 1 {
                flaws.note(Flaw::EffectTwice, format_args!("{token} happened {times} times"));
            }
            let is_intended = || self.calls.values().any(|other| other.has_intent && other.token == call.token);
            if times > 0 && !call.has_intent && !is_intended() {
                flaws.note(Flaw::EffectWithoutIntent, format_args!("{token} happened, and call {id} has no intent"));
            }
            if times == 0 && call.results.contains(&CallStatus::Ok) {
                flaws.note(Flaw::EffectLost, format_args!("call {id} is ok, and {token} did not happen"));
            }
        }
    }

    fn tokens(&self) -> impl Iterator<Item = &str> {
        self.calls.values().filter_map(|call| call.token.as_deref())
    }
}

pub(crate) fn tokens(records: &[Arc<Record>]) -> Vec<String> {
    let mut nobody = Flaws { name: "", found: Vec::new() };
    Journal::read(records, &mut nobody).tokens().map(str::to_owned).collect()
}

/// Whether an outcome of this turn was reported as not durable. The turns before a run have callers who report nothing; what
/// they were told is what the event of the end says.
fn was_unsaved(heard: &SessionReports, turn: &str) -> bool {
    let is_unheard = heard.asked.is_empty() && heard.answers.is_empty();
    heard.answers.iter().any(|(_, answer)| answer.turn == turn && !answer.saved)
        || is_unheard && heard.ended.iter().any(|end| end.turn == turn && !end.saved)
}

/// Which life of the worker a time belongs to.
fn life(kills: &[u64], at: u64) -> usize {
    kills.iter().filter(|kill| **kill < at).count()
}

/// Each submission of a request got exactly one reply; only a kill excuses a missing one.
fn answered_once(session: &SessionEvidence<'_>, flaws: &mut Flaws<'_>) {
    // By life and request: submitted, answered.
    let mut counts: BTreeMap<(usize, &str), (u32, u32)> = BTreeMap::new();
    for (at, request) in &session.heard.asked {
        counts.entry((life(session.kills, *at), request)).or_default().0 += 1;
    }
    let answers = session.heard.answers.iter().map(|(at, answer)| (*at, answer.request.as_str()));
    let refused = session.heard.refused.iter().map(|(at, request)| (*at, request.as_str()));
    for (at, request) in answers.chain(refused) {
        counts.entry((life(session.kills, at), request)).or_default().1 += 1;
    }
    for ((life, request), (asked, answered)) in counts {
        let is_excused = life < session.kills.len() || session.is_cut;
        if answered > asked {
            flaws.note(Flaw::AnsweredTwice, format_args!("{request} was asked {asked} and answered {answered} times"));
        } else if answered < asked && !is_excused {
            flaws.note(Flaw::Unanswered, format_args!("{request} was asked {asked} and answered {answered} times"));
        }
    }
}

/// Each outcome reported as saved is in the journal, unchanged, once and in order.
fn told_is_kept(session: &SessionEvidence<'_>, journal: &Journal<'_>, flaws: &mut Flaws<'_>) {
    let mut first: HashMap<&str, &Answer> = HashMap::new();
    let mut version = 0;
    for (_, answer) in session.heard.answers.iter().filter(|(_, answer)| answer.saved) {
        let request = &answer.request;
        let Some(at) = is_there(answer, journal, flaws) else { continue };
        match first.get(request.as_str()) {
            Some(before) if (&before.turn, &before.content) != (&answer.turn, &answer.content) => {
                flaws.note(Flaw::Changed, format_args!("{request} was told in two ways"));
            }
            Some(_) => {}
            None => {
                // The requests of a burst are answered beside each other.
                if at < version && session.name.starts_with('s') {
                    flaws.note(Flaw::Disorder, format_args!("{request} was told after what came later"));
                }
                version = version.max(at);
                first.insert(request, answer);
            }
        }
    }
}

/// An outcome that was reported as saved is in the journal, unchanged. Says at which version, where that can be said.
fn is_there(answer: &Answer, journal: &Journal<'_>, flaws: &mut Flaws<'_>) -> Option<u64> {
    let request = &answer.request;
    // An input that was taken out before its turn began has no other end than that it was.
    if answer.reason == FinishReason::Cancelled && journal.withdrawn.contains(&answer.turn) {
        if !journal.inputs.iter().any(|(turn, _)| *turn == answer.turn) {
            flaws.note(Flaw::Lost, format_args!("{request} was told, and its input is not there"));
        }
        return None;
    }
    let Some((at, ended)) = journal.outcomes.get(&answer.turn) else {
        flaws.note(Flaw::Lost, format_args!("{request} was told ({:?}) and is not there", answer.reason));
        return None;
    };
    if ended.content != answer.content || ended.finish_reason != answer.reason {
        flaws.note(Flaw::Changed, format_args!("{request} was told as {:?} and is {:?}", answer.reason, ended));
    }
    let is_of_request = |(turn, asked): &(String, Option<String>)| {
        *turn == answer.turn && asked.as_ref().is_none_or(|asked| asked == request)
    };
    if !journal.inputs.iter().any(is_of_request) {
        flaws.note(Flaw::Lost, format_args!("{request} was told, and its input is not there"));
    }
    lost_calls(answer, journal, flaws);
    Some(*at)
}

/// The reported calls are those of the journal, with equal results.
fn lost_calls(answer: &Answer, journal: &Journal<'_>, flaws: &mut Flaws<'_>) {
    for (id, status) in &answer.calls {
        let kept = journal.calls.get(&(answer.turn.clone(), id.clone()));
        if !id.is_empty() && kept.is_some_and(|call| !call.results.is_empty() && !call.results.contains(status)) {
            flaws.note(Flaw::Changed, format_args!("call {id} of {} was told as {status:?}", answer.request));
        }
    }
}

/// The end of a turn is one event.
fn ends_are_told(session: &SessionEvidence<'_>, flaws: &mut Flaws<'_>) {
    // An end that could not be saved, which the event says, is reported again by the next life or the session's next turn:
    // they find the turn open in the journal.
    let mut ends: HashMap<&str, Vec<usize>> = HashMap::new();
    for told in &session.heard.ended {
        let saved = ends.entry(&told.turn).or_default();
        let life = life(session.kills, told.at);
        if saved.contains(&life) {
            flaws.note(Flaw::EndReportedWrongly, format_args!("the end of turn {} was told twice", told.turn));
        }
        saved.extend(told.saved.then_some(life));
    }
    let last_kill = session.kills.last().copied().unwrap_or(0);
    for (_, answer) in session.heard.answers.iter().filter(|(at, _)| *at > last_kill && !session.is_cut) {
        let is_first = session.heard.asked.iter().filter(|(_, request)| *request == answer.request).count() == 1;
        if answer.reason == FinishReason::Final && is_first && !ends.contains_key(answer.turn.as_str()) {
            flaws.note(Flaw::EndReportedWrongly, format_args!("the end of {} was not told", answer.request));
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
