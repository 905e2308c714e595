//! Over random decisions, edits, expirations, replays, crashes and tools that change: no call runs that was not approved
//! exactly as it ran. The machine and the gate are the real ones; the people, the store and the tools are made of dice.
//!
//! | file | what is in it |
//! |---|---|
//! | `machine` | what the machine asks for, and the real gate or dice that answer |
//! | `people` | those who are asked, and what they say |
//! | `promise` | what must hold of every call that runs |

mod machine;
mod people;
mod promise;

use super::gate::{Gate, Judged};
use super::policy::Policy;
use super::port::ToolError;
use bob_messages::approvals::{ApprovalQuestion, Decision, Standing};
use bob_messages::chat::{CallStatus, StopReason, ToolCall};
use bob_messages::ids::{ApprovalId, CallId, ModelName, ResumeToken, SessionId, Ticket, ToolName, TurnId};
use bob_messages::input::{ApprovalsMode, ResumeReply, TurnInput};
use bob_messages::limits::Limits;
use bob_messages::llm::{Capabilities, LlmAnswer, ModelProfile, RawCall};
use bob_messages::session_state::Session;
use bob_messages::store::{Append, Claim, Fact, Record, StoreError};
use bob_messages::submission::TurnNews;
use bob_messages::tools::{CallContext, CheckRequest, Grant, Risk, ToolDescriptor, ToolKind, ToolReturn, ToolSet};
use bob_messages::turn::{Effect, Recover, Turn, TurnMessage};
use bob_messages::turn_config::TurnConfig;
use fastrand::Rng;
use machine::Waits;
use people::Shown;
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
    /// How often time ran out, and something was said again.
    strokes: u64,
}

fn name() -> ModelName {
    ModelName::parse("dice:m").unwrap()
}

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn tools(version: u32) -> Vec<ToolDescriptor> {
    let tool = |name: &str, kind, version: u32| {
        ToolDescriptor::new(
            ToolName::new(name),
            format!("Version {version}."),
            json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}),
        )
        .with_title("")
        .with_kind(kind)
        .with_risk(Risk::High)
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
            strokes: 0,
        }
    }

    fn turn_config(&self) -> Arc<TurnConfig> {
        Arc::new(TurnConfig::new(name()))
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
            context: None,
            labels: BTreeMap::new(),
            model: None,
            allow_tools: None,
            mode: None,
            approvals,
            limits: Limits { max_consecutive_errors: 50, max_tool_calls: 50, max_steps: 50, ..Limits::default() },
            options: None,
            traceparent: None,
            tracestate: None,
            token: ResumeToken::new(format!("secret{}", self.inputs)),
            interactive: true,
            asks_at_limits: false,
            output_schema: None,
        });
        self.say(TurnMessage::Start { input, turn_config: self.turn_config() });
    }

    /// The actor is gone with all it had under way; maybe the tools' room as well, with its key.
    fn crash(&mut self) {
        self.turn = Turn::new(session());
        self.waits.clear();
        if self.dice.bool() {
            self.gate = Gate::new([tools(self.version)], Policy::default()).unwrap();
        }
        self.say(TurnMessage::Wake { turn_config: self.turn_config(), recover: Recover::Continue });
    }

    fn step(&mut self) {
        match self.dice.u32(..100) {
            0..=69 if !self.waits.is_empty() => {
                let waits = self.waits.remove(self.dice.usize(..self.waits.len()));
                self.answer(waits);
            }
            0..=84 => self.person(),
            85..=86 => {
                self.strokes += u64::from(!self.shown.is_empty());
                self.expires();
            }
            87..=90 => {
                self.version = self.dice.u32(..6);
                self.gate.renew([tools(self.version)]).unwrap();
            }
            91..=92 => self.crash(),
            93..=96 if !self.past.is_empty() => {
                let again = self.past[self.dice.usize(..self.past.len())].clone();
                self.strokes += 1;
                self.say(again);
            }
            _ => self.input(),
        }
    }
}

/// One life of a session: how many calls ran, how many questions there were, and how many edits, expirations and replays.
fn live(seed: u64, defect: Option<Defect>) -> Result<[u64; 3], String> {
    let mut world = World::new(seed, defect);
    world.input();
    for _ in 0..STEPS {
        world.step();
        if let Some(broken) = world.broken {
            return Err(format!("seed {seed}: {broken}"));
        }
    }
    let said = world.shown.values().flat_map(|shown| &shown.said);
    let edits = said.filter(|said| matches!(said, Decision::Edit { .. })).count() as u64;
    Ok([world.ran.len() as u64, world.shown.len() as u64, world.strokes + edits])
}

#[test]
fn g12_no_call_runs_that_was_not_approved_exactly_as_it_ran() {
    let seeds = std::env::var("BOB_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1_000_u64);
    // Half of the seeds on each of two threads: a machine that tests has two cores at least.
    let lives = |from: u64| {
        (from..seeds).step_by(2).fold([0; 3], |sums, seed| {
            let life = live(seed, None).unwrap_or_else(|broken| panic!("{broken}"));
            std::array::from_fn(|at| sums[at] + life[at])
        })
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| lives(1));
        (lives(0), other.join().unwrap())
    });
    let [ran, asked, strokes] = std::array::from_fn(|at| one[at] + other[at]);
    let told =
        format!("{ran} calls ran after {asked} questions; {strokes} edits, expirations and replays in {seeds} lives");
    println!("figure: {told}");
    assert!(2 * ran > seeds && asked > 2 * seeds && strokes > 4 * seeds, "too few to show anything: {told}");
}

#[test]
fn g12_each_planted_defect_of_approvals_is_found() {
    for defect in DEFECTS {
        let found = (0..2_000).find_map(|seed| live(seed, Some(defect)).err());
        assert!(found.is_some(), "{defect:?} is not found");
    }
}
