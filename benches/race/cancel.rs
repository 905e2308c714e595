//! Cancels beside many busy sessions: from the call of `cancel` to the outcome, in each state of a turn and each of
//! its waits; many at once; and until a provider's connection is closed and a tool server is notified.

#[cfg(all(feature = "genai", feature = "mcp", feature = "soak"))]
mod wire;

mod probe;

use crate::arguments::Arguments;
use crate::figures::percentile;
use crate::support::runtime::session;
use crate::support::stuck::{Places, Wait};
use bob::model::{ScriptedReply, ScriptedRule};
use bob::sessions::{CancellationToken, FinishReason};
use bob::tools::{FnTool, ToolOutput, tool};
use bob::{AgentRequest, AgentResponse, AgentRuntime, Runtime, SessionId};
use futures_util::future::join_all;
use probe::Probe;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How many sessions get stuck before the first of them is cancelled.
const TOGETHER: usize = 50;

/// How many inputs of a session wait behind its turn.
const BEHIND: usize = 8;

/// How many turns a busy session runs before another one takes its place, so that histories stay short.
const TURNS_OF_ONE: u64 = 10;

/// A caller that was answered: the time and the outcome.
type Caller = JoinHandle<(Instant, AgentResponse)>;

/// All runs; the lines to print.
pub(crate) async fn drive(arguments: &Arguments) -> String {
    let places = Places::new();
    let builder = places.beside(crate::store::open(arguments), vec![busy_rule(arguments)]);
    let runtime = builder.tools(Arc::new(echo())).max_concurrent_turns(1_000_000).build().await.unwrap();
    probe::burn(arguments.burn);
    let load = Load::start(arguments, &runtime);
    load.warm().await;
    let mut lines = Vec::new();
    for wait in Wait::ALL {
        let mut sample = Sample::new(wait.name());
        while sample.took.len() < arguments.n {
            one_after_another(&runtime, &places, wait, &mut sample).await;
        }
        lines.push(sample.line(arguments).await);
    }
    let mut sample = Sample::new("all at once");
    at_once(&runtime, &places, arguments.n, &mut sample).await;
    lines.push(sample.line(arguments).await);
    for (name, at_door) in [("behind a turn", false), ("at the door", true)] {
        let mut sample = Sample::new(name);
        queued(arguments.n, at_door, &mut sample).await;
        lines.push(sample.line(arguments).await);
    }
    #[cfg(all(feature = "genai", feature = "mcp", feature = "soak"))]
    for sample in wire::all(arguments.n).await {
        lines.push(sample.line(arguments).await);
    }
    lines.push(load.end().await);
    lines.join("\n")
}

/// Measurements in one state.
struct Sample {
    what: String,
    /// Seconds.
    took: Vec<f64>,
    /// Outcomes whose save was not confirmed in time.
    unsaved: usize,
    /// Beside them, all the while.
    probe: Probe,
}

impl Sample {
    fn new(what: &str) -> Self {
        Self { what: what.to_owned(), took: Vec::new(), unsaved: 0, probe: Probe::start() }
    }

    fn note(&mut self, began: Instant, (ended, outcome): (Instant, AgentResponse), expected: FinishReason) {
        assert_eq!(outcome.finish_reason, expected, "{}", self.what);
        self.took.push(ended.duration_since(began).as_secs_f64());
        self.unsaved += usize::from(!outcome.saved);
    }

    async fn line(mut self, arguments: &Arguments) -> String {
        let mut ms = |part| percentile(&mut self.took, part) * 1e3;
        let (p50, p99, most) = (ms(0.5), ms(0.99), ms(1.0));
        let mut empty = self.probe.end().await;
        let mut probe_ms = |part| percentile(&mut empty, part) * 1e3;
        let (probe_p99, probe_most) = (probe_ms(0.99), probe_ms(1.0));
        json!({
            "peer": "bob", "mode": "cancel", "store": arguments.store, "busy": arguments.conc, "what": self.what,
            "samples": self.took.len(), "p50_ms": p50, "p99_ms": p99, "max_ms": most, "unsaved": self.unsaved,
            "probe_p99_ms": probe_p99, "probe_max_ms": probe_most, "burning": arguments.burn,
        })
        .to_string()
    }
}

fn caller(runtime: &Runtime, request: AgentRequest) -> Caller {
    let runtime = runtime.clone();
    tokio::spawn(async move {
        let outcome = runtime.run(request).await.unwrap().response().clone();
        (Instant::now(), outcome)
    })
}

/// Each cancel when the one before it was answered.
async fn one_after_another(runtime: &Runtime, places: &Places, wait: Wait, sample: &mut Sample) {
    let first = sample.took.len();
    let numbers = first..first + TOGETHER;
    let callers: Vec<_> = numbers.clone().map(|number| caller(runtime, wait.request(number))).collect();
    for number in numbers.clone() {
        places.until(&wait.session(number)).await;
    }
    let expected = if wait == Wait::Outcome { FinishReason::Final } else { FinishReason::Cancelled };
    for (number, caller) in numbers.clone().zip(callers) {
        let began = Instant::now();
        assert!(runtime.cancel(wait.session(number)).await);
        sample.note(began, caller.await.unwrap(), expected);
    }
    // Stuck operations are released, and each session is usable.
    places.open(true);
    for number in numbers {
        let next = runtime.run(wait.next(number)).await.unwrap();
        assert_eq!(next.response().content, "fine");
        runtime.delete(wait.session(number)).await.unwrap();
    }
    places.open(false);
}

async fn at_once(runtime: &Runtime, places: &Places, n: usize, sample: &mut Sample) {
    let numbers = || 1_000_000..1_000_000 + n;
    let callers: Vec<_> = numbers().map(|number| caller(runtime, Wait::Headers.request(number))).collect();
    for number in numbers() {
        places.until(&Wait::Headers.session(number)).await;
    }
    let began = Instant::now();
    let stopped = join_all(numbers().map(|number| runtime.cancel(Wait::Headers.session(number)))).await;
    assert!(stopped.into_iter().all(|stopped| stopped));
    for caller in callers {
        sample.note(began, caller.await.unwrap(), FinishReason::Cancelled);
    }
}

/// Inputs that wait, in a runtime of their own beside the busy one: behind the turn of their session, or at the door.
async fn queued(n: usize, at_door: bool, sample: &mut Sample) {
    let places = Places::new();
    let most = if at_door { 1 } else { 1_000 };
    let runtime = places.in_memory().max_concurrent_turns(most).build().await.unwrap();
    let mut number = 0;
    while sample.took.len() < n {
        let first = Wait::Headers.session(number);
        let running = caller(&runtime, Wait::Headers.request(number));
        places.until(&first).await;
        let tokens: Vec<_> = (0..BEHIND).map(|_| CancellationToken::new()).collect();
        let waiting: Vec<_> = tokens
            .iter()
            .enumerate()
            .map(|(at, token)| {
                let of = if at_door { Wait::Headers.session(number + 1 + at) } else { first.clone() };
                caller(&runtime, AgentRequest { cancel: Some(token.clone()), ..AgentRequest::text(of, "go on") })
            })
            .collect();
        until_queued(&runtime, &first, at_door).await;
        for (token, caller) in tokens.into_iter().zip(waiting) {
            let began = Instant::now();
            token.cancel();
            sample.note(began, caller.await.unwrap(), FinishReason::Cancelled);
        }
        assert!(runtime.cancel(first).await);
        running.await.unwrap();
        number += 1 + BEHIND;
    }
}

/// All inputs wait: at the door, or in the journal behind their session's options, its first input and its start.
async fn until_queued(runtime: &Runtime, first: &SessionId, at_door: bool) {
    loop {
        let queued = match at_door {
            true => runtime.health().await.waiting_turns == BEHIND,
            false => runtime.records(first.clone()).await.unwrap().len() == 3 + BEHIND,
        };
        if queued {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

fn echo() -> FnTool {
    tool("test/echo", "Echo text", |echo: Echo, _| async move { Ok(ToolOutput::text(echo.text)) }).read_only()
}

/// Replies to busy sessions: `k` calls and an answer, each after the latency.
fn busy_rule(arguments: &Arguments) -> ScriptedRule {
    let call = |step: usize| ScriptedReply::call("test/echo", json!({ "text": format!("step {step}") }));
    let mut replies: Vec<_> = (0..arguments.k).map(call).collect();
    replies.push(ScriptedReply::text("done"));
    ScriptedRule { when: Some("busy".into()), replies, delay_ms: arguments.latency, stall: false }
}

/// The busy sessions.
struct Load {
    over: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
    lanes: Vec<JoinHandle<Vec<f64>>>,
    began: Instant,
    cpu_before: f64,
}

impl Load {
    fn start(arguments: &Arguments, runtime: &Runtime) -> Self {
        let (over, turns) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        // Spread over the length of a turn: in step, all would want the processors at once, as strangers do not.
        let turn_ms = arguments.latency * (arguments.k as u64 + 1);
        let lane = |number: usize| {
            let (runtime, over, turns) = (runtime.clone(), Arc::clone(&over), Arc::clone(&turns));
            let late = Duration::from_millis(turn_ms) * number as u32 / arguments.conc as u32;
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                let mut seconds = Vec::new();
                for life in 0_u64.. {
                    let id = session(&format!("busy-{number}-{life}"));
                    for _ in 0..TURNS_OF_ONE {
                        if over.load(Relaxed) {
                            return seconds;
                        }
                        let began = Instant::now();
                        let result = runtime.run(AgentRequest::text(id.clone(), "busy")).await.unwrap();
                        assert_eq!(result.response().content, "done");
                        seconds.push(began.elapsed().as_secs_f64());
                        turns.fetch_add(1, Relaxed);
                    }
                    runtime.delete(id).await.unwrap();
                }
                seconds
            })
        };
        let lanes = (0..arguments.conc).map(lane).collect();
        Self { over, turns, lanes, began: Instant::now(), cpu_before: crate::figures::cpu() }
    }

    /// Waits until each has run a turn.
    async fn warm(&self) {
        while self.turns.load(Relaxed) < self.lanes.len() as u64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How busy they were, to be printed.
    async fn end(self) -> String {
        let (wall, cpu) = (self.began.elapsed().as_secs_f64(), crate::figures::cpu() - self.cpu_before);
        self.over.store(true, Relaxed);
        let (busy, mut seconds) = (self.lanes.len(), Vec::new());
        for lane in self.lanes {
            seconds.extend(lane.await.unwrap());
        }
        let turns = seconds.len() as f64;
        let line: Value = json!({
            "peer": "bob", "mode": "cancel", "busy": busy, "what": "the busy sessions", "turns_s": turns / wall,
            "p50_ms": percentile(&mut seconds, 0.5) * 1e3, "p99_ms": percentile(&mut seconds, 0.99) * 1e3,
            "wall_s": wall, "cpu_share": cpu / wall,
        });
        line.to_string()
    }
}
