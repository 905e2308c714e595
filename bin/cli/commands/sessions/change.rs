//! Changes of stored sessions that no other process has.

use std::path::Path;
use std::sync::Arc;

use bob::approvals::PermissionMode;
use bob::config::{Millis, clock};
use bob::inbox::{InboxMessage, InboxRequest, Submitter};
use bob::sessions::{Change, OptionsPatch, PoolName, RequestId, SessionOptions, TurnId};
use bob::store::{Append, FORMAT, Fact, StoreError};
use bob::store::{Record, RecordId, Session, SessionStore};
use bob::{ModelName, SessionId};
use bob_config::{Config, sanitise};

use crate::commands::run::working_folder;
use crate::commands::submit;
use crate::exit::Failure;
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// How many characters of a title are kept.
const MOST_TITLE: usize = 72;

/// The changes requested by `sessions set`.
pub(super) fn patch(
    model: Option<&str>,
    cwd: Option<&Path>,
    instructions: Option<&str>,
    mode: Option<PermissionMode>,
    pool: Option<&PoolName>,
    clear: &[String],
    config: &Config,
) -> Result<OptionsPatch, Failure> {
    let cleared = |name: &str| clear.iter().any(|other| other == name);
    let given = [
        ("model", model.is_some()),
        ("cwd", cwd.is_some()),
        ("instructions", instructions.is_some()),
        ("mode", mode.is_some()),
        ("pool", pool.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(name, is_given)| *is_given && cleared(name)) {
        return Err(Failure::usage(format!("--{name} and --clear {name} contradict each other; use one of them")));
    }
    fn change<T>(value: Option<T>, cleared: bool) -> Change<T> {
        match value {
            Some(value) => Change::Set(value),
            None if cleared => Change::Clear,
            None => Change::Keep,
        }
    }
    let model = model.map(ModelName::parse).transpose()?;
    let cwd = cwd.map(|cwd| working_folder(cwd, config)).transpose()?;
    let no_text = || Failure::usage("--cwd is not valid UTF-8");
    let cwd = cwd.map(|cwd| cwd.into_os_string().into_string().map_err(|_| no_text())).transpose()?;
    let patch = OptionsPatch {
        model: change(model, cleared("model")),
        cwd: change(cwd, cleared("cwd")),
        instructions: change(instructions.map(str::to_owned), cleared("instructions")),
        mode: change(mode, cleared("mode")),
        pool: change(pool.cloned(), cleared("pool")),
        ..OptionsPatch::default()
    };
    if patch == OptionsPatch::default() {
        return Err(Failure::usage("nothing to change; use --model, --cwd, --instructions, --mode, --pool or --clear"));
    }
    Ok(patch)
}

/// A title of one line, as lists show it. Errors: when nothing of it can be shown.
pub(crate) fn title(text: &str) -> Result<Box<str>, Failure> {
    let title = print::on_one_line(&sanitise::clean(text), MOST_TITLE);
    match title.is_empty() {
        true => Err(Failure::usage("the title is empty")),
        false => Ok(title.into()),
    }
}

/// Changes a session in the store, as its temporary owner; fails if another process owns it.
pub(super) async fn set(
    store: &dyn SessionStore,
    id: &SessionId,
    patch: &OptionsPatch,
) -> Result<SessionOptions, Failure> {
    super::read(store, id).await?;
    let claim = store.claim(id).await?;
    let session = Session::fold(id.clone(), &claim.records);
    let options = patch.applied_to(session.latest_options());
    let fact = configured(&options, patch.notice.clone());
    let stored = append(store, id, claim.epoch, claim.version, vec![(None, clock::now(), fact)]).await;
    store.release(id, claim.epoch).await;
    stored?;
    Ok(options)
}

/// Leaves a change in the inbox of a session, and waits until the process that has the session, or takes it next, has made it.
pub(super) async fn submitted(
    store: &Arc<dyn SessionStore>,
    id: &SessionId,
    patch: OptionsPatch,
    config: &Config,
) -> Result<RequestId, Failure> {
    submit::refuse_memory(config)?;
    super::read(&**store, id).await?;
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let submitter = submit::submitter(store)?;
    let request_id = put(&submitter, id, patch).await?;
    submit::taken(&submitter, id, &request_id, &mut signals).await?;
    Ok(request_id)
}

/// Leaves a change in the inbox of a session, for the process that has the session.
pub(super) async fn left(store: &Arc<dyn SessionStore>, id: &SessionId, patch: OptionsPatch) -> Result<(), Failure> {
    put(&submit::submitter(store)?, id, patch).await.map(drop)
}

async fn put(submitter: &Submitter, id: &SessionId, patch: OptionsPatch) -> Result<RequestId, Failure> {
    let request_id = submit::request_id(None)?;
    let request = InboxRequest::Configure { patch: Box::new(patch) };
    let message = InboxMessage::new(id.clone(), request_id.clone(), clock::now(), request);
    drop(submitter.put(message).await?);
    Ok(request_id)
}

/// The record of changed options, and of what the model is told.
pub(super) fn configured(options: &SessionOptions, notice: Option<Arc<str>>) -> Fact {
    let request_id = RequestId::new(uuid::Uuid::now_v7().to_string());
    Fact::Configured { request_id, options: Arc::new(options.clone()), notice }
}

/// Stores facts, each with its turn and time, behind this version. Errors of the store.
pub(super) async fn append(
    store: &dyn SessionStore,
    id: &SessionId,
    epoch: u64,
    expected_version: u64,
    facts: Vec<(Option<TurnId>, Millis, Fact)>,
) -> Result<(), Failure> {
    let record = |(version, (turn, at, fact))| {
        let record_id = RecordId::numbered(epoch, version);
        Arc::new(Record { format: FORMAT, id: record_id, session: id.clone(), version, epoch, turn, at, fact })
    };
    let records = (expected_version + 1..).zip(facts).map(record).collect();
    let append = Append { session: id.clone(), epoch, expected_version, records };
    let stored = store.append(vec![append]).await.pop();
    stored.unwrap_or_else(|| Err(StoreError::InDoubt("the store did not answer".to_owned())))?;
    Ok(())
}
