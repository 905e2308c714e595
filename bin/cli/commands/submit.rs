//! `submit`: puts a message into the inbox of a session, and waits for its outcome.
//!
//! Opens the store and nothing else: the turn runs in a process that works.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bob::approvals::PermissionMode;
use bob::config::clock;
use bob::events::AgentEvent;
use bob::inbox::{InboxMessage, InboxRequest, Pending, SubmitRequest, Submitter};
use bob::model::ContentPart;
use bob::sessions::{PoolName, RequestId, TurnOutcome};
use bob::store::{Part, SessionStore, StoreError, pool_of};
use bob::{AgentError, ModelName, SessionId};
use bob_config::assemble;
use bob_config::{Config, StoreKind};
use serde_json::json;

use crate::arguments::{OutputForm, SubmitArgs};
use crate::commands::output::{self, ResultObject};
use crate::commands::{file_changes, prompt, run};
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::runtime::trust;
use crate::terminal::print;
use crate::terminal::screen::Screen;
use crate::terminal::show::Show;

/// Puts the message, and prints its outcome.
/// Errors: when the message was not accepted, or refused by the worker that took it.
pub(crate) async fn submit(args: &SubmitArgs, config: &Config) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let session = match &args.session {
        Some(id) => SessionId::parse(id)?,
        None => run::new_session()?,
    };
    let model = args.model.as_deref().map(ModelName::parse).transpose()?;
    refuse_memory(config)?;
    let said = tokio::select! {
        said = prompt::read_joined(args.prompt.as_deref()) => said?,
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
    };
    let store = assemble::store_telling(config, false, trust::recorder(config))?;
    let submitter = submitter(&store)?;
    let request_id = request_id(args.request_id.as_deref())?;
    let parts = vec![ContentPart::text(said)];
    let message = |request| InboxMessage::new(session.clone(), request_id.clone(), clock::now(), request);
    if args.steer {
        return steered(&submitter, message(InboxRequest::Steer { parts }), args.json, &mut signals).await;
    }
    let submit = SubmitRequest {
        parts,
        model,
        pool: args.pool.clone(),
        traceparent: std::env::var("TRACEPARENT").ok(),
        tracestate: std::env::var("TRACESTATE").ok(),
        ..SubmitRequest::default()
    };
    let ids = format!("--session {session} --request-id {request_id}");
    let printed = Printed {
        form: args.form(),
        follows: args.follow,
        mode: config.policy.rules.default_mode(),
        store: Arc::clone(&store),
        again: format!("`cli-agent submit {ids}` with the same prompt"),
        ids,
    };
    let mut pending = put(&submitter, message(InboxRequest::Submit(Box::new(submit))), &printed.ids).await?;
    if args.no_wait {
        match args.json {
            true => print::json(&json!({ "session_id": session, "request_id": request_id }))?,
            false => print::line(session.as_str())?,
        }
        return Ok(Exit::Success);
    }
    let pool = args.pool.clone();
    let explained = explained(&*store, pool, &session);
    tokio::select! {
        result = waited_for(&mut pending, &printed, &mut signals) => result,
        never = explained => match never {},
    }
}

/// Says that no process of the pool is alive in which a message waits, each time this begins. Asks more and more seldom. Never ready.
async fn explained(store: &dyn SessionStore, named: Option<PoolName>, session: &SessionId) -> Infallible {
    let (mut is_told, mut pause, mut pool) = (false, TOLD_AFTER, named);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(TOLD_EACH);
        if pool.is_none() {
            pool = bound(store, session).await;
        }
        let Some(pool) = &pool else { continue };
        let Ok(Some(seen)) = store.overview().await else { continue };
        let is_empty = seen.empty_pools.iter().any(|empty| empty.name == *pool);
        if is_empty && !is_told {
            print::note(&format!(
                "[no process of the pool {pool} is alive; the message waits for one: `cli-agent work --pool {pool}`]"
            ));
        }
        is_told = is_empty;
    }
}

/// The pool to which a session is bound, as far as it can be read.
pub(crate) async fn bound(store: &dyn SessionStore, session: &SessionId) -> Option<PoolName> {
    pool_of(session, &store.load_part(session, Part::Latest).await.ok()?)
}

/// The name of a message: the one that was given, or a new one. Errors: when it is empty.
pub(crate) fn request_id(given: Option<&str>) -> Result<RequestId, Failure> {
    match given {
        Some(id) if id.trim().is_empty() => Err(Failure::usage("--request-id is empty")),
        Some(id) => Ok(RequestId::new(id)),
        None => Ok(RequestId::new(uuid::Uuid::now_v7().to_string())),
    }
}

/// How the outcome of a message is printed, and what is said of the message where there is none.
pub(crate) struct Printed {
    pub(crate) form: OutputForm,
    /// Whether the events before it are printed as well.
    pub(crate) follows: bool,
    pub(crate) mode: PermissionMode,
    /// Where its turn is journaled.
    pub(crate) store: Arc<dyn SessionStore>,
    /// The options that name the message.
    pub(crate) ids: String,
    /// The command that goes on waiting.
    pub(crate) again: String,
}

/// Puts a message, and says what is known of it when that failed.
/// Errors: when it was not accepted, or may not have been.
pub(crate) async fn put(submitter: &Submitter, message: InboxMessage, ids: &str) -> Result<Pending, Failure> {
    submitter.put(message).await.map_err(|error| {
        match error {
            AgentError::Store(StoreError::InDoubt(_)) => {
                print::note(&format!("[it is not known whether the message arrived; repeat it with {ids}]"));
            }
            _ => print::note(&format!("[the message was not accepted; its ids are {ids}]")),
        }
        error.into()
    })
}

/// Waits for the outcome of a message, and prints it.
/// Errors: when the message was refused, a signal came, or the store cannot be read.
pub(crate) async fn waited_for(
    pending: &mut Pending,
    printed: &Printed,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    tokio::select! {
        outcome = followed(printed, pending) => match outcome {
            Ok(outcome) => told(printed, &outcome).await,
            Err(failure) => {
                print::note(&format!("[the message was {}]", printed.ids));
                Err(failure)
            }
        },
        caught = signals.next() => {
            print::note(&format!("[the message stays in the inbox; {} goes on waiting]", printed.again));
            Err(Failure::signalled(caught.exit()))
        }
    }
}

/// Puts a message to the running turn, and waits until the process that has the turn has taken it.
async fn steered(
    submitter: &Submitter,
    message: InboxMessage,
    is_json: bool,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let (session, request_id) = (message.session.clone(), message.request_id.clone());
    let ids = format!("--session {session} --request-id {request_id}");
    drop(put(submitter, message, &ids).await?);
    taken(submitter, &session, &request_id, signals).await?;
    match is_json {
        true => print::json(&json!({ "session_id": session, "request_id": request_id }))?,
        false => print::note(&format!("added to the turn of {session}")),
    }
    Ok(Exit::Success)
}

/// After how long a message that no process has taken is explained.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// Between two looks at the processes of a pool, at most.
const TOLD_EACH: Duration = Duration::from_secs(60);

/// Waits until the process that has the session, or takes it next, is done with a message that runs no turn.
/// Errors: why the message was refused; when a signal came.
pub(crate) async fn taken(
    submitter: &Submitter,
    session: &SessionId,
    request_id: &RequestId,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let taken = submitter.taken(session, request_id);
    tokio::pin!(taken);
    let told = tokio::time::sleep(TOLD_AFTER);
    tokio::pin!(told);
    let mut is_told = false;
    loop {
        tokio::select! {
            taken = &mut taken => return taken.map_err(Failure::from),
            () = &mut told, if !is_told => {
                is_told = true;
                print::note("[waiting for a process that has the session, or takes it; Ctrl-C ends the waiting, and the message stays]");
            }
            caught = signals.next() => return Err(Failure::signalled(caught.exit())),
        }
    }
}

/// Waits for the outcome, and prints the events on the way if that was asked for.
async fn followed(printed: &Printed, pending: &mut Pending) -> Result<Box<TurnOutcome>, Failure> {
    if !printed.follows {
        return while_away(pending, async |pending| pending.outcome().await).await;
    }
    let mut shown = Show::of_journal();
    let mut screen = Screen::new(None);
    while let Some(event) = while_away(pending, async |pending| pending.next_event().await).await? {
        match printed.form {
            // Its end is the result.
            OutputForm::Json | OutputForm::StreamJson if matches!(event.event, AgentEvent::TurnFinished { .. }) => {}
            OutputForm::Text => screen.print(shown.event(&event.event, event.step))?,
            OutputForm::Json | OutputForm::StreamJson => print::json(&event.to_json())?,
        }
    }
    Ok(pending.outcome().await?)
}

/// What is waited for. While the store is away, the message waits, and so does this.
async fn while_away<T>(
    pending: &mut Pending,
    wait: impl AsyncFn(&mut Pending) -> Result<T, AgentError>,
) -> Result<T, Failure> {
    let mut is_told = false;
    loop {
        match wait(pending).await {
            Ok(found) => return Ok(found),
            Err(AgentError::Store(error)) if error.is_retryable() => {
                if !std::mem::replace(&mut is_told, true) {
                    print::note(&format!("[{error}; the message is accepted, and its outcome is waited for]"));
                }
                tokio::time::sleep(ASKED_EACH).await;
            }
            // It was cancelled before its turn began.
            Err(error @ AgentError::Stopped(_)) => {
                return Err(Failure { exit: Exit::Interrupted, ..Failure::from(error) });
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Between two attempts to read what became of a message while the store is away.
const ASKED_EACH: Duration = Duration::from_secs(1);

async fn told(printed: &Printed, outcome: &TurnOutcome) -> Result<Exit, Failure> {
    let result = async || {
        let changes = file_changes::of_outcome(&*printed.store, outcome).await;
        ResultObject::of(outcome, printed.mode, changes)
    };
    match printed.form {
        OutputForm::Text => {
            let mut shown = Show::new(false);
            Screen::new(None).print(shown.outcome(outcome))?;
        }
        OutputForm::Json => result().await.print(printed.form)?,
        OutputForm::StreamJson => {
            // Made first: a result that is claimed is printed at once.
            let result = result().await;
            if output::claim_result() {
                print::json(&result.as_event(serde_json::Map::new()))?;
            }
        }
    }
    Ok(Exit::of(outcome))
}

/// A submitter for a store. Errors: when the store has no inbox.
pub(crate) fn submitter(store: &Arc<dyn SessionStore>) -> Result<Submitter, Failure> {
    Submitter::new(Arc::clone(store)).ok_or_else(|| {
        Failure::from(AgentError::Invalid(
            "this store has no inbox: set store.kind to \"postgres\" or \"sqlite\"".to_owned(),
        ))
    })
}

/// Refuses a store that ends with its process.
pub(crate) fn refuse_memory(config: &Config) -> Result<(), Failure> {
    match config.store.kind {
        StoreKind::Memory => Err(Failure::usage(
            "store.kind = \"memory\" is not shared with other processes; set it to \"postgres\", or on one machine to \"sqlite\"",
        )),
        StoreKind::Sqlite | StoreKind::Json | StoreKind::Postgres => Ok(()),
    }
}
