//! A small world for the machine's tests: a store, a tools room and a model that
//! answer when they are told to, and a trace of what was asked of them.

mod room;

pub(crate) use room::{definition, seal, side_effects, tools, tools_and_skills, tools_with, verdict};

use super::pairing::Pairing;
use crate::agent::Resumption;
use crate::approvals::Standing;
use crate::chat::{CallStatus, ContentPart, Message, StopReason, Usage};
use crate::condense::{CondenseRequest, Summary};
use crate::error::AgentError;
use crate::event::StepEvent;
use crate::ids::{ModelName, ResumeToken, SessionId, Ticket, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest, ModelProfile, RawCall};
use crate::models::{ModelPrice, Rate};
use crate::session_state::Session;
use crate::skills::{FrontMatter, Skill, SkillIndex};
use crate::store::{Append, Claim, Record, StoreError, latest};
use crate::submission::TurnNews;
use crate::tools::{CheckRequest, ChildTerms, ToolOutput, ToolReturn, Verdict};
use crate::turn::{Child, Effect, Turn, TurnMessage};
use crate::turn_config::{PromptLayers, TurnConfig};
use serde_json::Value;
use std::sync::Arc;

pub(crate) fn session_id() -> SessionId {
    SessionId::parse("s").unwrap()
}

pub(crate) fn model() -> ModelName {
    ModelName::parse("scripted:m").unwrap()
}

pub(crate) fn input(number: u32, text: &str, limits: Limits) -> TurnInput {
    let (turn, token) = (TurnId::new(format!("t{number}")), ResumeToken::new(format!("secret{number}")));
    TurnInput { limits, interactive: true, ..TurnInput::bare(turn, token, vec![ContentPart::text(text)]) }
}

/// The schema of answers here.
pub(crate) fn output_schema() -> Arc<Value> {
    Arc::new(serde_json::json!({"type": "object", "properties": {"ok": {"const": true}}, "required": ["ok"]}))
}

/// Whether an answer fits it.
pub(crate) fn fits(output: &Value) -> Result<(), String> {
    if output["ok"] == true { Ok(()) } else { Err("/ok: true was expected".to_owned()) }
}

/// So many skills: `s0x`, `s1x` and so on. Each third one names its tools.
pub(crate) fn skills(many: usize) -> SkillIndex {
    let skill = |number: usize| {
        let front = FrontMatter {
            name: format!("s{number}x"),
            description: "Does one thing.".to_owned(),
            allowed_tools: (number % 3 == 1).then(|| Arc::from(["local/read".to_owned(), "local/idem".to_owned()])),
            ..FrontMatter::default()
        };
        Arc::new(Skill::new(front, format!("Do {number}."), format!("/skills/{number}"), format!("hash{number}")))
    };
    SkillIndex { skills: (0..many).map(skill).collect(), findings: Vec::new() }
}

pub(crate) fn answer(text: &str, calls: &[(&str, &str)]) -> LlmAnswer {
    LlmAnswer {
        text: text.into(),
        reasoning: None,
        calls: calls
            .iter()
            .map(|(name, arguments)| RawCall {
                name: (*name).into(),
                arguments: (*arguments).into(),
                signatures: vec![],
            })
            .collect(),
        stop_reason: if calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls },
        usage: Some(Usage { input_tokens: 10, output_tokens: 5, total_tokens: 15, ..Usage::default() }),
        cost: None,
        response_id: None,
        model: model(),
        latency_ms: 1,
    }
}

/// What the machine asked and nobody answered yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Question {
    /// Whether all records are wanted.
    Claim(Ticket, bool),
    Append(Ticket, Append, bool),
    Tools(Ticket),
    Profile(Ticket),
    Layers(Ticket),
    Skills(Ticket),
    Output(Ticket, Arc<Value>),
    Infer(Ticket, Arc<LlmRequest>),
    Condense(Ticket, Arc<CondenseRequest>),
    Check(Ticket, CheckRequest),
    Call(Ticket, Arc<crate::chat::ToolCall>),
    /// A call that runs since it was judged.
    Ran(Ticket, Arc<crate::chat::ToolCall>),
    Own(TurnMessage),
}

impl Question {
    /// Whether it is answered at once where everything works.
    pub(crate) fn is_quick(&self) -> bool {
        !matches!(self, Self::Infer(..) | Self::Condense(..) | Self::Call(..) | Self::Ran(..))
    }

    /// Whether nobody answers it any more when the asker no longer wants to know.
    fn is_abandonable(&self) -> bool {
        matches!(
            self,
            Self::Infer(..) | Self::Condense(..) | Self::Check(..) | Self::Call(..) | Self::Ran(..) | Self::Output(..)
        )
    }

    /// Whether this is the question of this ticket, to a tool.
    fn is_about(&self, asked: Ticket) -> bool {
        match self {
            Self::Check(ticket, _) | Self::Call(ticket, _) | Self::Ran(ticket, _) => *ticket == asked,
            _ => false,
        }
    }

    /// The answer to a call.
    pub(crate) fn returned(&self, returned: ToolReturn) -> Option<TurnMessage> {
        match self {
            Self::Call(ticket, _) => Some(TurnMessage::ToolReturned { ticket: *ticket, returned: Box::new(returned) }),
            Self::Ran(ticket, _) => {
                Some(TurnMessage::Checked { ticket: *ticket, verdict: Some(Verdict::Ran(Box::new(returned))) })
            }
            _ => None,
        }
    }
}

/// Stores an append by the rules of a store, which gave this epoch last.
pub(crate) fn store(stored: &mut Vec<Arc<Record>>, epoch: u64, append: &Append) -> Result<u64, StoreError> {
    if append.epoch < epoch {
        return Err(StoreError::Fenced { epoch });
    }
    let known = append.records.iter().take_while(|new| stored.iter().any(|old| old.id == new.id)).count();
    let version = stored.len() as u64;
    if known < append.records.len() {
        if append.expected_version + known as u64 != version {
            return Err(StoreError::Conflict { version });
        }
        stored.extend(append.records[known..].iter().cloned());
    }
    Ok(stored.len() as u64)
}

/// What is told of an append: a success only to whoever waits for it.
pub(crate) fn told(ticket: Ticket, result: Result<u64, StoreError>, confirm: bool) -> Option<TurnMessage> {
    (confirm || result.is_err()).then_some(TurnMessage::Saved { ticket, result })
}

/// The world around one machine.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) turn: Turn,
    pub(crate) now: i64,
    pub(crate) turn_config: Arc<TurnConfig>,
    pub(crate) capabilities: Capabilities,
    /// What the model costs: a dollar for a million tokens of both kinds.
    pub(crate) price: Option<ModelPrice>,
    pub(crate) epoch: u64,
    pub(crate) stored: Vec<Arc<Record>>,
    pub(crate) questions: Vec<Question>,
    pub(crate) news: Vec<TurnNews>,
    pub(crate) events: Vec<StepEvent>,
    /// Whose turns had their tools listed.
    pub(crate) listed: Vec<TurnId>,
    /// Every call that was dispatched.
    pub(crate) dispatched: Vec<String>,
    /// The skills there are.
    pub(crate) skills: Arc<SkillIndex>,
    /// How often the tools have become others under their names.
    pub(crate) tool_changes: u32,
    /// What was decided for ever.
    pub(crate) memory: Vec<Arc<Standing>>,
    /// What was handed down to sub-agents that were suspended.
    pub(crate) handed: Vec<Resumption>,
    /// The terms of the sub-agents that were called.
    pub(crate) terms: Vec<Arc<ChildTerms>>,
}

impl World {
    pub(crate) fn new(turn_config: TurnConfig) -> Self {
        Self {
            turn: Turn::new(session_id()),
            now: 0,
            turn_config: Arc::new(turn_config),
            capabilities: Capabilities { native_tools: true, ..Capabilities::default() },
            price: Some(ModelPrice::usd(Rate::from_amount(1.0), Rate::from_amount(1.0))),
            epoch: 0,
            stored: Vec::new(),
            questions: Vec::new(),
            news: Vec::new(),
            events: Vec::new(),
            listed: Vec::new(),
            dispatched: Vec::new(),
            skills: Arc::new(skills(3)),
            tool_changes: 0,
            memory: Vec::new(),
            handed: Vec::new(),
            terms: Vec::new(),
        }
    }

    /// Gives the machine a message and keeps what it asks.
    pub(crate) fn say(&mut self, message: TurnMessage) {
        self.now += 1;
        for effect in self.turn.apply(self.now, message) {
            if let Effect::Infer { request, .. } = &effect {
                assert_paired(&request.messages);
            }
            self.keep(effect);
        }
        if let Some(session) = self.turn.session() {
            assert_paired(&session.history);
        }
    }

    /// Does one thing the machine asked for.
    pub(crate) fn keep(&mut self, effect: Effect) {
        match effect {
            Effect::Tell(message) => self.questions.push(Question::Own(message)),
            Effect::Claim { ticket, whole, .. } => self.questions.push(Question::Claim(ticket, whole)),
            Effect::Append { ticket, confirm, append, .. } => {
                self.questions.push(Question::Append(ticket, append, confirm))
            }
            Effect::ListTools { ticket, submission, .. } => {
                self.listed.push(submission);
                self.questions.push(Question::Tools(ticket));
            }
            Effect::Profile { ticket, .. } => self.questions.push(Question::Profile(ticket)),
            Effect::ReadLayers { ticket, .. } => self.questions.push(Question::Layers(ticket)),
            Effect::ListSkills { ticket, .. } => self.questions.push(Question::Skills(ticket)),
            Effect::CheckOutput { ticket, output, .. } => self.questions.push(Question::Output(ticket, output)),
            Effect::Infer { ticket, request, .. } => self.questions.push(Question::Infer(ticket, request)),
            Effect::Condense { ticket, request } => self.questions.push(Question::Condense(ticket, request)),
            Effect::Check { ticket, check, .. } => self.questions.push(Question::Check(ticket, check)),
            Effect::Call { ticket, call, context, .. } => {
                self.terms.extend(context.child.clone());
                self.dispatched.push(format!("{}{}", call.id, room::followed(context.server_wait.as_deref())));
                self.questions.push(Question::Call(ticket, call));
            }
            Effect::Child { ticket, call, child } => {
                let how = match *child {
                    Child::Works { .. } => "works",
                    Child::Resumes { resumption, .. } => {
                        self.handed.push(*resumption);
                        "goes on"
                    }
                    Child::Worked { .. } => "is read",
                };
                self.dispatched.push(format!("{} {how}", call.id));
                self.questions.push(Question::Call(ticket, call));
            }
            Effect::Abandon { ticket } => self.questions.retain(|question| !question.is_about(ticket)),
            Effect::AbandonAll => self.questions.retain(|question| !question.is_abandonable()),
            Effect::Remember(standing) => standing.join(&mut self.memory),
            Effect::GiveUp { tool, .. } => self.dispatched.push(format!("{tool} is given up")),
            Effect::Release { .. } => {}
            Effect::Report(news) => self.news.push(news),
            Effect::Emit(event) => self.events.push(*event),
        }
    }

    /// Stores an append by the rules of a store.
    pub(crate) fn store(&mut self, append: &Append) -> Result<u64, StoreError> {
        store(&mut self.stored, self.epoch, append)
    }

    /// The answer to a question, by rooms that work.
    pub(crate) fn works(&mut self, question: &Question) -> Option<TurnMessage> {
        Some(match question {
            Question::Own(message) => message.clone(),
            Question::Claim(ticket, whole) => {
                self.epoch += 1;
                let records = if *whole { self.stored.clone() } else { latest(&self.stored).to_vec() };
                let claim = Claim { epoch: self.epoch, version: self.stored.len() as u64, records };
                TurnMessage::Loaded { ticket: *ticket, result: Ok(claim) }
            }
            Question::Append(ticket, append, confirm) => {
                let result = self.store(append);
                return told(*ticket, result, *confirm);
            }
            Question::Tools(ticket) => {
                let tools = if self.turn_config.skills.is_some() {
                    tools_and_skills()
                } else {
                    tools_with(&self.turn_config.subagents)
                };
                TurnMessage::ToolsListed { ticket: *ticket, tools, servers: Vec::new() }
            }
            Question::Skills(ticket) => {
                let (ticket, index) = (*ticket, Arc::clone(&self.skills));
                TurnMessage::SkillsListed { ticket, index, scores: None }
            }
            Question::Output(ticket, output) => TurnMessage::OutputChecked { ticket: *ticket, result: fits(output) },
            Question::Profile(ticket) => {
                let profile = ModelProfile {
                    model: model(),
                    capabilities: self.capabilities.clone(),
                    price: self.price.clone(),
                    tokens_per_kb: crate::llm::TOKENS_PER_KB,
                };
                TurnMessage::Profiled { ticket: *ticket, result: Ok(Arc::new(profile)) }
            }
            Question::Layers(ticket) => {
                let layers = PromptLayers { memory: "what is remembered".into(), ..self.turn_config.layers.clone() };
                TurnMessage::LayersRead { ticket: *ticket, result: Ok(Arc::new(layers)) }
            }
            Question::Check(ticket, check) => {
                let verdict = match verdict(check, self.tool_changes, &self.memory) {
                    Verdict::Allow { traits, .. } if check.run && traits.read_only => {
                        self.dispatched.push(check.call.id.to_string());
                        self.questions.push(Question::Ran(*ticket, Arc::clone(&check.call)));
                        Verdict::Running
                    }
                    verdict => verdict,
                };
                TurnMessage::Checked { ticket: *ticket, verdict: Some(verdict) }
            }
            Question::Infer(..) | Question::Condense(..) | Question::Call(..) | Question::Ran(..) => return None,
        })
    }

    /// Answers everything but the model and the tools, until only they are left.
    pub(crate) fn settle(&mut self) {
        while let Some(at) = self.questions.iter().position(Question::is_quick) {
            let question = self.questions.remove(at);
            if let Some(message) = self.works(&question) {
                self.say(message);
            }
        }
    }

    /// The model answers the question that is open.
    pub(crate) fn llm(&mut self, result: Result<LlmAnswer, LlmError>) {
        let at = self.questions.iter().position(|q| matches!(q, Question::Infer(..))).expect("the model was asked");
        let Question::Infer(ticket, _) = self.questions.remove(at) else { unreachable!() };
        self.say(TurnMessage::ParseAction { ticket, result: result.map(Arc::new) });
        self.settle();
    }

    /// Somebody writes the summary that is waited for, or does not.
    pub(crate) fn summarise(&mut self, result: Result<Summary, AgentError>) {
        let at = self.questions.iter().position(|q| matches!(q, Question::Condense(..))).expect("a summary is wanted");
        let Question::Condense(ticket, _) = self.questions.remove(at) else { unreachable!() };
        self.say(TurnMessage::Condensed { ticket, result: result.map(Arc::new) });
        self.settle();
    }

    /// The call of this id returns.
    pub(crate) fn tool(&mut self, id: &str, status: CallStatus, text: &str) {
        let output = if status == CallStatus::Ok { ToolOutput::text(text) } else { ToolOutput::error(text) };
        let message = self.returns(id, ToolReturn { status, output, duration_ms: 1 });
        self.say(message);
        self.settle();
    }

    /// What is said when the call whose id ends so returns.
    pub(crate) fn returns(&mut self, id: &str, returned: ToolReturn) -> TurnMessage {
        let is = |q: &Question| matches!(q, Question::Call(_, call) | Question::Ran(_, call) if call.id.as_str().ends_with(id));
        let at = self.questions.iter().position(is).expect("the call runs");
        self.questions.remove(at).returned(returned).expect("a call")
    }

    /// The program is gone; a new machine reads the journal.
    pub(crate) fn crash(&mut self) {
        self.turn = Turn::new(session_id());
        self.questions.clear();
    }

    /// The session its journal tells of.
    pub(crate) fn folded(&self) -> Session {
        Session::fold_keeping(session_id(), self.turn_config.max_history_messages, &self.stored)
    }
}

/// Whether a strict provider takes these messages, or why not.
pub(crate) fn paired(history: &[Arc<Message>]) -> Result<(), String> {
    let mut pairing = Pairing::default();
    history.iter().try_for_each(|message| pairing.read(message))?;
    pairing.owed().map_or(Ok(()), |call| Err(format!("{call} has no result")))
}

pub(crate) fn assert_paired(history: &[Arc<Message>]) {
    assert_eq!(paired(history), Ok(()));
}
