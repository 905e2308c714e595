//! Activation of a long session: the time until its model is called, and the memory it uses then.

use crate::arguments::Arguments;
use crate::figures::{percentile, resident};
use bob::config::TurnConfig;
use bob::model::{Message, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, RequestId};
use bob::store::{Append, Fact, FileStore, MemoryStore, Record, SessionStore, SqliteStore, StoreOptions};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// Time of the last model call.
type Asked = Arc<Mutex<Option<Instant>>>;

/// One run; the line to print.
pub(crate) async fn drive(arguments: &Arguments) -> String {
    let session = SessionId::parse("long").unwrap();
    let asked = Asked::default();
    // The session is in memory and copied: all stores have one journal.
    let memory: Arc<dyn SessionStore> = MemoryStore::new();
    let living = runtime(arguments, Arc::clone(&memory), &asked).await;
    for number in 0..arguments.turns {
        turn(&living, &session, number).await;
    }
    rest(&living, &session).await;
    let records = memory.load(&session).await.unwrap();
    let snapshots: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.fact {
            Fact::Snapshot(snapshot) => Some(snapshot.session.len()),
            _ => None,
        })
        .collect();
    let (count, taken, snapshot_bytes) = (records.len(), snapshots.len(), snapshots.iter().sum::<usize>());
    let bytes: usize = records.iter().map(|record| serde_json::to_vec(&**record).unwrap().len()).sum();
    let taken_up = if arguments.store == "memory" {
        drop(records);
        living
    } else {
        living.shutdown().await;
        let folder = tempfile::Builder::new().prefix("race-").tempdir().unwrap();
        copy(&*open(arguments, folder.path()), &session, &records).await;
        drop((records, memory));
        runtime(arguments, open(arguments, &folder.keep()), &asked).await
    };
    let before = resident();
    let mut grown = 0;
    let mut seconds = Vec::new();
    for again in 0..arguments.n {
        let began = Instant::now();
        turn(&taken_up, &session, arguments.turns + again).await;
        let first = asked.lock().unwrap().take().expect("the model was asked");
        seconds.push((first - began).as_secs_f64());
        if again == 0 {
            grown = resident().saturating_sub(before);
        }
        rest(&taken_up, &session).await;
    }
    json!({
        "peer": "bob", "mode": arguments.mode, "store": arguments.store, "turns": arguments.turns, "k": arguments.k,
        "snapshots_every": arguments.snapshots, "records": count, "journal_mb": bytes as f64 / 1e6,
        "snapshots": taken, "snapshots_mb": snapshot_bytes as f64 / 1e6,
        "first_request_p50_ms": percentile(&mut seconds, 0.5) * 1e3,
        "first_request_min_ms": percentile(&mut seconds, 0.0) * 1e3,
        "rss_delta_kb": grown as f64 / 1e3,
    })
    .to_string()
}

/// A runtime whose model calls the tool this often, then answers, and records the first call of a turn.
async fn runtime(arguments: &Arguments, store: Arc<dyn SessionStore>, asked: &Asked) -> Runtime {
    let (calls, asked) = (arguments.k, Arc::clone(asked));
    let model = ScriptedLlm::from_fn(move |request| {
        let is_result = |message: &&Arc<Message>| matches!(***message, Message::Tool { .. });
        let done = request.messages.iter().rev().take_while(|message| !matches!(***message, Message::User { .. }));
        let done = done.filter(is_result).count();
        if done == 0 {
            *asked.lock().unwrap() = Some(Instant::now());
        }
        match done < calls {
            true => ScriptedReply::call("local/echo", json!({"text": "x".repeat(300)})),
            false => ScriptedReply::text("It is done as you asked: the words came back as they were."),
        }
    });
    let echo = tool("local/echo", "Echo text", |echo: Echo, _| async move { Ok(ToolOutput::text(echo.text)) });
    let turn_config = TurnConfig {
        snapshot_every: arguments.snapshots,
        ..TurnConfig::new(ModelName::parse("scripted:demo").unwrap())
    };
    RuntimeBuilder::new(turn_config.default_model.clone())
        .passivate_after(Duration::from_secs(24 * 3_600))
        .turn_config(turn_config)
        .model(Arc::new(model))
        .store(store)
        .local_tools(false)
        .tools(Arc::new(echo.read_only()))
        .build()
        .await
        .unwrap()
}

async fn turn(runtime: &Runtime, session: &SessionId, number: usize) {
    let request = AgentRequest::text(session.clone(), "Echo the words, then finish.");
    let request = AgentRequest { request_id: Some(RequestId::new(format!("request {number}"))), ..request };
    let result = runtime.run(request).await.unwrap();
    assert_eq!(result.response().finish_reason, FinishReason::Final, "{:?}", result.response());
}

/// Passivates the session.
async fn rest(runtime: &Runtime, session: &SessionId) {
    while !runtime.close(session.clone()).await || runtime.health().await.live_sessions > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn copy(store: &dyn SessionStore, session: &SessionId, records: &[Arc<Record>]) {
    let epoch = store.claim(session).await.unwrap().epoch;
    for part in records.chunks(1_000) {
        let expected_version = part[0].version - 1;
        let append = Append { session: session.clone(), epoch, expected_version, records: part.to_vec() };
        store.append(vec![append]).await.remove(0).unwrap();
    }
    store.release(session, epoch).await;
}

fn open(arguments: &Arguments, folder: &Path) -> Arc<dyn SessionStore> {
    match arguments.store.as_str() {
        "json" => FileStore::open(folder, StoreOptions::default()).unwrap(),
        #[cfg(feature = "sqlite")]
        "sqlite" => SqliteStore::open(&folder.join("sessions.db"), StoreOptions::default()).unwrap(),
        other => panic!("the store {other:?} is not known: use memory, json or, with the feature sqlite, sqlite"),
    }
}
