//! The runtime of one command: opened from the configuration, and closed in bounded time.
//!
//! - `origin`: the source of the configuration; `trust`: whether a found configuration may be used
//! - `remembered`: lasting decisions about tools
//! - `asking`: who asks when a turn is suspended; `newest`: a session from the newest part of its journal
//! - `turn`: one running turn; `taken`: who has a session that was taken away; `signals`: signals that end it and the process

pub(crate) mod asking;
pub(crate) mod command_files;
pub(crate) mod newest;
pub(crate) mod origin;
pub(crate) mod remembered;
pub(crate) mod signals;
pub(crate) mod taken;
pub(crate) mod trust;
pub(crate) mod turn;

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bob::approvals::{ApprovalMemory, PermissionMode};
use bob::config::Hook as ActorHook;
use bob::events::TracingEventSink;
use bob::health::TreeEnd;
use bob::inbox::Attendant;
use bob::model::LlmPort;
use bob::model::catalogue::Catalogue;
use bob::store::SessionStore;
#[cfg(feature = "otel")]
use bob::telemetry::{Telemetry, TelemetrySettings};
use bob::{AgentError, AgentRuntime, BuildError, ModelName, Runtime};
use bob_config::assemble::{Assembly, Choices, Opened, assemble, store_telling};
use bob_config::{Config, Hook, HookOn};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::exit::Failure;
use crate::terminal::warnings::Warnings;
use crate::terminal::{logging, print, question};
use remembered::Remembered;
use signals::{Caught, Signals};

/// Closing may take this long beyond the grace of running turns, since children are given time to end.
const CLOSING: Duration = Duration::from_secs(3);

/// What is left to write at the end has at least this long, however long the tree took.
const WRITING: Duration = Duration::from_millis(1_500);

/// The name of this program for a receiver of telemetry, if no variable has one.
#[cfg(feature = "otel")]
const SERVICE: &str = "cli-agent";

/// What is left to send of telemetry may take this long at the end.
#[cfg(feature = "otel")]
const SENDING: Duration = Duration::from_secs(1);

/// The runtime of this process and how long its end may take, for an end that its front end does not see to.
static OPENED: OnceLock<(Runtime, Duration)> = OnceLock::new();

/// The hook of every actor in this process.
static HOOK: OnceLock<Arc<dyn ActorHook>> = OnceLock::new();

/// Has this called in every actor of the runtime that this process opens.
pub(crate) fn hook(hook: Arc<dyn ActorHook>) {
    let _the_first_stays = HOOK.set(hook);
}

pub(crate) struct OpenRuntime {
    pub(crate) runtime: Runtime,
    /// Answers at once whether a model may be used.
    pub(crate) model: Arc<dyn LlmPort>,
    pub(crate) catalogue: Arc<Catalogue>,
    /// The model of turns that name none.
    pub(crate) default_model: ModelName,
    /// The permission mode of turns that name none.
    pub(crate) default_mode: PermissionMode,
    /// The store of the runtime, for sessions that it does not have open.
    pub(crate) store: Arc<dyn SessionStore>,
    /// The default working folder, absolute.
    pub(crate) workspace: std::path::PathBuf,
    /// The folder of a new session that names none, where no project's configuration says where sessions work.
    pub(crate) here: Option<String>,
    remembered: Option<Arc<Remembered>>,
    grace: Duration,
    /// When its end began, if it has begun.
    ending: OnceLock<Instant>,
    tape: Option<Opened>,
    #[cfg(feature = "otel")]
    telemetry: Option<Arc<Telemetry>>,
}

impl OpenRuntime {
    /// Starts the tree. Starts no model, and waits only for required tool servers. Errors: when the configuration is
    /// invalid on this machine, the tree cannot start, or a required tool server fails to start.
    pub(crate) async fn open(config: &Config, mut choices: Choices) -> Result<Self, Failure> {
        let remembered = Remembered::open(&config.folder);
        if choices.memory.is_none() {
            choices.memory = remembered.clone().map(|memory| memory as Arc<dyn ApprovalMemory>);
        }
        choices.private.extend(trust::state_folder());
        choices.recorder = trust::recorder(config);
        let store = match choices.store.take() {
            Some(store) => store,
            None => store_telling(config, choices.take_over, choices.recorder.take())?,
        };
        choices.store = Some(Arc::clone(&store));
        let environment = |name: &str| std::env::var(name).ok();
        let Assembly { model, catalogue, default_model, workspace, builder, tape } =
            assemble(config, &environment, choices)?;
        let builder = match logging::includes_turns(&config.log) {
            true => builder.sink(Arc::new(TracingEventSink::new())),
            false => builder,
        };
        let builder = match HOOK.get() {
            Some(hook) => builder.hook(Arc::clone(hook)),
            None => builder,
        };
        #[cfg(feature = "otel")]
        let telemetry = telemetry(&config.telemetry);
        #[cfg(not(feature = "otel"))]
        telemetry(&config.telemetry);
        #[cfg(feature = "otel")]
        let builder = telemetry.iter().fold(builder, |builder, sink| builder.sink(sink.clone()));
        let runtime = builder.build().await.map_err(|error| match error {
            BuildError::RequiredServer(_) => AgentError::Tool(error.to_string()).into(),
            BuildError::ToolServers(text) => Failure::usage(text),
            no_model_or_no_start => Failure::internal(no_model_or_no_start.to_string()),
        })?;
        if default_model.is_selector() && catalogue.facts().closed().is_some() {
            catalogue.facts().settled().await;
        }
        question::hide(&config.policy.secret_files);
        question::keep_originals(store.artifacts().is_some());
        let grace = Duration::from_millis(config.runtime.shutdown_grace_ms) + hooks_time(config);
        let _a_process_opens_one = OPENED.set((runtime.clone(), grace + CLOSING));
        Ok(Self {
            runtime,
            model,
            catalogue,
            default_model,
            default_mode: config.policy.rules.default_mode(),
            store,
            here: config.files().main.is_none().then(|| workspace.display().to_string()),
            workspace,
            remembered,
            grace,
            ending: OnceLock::new(),
            tape,
            #[cfg(feature = "otel")]
            telemetry,
        })
    }

    /// The folder whose sessions are meant where no project says where its sessions work: the one of the command line, or the
    /// current one.
    pub(crate) fn works_in<'a>(&'a self, folder: Option<&'a str>) -> Option<&'a str> {
        self.here.as_deref().map(|here| folder.unwrap_or(here))
    }

    pub(crate) fn warnings(&self) -> Warnings {
        Warnings::of(&self.runtime)
    }

    /// Checks that the model's provider is known and has its key. Nothing is sent.
    /// Errors: what is missing, with the variable of a missing key.
    pub(crate) fn check_model(&self, model: &ModelName) -> Result<(), Failure> {
        self.model.capabilities(model).map(|_can| ()).map_err(Failure::from)
    }

    /// Takes what other processes put into the inboxes of the sessions that this one has, until this is dropped or the tree has
    /// ended.
    pub(crate) fn attend(&self) -> Option<DropGuard> {
        let attendant = Attendant::new(self.runtime.clone(), Arc::clone(&self.store))?;
        let until = CancellationToken::new();
        tokio::spawn(attendant.run(until.clone()));
        Some(until.drop_guard())
    }

    /// The error if the tree has ended unexpectedly.
    pub(crate) fn gave_up(&self) -> Failure {
        match &*self.runtime.ended().borrow() {
            Some(TreeEnd::GaveUp { reason }) => Failure::internal(format!("the runtime gave up: {reason}")),
            Some(TreeEnd::Stopped | TreeEnd::Died) | None => {
                Failure::internal("the runtime ended because of an internal error")
            }
        }
    }

    /// Begins the end of the tree, and does not wait for it: running turns have the grace period from now on.
    pub(crate) fn shut_down(&self) {
        self.ending.get_or_init(Instant::now);
        let runtime = self.runtime.clone();
        tokio::spawn(async move { runtime.shutdown().await });
    }

    /// Ends the tree and its children. Returns after at most the grace period and three seconds, which count from
    /// [`shut_down`](Self::shut_down) if that was called, or at the next signal; remaining children are then ended by their
    /// watcher. Returns that signal.
    pub(crate) async fn close(self, signals: &mut Signals) -> Option<Caught> {
        let Self { runtime, remembered, tape, grace, ending, .. } = self;
        #[cfg(feature = "otel")]
        let telemetry = self.telemetry;
        // Decisions during the grace period must be written, too.
        let written = async move {
            let flush = move || remembered.iter().for_each(|memory| memory.flush());
            let _written_or_failed = tokio::task::spawn_blocking(flush).await;
            keep(tape).await;
            #[cfg(feature = "otel")]
            if let Some(telemetry) = telemetry {
                let flush = move || telemetry.flush(SENDING);
                let _sent_or_left = tokio::task::spawn_blocking(flush).await;
            }
        };
        let limit = left_of(grace + CLOSING, ending.get().map(Instant::elapsed));
        end_within(limit, runtime.shutdown(), written, signals.next()).await
    }
}

/// How long the hooks at the end of the last turn may take.
fn hooks_time(config: &Config) -> Duration {
    let is_of_end = |hook: &&Hook| matches!(hook.on, HookOn::Question | HookOn::TurnEnd);
    config.hooks.values().filter(is_of_end).map(|hook| Duration::from_millis(hook.timeout_ms)).sum()
}

/// What sends telemetry, if `[telemetry]` or the `OTEL_*` variables ask for it. One that cannot be used stops no command.
#[cfg(feature = "otel")]
fn telemetry(settings: &bob_config::Telemetry) -> Option<Arc<Telemetry>> {
    let variable = |name: &str| std::env::var(name).ok();
    let contents = settings.capture_content;
    let settings = match &settings.otlp_endpoint {
        None => TelemetrySettings::from_variables(&variable, SERVICE),
        Some(address) => {
            let named = TelemetrySettings::new(address, SERVICE);
            let named = settings.headers.iter().fold(named, |all, (name, value)| all.header(name, value.expose()));
            named.overridden_by(&variable)
        }
    };
    let with_contents = |one: TelemetrySettings| if contents { one.with_contents() } else { one };
    let settings = settings.map(|settings| settings.map(with_contents));
    settings.and_then(|settings| settings.map(Telemetry::start).transpose()).unwrap_or_else(|error| {
        print::note(&format!("warning: no telemetry is sent: {error}"));
        None
    })
}

/// Says that this program cannot send what the configuration asks for.
#[cfg(not(feature = "otel"))]
fn telemetry(settings: &bob_config::Telemetry) {
    if settings.otlp_endpoint.is_some() {
        print::note("warning: no telemetry is sent: this program was built without the feature otel");
    }
}

/// What is left of the time for the end of the tree, which began so long ago.
fn left_of(limit: Duration, begun: Option<Duration>) -> Duration {
    limit.saturating_sub(begun.unwrap_or_default()).max(WRITING)
}

/// Ends the tree, then waits for pending writes: both within `limit`, or until the next signal.
async fn end_within<T>(
    limit: Duration,
    shutdown: impl Future<Output = ()>,
    written: impl Future<Output = ()>,
    signal: impl Future<Output = T>,
) -> Option<T> {
    let mut ended = false;
    let in_order = async {
        shutdown.await;
        ended = true;
        written.await;
    };
    let outcome = tokio::select! {
        () = in_order => Ok(()),
        () = tokio::time::sleep(limit) => Ok(()),
        caught = signal => Err(caught),
    };
    match outcome {
        Ok(()) => {
            if !ended {
                print::note("the runtime did not end in time and is left");
            }
            None
        }
        Err(caught) => Some(caught),
    }
}

/// Completes a recorded tape on disk, and reports errors. Reports unused entries of a replayed tape.
async fn keep(tape: Option<Opened>) {
    match tape {
        Some(Opened::Recording(recorder)) => {
            let kept = tokio::task::spawn_blocking(move || recorder.keep()).await;
            if let Ok(Err(error)) = kept {
                print::note(&format!("warning: the recording is not whole: {error}"));
            }
        }
        Some(Opened::Replaying(tape)) if tape.left() > 0 => {
            print::note(&format!("note: {} answers and results of the tape were not asked for", tape.left()));
        }
        Some(Opened::Replaying(_)) | None => {}
    }
}

/// Ends the tree of this process, if there is one, without its front end, within the time of [`OpenRuntime::close`].
pub(crate) async fn close_without_front_end() {
    if let Some((runtime, limit)) = OPENED.get() {
        let _in_time_or_left = tokio::time::timeout(*limit, runtime.shutdown()).await;
    }
}

#[cfg(test)]
mod runtime_tests;
