//! Seeded trees of agents over the real actors: each seed draws what agents call, which actors die, and what is cancelled.
//! The journals are checked afterwards, and planted defects show that the checker finds them.
//!
//! `SUBAGENT_SEEDS=100..200` runs other seeds.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bob::model::{LlmRequest, ScriptedCall, ScriptedReply};
use bob::sessions::{OnParentEnd, SessionFilter};
use bob::store::{Fact, Record};
use bob::tools::{Invocation, ToolError, ToolPort, tool};
use bob::{AgentRequest, AgentRuntime, Runtime, SessionId};
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};
use serde_json::json;

use crate::subagents::checked::{House, faults};
use crate::subagents::ends::generous;
use crate::subagents::stage::{Nothing, agent, last, playing};
use crate::support::runtime::{session, within};

/// The seeds that are run by default.
const SEEDS: std::ops::Range<u64> = 0..40;

/// What the default seeds reach is also a matter of how the machine schedules them: up to here more are run until it is reached.
const LAST_SEED: u64 = 400;

/// What the default seeds must reach.
const CORNERS: [&str; 8] =
    ["inline", "ends", "outlives", "depth 2", "result read", "result brought", "cancelled", "crashed"];

/// Longer than any run here.
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// A number that follows from these words.
fn drawn(seed: u64, words: &[&str]) -> u64 {
    let hash = blake3::hash(format!("{seed}/{}", words.join("/")).as_bytes());
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap())
}

fn of<T: Clone>(all: &[T], number: u64) -> T {
    all[usize::try_from(number % all.len() as u64).unwrap()].clone()
}

/// What an agent says: some steps of calls, and then an answer.
fn play(seed: u64, who: &str, request: &LlmRequest) -> ScriptedReply {
    let (session, step) = (request.session.to_string(), request.step.to_string());
    let draw = |what: &str| drawn(seed, &[&session, &step, &request.messages.len().to_string(), what]);
    let most_steps = if who == "root" { 4 } else { 3 };
    // A turn that is begun by a result calls nobody, so that the tree ends.
    let is_brought = last(request).contains("Its result:");
    if is_brought || request.step >= most_steps || draw("ends") % 4 == 0 && request.step > 1 {
        return ScriptedReply::text(format!("{who} is done"));
    }
    let call = |number: u64| {
        let task = json!({"task": format!("{session} {step} {number}")});
        let of_task = format!("c{:08}", 1 + draw(&format!("task {number}")) % 4);
        let (name, arguments) = match draw(&format!("call {number}")) % 8 {
            0 | 1 => ("agent/inline", task),
            2 | 3 => ("agent/ends", task),
            4 => ("agent/outlives", task),
            5 => ("agent/result", json!({"task": of_task, "wait_ms": draw("wait") % 40})),
            _ => ("own/change", json!({})),
        };
        ScriptedCall { name: name.to_owned(), arguments }
    };
    ScriptedReply::Calls((0..=draw("calls") % 3).map(call).collect())
}

/// A tool that changes something, of which each key is told.
fn change(keys: &Arc<Mutex<Vec<String>>>) -> Arc<dyn ToolPort> {
    let keys = Arc::clone(keys);
    Arc::new(tool("own/change", "Changes.", move |_: Nothing, invocation: Invocation| {
        let keys = Arc::clone(&keys);
        async move {
            keys.lock().unwrap().push(invocation.context.idempotency_key(&invocation.call.id));
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok::<_, ToolError>("changed")
        }
    }))
}

/// All sessions of a runtime.
async fn sessions(runtime: &Runtime) -> Vec<bob::sessions::SessionSummary> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = within(runtime.sessions(SessionFilter::default(), cursor)).await.unwrap();
        all.extend(page.sessions);
        cursor = page.cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

/// Runs one seed to its end, until nothing works any more.
async fn run(seed: u64) -> House {
    let (builder, _) = playing(move |who, request| play(seed, who, request));
    let (keys, traps) = (Arc::default(), Traps::default());
    let builder = builder.tools(change(&keys)).limits(generous()).max_parallel_subagents(3);
    let builder = builder.subagent(agent("inline").max_depth(2));
    let builder = builder.subagent(agent("ends").max_depth(1).in_background(OnParentEnd::Cancel));
    let builder = builder.subagent(agent("outlives").max_depth(1).in_background(OnParentEnd::Continue));
    let runtime = builder.hook(traps.hook()).build().await.unwrap();
    let edges = ["ToolReturned", "Saved", "Checked", "ParseAction", "CallTool", "Done", "Loaded", "Start"];
    for number in 0..drawn(seed, &["deaths"]) % 4 {
        let draw = |what: &str| drawn(seed, &[what, &number.to_string()]);
        let edge = of(&edges, draw("edge"));
        let edge = if draw("side") % 2 == 0 { Edge::Before(edge) } else { Edge::After(edge) };
        let trap = Trap::new(Target::AnyTurn, edge, of(&[Fault::Kill, Fault::Panic, Fault::Fail], draw("fault")));
        traps.arm(trap.after(u32::try_from(draw("passages") % 12).unwrap()));
    }
    let cancels = drawn(seed, &["cancels"]) % 4;
    let cancelling = tokio::spawn({
        let runtime = runtime.clone();
        async move {
            for number in 0..cancels {
                tokio::time::sleep(Duration::from_millis(drawn(seed, &["when", &number.to_string()]) % 30)).await;
                let all = sessions(&runtime).await;
                if !all.is_empty() {
                    let whose = of(&all, drawn(seed, &["whose", &number.to_string()]));
                    runtime.cancel(whose.session).await;
                }
            }
        }
    });
    for turn in ["go", "go on"] {
        let _any_outcome = within(runtime.run(AgentRequest::text(session("s"), turn))).await.unwrap();
    }
    within(cancelling).await.unwrap();
    let began = std::time::Instant::now();
    let house = within(async {
        // The journals are not read at one moment: they are those of a quiet house once they have been read twice.
        let mut before = BTreeMap::new();
        loop {
            let all = sessions(&runtime).await;
            let mut journals = BTreeMap::new();
            for summary in &all {
                journals
                    .insert(summary.session.clone(), within(runtime.records(summary.session.clone())).await.unwrap());
            }
            let house = House { journals, side_effects: keys.lock().unwrap().clone() };
            // What is due comes by itself: an outcome for each turn, and the results of tasks as inputs.
            let open = house.open();
            let versions: BTreeMap<_, _> =
                house.journals.iter().map(|(id, records)| (id.clone(), records.len())).collect();
            let is_same = before == versions;
            before = versions;
            if is_same && open.is_empty() && runtime.health().await.running_turns == 0 {
                return house;
            }
            assert!(began.elapsed() < QUIET_WITHIN, "seed {seed} is not quiet: {open:#?}");
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    })
    .await;
    within(runtime.shutdown()).await;
    house
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("SUBAGENT_SEEDS").ok();
    let given = given.and_then(|seeds| {
        let (from, to) = seeds.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    given.unwrap_or(SEEDS)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_seed_holds_and_together_they_reach_what_there_is() {
    let mut reached = HashSet::new();
    let (given, is_default) = (seeds(), seeds() == SEEDS);
    for seed in given.start..if is_default { LAST_SEED } else { given.end } {
        if is_default && seed >= given.end && CORNERS.iter().all(|corner| reached.contains(*corner)) {
            break;
        }
        let house = run(seed).await;
        let faults = faults(&house);
        assert!(faults.is_empty(), "seed {seed}: {faults:#?}\nSUBAGENT_SEEDS={seed}..{}", seed + 1);
        reached.extend(house.reached());
    }
    if is_default {
        for corner in CORNERS {
            assert!(reached.contains(corner), "no seed reaches {corner}: {reached:?}");
        }
    }
}

/// A journal with something wrong, and what the checker is to say of it.
type Defect = (&'static str, fn(&mut House) -> bool);

fn journal_of_child(house: &mut House) -> Option<&mut Vec<Arc<Record>>> {
    house.journals.iter_mut().find(|(id, _)| **id != session("s")).map(|(_, records)| records)
}

fn at(records: &[Arc<Record>], is_it: impl Fn(&Fact) -> bool) -> Option<usize> {
    records.iter().position(|record| is_it(&record.fact))
}

fn changed(house: &mut House, of: &SessionId, is_it: impl Fn(&Fact) -> bool, change: impl Fn(&mut Fact)) -> bool {
    let Some(records) = house.journals.get_mut(of) else { return false };
    let Some(at) = at(records, is_it) else { return false };
    change(&mut Arc::make_mut(&mut records[at]).fact);
    true
}

fn changed_child(house: &mut House, is_it: fn(&Fact) -> bool, change: fn(&mut Fact)) -> bool {
    let child = house.journals.keys().find(|id| **id != session("s")).cloned();
    child.is_some_and(|child| changed(house, &child, is_it, change))
}

fn is_input(fact: &Fact) -> bool {
    matches!(fact, Fact::Input(_))
}

fn of_child(fact: &mut Fact, change: impl Fn(&mut bob::sessions::ParentTurn)) {
    if let Fact::Input(input) = fact {
        let input = Arc::make_mut(input);
        let mut options = (**input.options.as_ref().unwrap()).clone();
        change(options.parent.as_mut().unwrap());
        input.options = Some(Arc::new(options));
    }
}

const DEFECTS: [Defect; 12] = [
    ("begun twice", |house| {
        let Some(records) = journal_of_child(house) else { return false };
        let Some(at) = at(records, |fact| matches!(fact, Fact::Started { .. })) else { return false };
        let again = Arc::clone(&records[at]);
        records.insert(at, again);
        true
    }),
    ("outcomes", |house| {
        let Some(records) = journal_of_child(house) else { return false };
        let whole = records.len();
        // A child whose input was withdrawn has none.
        records.retain(|record| !matches!(record.fact, Fact::Outcome(_)));
        records.len() < whole
    }),
    ("without a call", |house| {
        changed_child(house, is_input, |fact| {
            of_child(fact, |parent| parent.call = bob::tools::CallId::new("c99999999"))
        })
    }),
    ("agents", |house| {
        changed_child(house, is_input, |fact| {
            of_child(fact, |parent| {
                let mut line = (**parent.line.as_ref().unwrap()).clone();
                line.agents.push(line.agents[0].clone());
                parent.line = Some(Arc::new(line));
            })
        })
    }),
    ("levels", |house| changed_child(house, is_input, |fact| of_child(fact, |parent| parent.depth = 9))),
    ("limits", |house| {
        changed_child(house, is_input, |fact| {
            if let Fact::Input(input) = fact {
                Arc::make_mut(input).limits.max_steps = 1_000_000;
            }
        })
    }),
    ("on the bill", |house| {
        let is_counted = |fact: &Fact| matches!(fact, Fact::Result(result) if result.output.delegated.is_some());
        changed(house, &session("s"), is_counted, |fact| {
            if let Fact::Result(result) = fact {
                Arc::make_mut(result).output.delegated.as_mut().unwrap().steps += 1;
            }
        })
    }),
    ("side effect", |house| {
        let again = house.side_effects.first().cloned();
        house.side_effects.extend(again.clone());
        again.is_some()
    }),
    ("results of", |house| {
        let Some(records) = house.journals.get_mut(&session("s")) else { return false };
        let Some(at) = records.iter().rposition(|record| matches!(record.fact, Fact::Result(_))) else { return false };
        let again = Arc::clone(&records[at]);
        records.insert(at, Arc::clone(&again));
        records.insert(at, again);
        true
    }),
    ("its outcomes count", |house| {
        let Some(records) = house.journals.get_mut(&session("s")) else { return false };
        let is_counted = |fact: &Fact| matches!(fact, Fact::Result(result) if result.output.delegated.is_some());
        let Some(at) = at(records, is_counted) else { return false };
        // Behind the last turn no bill counts it.
        records.push(Arc::clone(&records[at]));
        true
    }),
    ("was read and came again", |house| {
        let Some(records) = house.journals.get_mut(&session("s")) else { return false };
        let brought = records.iter().find_map(|record| match &record.fact {
            Fact::Input(input) => input.labels.get("task").cloned(),
            _another => None,
        });
        let Some(task) = brought else { return false };
        let of_task = |fact: &Fact| matches!(fact, Fact::Result(result) if result.call.as_str() == task);
        let (Some(asks), Some(ended)) = (
            at(records, |fact| matches!(fact, Fact::Answered(answered) if !answered.calls.is_empty())),
            records.iter().rposition(|record| of_task(&record.fact)),
        ) else {
            return false;
        };
        let version = records.last().unwrap().version + 1;
        let (mut asks, mut told) = ((*records[asks]).clone(), (*records[ended]).clone());
        (asks.version, told.version) = (version, version + 1);
        let id = bob::tools::CallId::new("c99999999");
        let (Fact::Answered(answered), Fact::Result(result)) = (&mut asks.fact, &mut told.fact) else { unreachable!() };
        let mut call = (*answered.calls[0]).clone();
        (call.id, call.name) = (id.clone(), bob::tools::ToolName::new("agent/result"));
        call.arguments = Arc::new(json!({"task": task}));
        answered.calls = vec![Arc::new(call)];
        Arc::make_mut(result).call = id;
        Arc::make_mut(result).output.delegated = None;
        records.extend([Arc::new(asks), Arc::new(told)]);
        true
    }),
    ("was not brought", |house| {
        let Some(records) = house.journals.get_mut(&session("s")) else { return false };
        let is_brought =
            |record: &Arc<Record>| matches!(&record.fact, Fact::Input(input) if input.labels.contains_key("task"));
        let Some(turn) = records.iter().find(|record| is_brought(record)).and_then(|record| record.turn.clone()) else {
            return false;
        };
        records.retain(|record| record.turn.as_ref() != Some(&turn));
        true
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_planted_defect_is_found() {
    let mut planted = [false; DEFECTS.len()];
    for seed in seeds() {
        let house = run(seed).await;
        for (number, (word, plant)) in DEFECTS.iter().enumerate() {
            let mut house = house.clone();
            if planted[number] || !plant(&mut house) {
                continue;
            }
            planted[number] = true;
            let found = faults(&house);
            assert!(found.iter().any(|fault| fault.contains(word)), "seed {seed}: {word:?} is not found: {found:#?}");
        }
        if planted.iter().all(|planted| *planted) {
            return;
        }
    }
    let missing: Vec<_> =
        DEFECTS.iter().zip(planted).filter(|(_, planted)| !planted).map(|(defect, _)| defect.0).collect();
    assert!(missing.is_empty(), "no seed has a place for {missing:?}");
}
