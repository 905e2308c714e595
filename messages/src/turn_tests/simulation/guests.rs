//! Who comes, who goes and who dies: inputs, people, cancels, crashes and restarts, as the
//! sessions supervisor and its guest book bring them to a machine.

use super::harness::{End, Harness, running};
use super::monitor::Seen;
use super::plan::Fault;
use crate::approvals::Decision;
use crate::ids::{ApprovalId, RequestId, ResumeToken, TurnId};
use crate::input::{ResumeReply, TurnInput};
use crate::outcome::EndReason;
use crate::submission::TurnNews;
use crate::turn::state::State;
use crate::turn::tests::world::{Question, input, output_schema, skills};
use crate::turn::{Effect, Recover, TurnMessage};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

impl Harness {
    fn owe(&mut self, submission: TurnId, message: TurnMessage) {
        self.monitor.owes(&message);
        self.owed.push((submission, message.clone()));
        self.say(message);
    }

    pub(super) fn input(&mut self) {
        self.inputs += 1;
        let named = self.plan.has(Fault::Names) && self.people.rarely(4);
        let request_id = named.then(|| RequestId::new(format!("r{}", self.people.pick(3))));
        let mention = if self.plan.setup.skills { format!(" $s{}x", self.people.pick(4)) } else { String::new() };
        let text = format!("message {};{mention}{}", self.inputs, "z".repeat(self.plan.padding));
        let said = input(self.inputs, &text, self.plan.setup.limits);
        let labels = request_id.iter().map(|name| ("of".to_owned(), format!("{name} in {}", said.turn))).collect();
        let output_schema = self.plan.setup.schema.then(output_schema);
        let approvals = self.plan.setup.approvals;
        let asks_at_limits = self.plan.asks_at_limits;
        let said = Arc::new(TurnInput { labels, approvals, request_id, output_schema, asks_at_limits, ..said });
        let message = TurnMessage::Start { input: Arc::clone(&said), turn_config: Arc::clone(&self.world.turn_config) };
        self.owe(said.turn.clone(), message);
    }

    /// Somebody writes another skill, and the folder is read in another order.
    pub(super) fn skills_change(&mut self) {
        let many = self.world.skills.skills.len();
        let mut changed = skills((many + 1).min(12));
        changed.skills.rotate_left(self.schedule.pick(many));
        self.world.skills = Arc::new(changed);
    }

    /// Somebody no longer wants what they are owed: what waits for its turn never runs.
    pub(super) fn withdraw(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        let submission = self.owed[self.people.pick(self.owed.len())].0.clone();
        self.withdrawn.insert(submission.clone());
        self.say(TurnMessage::Withdrawn { submission });
    }

    /// What a person is shown, they remember.
    pub(super) fn remember_question(&mut self, effect: &Effect) {
        let Effect::Report(TurnNews::Paused { question, .. }) = effect else { return };
        let approval = &question.approval_id;
        let step = running(&self.world.turn).and_then(|open| open.step.as_ref());
        let asked =
            |open: &&crate::session_state::OpenCall| open.approval.as_ref().is_some_and(|asked| asked.id == *approval);
        if let Some(open) = step.and_then(|step| step.calls.iter().find(asked)) {
            let (name, arguments) =
                (open.call.name.as_str().to_owned(), serde_json::Value::clone(&open.call.arguments));
            let seen = Seen { approval: approval.clone(), name, arguments };
            self.monitor.shows(&seen);
            self.asked.push(seen);
        }
    }

    /// A question to a person that waits inside the running turn; a turn that is only looked at hears nobody.
    pub(super) fn open_approval(&self) -> Option<ApprovalId> {
        if self.world.turn.unrecovered {
            return None;
        }
        let step = running(&self.world.turn)?.step.as_ref()?;
        let asked = |approval: &&crate::session_state::OpenApproval| approval.allowed.is_none();
        let open = step.calls.iter().filter(|open| open.result.is_none());
        open.filter_map(|open| open.approval.as_ref()).find(asked).map(|approval| approval.id.clone())
    }

    /// The question whether the turn goes on beyond a limit, which waits for a person.
    pub(super) fn open_limit(&self) -> Option<ApprovalId> {
        if self.world.turn.unrecovered {
            return None;
        }
        let asked = running(&self.world.turn)?.at_limit.as_deref()?;
        asked.goes_on.is_none().then(|| asked.question.clone())
    }

    /// A person decides whether the turn goes on.
    pub(super) fn at_the_limit(&mut self, approval: ApprovalId) {
        let decision = match self.people.rarely(3) {
            true => Decision::Deny { reason: String::new() },
            false => Decision::AllowOnce,
        };
        self.say(TurnMessage::Decided { approval, decision: Box::new(decision), asker: None });
    }

    /// A person decides, answers a question, or resumes: what is asked now, and sometimes
    /// what was asked long ago.
    pub(super) fn person(&mut self) {
        if let Some(question) = self.open_limit() {
            return self.at_the_limit(question);
        }
        let decision = match self.people.pick(9) {
            0..=2 => Decision::AllowOnce,
            3 => Decision::Edit { arguments: serde_json::json!({"a": 7}) },
            4 => Decision::Deny { reason: "no".into() },
            5 => Decision::AllowSession,
            6 => Decision::AllowAlways,
            7 => Decision::DenyAlways { reason: "never".into() },
            _ => Decision::Edit { arguments: serde_json::Value::Null },
        };
        let old = (!self.asked.is_empty() && self.people.rarely(5)).then(|| self.people.pick(self.asked.len()));
        let old = old.and_then(|at| self.asked.get(at)).map(|seen| seen.approval.clone());
        if let Some(approval) = old.or_else(|| self.open_approval()) {
            // They decide about what they saw last under this name.
            let seen = self.asked.iter().rev().find(|seen| seen.approval == approval).cloned();
            let forgotten = self.asked.iter().find(|seen| seen.approval == approval).cloned();
            let seen = if self.people.rarely(2) { forgotten } else { seen };
            self.monitor.decides(&approval, &decision, seen);
            return self.say(TurnMessage::Decided { approval, decision: Box::new(decision), asker: None });
        }
        let back = 1 + self.people.pick(3);
        let Some(token) = self.tokens.get(self.tokens.len().saturating_sub(back)).cloned() else { return };
        let named = self.approvals_of_the_suspended();
        let reply = match self.people.rarely(3) {
            true => ResumeReply::Answer("blue".into()),
            false if !named.is_empty() && self.people.rarely(2) => {
                let approval = named[self.people.pick(named.len())].clone();
                ResumeReply::Decided { approval, decision }
            }
            false => ResumeReply::Decision(decision),
        };
        self.resume(token, reply);
    }

    /// The questions about calls at which the turn is suspended.
    fn approvals_of_the_suspended(&self) -> Vec<ApprovalId> {
        let open = self.world.turn.session().and_then(|session| session.open.as_ref());
        let step = open.filter(|open| open.suspended.is_some()).and_then(|open| open.step.as_ref());
        let asked = step.into_iter().flat_map(|step| &step.calls).filter_map(|open| open.approval.as_ref());
        asked.filter(|asked| asked.allowed.is_none()).map(|asked| asked.id.clone()).collect()
    }

    fn resume(&mut self, token: ResumeToken, reply: ResumeReply) {
        self.inputs += 1;
        let submission = TurnId::new(format!("t{}", self.inputs));
        let turn_config = Arc::clone(&self.world.turn_config);
        let message = TurnMessage::Resume {
            submission: submission.clone(),
            token,
            reply: Box::new(reply),
            parent: None,
            turn_config,
        };
        self.owe(submission, message);
    }

    /// The actor is stopped: it closes its turn and says its last words.
    pub(super) fn stop(&mut self, reason: EndReason) {
        self.monitor.saw(format!("{reason:?} in {}", state(&self.world.turn.state)));
        let meant = if self.owed.is_empty() || self.schedule.rarely(2) {
            None
        } else {
            Some(self.schedule.pick(self.owed.len()))
        };
        let submission = meant.and_then(|at| self.owed.get(at)).map(|(owed, _)| owed.clone());
        let runs = self.world.turn.submission().filter(|runs| submission.as_ref().is_none_or(|meant| meant == runs));
        let runs = runs.filter(|_| !self.world.turn.unrecovered);
        let is_owner = self.world.turn.outbox.epoch > 0;
        let (mut confirmed, mut appended, mut released) = (true, false, false);
        let (mut last, mut after_all) = (Vec::new(), None);
        for effect in self.apply(TurnMessage::Stopped { reason, submission }) {
            match effect {
                Effect::Append { append, .. } => {
                    appended = true;
                    // It is waited for a moment only.
                    let in_time = !self.schedule.rarely(4);
                    if in_time {
                        confirmed = self.append(&append).is_ok();
                    } else {
                        (confirmed, after_all) = (false, Some(append));
                    }
                }
                Effect::Report(news @ (TurnNews::Finished { .. } | TurnNews::Steered { .. })) => last.push(news),
                effect => {
                    released |= matches!(effect, Effect::Release { .. });
                    self.perform(effect);
                }
            }
        }
        let tells = |runs: &TurnId| {
            last.iter().any(|news| matches!(news, TurnNews::Finished { submission, .. } if submission == runs))
        };
        let told = runs.is_none_or(|runs| reason == EndReason::Passivated || tells(&runs));
        self.monitor.must(told, || "a turn is stopped and its outcome is not told".to_owned());
        self.monitor.must(released == is_owner, || "a session is left and not released".to_owned());
        for news in last {
            self.perform(Effect::Report(news.behind_the_last_append(appended, confirmed)));
        }
        self.read();
        if self.owed.is_empty() {
            // What the actor had not heard, nobody hears.
            self.steering.clear();
        }
        if let Some(append) = after_all {
            let _arrived_after_all = self.append(&append);
        }
        let woken = (!self.owed.is_empty()).then_some(Recover::Continue);
        self.new_machine(woken);
    }

    pub(super) fn ends(&mut self, end: End) {
        match end {
            End::Dies(_) => self.crash(),
            End::ProgramDies => self.program_dies(),
            End::Stops(reason) => self.stop(reason),
            End::CancelsTwice => {
                self.withdraw();
                self.withdraw();
                self.say(TurnMessage::Withdrawn { submission: TurnId::new("nobody's") });
                self.stop(EndReason::Cancelled);
                self.withdraw();
            }
        }
    }

    /// The actor is killed while it is being stopped: the next one closes its turn.
    pub(super) fn kill(&mut self) {
        let reason = [EndReason::Cancelled, EndReason::TurnTimeout][self.schedule.pick(2)];
        self.new_machine(Some(Recover::Close(reason)));
    }

    /// The actor is gone between two messages.
    pub(super) fn crash(&mut self) {
        let recover = if self.schedule.rarely(6) { Recover::GiveUp } else { Recover::Continue };
        self.new_machine(Some(recover));
    }

    /// The actor is gone in the middle of what it was told to do.
    pub(super) fn crash_in_the_middle(&mut self) {
        if !self.world.questions.is_empty() {
            let (at, performed) = (self.schedule.pick(self.world.questions.len()), self.schedule.pick(4));
            self.answer_one(at, performed);
        }
        self.crash();
    }

    /// The program is gone: nobody is owed anything any more. The next one may be asked to
    /// finish what it finds.
    pub(super) fn program_dies(&mut self) {
        // What it had not read, nobody reads.
        self.hear();
        self.heard = self.world.news.len();
        for (submission, _) in std::mem::take(&mut self.owed) {
            self.monitor.forgets(&submission);
        }
        self.withdrawn.clear();
        self.ended.clear();
        self.changing.clear();
        self.steering.clear();
        self.new_machine(None);
        if !self.schedule.rarely(2) {
            return;
        }
        let found = &self.monitor.shadow;
        let open = found.running().map(|open| TurnInput { turn: open.submission.clone(), ..(*open.input).clone() });
        let found: Vec<_> = open.into_iter().chain(found.waiting.iter().map(|input| (**input).clone())).collect();
        let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*self.world.turn_config).clone() });
        for input in found {
            self.monitor.forgets(&input.turn);
            self.handed_again.insert(input.turn.clone());
            self.owe(
                input.turn.clone(),
                TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&turn_config) },
            );
        }
    }

    /// What was on its way to the store arrives, does not, or arrives late; then a new
    /// machine is told what became of the old one, and everything that is owed is said again.
    pub(super) fn new_machine(&mut self, recover: Option<Recover>) {
        // The end of an actor is seen to behind what the actor had said.
        if self.sabotage.reads_before_it_sends() {
            self.read();
        }
        self.monitor.saw(format!("{recover:?} after {}", state(&self.world.turn.state)));
        for question in std::mem::take(&mut self.world.questions) {
            let Question::Append(_, append, _) = question else { continue };
            match self.schedule.pick(3) {
                0 => drop(self.append(&append)),
                1 if self.plan.has(Fault::Disorder) => self.late.push(append),
                _ => {}
            }
        }
        self.readers.clear();
        self.world.crash();
        self.world.turn.watched(self.plan.watched);
        self.said.clear();
        self.monitor.new_life();
        self.tell_ended();
        if let Some(recover) = recover {
            self.say(TurnMessage::Wake { turn_config: Arc::clone(&self.world.turn_config), recover });
        }
        for (_, message) in self.owed.clone() {
            self.say(message);
        }
        self.configure_again();
        for (request, message) in self.steering.clone() {
            self.monitor.steers.repeats(&request);
            self.say(message);
        }
        let unwanted: Vec<_> =
            self.withdrawn.iter().filter(|id| self.owed.iter().any(|(owed, _)| owed == *id)).cloned().collect();
        for submission in unwanted {
            self.say(TurnMessage::Withdrawn { submission });
        }
    }
}

fn state(state: &State) -> &'static str {
    match state {
        State::Idle => "Idle",
        State::Load { .. } => "Load",
        State::Start(_) => "Start",
        State::BuildPrompt => "BuildPrompt",
        State::Condense(_) => "Condense",
        State::ReselectSkills(_) => "ReselectSkills",
        State::LlmInfer { .. } => "LlmInfer",
        State::ParseAction(_) => "ParseAction",
        State::CallTool(_) => "CallTool",
        State::AtLimit(_) => "AtLimit",
        State::Done(_) => "Done",
    }
}
