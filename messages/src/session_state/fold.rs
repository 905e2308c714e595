//! The fold: one record in, the session one version on.

use super::known::{Submissions, is_of_runtime};
use super::open::{ExternalResult, OpenApproval, RunCaller};
use super::retention::Retention;
use super::tasks::Tasks;
use super::{GivenUp, OpenTurn};
use crate::approvals::Standing;
use crate::chat::Message;
use crate::ids::{RequestId, SessionId, TenantId, TurnId};
use crate::input::TurnInput;
use crate::options::SessionOptions;
use crate::outcome::TurnOutcome;
use crate::skills::ReselectCause;
use crate::store::{Fact, Record};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How many changes of its options a session remembers by name.
const CHANGES_REMEMBERED: usize = 64;

/// A session, as far as its journal tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// How many records it has.
    pub version: u64,
    /// What holds for all its turns.
    pub options: Arc<SessionOptions>,
    /// To whom it belongs: the tenant that its options or its first input name. It never changes; in journals of earlier
    /// programs, the first tenant that an input names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Whether the options were journaled.
    pub opened: bool,
    /// What its options are when the open turn has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_options: Option<Arc<SessionOptions>>,
    /// What the model is told when the open turn has ended, or is resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Arc<Message>>,
    /// The names of the last changes of its options: one that is repeated changes nothing.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub configured: VecDeque<RequestId>,
    /// The messages in order; a live session keeps those that a prompt can still use. Every call in it has its result.
    pub history: Vec<Arc<Message>>,
    /// The summary that replaces the messages before the history.
    #[serde(default)]
    pub summary: Option<Arc<str>>,
    /// Accepted inputs whose turn has not begun, oldest first.
    pub waiting: VecDeque<Arc<TurnInput>>,
    /// The turn that runs or is suspended.
    pub open: Option<OpenTurn>,
    /// How many calls the session has seen; makes their ids unique.
    pub calls: u64,
    /// How many turns have ended.
    pub turns: u64,
    /// The outcome of the last run.
    pub last: Option<Arc<TurnOutcome>>,
    /// Who is owed the last outcome: the input's turn, or the submission that resumed it.
    pub last_submission: Option<TurnId>,
    /// The submissions that were answered last: one that is sent again runs nothing.
    #[serde(default, skip_serializing_if = "Submissions::is_empty")]
    pub submissions: Submissions,
    /// The outcomes of requests that had a name; of a live session the newest ones.
    pub answered: BTreeMap<RequestId, Arc<TurnOutcome>>,
    /// The calls of sub-agents that work in the background: of the open turn, and those that outlive theirs.
    #[serde(default, skip_serializing_if = "Tasks::is_empty")]
    pub tasks: Tasks,
    /// The sub-agents whose calls ended without them, or with an error, in the last turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<GivenUp>,
    /// What people decided beyond single calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Arc<Standing>>,
    /// The request ids of steer messages, the newest last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub steers: VecDeque<RequestId>,
    /// Tokens per thousand prompt bytes, as the provider last counted them;
    /// [`TOKENS_PER_KB`](crate::llm::TOKENS_PER_KB) until it did.
    pub tokens_per_kb: u64,
    /// What of all this a live session keeps.
    #[serde(default)]
    pub(super) keep: Retention,
}

impl Session {
    /// A session without records.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            version: 0,
            options: Arc::default(),
            tenant: None,
            opened: false,
            next_options: None,
            notices: Vec::new(),
            configured: VecDeque::new(),
            history: Vec::new(),
            summary: None,
            waiting: VecDeque::new(),
            open: None,
            calls: 0,
            turns: 0,
            last: None,
            last_submission: None,
            submissions: Submissions::default(),
            answered: BTreeMap::new(),
            tasks: Tasks::default(),
            given_up: Vec::new(),
            standing: Vec::new(),
            steers: VecDeque::new(),
            tokens_per_kb: crate::llm::TOKENS_PER_KB,
            keep: Retention::default(),
        }
    }

    /// The session its records tell of.
    pub fn fold<'a>(id: SessionId, records: impl IntoIterator<Item = &'a Arc<Record>>) -> Self {
        let mut session = Self::new(id);
        for record in records {
            session.apply(record);
        }
        session
    }

    /// Takes one record. A record that does not fit what came before changes only
    /// the version, so that a fold never fails.
    pub fn apply(&mut self, record: &Record) {
        self.version = record.version;
        if self.tenant.is_none() {
            self.tenant = record.fact.tenant().cloned();
        }
        match &record.fact {
            Fact::Options(options) => {
                self.options = Arc::clone(options);
                self.opened = true;
            }
            Fact::Input(input) => self.waiting.push_back(Arc::clone(input)),
            Fact::Started { model, selected } => self.start(model, selected.as_deref(), record.at),
            Fact::Answered(answered) => self.answer(answered),
            Fact::Malformed { text, complaint, cost } => self.malformed(text, complaint, cost),
            Fact::Intent { call, traits, task } => {
                if let Some(open) = self.open_call(call) {
                    open.intent = Some(*traits);
                    if let Some(outside) = &mut open.outside {
                        outside.sent = outside.came.is_some();
                    }
                    open.task.clone_from(task);
                }
            }
            Fact::ApprovalAsked { approval, call, risk, reason, tool } => {
                if let Some(open) = self.open_call(call) {
                    open.approval = Some(OpenApproval {
                        id: approval.clone(),
                        risk: *risk,
                        allowed: None,
                        reason: String::new(),
                        why: reason.clone(),
                        tool: tool.clone(),
                        times: open.approval.as_ref().map_or(0, |before| before.times) + 1,
                    });
                }
            }
            Fact::ApprovalDecided { approval, allowed, arguments, reason, scope } => {
                let stands = scope.and_then(|scope| self.stands(approval, scope, *allowed, reason));
                self.decide(approval, *allowed, arguments.as_deref(), reason);
                if let Some(turn) = &mut self.open {
                    turn.decide_below(approval, (*allowed, arguments.as_deref()), reason, *scope);
                }
                if let Some(standing) = stands {
                    Arc::new(standing).join(&mut self.standing);
                }
            }
            Fact::Result(result) => self.result(result),
            Fact::Steered { parts, request_id, behind } => {
                self.steer(parts, request_id.as_ref(), *behind);
                if let Some(turn) = &mut self.open {
                    turn.has_cause(ReselectCause::Steered);
                }
            }
            Fact::Resumed { submission, reply, request_id, labels } => {
                // A name that the runtime gave it is known by the submission.
                let named = request_id.clone().filter(|request| !is_of_runtime(request, submission));
                let replier = RunCaller { request_id: named, labels: labels.clone() };
                self.resume(submission, reply, replier, record.at);
            }
            Fact::Withdrawn => self.withdraw(record.turn.as_ref()),
            Fact::Outcome(ended) => self.end(ended, record.at),
            Fact::Configured { request_id, options, notice } => self.configure(request_id, options, notice.as_deref()),
            Fact::Condensed(condensed) => {
                self.condense(condensed);
                if let Some(turn) = &mut self.open {
                    turn.has_cause(ReselectCause::Condensed);
                }
            }
            Fact::Snapshot(snapshot) => self.took(snapshot),
            Fact::SkillsSelected(skills) => {
                if let Some(turn) = &mut self.open {
                    turn.selected(skills);
                }
            }
            Fact::SkillsReselected(again) => {
                if let Some(turn) = &mut self.open {
                    turn.reselected(again);
                }
            }
            Fact::LimitAsked { question, guard } => {
                if let Some(turn) = &mut self.open {
                    turn.apply_limit_asked(question, *guard);
                }
            }
            Fact::LimitDecided { question, goes_on } => {
                if let Some(turn) = &mut self.open {
                    turn.decide_at_limit(question, *goes_on);
                }
            }
            Fact::Waits { call, what, child, server } => {
                if let Some(open) = self.open_call(call) {
                    match child {
                        Some(asked) => open.asks_below(asked, what),
                        None => {
                            let (what, server) = (what.clone(), server.clone());
                            open.outside = Some(ExternalResult { what, came: None, sent: false, server });
                        }
                    }
                }
            }
        }
        self.lighten(record);
    }

    /// Whether requests of this tenant, or of none, are refused: those of another one than the session has. A session that
    /// began without a tenant stays so, since what was said in it was not said to one.
    pub fn is_closed_to(&self, tenant: Option<&TenantId>) -> bool {
        self.version > 0 && self.tenant.as_ref() != tenant
    }

    /// Whether an input of this name is known: waiting, running or just ended.
    pub fn knows(&self, turn: &TurnId) -> bool {
        self.waiting.iter().any(|input| input.turn == *turn)
            || self.open.as_ref().is_some_and(|open| open.submission == *turn || open.input.turn == *turn)
            || self.last.as_ref().is_some_and(|last| last.turn_id == *turn)
            || self.last_submission.as_ref() == Some(turn)
    }

    /// The outcome a submission has, if its run was the last to end.
    pub fn outcome_of(&self, submission: &TurnId) -> Option<&Arc<TurnOutcome>> {
        let ended = |last: &&Arc<TurnOutcome>| last.turn_id == *submission && self.open.is_none();
        self.last.as_ref().filter(|last| self.last_submission.as_ref() == Some(submission) || ended(last))
    }

    /// The outcome with which a repeated request is answered, if the first one has one. For a suspended turn that is
    /// the question.
    pub fn first_outcome(&self, request: &RequestId) -> Option<TurnOutcome> {
        if let Some(answered) = self.answered.get(request) {
            return Some((**answered).clone());
        }
        let open = self.open.as_ref().filter(|open| open.suspended.is_some() && open.is_request(request))?;
        Some(open.outcome_for(request, self.last.as_ref()?))
    }

    /// The turn that runs; a suspended one does not.
    pub fn running(&self) -> Option<&OpenTurn> {
        self.open.as_ref().filter(|open| open.suspended.is_none())
    }

    /// The options as they were last given: in force, or from the next turn on.
    pub fn latest_options(&self) -> &SessionOptions {
        self.next_options.as_deref().unwrap_or(&self.options)
    }

    fn configure(&mut self, request: &RequestId, options: &Arc<SessionOptions>, notice: Option<&str>) {
        self.opened = true;
        let told = notice.map(|notice| Arc::new(Message::user(notice)));
        match self.open {
            Some(_) => self.notices.extend(told),
            None => self.history.extend(told),
        }
        match self.open {
            Some(_) => self.next_options = Some(Arc::clone(options)),
            None => self.options = Arc::clone(options),
        }
        if self.configured.len() >= CHANGES_REMEMBERED {
            self.configured.pop_front();
        }
        self.configured.push_back(request.clone());
    }
}
