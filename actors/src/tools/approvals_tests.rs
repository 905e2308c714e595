//! Over random decisions, edits, expirations, replays, crashes and tools that change: no call runs that was not approved
//! exactly as it ran. The machine and the gate are the real ones; the people, the store and the tools are made of dice.

use super::gate::{Gate, Judged};
use super::policy::Policy;
use super::port::ToolError;
use bob_messages::approvals::{ApprovalQuestion, Standing};
use bob_messages::chat::{CallStatus, StopReason, ToolCall};
use bob_messages::ids::{ApprovalId, CallId, ModelName, ResumeToken, SessionId, Ticket, ToolName, TurnId};
use bob_messages::llm::{Capabilities, LlmAnswer, ModelProfile, RawCall};
use bob_messages::session::{ApprovalsMode, Session, TurnInput};
use bob_messages::sessions::{Decision, TurnNews};
use bob_messages::store::{Append, Claim, Fact, Record, StoreError};
use bob_messages::tools::{
    CallContext, CheckRequest, Grant, Risk, ToolDescriptor, ToolKind, ToolReturn, ToolSet, ToolSource,
};
use bob_messages::turn::{Brief, Effect, Limits, Recover, ResumeReply, Turn, TurnMessage};
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much happens in one life.
const STEPS: u32 = 80;

/// What is broken on purpose, between the machine and the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// The call that arrives is another than the one that was allowed, and its grant is not looked at.
    ChangesArguments,
    /// A yes to a tool counts for whatever has its name by then.
    IgnoresDefinition,
    /// A yes to a call is taken for one to all calls of its tool.
    WidensScope,
    /// What was said of one line for the shell counts for every line.
    ForgetsExactness,
    /// A no is heard as a yes.
    HearsYes,
    /// A call that was approved runs again.
    RunsTwice,
}

const DEFECTS: [Defect; 6] = [
    Defect::ChangesArguments,
    Defect::IgnoresDefinition,
    Defect::WidensScope,
    Defect::ForgetsExactness,
    Defect::HearsYes,
    Defect::RunsTwice,
];

/// What the machine waits for.
#[derive(Clone)]
enum Waits {
    Own(TurnMessage),
    Claim(Ticket),
    Append(Ticket, Append, bool),
    Tools(Ticket),
    Profile(Ticket),
    Infer(Ticket),
    Check(Ticket, CheckRequest, Arc<CallContext>),
    Call(Ticket, Arc<ToolCall>, Grant, Arc<CallContext>),
}

/// A call as a person was shown it.
struct Shown {
    call: Arc<ToolCall>,
    definition: String,
    exact: bool,
    said: Vec<Decision>,
}

struct World {
    dice: Rng,
    defect: Option<Defect>,
    turn: Turn,
    gate: Gate,
    version: u32,
    now: i64,
    epoch: u64,
    stored: Vec<Arc<Record>>,
    waits: Vec<Waits>,
    memory: Vec<Arc<Standing>>,
    shown: BTreeMap<ApprovalId, Shown>,
    tokens: Vec<ResumeToken>,
    inputs: u32,
    steps: u32,
    ran: BTreeSet<CallId>,
    /// Everything that was said to the machine, to be said again.
    past: Vec<TurnMessage>,
    broken: Option<String>,
}

fn name() -> ModelName {
    ModelName::parse("dice:m").unwrap()
}

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn tools(version: u32) -> Vec<ToolDescriptor> {
    let tool = |name: &str, kind, version: u32| ToolDescriptor {
        id: ToolName::new(name),
        title: String::new(),
        kind,
        description: format!("Version {version}."),
        schema: json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}),
        source: ToolSource::Embedded,
        risk: Risk::High,
        idempotent: false,
        read_only: false,
    };
    vec![tool("demo/pay", ToolKind::Other, version % 3), tool("demo/sh", ToolKind::Execute, version / 3)]
}

impl World {
    fn new(seed: u64, defect: Option<Defect>) -> Self {
        Self {
            dice: Rng::with_seed(seed),
            defect,
            turn: Turn::new(session()),
            gate: Gate::new([tools(0)], Policy::default()).unwrap(),
            version: 0,
            now: 0,
            epoch: 0,
            stored: Vec::new(),
            waits: Vec::new(),
            memory: Vec::new(),
            shown: BTreeMap::new(),
            tokens: Vec::new(),
            inputs: 0,
            steps: 0,
            ran: BTreeSet::new(),
            past: Vec::new(),
            broken: None,
        }
    }

    fn say(&mut self, message: TurnMessage) {
        self.now += 1;
        self.past.push(message.clone());
        for effect in self.turn.apply(self.now, message) {
            match effect {
                Effect::Tell(message) => self.waits.push(Waits::Own(message)),
                Effect::Claim { ticket, .. } => self.waits.push(Waits::Claim(ticket)),
                Effect::Append { ticket, confirm, append } => self.waits.push(Waits::Append(ticket, append, confirm)),
                Effect::ListTools { ticket, .. } => self.waits.push(Waits::Tools(ticket)),
                Effect::Profile { ticket, .. } => self.waits.push(Waits::Profile(ticket)),
                Effect::Infer { ticket, .. } => self.waits.push(Waits::Infer(ticket)),
                Effect::Check { ticket, check, context } => self.waits.push(Waits::Check(ticket, check, context)),
                Effect::Call { ticket, call, grant, context } => {
                    self.waits.push(Waits::Call(ticket, call, grant, context));
                }
                Effect::Remember(standing) => standing.join(&mut self.memory),
                Effect::Report(TurnNews::Paused { question, .. }) => self.show(&question),
                Effect::Report(TurnNews::Finished { outcome, .. }) => self.tokens.extend(outcome.token),
                Effect::AbandonAll | Effect::Release { .. } | Effect::Report(_) | Effect::Emit(_) => {}
                // The briefs here want none of it, and the histories are short.
                Effect::ReadLayers { .. }
                | Effect::ListSkills { .. }
                | Effect::CheckOutput { .. }
                | Effect::Condense { .. } => panic!("nobody answers this here"),
            }
        }
        self.show_suspended();
    }

    fn show(&mut self, question: &ApprovalQuestion) {
        let definition = self.definition_asked(&question.approval_id).unwrap_or_default();
        let (call, exact) = (Arc::clone(&question.call), question.exact);
        let shown = Shown { call, definition, exact, said: Vec::new() };
        self.shown.entry(question.approval_id.clone()).or_insert(shown);
    }

    /// Whoever has a token sees what the turn is suspended on.
    fn show_suspended(&mut self) {
        let open =
            self.turn.session().and_then(|session| session.open.as_ref()).filter(|open| open.suspended.is_some());
        let calls = open.and_then(|open| open.step.as_ref()).map_or(&[][..], |step| &step.calls);
        for open in calls.iter().filter(|open| open.result.is_none()) {
            let Some((asked, tool)) = open.approval.as_ref().and_then(|asked| Some((asked, asked.tool.as_ref()?)))
            else {
                continue;
            };
            self.shown.entry(asked.id.clone()).or_insert_with(|| Shown {
                call: Arc::clone(&open.call),
                definition: tool.definition.clone(),
                exact: tool.exact,
                said: Vec::new(),
            });
        }
    }

    fn definition_asked(&self, approval: &ApprovalId) -> Option<String> {
        let step = self.turn.session()?.running()?.step.as_ref()?;
        let asked = step.calls.iter().filter_map(|open| open.approval.as_ref()).find(|asked| asked.id == *approval)?;
        asked.tool.as_ref().map(|tool| tool.definition.clone())
    }

    /// Answers one thing the machine waits for.
    fn answer(&mut self, waits: Waits) {
        let message = match waits {
            Waits::Own(message) => message,
            Waits::Claim(ticket) => {
                self.epoch += 1;
                let (epoch, version, records) = (self.epoch, self.stored.len() as u64, self.stored.clone());
                TurnMessage::Loaded { ticket, result: Ok(Claim { epoch, version, records }) }
            }
            Waits::Append(ticket, append, confirm) => {
                let result = self.store(append);
                if !confirm && result.is_ok() {
                    return;
                }
                TurnMessage::Saved { ticket, result }
            }
            Waits::Tools(ticket) => {
                let tools = Arc::new(ToolSet::from(self.gate.offered().to_vec()));
                TurnMessage::ToolsListed { ticket, tools, servers: Vec::new() }
            }
            Waits::Profile(ticket) => {
                let capabilities = Capabilities { native_tools: true, ..Capabilities::default() };
                TurnMessage::Profiled { ticket, result: Ok(Arc::new(ModelProfile { model: name(), capabilities })) }
            }
            Waits::Infer(ticket) => TurnMessage::ParseAction { ticket, result: Ok(Arc::new(self.model())) },
            Waits::Check(ticket, check, context) => {
                let check = self.damaged(check);
                let verdict = match self.gate.judge(&check, &context) {
                    Judged::Told(verdict) => verdict,
                    Judged::MayRun(_) => unreachable!("nothing here only reads"),
                };
                TurnMessage::Checked { ticket, verdict: Some(verdict) }
            }
            Waits::Call(ticket, call, grant, context) => {
                let returned = Box::new(self.tool(&call, &grant, &context));
                TurnMessage::ToolReturned { ticket, returned }
            }
        };
        self.say(message);
    }

    fn damaged(&self, mut check: CheckRequest) -> CheckRequest {
        check.standing.extend(self.memory.iter().filter(|standing| standing.tool == check.call.name).cloned());
        if self.defect == Some(Defect::IgnoresDefinition)
            && let Some(tool) = check.approved.as_mut().and_then(|approved| approved.tool.as_mut())
        {
            Arc::make_mut(tool).definition = self.definition(&check.call.name);
        }
        if self.defect == Some(Defect::ForgetsExactness) {
            for standing in &mut check.standing {
                Arc::make_mut(standing).arguments = None;
            }
        }
        check
    }

    fn definition(&self, name: &ToolName) -> String {
        let tools = tools(self.version);
        let tool = tools.iter().find(|tool| tool.id == *name).unwrap();
        super::grant::Definition::of(tool).digest()
    }

    fn store(&mut self, append: Append) -> Result<u64, StoreError> {
        if append.epoch < self.epoch {
            return Err(StoreError::Fenced { epoch: self.epoch });
        }
        let version = self.stored.len() as u64;
        if append.expected_version != version {
            return Err(StoreError::Conflict { version });
        }
        self.stored.extend(append.records);
        Ok(self.stored.len() as u64)
    }

    fn model(&mut self) -> LlmAnswer {
        self.steps += 1;
        let count = if self.steps.is_multiple_of(4) { 0 } else { self.dice.usize(1..=3) };
        let calls: Vec<_> = (0..count)
            .map(|_| RawCall {
                name: ["demo/pay", "demo/sh"][self.dice.usize(..2)].to_owned(),
                arguments: json!({"command": (["a", "b"][self.dice.usize(..2)])}).to_string(),
                signatures: Vec::new(),
            })
            .collect();
        LlmAnswer {
            text: if calls.is_empty() { "done".to_owned() } else { String::new() },
            reasoning: None,
            stop_reason: if calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls },
            calls,
            usage: None,
            response_id: None,
            model: name(),
            latency_ms: 1,
        }
    }

    /// A call reaches its tool, if its grant is good.
    fn tool(&mut self, call: &ToolCall, grant: &Grant, context: &CallContext) -> ToolReturn {
        let mut call = call.clone();
        match self.defect {
            Some(Defect::ChangesArguments) => call.arguments = json!({"command": "c"}),
            _ => {
                if self.gate.admit(&call, grant, context).is_err() {
                    return ToolReturn::note(CallStatus::Denied, ToolError::new("the grant is not good").to_string());
                }
            }
        }
        let times = if self.defect == Some(Defect::RunsTwice) { 2 } else { 1 };
        for _ in 0..times {
            self.runs(&call);
        }
        ToolReturn::note(CallStatus::Ok, "ran")
    }

    /// What must hold of every call that runs.
    fn runs(&mut self, call: &ToolCall) {
        let definition = self.definition(&call.name);
        let first = self.ran.insert(call.id.clone());
        let denied = |approval: &ApprovalId| {
            let is = |record: &Arc<Record>| matches!(&record.fact, Fact::ApprovalDecided { approval: of, allowed: false, .. } if of == approval);
            self.stored.iter().any(is)
        };
        let exactly = self.shown.iter().any(|(approval, shown)| {
            let said_so = shown.said.iter().any(|said| match said {
                Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways => {
                    shown.call.arguments == call.arguments
                }
                Decision::Edit { arguments } => *arguments == call.arguments,
                Decision::Deny { .. } | Decision::DenyAlways { .. } => false,
            });
            shown.call.id == call.id && shown.definition == definition && said_so && !denied(approval)
        });
        let beyond = self.shown.values().any(|shown| {
            let said_so = shown.said.iter().any(|said| matches!(said, Decision::AllowSession | Decision::AllowAlways));
            let same = !shown.exact || shown.call.arguments == call.arguments;
            shown.call.name == call.name && shown.definition == definition && said_so && same
        });
        // What the journal says was denied for good last is not allowed by what was said before.
        let folded = Session::fold(session(), &self.stored);
        let forbidden = folded.standing.iter().any(|standing| {
            !standing.allowed
                && standing.tool == call.name
                && standing.definition == definition
                && standing.is_about(&call.arguments)
        });
        let fine = first && (exactly || beyond && !forbidden);
        if !fine && self.broken.is_none() {
            let why = format!("first {first}, approved exactly {exactly}, beyond {beyond}, forbidden {forbidden}");
            self.broken = Some(format!("{} {} {} ran: {why}", call.id, call.name, call.arguments));
        }
    }

    fn decision(&mut self) -> Decision {
        let reason = || "no".to_owned();
        match self.dice.u32(..9) {
            0..=2 => Decision::AllowOnce,
            3 => Decision::AllowSession,
            4 => Decision::AllowAlways,
            5 => Decision::Edit { arguments: json!({"command": (["a", "b", "d"][self.dice.usize(..3)])}) },
            6 => Decision::Edit { arguments: [Value::Null, json!({"command": 1})][self.dice.usize(..2)].clone() },
            7 => Decision::DenyAlways { reason: reason() },
            _ => Decision::Deny { reason: reason() },
        }
    }

    /// As the machine hears it.
    fn heard(&self, decision: Decision) -> Decision {
        match (self.defect, decision) {
            (Some(Defect::WidensScope), Decision::AllowOnce) => Decision::AllowSession,
            (Some(Defect::HearsYes), Decision::Deny { .. }) => Decision::AllowOnce,
            (_, decision) => decision,
        }
    }

    fn person(&mut self) {
        if self.shown.is_empty() {
            return;
        }
        // Mostly about the newest questions, sometimes about one of long ago.
        let back = if self.dice.u32(..4) == 0 { self.dice.usize(..self.shown.len()) } else { 0 };
        let approval = self.shown.keys().rev().nth(back).cloned().unwrap();
        let decision = self.decision();
        let suspended = self.turn.session().and_then(|session| session.open.as_ref()?.suspended.clone());
        if let Some(suspension) = suspended {
            let token = match self.dice.u32(..3) {
                0 if !self.tokens.is_empty() => self.tokens[self.dice.usize(..self.tokens.len())].clone(),
                _ => suspension.token,
            };
            // A token is of the first question that is open in its turn.
            let open = self.turn.session().and_then(|session| session.open.as_ref()?.step.clone());
            let first = open.and_then(|step| {
                step.calls.into_iter().find_map(|open| open.approval.filter(|asked| asked.allowed.is_none()))
            });
            if let Some(shown) = first.and_then(|asked| self.shown.get_mut(&asked.id)) {
                shown.said.push(decision.clone());
            }
            let reply = Box::new(ResumeReply::Decision(self.heard(decision)));
            self.inputs += 1;
            let submission = TurnId::new(format!("t{}", self.inputs));
            return self.say(TurnMessage::Resume { submission, token, reply, brief: self.brief() });
        }
        if let Some(shown) = self.shown.get_mut(&approval) {
            shown.said.push(decision.clone());
        }
        let (decision, asker) = (Box::new(self.heard(decision)), self.dice.bool().then_some(Ticket(1)));
        self.say(TurnMessage::Decided { approval, decision, asker });
    }

    fn expires(&mut self) {
        let Some(approval) = self.shown.keys().last().cloned() else { return };
        let decision = Box::new(Decision::Deny { reason: "nobody decided in time".to_owned() });
        self.say(TurnMessage::Decided { approval, decision, asker: None });
    }

    fn brief(&self) -> Arc<Brief> {
        Arc::new(Brief::new(name()))
    }

    fn input(&mut self) {
        self.inputs += 1;
        let turn = format!("t{}", self.inputs);
        let approvals = [ApprovalsMode::Wait, ApprovalsMode::Suspend][self.dice.usize(..2)];
        let input = Arc::new(TurnInput {
            turn: TurnId::new(turn.as_str()),
            request_id: None,
            at: self.now,
            parts: vec![bob_messages::chat::ContentPart::text("go")],
            labels: BTreeMap::new(),
            model: None,
            allow_tools: None,
            approve: None,
            approvals,
            limits: Limits { max_consecutive_errors: 50, max_tool_calls: 50, max_steps: 50, ..Limits::default() },
            options: None,
            traceparent: None,
            token: ResumeToken::new(format!("secret{}", self.inputs)),
            interactive: true,
            output_schema: None,
        });
        self.say(TurnMessage::Start { input, brief: self.brief() });
    }

    /// The actor is gone with all it had under way; maybe the tools' room as well, with its key.
    fn crash(&mut self) {
        self.turn = Turn::new(session());
        self.waits.clear();
        if self.dice.bool() {
            self.gate = Gate::new([tools(self.version)], Policy::default()).unwrap();
        }
        self.say(TurnMessage::Wake { brief: self.brief(), recover: Recover::Continue });
    }

    fn step(&mut self) {
        match self.dice.u32(..100) {
            0..=69 if !self.waits.is_empty() => {
                let waits = self.waits.remove(self.dice.usize(..self.waits.len()));
                self.answer(waits);
            }
            0..=84 => self.person(),
            85..=86 => self.expires(),
            87..=90 => {
                self.version = self.dice.u32(..6);
                self.gate.renew([tools(self.version)]).unwrap();
            }
            91..=92 => self.crash(),
            93..=96 if !self.past.is_empty() => {
                let again = self.past[self.dice.usize(..self.past.len())].clone();
                self.say(again);
            }
            _ => self.input(),
        }
    }
}

/// One life of a session; how many calls ran, and how many questions there were.
fn live(seed: u64, defect: Option<Defect>) -> Result<(usize, usize), String> {
    let mut world = World::new(seed, defect);
    world.input();
    for _ in 0..STEPS {
        world.step();
        if let Some(broken) = world.broken {
            return Err(format!("seed {seed}: {broken}"));
        }
    }
    Ok((world.ran.len(), world.shown.len()))
}

#[test]
fn g12_no_call_runs_that_was_not_approved_exactly_as_it_ran() {
    let seeds = std::env::var("BOB_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(3_000_u64);
    // Half of the seeds on each of two threads: a machine that tests has two cores at least.
    let lives = |from: u64| {
        let mut counts = (0_u64, 0_u64);
        for seed in (from..seeds).step_by(2) {
            let (runs, questions) = live(seed, None).unwrap_or_else(|broken| panic!("{broken}"));
            counts = (counts.0 + runs as u64, counts.1 + questions as u64);
        }
        counts
    };
    let ((ran, asked), (ran_too, asked_too)) = std::thread::scope(|scope| {
        let other = scope.spawn(|| lives(1));
        (lives(0), other.join().unwrap())
    });
    let (ran, asked) = (ran + ran_too, asked + asked_too);
    println!("{ran} calls ran after {asked} questions in {seeds} lives");
    assert!(2 * ran > seeds && asked > 2 * seeds, "{ran} calls ran after {asked} questions: too few to show anything");
}

#[test]
fn g12_each_planted_defect_of_approvals_is_found() {
    for defect in DEFECTS {
        let found = (0..2_000).find_map(|seed| live(seed, Some(defect)).err());
        assert!(found.is_some(), "{defect:?} is not found");
    }
}
