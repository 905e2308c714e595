//! Acknowledged appends through the store's actor, from several sessions at once.

use crate::arguments::Arguments;
use crate::figures::{cpu, percentile};
use bob::SessionId;
use bob::model::ContentPart;
use bob::store::Record;
use bob_actors::store::StoreActor;
use bob_messages::ids::RecordId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, FORMAT, Fact, StoreMessage};
use ractor::{Actor, ActorRef};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// One run; the line to print.
pub(crate) async fn drive(arguments: &Arguments) -> String {
    let store = crate::store::open(arguments);
    let (actor, _ended) = Actor::spawn(None, StoreActor::default(), store).await.unwrap();
    let mut sessions = Vec::new();
    for number in 0..arguments.conc {
        let session = SessionId::parse(&format!("race-{number}")).unwrap();
        let claim = |reply| StoreMessage::Claim { session: session.clone(), whole: false, reply };
        sessions.push((session.clone(), ask(&actor, claim).await.epoch));
    }
    let (began, cpu_before) = (Instant::now(), cpu());
    let each = (arguments.n / arguments.conc).max(1) as u64;
    let text = "x".repeat(arguments.words);
    let write = |(session, epoch)| tokio::spawn(write(actor.clone(), session, epoch, each, text.clone()));
    let writers: Vec<_> = sessions.into_iter().map(write).collect();
    let mut seconds = Vec::new();
    for writer in writers {
        seconds.extend(writer.await.unwrap());
    }
    let (wall, appends) = (began.elapsed().as_secs_f64(), seconds.len() as f64);
    json!({
        "peer": "bob", "mode": arguments.mode, "store": arguments.store, "conc": arguments.conc,
        "appends": seconds.len(), "bytes": arguments.words,
        "wall_s": wall,
        "cpu_us_append": (cpu() - cpu_before) * 1e6 / appends,
        "appends_s": appends / wall,
        "p50_ms": percentile(&mut seconds, 0.5) * 1e3,
        "p99_ms": percentile(&mut seconds, 0.99) * 1e3,
    })
    .to_string()
}

/// Appends one record after another, each when the one before it is durable.
async fn write(actor: ActorRef<StoreMessage>, session: SessionId, epoch: u64, count: u64, text: String) -> Vec<f64> {
    let mut seconds = Vec::new();
    for version in 0..count {
        let record = Record {
            format: FORMAT,
            id: RecordId::new(format!("{session}-{version}")),
            session: session.clone(),
            version: version + 1,
            epoch,
            turn: None,
            at: 0,
            fact: Fact::Steered { parts: vec![ContentPart::text(text.clone())], request_id: None, behind: false },
        };
        let records = vec![Arc::new(record)];
        let append = Append { session: session.clone(), epoch, expected_version: version, records };
        let asked = Instant::now();
        assert_eq!(ask(&actor, |reply| StoreMessage::Append { append, reply }).await, version + 1);
        seconds.push(asked.elapsed().as_secs_f64());
    }
    seconds
}

async fn ask<T: Send + 'static, E: std::fmt::Debug + Send + 'static>(
    actor: &ActorRef<StoreMessage>,
    question: impl FnOnce(Reply<Result<T, E>>) -> StoreMessage,
) -> T {
    let (reply, answer) = Reply::channel();
    actor.send_message(question(reply)).unwrap();
    answer.await.unwrap().unwrap()
}
