//! The turns that `scripts/growth.sh` counts: their instructions, and how often they allocate.
//!
//! A turn is one message of a user, three calls of a tool of this process and an answer: four steps, through the public
//! API, with the scripted model and the memory store. The outcome is asserted. Everything runs on one thread, and nothing
//! waits for a clock, so two runs differ by what a few random numbers (ids, hashing) change. The allocator is the
//! system's, whose functions have names.
//!
//! ```text
//! bob-counts --sessions=100 --turns=6 --words=1 [--read] [--rest]
//! ```
//!
//! `scripts/slopes.py` counts how the cost grows, with these:
//!
//! ```text
//! --calls=3       calls of the tool in each turn
//! --bytes=6       how large each result is
//! --tools=0       further tools on offer
//! --history=50    how many messages a prompt has at most
//! --readers=0     how many readers each session has
//! --rest-from=N   the session leaves memory after its turns from this one on
//! --together      all sessions at once, for a heap profile; --latency=0 is how long each answer then takes, in milliseconds
//! --stored=0      sessions in the store besides; --lists=0 is how often its newest hundred are listed
//! ```
//!
//! `--reading=NAME --bytes=N` reads N bytes of an answer, a line or a journal (`readings.rs`); `--readings` prints the names.
//!
//! `--profile=5` prints five times the P95 of a turn beside that of a loop, under a load (`profile.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for a script, which shows what it says when it fails"
)]

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "others")]
mod others;
mod profile;
mod readings;

use bob::config::{PromptLayers, TurnConfig};
use bob::events::EventsFrom;
use bob::model::{Capabilities, ScriptedLlm};
use bob::sessions::{FinishReason, SessionFilter};
use bob::store::{Append, MemoryStore, Record, SessionStore};
use bob::tools::{FnTool, ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// So large that only the number of messages bounds a prompt.
const CONTEXT_TOKENS: u32 = 100_000_000;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// What is counted.
struct Counted {
    answer: String,
    calls: usize,
    read: bool,
    readers: usize,
    rest_from: usize,
}

fn main() {
    if let Some(rounds) = given("profile") {
        return of_one_thread().block_on(profile::print(rounds));
    }
    if has("--readings") {
        return readings::names().iter().for_each(|name| println!("{name}"));
    }
    let reading = std::env::args().find_map(|word| word.strip_prefix("--reading=").map(str::to_owned));
    if let Some(name) = reading {
        return of_one_thread().block_on(readings::read(&name, number("bytes", None)));
    }
    let turns = number("turns", None);
    let counted = Counted {
        answer: vec!["done"; number("words", None)].join(" "),
        calls: number("calls", Some(3)),
        read: has("--read"),
        readers: number("readers", Some(0)),
        rest_from: if has("--rest") { 0 } else { number("rest-from", Some(usize::MAX)) },
    };
    of_one_thread().block_on(async {
        let store = MemoryStore::new();
        let runtime = runtime(&counted, Arc::clone(&store)).await;
        let all = (0..number("sessions", None)).map(|session| session_of(&counted, &runtime, session, turns));
        if has("--together") {
            join_all(all).await;
        } else {
            for one in all {
                one.await;
            }
        }
        fill(&store, number("stored", Some(0))).await;
        for _ in 0..number("lists", Some(0)) {
            let page = runtime.sessions(SessionFilter::default(), None).await.unwrap();
            assert_eq!(page.sessions.len(), 100);
        }
    });
}

async fn session_of(counted: &Counted, runtime: &Runtime, number: usize, turns: usize) {
    let session = SessionId::parse(&format!("count-{number}")).unwrap();
    for number in 0..turns {
        counted.turn(runtime, &session).await;
        if number >= counted.rest_from {
            rest(runtime, &session).await;
        }
    }
}

fn has(name: &str) -> bool {
    std::env::args().any(|word| word == name)
}

fn of_one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn given(name: &str) -> Option<usize> {
    std::env::args().find_map(|word| word.strip_prefix(&format!("--{name}="))?.parse().ok())
}

fn number(name: &str, otherwise: Option<usize>) -> usize {
    given(name).or(otherwise).unwrap_or_else(|| panic!("--{name}=NUMBER is missing"))
}

async fn runtime(counted: &Counted, store: Arc<MemoryStore>) -> Runtime {
    let call = |step: usize| {
        let text = format!(r#"{{"text":"step {step}"}}"#);
        json!({ "calls": [{ "name": "local/echo", "arguments": text }] })
    };
    let replies: Vec<_> = (0..counted.calls).map(call).chain([json!({ "text": counted.answer })]).collect();
    let model =
        ScriptedLlm::from_json(&json!([{ "replies": replies, "delay_ms": number("latency", Some(0)) }]).to_string())
            .unwrap();
    let capabilities = Capabilities { native_tools: true, context_tokens: CONTEXT_TOKENS, ..Capabilities::default() };
    let bytes = number("bytes", Some(0));
    let echo = tool("local/echo", "Echo text", move |echo: Echo, _| async move {
        Ok(ToolOutput::text(if bytes == 0 { echo.text } else { "x".repeat(bytes) }))
    });
    let layers = PromptLayers { instructions: "You are a bot.".into(), ..PromptLayers::default() };
    let model_name = ModelName::parse("scripted:counts").unwrap();
    let max_history_messages = number("history", Some(TurnConfig::new(model_name.clone()).max_history_messages));
    let turns = TurnConfig { layers, max_history_messages, ..TurnConfig::new(model_name) };
    let builder = RuntimeBuilder::new(turns.default_model.clone())
        .passivate_after(DAY)
        .turn_config(turns)
        .model(Arc::new(model.with_capabilities(capabilities)))
        .store(store)
        .local_tools(false)
        .tools(Arc::new(echo.read_only()));
    let further = (0..number("tools", Some(0))).map(further);
    further.fold(builder, |builder, tool| builder.tools(Arc::new(tool))).build().await.unwrap()
}

/// A tool that is on offer and never called.
fn further(number: usize) -> FnTool {
    let name = format!("local/other_{number}");
    tool(&name, "Echo text in another way", |echo: Echo, _| async move { Ok(ToolOutput::text(echo.text)) })
}

impl Counted {
    async fn turn(&self, runtime: &Runtime, session: &SessionId) {
        let mut readers = Vec::new();
        for _ in 0..self.readers {
            let mut events = runtime.subscribe(session.clone(), EventsFrom::Now).await.unwrap();
            readers.push(tokio::spawn(async move {
                while let Some(event) = events.next().await {
                    if event.unwrap().event.is_terminal().is_some() {
                        return;
                    }
                }
                panic!("a reader saw no end");
            }));
        }
        let request = AgentRequest::text(session.clone(), "Echo three times, then finish.");
        let result = match self.read {
            true => runtime.run_stream(request).await.unwrap().finish().await.unwrap(),
            false => runtime.run(request).await.unwrap(),
        };
        let outcome = result.response();
        assert_eq!((&*outcome.content, outcome.finish_reason), (&*self.answer, FinishReason::Final), "{outcome:?}");
        assert_eq!((outcome.tool_transcript.len(), outcome.steps as usize), (self.calls, self.calls + 1));
        for reader in readers {
            reader.await.unwrap();
        }
    }
}

/// The session leaves memory; its next turn takes it up from the store.
async fn rest(runtime: &Runtime, session: &SessionId) {
    while !runtime.close(session.clone()).await || runtime.health().await.live_sessions > 0 {
        tokio::task::yield_now().await;
    }
}

/// Puts so many sessions more into the store, each with the first records of the first session.
async fn fill(store: &MemoryStore, stored: usize) {
    let first = store.load(&SessionId::parse("count-0").unwrap()).await.unwrap();
    for number in 0..stored {
        let session = SessionId::parse(&format!("stored-{number}")).unwrap();
        let epoch = store.claim(&session).await.unwrap().epoch;
        let own = |record: &Arc<Record>| Arc::new(Record { session: session.clone(), epoch, ..(**record).clone() });
        let records = first.iter().take(2).map(own).collect();
        let append = Append { session: session.clone(), epoch, expected_version: 0, records };
        store.append(vec![append]).await.remove(0).unwrap();
    }
}

/// Each turn of the load ends as it should; how long it takes is for the script.
#[cfg(test)]
#[test]
fn the_load_runs() {
    of_one_thread().block_on(profile::print(1));
}
