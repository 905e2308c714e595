//! `soak`: many sessions under chaos, and an independent verdict on what became of them.
//!
//! Two processes: the worker runs the runtime and is part of what is tested; the parent starts it, kills it, writes down
//! what it tells and looks at it from outside. When the worker has ended, the checker judges what is left.
//!
//! | module | owns |
//! |---|---|
//! | `arguments`, `plan` | what was asked for |
//! | `chaos`, `schedule` | the kinds of chaos, and when they strike |
//! | `turns` | what the turns do |
//! | `worker` | the process under test, its load and its faults |
//! | `wire` | what the worker tells |
//! | `parent` | the process outside |
//! | `checker` | the judge |
//! | `verdict`, `report` | what people read |
//!
//! It sees the runtime by its facade and its ports; of actors only the traps know.

mod arguments;
pub(crate) mod chaos;
mod checker;
mod error;
mod parent;
pub(crate) mod plan;
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
use tempfile::TempDir;

pub use arguments::SoakArgs;
use chaos::Chaos;
use checker::Evidence;
pub use error::SoakError;
use plan::{Own, Plan};
use verdict::Verdict;

/// Sessions and turns, and with a person's own configuration, unless it is said otherwise.
const SIZE: (u32, u32) = (200, 5);
const OWN_SIZE: (u32, u32) = (4, 2);

/// How long a session waits before a turn unless it is said otherwise, in milliseconds: two seconds, and so long that
/// about 330 turns begin in a second.
const THINK_MS: u64 = 2_000;
const THINK_MS_EACH: u64 = 3;

/// Lives a worker's life: what a soak starts its own program for. `listen` lets `top` and `ps` find the process, for as
/// long as what it gives is kept.
///
/// # Errors
/// When the plan cannot be read or the runtime not be built.
pub async fn worker<G>(folder: PathBuf, listen: impl AsyncFnOnce(&Runtime, &Config) -> G) -> Result<(), SoakError> {
    worker::live(&folder, listen).await
}

/// The kinds of chaos with their meaning and default, for people.
pub fn list_chaos() -> String {
    chaos::list()
}

/// A soak that can begin.
pub struct Soak {
    plan: Arc<Plan>,
    folder: TempDir,
    stop: Arc<AtomicBool>,
}

/// What became of a soak.
pub struct Judged {
    plan: Arc<Plan>,
    evidence: Evidence,
    verdict: Verdict,
    folder: TempDir,
}

impl Soak {
    /// Reads what was asked for. `config` is only used with prompts of one's own.
    ///
    /// # Errors
    /// What is wrong with it; when nothing can be written where it is to be.
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

    /// Once this is set the run ends, and what ran so far is checked.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Runs it in processes of its own and judges what is left. `tell` is told how far it is, a line at a time. The
    /// worker is this program again, with the arguments `soak-worker FOLDER`; its tool servers are `drill-server …`.
    ///
    /// # Errors
    /// When it could not begin, or could not be looked at. A run that fails is no error.
    pub async fn run(self, tell: fn(&str)) -> Result<Judged, SoakError> {
        let Self { plan, folder, stop } = self;
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

    /// The verdict as a table for people.
    pub fn table(&self) -> String {
        self.verdict.table(&self.plan)
    }

    /// Writes the verdict and the report where they were asked for.
    ///
    /// # Errors
    /// When a file cannot be written.
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

    /// The folder with the journals and the log of the run, if it is to be kept: when that was asked for, or the run
    /// failed. It is removed otherwise.
    pub fn keep(self, args: &SoakArgs) -> Option<PathBuf> {
        (args.keep || !self.passes()).then(|| self.folder.keep())
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> SoakError {
    SoakError::usage(format!("cannot write {}: {error}; name a file in a folder that exists", path.display()))
}

fn plan(args: &SoakArgs, config: &Path, folder: &Path) -> Result<Plan, SoakError> {
    let own = args.prompts.as_deref().map(|prompts| own(prompts, config)).transpose()?;
    let (usual_sessions, usual_turns) = if own.is_some() { OWN_SIZE } else { SIZE };
    let usual_chaos = if own.is_some() { "off" } else { "default" };
    let chaos = Chaos::parse(args.chaos.as_deref().unwrap_or(usual_chaos)).map_err(SoakError::usage)?;
    if let (Some(_), Some(kind)) = (&own, chaos.unsafe_kind()) {
        let text = format!("--chaos {kind} is not for your own configuration; --list-chaos says what is");
        return Err(SoakError::usage(text));
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
        store: args.store,
        own,
        defect: args.defect,
    })
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
