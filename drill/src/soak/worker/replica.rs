//! One of several workers that share a database: it runs what the parent submits, and reports what it owned and saw.
//!
//! It reports `ready`, works from the parent's first line on, and hands over at the end of stdin.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use bob::inbox::{Worked, Worker};
use bob::store::{PostgresStore, SessionStore, StoreOptions};
use bob::{AgentRuntime, Runtime};
use tokio::io::BufReader;
use tokio_util::sync::CancellationToken;

use super::load::answer;
use super::telling::Telling;
use super::watched::Watched;
use super::{next, runtime};
use crate::soak::error::SoakError;
use crate::soak::plan::{DATABASE, Life, Plan};
use crate::soak::wire::Report;

/// How long the database may be away when a worker starts, and how often it is tried.
const OPENED_WITHIN: Duration = Duration::from_secs(30);
const TRIED_EACH: Duration = Duration::from_millis(200);

/// Between two looks whether this process goes on, and the pause between them from which on it is reported.
const TICK: Duration = Duration::from_millis(100);
const STALL: Duration = Duration::from_millis(200);

pub(super) async fn live(plan: Arc<Plan>, life: Life) -> Result<(), SoakError> {
    let (telling, written) = Telling::begin();
    let who = life.who();
    let stalls = report_stalls(telling.clone(), who.clone());
    let store = open(&who).await?;
    let store: Arc<dyn SessionStore> = Arc::new(Watched::new(store, &plan, telling.clone(), who.clone()));
    let store = runtime::before(store, &plan, &telling, life.number * 64 + life.replica.unwrap_or_default());
    let builder = runtime::scripted(&plan, &telling, Arc::clone(&store))?;
    let built = builder.build().await;
    let runtime: Runtime = built.map_err(|error| SoakError::internal(error.to_string()))?;
    let no_inbox = || SoakError::internal("the store of the soak has no inbox");
    let worker = Worker::new(runtime.clone(), store).ok_or_else(no_inbox)?;
    let worker = worker.telling(reports(telling.clone(), who));
    let mut stdin = tokio::io::AsyncBufReadExt::lines(BufReader::new(tokio::io::stdin()));
    telling.tell(Report::Ready { actors: 0 });
    let until = CancellationToken::new();
    if next(&mut stdin).await {
        let works = worker.run(until.clone());
        tokio::pin!(works);
        tokio::select! {
            // The runtime gave up; the parent sees that the process ended.
            () = &mut works => return Err(SoakError::internal("a worker ended before it was told to")),
            _gone = next(&mut stdin) => until.cancel(),
        }
        works.await;
    }
    runtime.shutdown().await;
    drop(stalls);
    drop(runtime);
    drop(telling);
    // Other senders are in tasks of the runtime, which has ended; the last lines are written when all are dropped.
    let _written = tokio::time::timeout(Duration::from_secs(2), tokio::task::spawn_blocking(|| written.join())).await;
    Ok(())
}

async fn open(who: &str) -> Result<Arc<PostgresStore>, SoakError> {
    let url = std::env::var(DATABASE).map_err(|_missing| SoakError::internal(format!("{DATABASE} is not set")))?;
    let until = Instant::now() + OPENED_WITHIN;
    loop {
        let options = StoreOptions { owner_name: who.to_owned(), ..StoreOptions::default() };
        let url = url.clone();
        let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&url, options)).await;
        match opened.map_err(|error| SoakError::internal(error.to_string()))? {
            Ok(store) => return Ok(store),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_restarting) => tokio::time::sleep(TRIED_EACH).await,
        }
    }
}

fn reports(telling: Telling, who: String) -> impl Fn(&Worked) + Send + Sync {
    move |worked| {
        if let Ok(outcome) = &worked.result {
            let request = outcome.request_id.as_ref().map(ToString::to_string).unwrap_or_default();
            let answer = Box::new(answer(outcome, request, tokio::time::Instant::now()));
            telling.tell(Report::Worked { who: who.clone(), answer });
        }
    }
}

/// Reports when this process did nothing for a while, until the sender is dropped.
fn report_stalls(telling: Telling, who: String) -> Sender<()> {
    let (alive, ended) = channel::<()>();
    std::thread::spawn(move || {
        let mut last = Instant::now();
        while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let pause = last.elapsed();
            last = Instant::now();
            if pause >= STALL {
                let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                telling.tell(Report::Stalled { who: who.clone(), ms });
            }
        }
    });
    alive
}
