//! Stories of single turns: what is said, and what the machine asks of the world.

mod answers;
mod calls;
mod decisions;
mod endings;
mod failing_store;
mod guards;
mod limits;
mod models;
mod people;
mod recovery;
mod skills;
mod structured;

use super::world::{Question, World, answer, input, output_schema};
use crate::approvals::Decision;
use crate::chat::{CallStatus, StopReason};
use crate::ids::{ApprovalId, ResumeToken};
use crate::input::{ApprovalsMode, ResumeReply, Steer, TurnInput};
use crate::limits::Limits;
use crate::llm::{LlmAnswer, LlmError, LlmErrorKind, ToolModeChoice};
use crate::options::{Configuring, OptionsPatch, SessionChange};
use crate::outcome::EndReason;
use crate::store::StoreError;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn::message::Recover;
use crate::turn_config::TurnConfig;
use expect_test::{Expect, expect};
use std::fmt::Write;
use std::sync::Arc;

/// Plays a story and compares what the machine asked for.
///
/// `user TEXT` · `llm TEXT` · `calls NAME JSON; NAME JSON` · `cut TEXT` ·
/// `beside TEXT | NAME JSON; NAME JSON` · `thinks THOUGHT | TEXT` · `refuse TEXT` · `llm-fails` · `ok ID TEXT` · `error ID TEXT` · `stop REASON` ·
/// `crash` (and a new actor goes on) · `restart TEXT` (a new program with an input)
/// · `approve ID` · `deny ID` · `approve-all ID` for the session · `deny-all ID` for ever
/// · `drift` (the tools are others now) · `resume TOKEN TEXT` · `steer TEXT` · `store-fails` (from now on), `store-fails COUNT` (that often), `store-away COUNT` · `quiet` (there was no progress)
/// · `notice ID TEXT` (what happened outside of the conversation)
pub(crate) fn check(setup: Setup, steps: &[&str], expected: Expect) {
    let mut told = Teller::new(setup);
    for step in steps {
        told.step(step);
    }
    expected.assert_eq(&told.trace);
}

/// The world after these steps. Its events have the ends of turns in them, which the supervisor tells.
pub(crate) fn told(setup: Setup, steps: &[&str]) -> World {
    let mut told = Teller::new(setup);
    let mut heard = 0;
    for step in steps {
        told.step(step);
        for news in &told.world.news[std::mem::replace(&mut heard, told.world.news.len())..] {
            if let TurnNews::Finished { outcome, .. } = news {
                let outcome = Box::new(crate::outcome::TurnOutcome { saved: true, ..(**outcome).clone() });
                told.world.events.push(crate::event::AgentEvent::TurnFinished { outcome }.into());
            }
        }
    }
    told.world
}

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) turn_config: TurnConfig,
    pub(crate) limits: Limits,
    pub(crate) approvals: ApprovalsMode,
    /// Whether answers must fit a schema.
    pub(crate) structured: bool,
    /// Whether a person is asked at a limit.
    pub(crate) asks_at_limits: bool,
}

pub(crate) fn native() -> Setup {
    let turn_config = TurnConfig::new(super::world::model());
    Setup {
        turn_config,
        limits: Limits::default(),
        approvals: ApprovalsMode::Deny,
        structured: false,
        asks_at_limits: false,
    }
}

fn json() -> Setup {
    let mut setup = native();
    setup.turn_config.tool_mode = ToolModeChoice::Json;
    setup
}

fn limited(change: impl FnOnce(&mut Limits)) -> Setup {
    let mut setup = native();
    change(&mut setup.limits);
    setup
}

struct Teller {
    world: World,
    setup: Setup,
    trace: String,
    inputs: u32,
    said: usize,
    /// How many more appends fail.
    store_fails: u32,
    store_is_away: bool,
}

impl Teller {
    fn new(setup: Setup) -> Self {
        let world = World::new(setup.turn_config.clone());
        Self { world, setup, trace: String::new(), inputs: 0, said: 0, store_fails: 0, store_is_away: false }
    }

    fn next_input(&mut self, text: &str) -> Arc<TurnInput> {
        self.inputs += 1;
        let output_schema = self.setup.structured.then(output_schema);
        let approvals = self.setup.approvals;
        let asks_at_limits = self.setup.asks_at_limits;
        Arc::new(TurnInput { approvals, output_schema, asks_at_limits, ..input(self.inputs, text, self.setup.limits) })
    }

    fn step(&mut self, step: &str) {
        writeln!(self.trace, "> {step}").unwrap();
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (id, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let turn_config = Arc::clone(&self.world.turn_config);
        match word {
            "user" => {
                let input = self.next_input(rest);
                self.say(TurnMessage::Start { input, turn_config });
            }
            "llm" => self.llm(Ok(answer(rest, &[]))),
            "calls" => {
                let calls: Vec<_> = rest.split("; ").filter_map(|call| call.split_once(' ')).collect();
                self.llm(Ok(answer("", &calls)));
            }
            "beside" => {
                let (text, calls) = rest.split_once(" | ").expect("words and calls");
                let calls: Vec<_> = calls.split("; ").filter_map(|call| call.split_once(' ')).collect();
                self.llm(Ok(answer(text, &calls)));
            }
            "thinks" => {
                let (thought, text) = rest.split_once(" | ").expect("a thought and words");
                self.llm(Ok(LlmAnswer { reasoning: Some(thought.to_owned()), ..answer(text, &[]) }));
            }
            "cut" => self.llm(Ok(LlmAnswer { stop_reason: StopReason::MaxTokens, ..answer(rest, &[]) })),
            "refuse" => self.llm(Ok(LlmAnswer { stop_reason: StopReason::Refusal, ..answer(rest, &[]) })),
            "llm-fails" => self.llm(Err(LlmError::new(LlmErrorKind::Unavailable, "the provider is down"))),
            "ok" => self.tool(id, CallStatus::Ok, text),
            "error" => self.tool(id, CallStatus::Error, text),
            "stop" => self.say(TurnMessage::Stopped { reason: rest.parse().unwrap(), submission: None }),
            "crash" => {
                self.world.crash();
                self.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
            }
            "killed" => {
                self.world.crash();
                self.say(TurnMessage::Wake { turn_config, recover: Recover::Close(EndReason::Cancelled) });
            }
            "restart" => {
                self.world.crash();
                let input = self.next_input(rest);
                self.say(TurnMessage::Start { input, turn_config });
            }
            "approve" => self.decide(id, Decision::AllowOnce),
            "deny" => self.decide(id, Decision::Deny { reason: "not today".into() }),
            "approve-all" => self.decide(id, Decision::AllowSession),
            "deny-all" => self.decide(id, Decision::DenyAlways { reason: "never".into() }),
            "drift" => self.world.tool_changes += 1,
            "resume" => {
                self.inputs += 1;
                let submission = crate::ids::TurnId::new(format!("t{}", self.inputs));
                let reply = match text {
                    "allow" => ResumeReply::Decision(Decision::AllowOnce),
                    text => ResumeReply::Answer(text.to_owned()),
                };
                self.say(TurnMessage::Resume {
                    submission,
                    token: ResumeToken::new(id),
                    reply: Box::new(reply),
                    parent: None,
                    turn_config,
                });
            }
            "steer" => {
                let request_id = crate::ids::RequestId::new(rest);
                let parts = vec![crate::chat::ContentPart::text(rest)];
                self.say(TurnMessage::Steered { steer: Box::new(Steer { request_id, submission: None, parts }) });
            }
            "notice" => {
                let patch = OptionsPatch { notice: Some(text.into()), ..OptionsPatch::default() };
                let (request_id, change) = (crate::ids::RequestId::new(id), SessionChange::Patch(Box::new(patch)));
                let asked = Arc::new(Configuring { request_id, change });
                self.say(TurnMessage::Configure { asked, turn_config });
            }
            "quiet" => self.say(TurnMessage::Quiet),
            "store-fails" | "store-away" => {
                self.store_fails = id.parse().unwrap_or(u32::MAX);
                self.store_is_away = word == "store-away";
            }
            other => panic!("no such step: {other}"),
        }
    }

    fn decide(&mut self, approval: &str, decision: Decision) {
        let (approval, decision) = (ApprovalId::new(approval), Box::new(decision));
        self.say(TurnMessage::Decided { approval, decision, asker: None });
    }

    fn llm(&mut self, result: Result<LlmAnswer, LlmError>) {
        let is = |q: &Question| matches!(q, Question::Infer(..));
        let at = self.world.questions.iter().position(is).expect("the model was asked");
        let Question::Infer(ticket, _) = self.world.questions.remove(at) else { unreachable!() };
        self.say(TurnMessage::ParseAction { ticket, result: result.map(Arc::new) });
    }

    fn tool(&mut self, id: &str, status: CallStatus, text: &str) {
        let output =
            crate::tools::ToolOutput { is_error: status != CallStatus::Ok, ..crate::tools::ToolOutput::text(text) };
        let returned = crate::tools::ToolReturn { status, output, duration_ms: 1 };
        let message = self.world.returns(id, returned);
        self.say(message);
    }

    /// One message, then everything the rooms answer at once; what is asked is written down.
    fn say(&mut self, message: TurnMessage) {
        let before: Vec<_> = self.world.questions.clone();
        self.world.say(message);
        self.write_down(&before);
        while let Some(at) = self.world.questions.iter().position(Question::is_quick) {
            let question = self.world.questions.remove(at);
            let before = self.world.questions.clone();
            let answer = match &question {
                Question::Append(ticket, ..) if self.store_fails > 0 => {
                    self.store_fails -= 1;
                    let error = match self.store_is_away {
                        true => StoreError::Away("no answer".into()),
                        false => StoreError::Unavailable("the disk is full".into()),
                    };
                    Some(TurnMessage::Saved { ticket: *ticket, result: Err(error) })
                }
                question => self.world.works(question),
            };
            if let Some(message) = answer {
                self.world.say(message);
            }
            self.write_down(&before);
        }
    }

    fn write_down(&mut self, before: &[Question]) {
        for question in self.world.questions.iter().filter(|question| !before.contains(question)) {
            match question {
                Question::Infer(_, request) => {
                    writeln!(self.trace, "    infer step {} with {} messages", request.step, request.messages.len())
                }
                Question::Call(_, call) | Question::Ran(_, call) => {
                    writeln!(self.trace, "    run {} {} {}", call.id, call.name, call.arguments)
                }
                Question::Append(_, append, _) => {
                    let kinds: Vec<_> = append.records.iter().map(|record| kind(record)).collect();
                    writeln!(self.trace, "    save {}", kinds.join(", "))
                }
                Question::Output(_, output) => writeln!(self.trace, "    does {output} fit?"),
                Question::Skills(_) => writeln!(self.trace, "    list skills"),
                _ => Ok(()),
            }
            .unwrap();
        }
        for news in &self.world.news[self.said..] {
            match news {
                TurnNews::Finished { submission, outcome } => {
                    let guard = outcome.guard_reason.map(|guard| format!(" {guard:?}")).unwrap_or_default();
                    let error = outcome.error.as_ref().map(|error| format!(" [{error}]")).unwrap_or_default();
                    let token = outcome.token.as_ref().map(|token| format!(" token {token}")).unwrap_or_default();
                    let saved = if outcome.saved { "" } else { " (not saved)" };
                    let calls: Vec<_> = outcome.tool_transcript.iter().map(|e| format!("{:?}", e.status)).collect();
                    let calls = if calls.is_empty() { String::new() } else { format!(" calls {}", calls.join(" ")) };
                    writeln!(
                        self.trace,
                        "    finish {submission} {:?}{guard} {:?}{calls}{token}{error}{saved}",
                        outcome.finish_reason, outcome.content
                    )
                }
                TurnNews::Refused { submission, error } => writeln!(self.trace, "    refuse {submission}: {error}"),
                TurnNews::Paused { .. } => writeln!(self.trace, "    pause the clock"),
                TurnNews::AtLimit { question, .. } => writeln!(
                    self.trace,
                    "    pause the clock: {:?} {} is reached; {} more? ({})",
                    question.guard, question.limit, question.portion, question.approval_id
                ),
                TurnNews::GivenUp { reason, .. } => writeln!(self.trace, "    it is to be ended: {reason}"),
                TurnNews::Unpaused { .. } => writeln!(self.trace, "    the clock goes on"),
                TurnNews::Began { submission, .. } => writeln!(self.trace, "    {submission} begins"),
                TurnNews::Configured { request_id, .. } => writeln!(self.trace, "    changed {request_id}"),
                TurnNews::Steered { request_id, result } => match result {
                    Ok(taken) => writeln!(self.trace, "    {request_id:?} is taken: {taken}"),
                    Err(error) => writeln!(self.trace, "    {request_id:?} is not taken: {error}"),
                },
                TurnNews::Orphaned { .. }
                | TurnNews::ChildGivenUp { .. }
                | TurnNews::TasksEnd { .. }
                | TurnNews::Closed
                | TurnNews::NotOpen { .. }
                | TurnNews::Flushed
                | TurnNews::BetweenSteps
                | TurnNews::Decided { .. }
                | TurnNews::Left => Ok(()),
            }
            .unwrap();
        }
        self.said = self.world.news.len();
    }
}

fn kind(record: &crate::store::Record) -> String {
    let value = serde_json::to_value(record).unwrap();
    value["kind"].as_str().unwrap().to_owned()
}
