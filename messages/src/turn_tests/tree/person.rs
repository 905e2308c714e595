//! The person at the root: what is said, what is decided, and what the next program is asked to do with what is open.

use super::supervisor::Caller;
use super::{Answer, Pending, Plan, Tree};
use crate::approvals::Decision;
use crate::chat::{ContentPart, FinishReason};
use crate::error::AgentError;
use crate::ids::{ResumeToken, SessionId, TurnId};
use crate::input::{ResumeReply, TurnInput};
use crate::outcome::EndReason;
use crate::session_state::Session;
use crate::store::Fact;
use crate::turn::TurnMessage;
use crate::turn_config::OnRestart;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Person {
    inputs_left: u32,
    said: u32,
    /// The submissions that have no answer.
    pub(super) owed: BTreeSet<TurnId>,
    /// The token and the question that it was given last, if nothing came since.
    asked: Option<(ResumeToken, String)>,
    /// Tokens that are used, or were never for it.
    foreign: Vec<ResumeToken>,
    /// Submissions with such a token, which must be refused.
    refusals: BTreeSet<TurnId>,
    /// Whether something may be open that an earlier program has left.
    is_new_program: bool,
}

impl Person {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            inputs_left: plan.inputs,
            said: 0,
            owed: BTreeSet::new(),
            asked: None,
            foreign: Vec::new(),
            refusals: BTreeSet::new(),
            is_new_program: false,
        }
    }

    pub(super) fn root() -> SessionId {
        SessionId::parse("r").unwrap()
    }
}

impl Tree {
    /// A submission has its answer.
    pub(super) fn person_hears(&mut self, submission: &TurnId, result: &Answer) {
        self.note(|| format!("the person hears {submission}: {result:?}").chars().take(300).collect());
        let was_owed = self.person.owed.remove(submission);
        self.must(was_owed, || format!("{submission} is answered twice"));
        if self.person.refusals.contains(submission) {
            let is_refused = match result {
                // Internal: its actor crashed too often before it looked at the token.
                Err(error) => matches!(
                    error,
                    AgentError::Invalid(_) | AgentError::Busy { .. } | AgentError::Store(_) | AgentError::Internal(_)
                ),
                Ok(outcome) => outcome.finish_reason != FinishReason::Final && outcome.steps == 0,
            };
            self.must(is_refused, || format!("a token that was used or was for a caller is taken: {result:?}"));
        }
        let Ok(outcome) = result else { return };
        if outcome.finish_reason == FinishReason::Suspended {
            let (token, question) = (outcome.token.clone(), outcome.question.clone().unwrap_or_default());
            self.saw("the root is suspended");
            self.must(token.as_ref().and_then(ResumeToken::session) == Some(Person::root()), || {
                format!("{token:?} is not of the root")
            });
            if let Some(token) = token {
                self.must(!self.person.foreign.contains(&token), || "a token is given again".to_owned());
                self.person.asked = Some((token, question));
            }
        }
    }

    /// The program has ended: no reply is pending.
    pub(super) fn person_is_alone(&mut self) {
        self.person.owed.clear();
        self.person.is_new_program = true;
        // The token is in the journal, where the next program finds it.
        self.person.asked = self.root().and_then(|root| {
            let open = root.open?;
            let suspended = open.suspended?;
            Some((suspended.token, suspended.question))
        });
    }

    pub(super) fn root(&self) -> Option<Session> {
        let root = Person::root();
        let journal = self.journals.get(&root)?;
        Some(Session::fold(root, &journal.records))
    }

    /// Says something at the root.
    pub(super) fn person_says(&mut self, input: Arc<TurnInput>, on_restart: OnRestart) {
        let (submission, turn_config) = (input.turn.clone(), self.plan.turn_config(on_restart));
        let request = TurnMessage::Start { input, turn_config: Arc::clone(&turn_config) };
        self.person_submits(submission, request, &turn_config);
    }

    fn person_submits(
        &mut self,
        submission: TurnId,
        request: TurnMessage,
        turn_config: &Arc<crate::turn_config::TurnConfig>,
    ) {
        self.note(|| format!("the person submits {submission}"));
        self.person.owed.insert(submission.clone());
        let callers = vec![Caller::Person];
        let pending = Pending { submission, request, callers, is_repeated: false, cancelled: false };
        self.submit(&Person::root(), pending, turn_config);
    }

    fn says_next(&mut self, name: &str) {
        self.person.said += 1;
        let number = self.person.said;
        let (turn, token) = (TurnId::new(format!("{name}{number}")), ResumeToken::new(format!("secret{number}")));
        let bare = TurnInput::bare(turn, token, vec![ContentPart::text(format!("message {number}"))]);
        let input = TurnInput { limits: self.plan.limits, approvals: self.plan.approvals, interactive: true, ..bare };
        self.forgets_token();
        let on_restart = if self.plan.finishes { OnRestart::Resume } else { OnRestart::Report };
        self.person_says(Arc::new(input), on_restart);
    }

    fn forgets_token(&mut self) {
        let asked = self.person.asked.take();
        self.person.foreign.extend(asked.map(|(token, _)| token));
    }

    /// Goes on with what an earlier program has left open. Returns whether there was anything.
    fn finishes_what_is_open(&mut self) -> bool {
        self.person.is_new_program = false;
        let Some(root) = self.root() else { return false };
        let open = root.running().map(|open| TurnInput { turn: open.submission.clone(), ..(*open.input).clone() });
        let open: Vec<_> = open.map(Arc::new).into_iter().chain(root.waiting.iter().cloned()).collect();
        if !open.is_empty() {
            self.saw("what was open is finished");
        }
        let is_any = !open.is_empty();
        for input in open {
            self.person_says(input, OnRestart::Resume);
        }
        is_any
    }

    /// Decides about what is asked.
    fn decides(&mut self, allows: bool) {
        let Some((token, question)) = self.person.asked.take() else { return };
        self.note_decision(&question, allows);
        self.saw(if allows { "a person allows" } else { "a person denies" });
        self.person.foreign.push(token.clone());
        self.resumes(token, allows);
    }

    fn resumes(&mut self, token: ResumeToken, allows: bool) -> TurnId {
        self.person.said += 1;
        let submission = TurnId::new(format!("reply{}", self.person.said));
        let decision = if allows { Decision::AllowOnce } else { Decision::Deny { reason: "no".into() } };
        let turn_config = self.plan.turn_config(if self.plan.finishes { OnRestart::Resume } else { OnRestart::Report });
        let request = TurnMessage::Resume {
            submission: submission.clone(),
            token,
            reply: Box::new(ResumeReply::Decision(decision)),
            parent: None,
            turn_config: Arc::clone(&turn_config),
        };
        self.person_submits(submission.clone(), request, &turn_config);
        submission
    }

    /// Tries a token that was used, or one of a child.
    fn tries_a_foreign_token(&mut self) {
        let tokens = self.person.foreign.clone();
        let of_children =
            self.journals.values().flat_map(|journal| &journal.records).filter_map(|record| match &record.fact {
                Fact::Outcome(ended) => ended.suspended.as_ref().map(|suspended| suspended.token.clone()),
                _ => None,
            });
        let asked = self.person.asked.as_ref().map(|(token, _)| token.clone());
        // A suspension whose first end was not stored has another token in the journal, which no caller was told, and is good.
        let good = self.root().and_then(|root| Some(root.open?.suspended?.token));
        let is_foreign = |token: &ResumeToken| Some(token) != asked.as_ref() && Some(token) != good.as_ref();
        let tokens: Vec<_> = tokens.into_iter().chain(of_children).filter(is_foreign).collect();
        if tokens.is_empty() {
            return;
        }
        self.saw("a foreign token is tried");
        let token = tokens[self.dice.pick(tokens.len())].clone();
        // Noted first: an answer may come at once.
        let submission = TurnId::new(format!("reply{}", self.person.said + 1));
        self.person.refusals.insert(submission);
        self.resumes(token, true);
    }

    /// The person does what may be done now.
    pub(super) fn person_acts(&mut self) {
        let is_owed = !self.person.owed.is_empty();
        if is_owed {
            if self.person.inputs_left > 0 && self.dice.rarely(12) {
                self.person.inputs_left -= 1;
                self.saw("an input waits");
                self.says_next("t");
            }
            return;
        }
        if self.person.is_new_program && self.plan.finishes && self.finishes_what_is_open() {
            return;
        }
        match self.dice.pick(6) {
            0 if self.person.asked.is_some() && self.person.inputs_left > 0 => {
                self.saw("a question is given up");
                self.person.inputs_left -= 1;
                self.says_next("t");
            }
            1 if self.person.asked.is_some() => self.tries_a_foreign_token(),
            number if self.person.asked.is_some() => self.decides(number > 2),
            _ if self.person.inputs_left > 0 => {
                self.person.inputs_left -= 1;
                self.says_next("t");
            }
            _ => {}
        }
    }

    /// Whether the person has something to say.
    pub(super) fn has_something_to_say(&self) -> bool {
        self.person.inputs_left > 0 || self.person.asked.is_some()
    }

    /// Everything works again: what is open is brought to its end. Returns what is still open.
    pub(super) fn comes_to_its_end(&mut self) -> Vec<String> {
        let mut plain = 0;
        for round in 0..40 {
            self.settle();
            if self.broken.is_some() {
                return Vec::new();
            }
            if !self.person.owed.is_empty() {
                return vec![format!("has no answer {:?}", self.person.owed)];
            }
            if self.person.is_new_program && self.plan.finishes && self.finishes_what_is_open() {
                continue;
            }
            if self.person.asked.is_some() {
                self.decides(round % 3 > 0);
                continue;
            }
            if self.person.inputs_left > 0 {
                self.person.inputs_left -= 1;
                self.says_next("t");
                continue;
            }
            // What the store did not take is sent again when an actor rests.
            let resting: Vec<_> =
                self.table.iter().filter(|(_, entry)| entry.is_idle()).map(|(id, _)| id.clone()).collect();
            resting.iter().for_each(|session| self.stop(session, EndReason::Passivated));
            self.settle();
            let open = self.open_in_journals();
            if open.is_empty() || plain >= 3 {
                return open;
            }
            plain += 1;
            self.says_next("last");
        }
        vec!["it asks for ever".to_owned()]
    }
}
