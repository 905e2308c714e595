//! The worker: a process that runs the runtime under load with injected faults, and reports to its parent.
//!
//! It reads its plan from the given folder, reports `ready`, begins at the parent's first line, reports `quiet` when
//! every turn has ended and every session was closed, and ends at the parent's second line or at the end of stdin. It
//! judges nothing.
//!
//! | file | owns |
//! |---|---|
//! | `runtime` | the runtime: ports with fault injection, tool servers |
//! | `load` | the clients and their requests |
//! | `replica`, `watched` | one of several workers, and its store (feature `postgres`) |
//! | `hands` | timed faults |
//! | `model`, `tools` | the ports |
//! | `watch` | the worker's observations of itself |
//! | `probe` | scheduling latency |
//! | `telling` | the pipe to the parent |
//! | `defects` | planted defects that the checker must find |

mod defects;
mod hands;
pub(crate) mod load;
mod model;
mod probe;
#[cfg(feature = "postgres")]
mod replica;
mod runtime;
mod telling;
mod tools;
mod watch;
#[cfg(feature = "postgres")]
mod watched;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::traps::Traps;
use bob::{AgentRuntime, Runtime, SessionId};
use bob_config::{Config, Environment, Overrides};
use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plan::{Defect, Life, Plan};
use super::wire::Report;
use crate::soak::error::SoakError;
use load::Clients;
use telling::Telling;

/// How long servers that were struck last may take to be back.
const BACK_WITHIN: Duration = Duration::from_secs(15);

/// How long a session that was closed may take to leave, and how often it is looked whether it did.
const LEFT_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Sessions that are closed at once.
const CLOSED_AT_ONCE: usize = 64;

/// Lives one life of a worker.
pub(crate) async fn live<G>(folder: &Path, listen: impl AsyncFnOnce(&Runtime, &Config) -> G) -> Result<(), SoakError> {
    let (plan, life) = Plan::read(folder)
        .map_err(|error| SoakError::internal(format!("cannot read the plan of the soak: {error}")))?;
    let plan = Arc::new(plan);
    #[cfg(feature = "postgres")]
    if life.replica.is_some() {
        return replica::live(plan, life).await;
    }
    let (telling, written) = Telling::begin();
    let sink = Arc::new(watch::Ends { plan: Arc::clone(&plan), telling: telling.clone() });
    let traps = Traps::default();
    let runtime = runtime::open(&plan, &life, &telling, sink, &traps).await?;
    let config = bob_config::load(&plan.config_path(), &Environment::of_process(), &Overrides::default())?;
    let control = listen(&runtime, &config).await;
    let mut clients = Clients {
        runtime,
        traps,
        front: Arc::new(defects::FrontEnd::new(Arc::clone(&plan), telling.clone())),
        plan,
        telling,
        probe: Arc::new(probe::Probe::start()),
        began: Instant::now(),
    };
    let mut stdin = BufReader::new(tokio::io::stdin()).lines();
    hands::servers_up(&clients, BACK_WITHIN).await;
    clients.warm_up().await;
    clients.telling.tell(Report::Ready { actors: watch::actors(&clients).await });
    if !next(&mut stdin).await {
        return Ok(());
    }
    let now = Instant::now();
    clients.began = now.checked_sub(Duration::from_millis(life.elapsed_ms)).unwrap_or(now);
    tokio::select! {
        biased;
        () = work(&clients, &life) => {}
        _gone = next(&mut stdin) => return Ok(()),
    }
    next(&mut stdin).await;
    drop(control);
    clients.runtime.shutdown().await;
    // The writing thread ends when the last sender is dropped, after the last line.
    drop(clients);
    drop(written);
    Ok(())
}

/// Waits for the parent's next line; `false` at the end of stdin.
async fn next(stdin: &mut Lines<BufReader<Stdin>>) -> bool {
    matches!(stdin.next_line().await, Ok(Some(_)))
}

/// From the first turn to quiet.
async fn work(clients: &Clients, life: &Life) {
    let mut bursts = JoinSet::new();
    tokio::select! {
        () = clients.run(life) => {}
        () = hands::strike(clients, life.elapsed_ms, &mut bursts) => {}
        () = watch::samples(clients) => {}
        () = watch::servers(clients) => {}
    }
    while bursts.join_next().await.is_some() {}
    tokio::select! {
        () = hands::servers_up(clients, BACK_WITHIN) => {}
        () = watch::servers(clients) => {}
    }
    clients.finish_bursts().await;
    close_all(clients).await;
    let live = left_live(clients).await;
    clients.telling.tell(Report::Quiet { live, actors: watch::actors(clients).await });
}

/// How many sessions are still live after those that leave have had their time.
async fn left_live(clients: &Clients) -> usize {
    let until = Instant::now() + LEFT_WITHIN;
    loop {
        let live = clients.runtime.health().await.live_sessions;
        if live == 0 || Instant::now() > until {
            return live;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn close_all(clients: &Clients) {
    // One that is left out stays, which is a defect.
    let first = u32::from(clients.plan.has(Defect::LeakSessions));
    let names = (first..clients.plan.sessions).map(|number| format!("s{number}"));
    let names = names.chain((0..4).map(|number| format!("b{number}"))).chain(load::WARM_UP.map(str::to_owned));
    futures_util::stream::iter(names.filter_map(|name| SessionId::parse(&name).ok()))
        .for_each_concurrent(CLOSED_AT_ONCE, |session| async move {
            clients.runtime.close(session).await;
        })
        .await;
}
