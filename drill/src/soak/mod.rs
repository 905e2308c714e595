//! `soak`: many sessions under injected faults, and an independent verdict on their outcomes.
//!
//! Two processes: the worker runs the runtime under test; the parent starts it, kills it, logs its reports and
//! observes it from outside. After the worker has ended, the checker judges the data. With replicas there are several
//! workers that share a database, and the parent submits to them.
//!
//! | module | owns |
//! |---|---|
//! | `arguments`, `plan` | the parameters of a run |
//! | `chaos`, `schedule` | the kinds of faults, and when they occur |
//! | `turns` | the content of turns |
//! | `worker` | the process under test, its load and its faults |
//! | `wire` | the worker's reports |
//! | `parent` | the observing process |
//! | `replicas` | the observing process of several workers: their database, the load, the proxy (feature `postgres`) |
//! | `checker` | the checks |
//! | `verdict`, `report` | the output |
//!
//! It uses the runtime through its facade and its ports; only the traps reach into actors.

mod arguments;
pub(crate) mod chaos;
mod checker;
mod error;
mod parent;
pub(crate) mod plan;
#[cfg(feature = "postgres")]
mod replicas;
mod report;
mod schedule;
mod turns;
mod verdict;
mod wire;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bob::Runtime;
use bob_config::{Config, Environment, Overrides};
use futures_util::FutureExt;
use tempfile::TempDir;

pub use arguments::SoakArgs;
use chaos::{Chaos, Kind, Shape};
use checker::Evidence;
pub use error::SoakError;
use plan::{Own, Plan, Replicas, StoreKind};
use verdict::Verdict;

/// Default numbers of sessions and turns, and those with a user's own configuration.
const SIZE: (u32, u32) = (200, 5);
const OWN_SIZE: (u32, u32) = (4, 2);
const REPLICAS_SIZE: (u32, u32) = (50, 5);

/// Default number of workers that share a database.
const REPLICAS: u32 = 3;

/// Default pause of a session before a turn, in milliseconds: about 330 turns begin each second.
const THINK_MS: u64 = 2_000;
const THINK_MS_EACH: u64 = 3;

/// Runs a worker until its parent ends it. `listen` shows the process to `top` and `ps` while its result is alive.
///
/// # Errors
/// Returns an error if the plan cannot be read or the runtime cannot be built.
pub async fn worker<G>(folder: PathBuf, listen: impl AsyncFnOnce(&Runtime, &Config) -> G) -> Result<(), SoakError> {
    worker::live(&folder, listen).await
}

/// Returns the table of kinds with their meaning and default.
pub fn list_chaos() -> String {
    chaos::list()
}

/// A soak that can begin.
pub struct Soak {
    plan: Arc<Plan>,
    folder: TempDir,
    stop: Arc<AtomicBool>,
}

/// The result of a soak.
pub struct Judged {
    plan: Arc<Plan>,
    evidence: Evidence,
    verdict: Verdict,
    folder: TempDir,
}

impl Soak {
    /// Parses the arguments. `config` is only used with custom prompts.
    ///
    /// # Errors
    /// Returns an error for invalid arguments, or if the output files cannot be created.
    pub fn new(args: &SoakArgs, config: &Path) -> Result<Self, SoakError> {
        // A long run is not to end with nowhere to write.
        for path in [&args.json, &args.report].into_iter().flatten() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            std::fs::read_dir(folder).map_err(|error| cannot_write(path, &error))?;
            if path.is_dir() {
                return Err(cannot_write(path, &std::io::ErrorKind::IsADirectory.into()));
            }
        }
        let folder = tempfile::Builder::new()
            .prefix("bob-soak-")
            .tempdir()
            .map_err(|error| SoakError::internal(format!("cannot make a folder for the soak: {error}")))?;
        let plan = Arc::new(plan(args, config, folder.path())?);
        Ok(Self { plan, folder, stop: Arc::default() })
    }

    /// Returns a flag that ends the run when set; the data so far is checked.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Runs the soak in child processes and checks the data. `tell` receives progress lines. The worker is this
    /// program with the arguments `soak-worker FOLDER`; its tool servers are `drill-server …`.
    ///
    /// # Errors
    /// Returns an error if the run could not begin or be observed. A failed verdict is not an error.
    pub async fn run(self, tell: fn(&str)) -> Result<Judged, SoakError> {
        let Self { plan, folder, stop } = self;
        // Decides that the program does not reap orphans, before the soak adopts some: it would reap the workers as well,
        // and their ends would not be seen.
        let _decided = bob::config::reap_orphans().now_or_never();
        if plan.replicas.is_some() {
            let evidence = over_replicas(&plan, &stop, tell).await?;
            let verdict = checker::judge(&plan, &evidence);
            return Ok(Judged { plan, evidence, verdict, folder });
        }
        let overseen = {
            let plan = Arc::clone(&plan);
            tokio::task::spawn_blocking(move || parent::oversee(&plan, &stop, &tell))
        };
        let seen = overseen
            .await
            .map_err(|error| SoakError::internal(format!("the soak met a fault of its own: {error}")))?
            .map_err(|error| SoakError::internal(format!("cannot oversee the soak: {error}")))?;
        let evidence = Evidence::collect(&plan, seen).await?;
        let verdict = checker::judge(&plan, &evidence);
        Ok(Judged { plan, evidence, verdict, folder })
    }
}

impl Judged {
    /// Whether everything holds.
    pub fn passes(&self) -> bool {
        self.verdict.passes()
    }

    /// Returns the verdict as a table.
    pub fn table(&self) -> String {
        self.verdict.table(&self.plan)
    }

    /// Writes the verdict and the report to the requested files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(&self, args: &SoakArgs) -> Result<(), SoakError> {
        if let Some(path) = &args.json {
            let text = format!("{:#}\n", self.verdict.json(&self.plan));
            std::fs::write(path, text).map_err(|error| cannot_write(path, &error))?;
        }
        if let Some(path) = &args.report {
            let page = report::page(&self.plan, &self.evidence, &self.verdict);
            std::fs::write(path, page).map_err(|error| cannot_write(path, &error))?;
        }
        Ok(())
    }

    /// Returns the folder with the journals and the log if it is kept, which is when that was requested or the run
    /// failed. Otherwise the folder is removed.
    pub fn keep(self, args: &SoakArgs) -> Option<PathBuf> {
        (args.keep || !self.passes()).then(|| self.folder.keep())
    }
}

#[cfg(feature = "postgres")]
async fn over_replicas(plan: &Arc<Plan>, stop: &AtomicBool, tell: fn(&str)) -> Result<Evidence, SoakError> {
    replicas::run(plan, stop, tell).await
}

#[cfg(not(feature = "postgres"))]
async fn over_replicas(_: &Arc<Plan>, _: &AtomicBool, _: fn(&str)) -> Result<Evidence, SoakError> {
    Err(SoakError::usage("this program was built without PostgreSQL; build it with --features postgres"))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> SoakError {
    SoakError::usage(format!("cannot write {}: {error}; name a file in a folder that exists", path.display()))
}

fn plan(args: &SoakArgs, config: &Path, folder: &Path) -> Result<Plan, SoakError> {
    let own = args.prompts.as_deref().map(|prompts| own(prompts, config)).transpose()?;
    let replicas = replicas(args)?;
    let (usual_sessions, usual_turns) = match (&own, &replicas) {
        (Some(_), _) => OWN_SIZE,
        (None, Some(_)) => REPLICAS_SIZE,
        (None, None) => SIZE,
    };
    let usual_chaos = if own.is_some() { "off" } else { "default" };
    let shape = if replicas.is_some() { Shape::Replicas } else { Shape::Worker };
    let mut chaos = Chaos::parse(args.chaos.as_deref().unwrap_or(usual_chaos), shape).map_err(SoakError::usage)?;
    if replicas.as_ref().is_some_and(|replicas| replicas.url.is_some()) {
        let is_named = args.chaos.as_deref().is_some_and(|text| text.contains(chaos::name(Kind::DatabaseRestart)));
        if is_named && chaos.rate(Kind::DatabaseRestart) > 0.0 {
            return Err(SoakError::usage("a database of your own is not restarted; use --store postgres for that"));
        }
        chaos = chaos.without(Kind::DatabaseRestart);
    }
    if let (Some(_), Some(kind)) = (&own, chaos.unsafe_kind()) {
        let text = format!("--chaos {kind} is not for your own configuration; --list-chaos says what is");
        return Err(SoakError::usage(text));
    }
    if args.defect.is_some_and(plan::Defect::needs_replicas) && replicas.is_none() {
        return Err(SoakError::usage("this defect needs --replicas"));
    }
    if args.defect.is_some_and(|defect| !defect.needs_replicas()) && replicas.is_some() {
        return Err(SoakError::usage("this defect is for one worker; --replicas has its own"));
    }
    if args.defect.is_some() && !cfg!(debug_assertions) {
        return Err(SoakError::usage("--defect is for builds for tests"));
    }
    if args.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(SoakError::usage("--duration 0 runs no turn; say for how long turns begin, such as 90s"));
    }
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let sessions = args.sessions.unwrap_or(usual_sessions);
    let think_ms = THINK_MS.max(u64::from(sessions) * THINK_MS_EACH);
    Ok(Plan {
        folder: folder.to_owned(),
        sessions,
        turns: if args.duration.is_some() { None } else { Some(args.turns.unwrap_or(usual_turns)) },
        duration_ms: args.duration.map(millis),
        think_ms: args.think.map_or(think_ms, millis),
        seed: args.seed,
        chaos,
        store: args.store.kind,
        own,
        replicas,
        defect: args.defect,
    })
}

/// Several workers, if they are asked for, and their database.
fn replicas(args: &SoakArgs) -> Result<Option<Replicas>, SoakError> {
    match (args.store.kind, args.replicas) {
        (StoreKind::Postgres, _) if args.prompts.is_some() => {
            Err(SoakError::usage("--prompts keeps its sessions in sqlite or json"))
        }
        (StoreKind::Postgres, count) => {
            Ok(Some(Replicas { count: count.unwrap_or(REPLICAS), url: args.store.url.clone() }))
        }
        (StoreKind::Sqlite | StoreKind::Json, Some(_)) => {
            Err(SoakError::usage("--replicas needs --store postgres, or the URL of a database"))
        }
        (StoreKind::Sqlite | StoreKind::Json, None) => Ok(None),
    }
}

/// A person's own configuration, which must hold, and the lines of the file.
fn own(prompts: &Path, config: &Path) -> Result<Own, SoakError> {
    let cannot =
        |path: &Path, error: std::io::Error| SoakError::usage(format!("cannot read {}: {error}", path.display()));
    let text = std::fs::read_to_string(prompts).map_err(|error| cannot(prompts, error))?;
    let prompts: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if prompts.is_empty() {
        return Err(SoakError::usage("the file of --prompts has no line that says something"));
    }
    bob_config::load(config, &Environment::of_process(), &Overrides::default())?;
    let config = std::path::absolute(config).map_err(|error| cannot(config, error))?;
    Ok(Own { config, prompts })
}
