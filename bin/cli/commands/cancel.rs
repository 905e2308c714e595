//! `cancel`: ends the turn of a session, in a process of this machine or through the inbox of the store.
//!
//! A process that is asked over its control socket has forgotten the question when it dies. A worker therefore gets a
//! message, which the next worker finds as well; so does a `run`, `chat` or `batch` of another machine.

use std::sync::Arc;
use std::time::Duration;

use bob::config::clock;
use bob::health::NodeState;
use bob::inbox::Submitter;
use bob::sessions::{FinishReason, RequestId};
use bob::store::SessionStore;
use bob::{AgentError, SessionId};
use bob_config::{Config, StoreKind, assemble};

use crate::arguments::CancelArgs;
use crate::commands::sessions::find::Listing;
use crate::commands::{ps, submit};
use crate::control::client::{self, Process};
use crate::control::wire::{Request, Response};
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::runtime::trust;
use crate::terminal::print;

/// After how long a cancellation that no worker has taken is explained.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// Between two attempts while the store is away.
const ASKED_EACH: Duration = Duration::from_secs(1);

/// The command of processes that take cancellations from the inbox only.
const WORK: &str = "work";

/// `cancel`. Errors: when there is no such process, the id is none or that of several sessions, or nothing runs and
/// nothing waits in the session.
pub(crate) async fn cancel(args: &CancelArgs, config: &Config) -> Result<Exit, Failure> {
    if args.pid.is_none() && config.store.kind == StoreKind::Postgres {
        // It connects to the database that the configuration names.
        trust::check(config)?;
        return of_many_machines(&args.id, config).await;
    }
    let begins = |name: &str| name.starts_with(&args.id);
    if let Some((process, session)) = holder(&args.id, args.pid, config, begins).await? {
        return held(process, &session, config).await;
    }
    let session = SessionId::parse(&args.id)?;
    if args.pid.is_none()
        && let Some(store) = with_messages(&session, config).await
        && let Some(exit) = in_inbox(&store, &session).await?
    {
        return Ok(exit);
    }
    // No process has it in memory; where there are several, none of them is meant.
    if args.pid.is_none() && client::processes(config).await.len() > 1 {
        return Err(Failure::usage(format!("nothing runs in the session {session}")));
    }
    in_process(client::the_one(config, args.pid).await?, &session).await
}

/// The store has sessions of other machines, whose ids may begin as one of this machine does. A process of this machine has the
/// session if the whole id is the same.
async fn of_many_machines(id: &str, config: &Config) -> Result<Exit, Failure> {
    if let Some((process, session)) = holder(id, None, config, |name| name == id).await? {
        return held(process, &session, config).await;
    }
    let store = assemble::store(config, false, trust::recorder(config))?;
    let session = Listing::Store(&*store).find(id).await?;
    if let Some((process, session)) = holder(session.as_str(), None, config, |name| name == session.as_str()).await? {
        return held(process, &session, config).await;
    }
    match in_inbox(&store, &session).await? {
        Some(exit) => Ok(exit),
        None => Err(Failure::usage(format!("nothing runs and nothing waits in the session {session}"))),
    }
}

/// The store of the configuration, where messages wait for a session in it. One that was not made yet stays so, and one that cannot
/// be read has none: a process that uses it is found without it.
async fn with_messages(session: &SessionId, config: &Config) -> Option<Arc<dyn SessionStore>> {
    let path = config.store_path()?;
    let folder = match config.store.kind {
        StoreKind::Json => path.as_path(),
        StoreKind::Sqlite | StoreKind::Memory | StoreKind::Postgres => path.parent()?,
    };
    // One that came with the folder is not opened: that may write to it.
    let may_be_opened = folder.is_dir() && trust::is_store_settled(config);
    let store = may_be_opened.then(|| assemble::store(config, false, trust::recorder(config)).ok()).flatten()?;
    let waiting = store.inbox()?.take(session).await.ok()?;
    (!waiting.is_empty()).then_some(store)
}

/// Cancels what runs in a session that this process has.
async fn held(process: Process, session: &SessionId, config: &Config) -> Result<Exit, Failure> {
    if process.hello.command == WORK
        && let Some(exit) = in_inbox(&assemble::store(config, false, trust::recorder(config))?, session).await?
    {
        return Ok(exit);
    }
    in_process(process, session).await
}

/// Asks the process over its control socket.
async fn in_process(mut process: Process, session: &SessionId) -> Result<Exit, Failure> {
    match process.ask(Request::Cancel { session: session.to_string() }).await? {
        Response::Cancelled { was_running: true } => {
            print::note(&format!("cancelled what ran in {session}"));
            Ok(Exit::Success)
        }
        Response::Cancelled { was_running: false } => {
            Err(Failure::usage(format!("nothing runs in the session {session} of process {}", process.hello.pid)))
        }
        _no_answer_to_that => Err(client::unexpected()),
    }
}

/// Puts a cancellation into the inbox, and waits until a worker has taken it. `None` when there is nothing to cancel.
async fn in_inbox(store: &Arc<dyn SessionStore>, session: &SessionId) -> Result<Option<Exit>, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let submitter = submit::submitter(store)?;
    let Some(request) = submitter.first_request(session).await? else { return Ok(None) };
    submitter.cancel(session, &request, clock::now()).await?;
    let became = became(&submitter, session, &request);
    tokio::pin!(became);
    let told = tokio::time::sleep(TOLD_AFTER);
    tokio::pin!(told);
    let mut is_told = false;
    loop {
        tokio::select! {
            became = &mut became => {
                print::note(&became?);
                return Ok(Some(Exit::Success));
            }
            () = &mut told, if !is_told => {
                is_told = true;
                let of_pool = submit::bound(&**store, session).await;
                let of_pool = of_pool.map(|pool| format!(" (of the pool {pool}: `cli-agent work --pool {pool}`)"));
                print::note(&format!(
                    "[waiting for a worker that has the session, or the process that runs its turn{}; Ctrl-C ends the \
                     waiting, and the cancellation stays]",
                    of_pool.unwrap_or_default()
                ));
            }
            caught = signals.next() => return Ok(Some(caught.exit())),
        }
    }
}

/// Waits until a worker has taken the cancellation of a request. What became of the request.
async fn became(submitter: &Submitter, session: &SessionId, request: &RequestId) -> Result<String, Failure> {
    let mut is_told = false;
    loop {
        match submitter.cancelled(session, request).await {
            Ok(outcome) => {
                return Ok(match outcome.map(|outcome| outcome.finish_reason) {
                    Some(FinishReason::Cancelled) => format!("cancelled what ran in {session}"),
                    Some(_) => format!("the turn in {session} had ended before it was cancelled"),
                    None => format!("cancelled in {session}"),
                });
            }
            Err(AgentError::Store(error)) if error.is_retryable() => {
                if !std::mem::replace(&mut is_told, true) {
                    print::note(&format!("[{error}; the cancellation is accepted, and a worker is waited for]"));
                }
                tokio::time::sleep(ASKED_EACH).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The process that has such a session in memory, and the session. One whose id is `id` is meant before others.
async fn holder(
    id: &str,
    pid: Option<u32>,
    config: &Config,
    is_such: impl Fn(&str) -> bool,
) -> Result<Option<(Process, SessionId)>, Failure> {
    let session = SessionId::parse(id)?;
    let mut holders: Vec<(Process, String)> = Vec::new();
    let processes = match pid {
        Some(_) => ps::meant(pid, config).await?,
        None => client::processes(config).await,
    };
    for mut process in processes {
        let mut names = sessions_of(&process.look().await?.tree);
        names.retain(|name| is_such(name));
        match names.as_slice() {
            [] => {}
            names if names.iter().any(|name| name == id) => return Ok(Some((process, session))),
            [name] => holders.push((process, name.clone())),
            [first, second, ..] => return Err(ambiguous(id, [first, second])),
        }
    }
    match (holders.pop(), holders.pop()) {
        (None, _) => Ok(None),
        (Some((process, name)), None) => Ok(Some((process, SessionId::parse(&name)?))),
        (Some((_, first)), Some((_, second))) => Err(ambiguous(id, [&first, &second])),
    }
}

/// The sessions of a process.
fn sessions_of(tree: &[NodeState]) -> Vec<String> {
    let sessions = tree.iter().filter(|node| node.name == "sessions").flat_map(|node| &node.children);
    sessions.map(|node| node.name.clone()).collect()
}

fn ambiguous(id: &str, names: [&String; 2]) -> Failure {
    Failure::usage(format!("several running sessions begin with {id}, {} and {} among them", names[0], names[1]))
}
