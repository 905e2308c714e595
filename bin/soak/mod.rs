//! `soak`: many sessions under chaos, and an independent verdict on what became of them.
//!
//! Two processes: the worker runs the runtime and is part of what is tested; the parent starts it, kills it, writes down
//! what it tells and looks at it from outside. When the worker has ended, the checker judges what is left.
//!
//! | module | owns |
//! |---|---|
//! | `plan` | what was asked for |
//! | `chaos`, `schedule` | the kinds of chaos, and when they strike |
//! | `turns` | what the turns do |
//! | `worker` | the process under test, its load and its faults |
//! | `wire` | what the worker tells |
//! | `parent` | the process outside |
//! | `checker` | the judge |
//! | `verdict`, `report` | what people read |
//!
//! The front end sees the facade and the ports; it knows nothing of actors.

pub(crate) mod chaos;
mod checker;
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
use std::sync::atomic::{AtomicBool, Ordering};

use bob::config::{Environment, Overrides};

use crate::cli::SoakArgs;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::signals::Signals;
use chaos::Chaos;
use checker::Evidence;
use plan::{Own, Plan};
use verdict::Verdict;

/// Sessions and turns, and with a person's own configuration, unless it is said otherwise.
const SIZE: (u32, u32) = (200, 5);
const OWN_SIZE: (u32, u32) = (4, 2);

/// How long a session waits before a turn unless it is said otherwise, in milliseconds: two seconds, and so long that
/// about 330 turns begin in a second.
const THINK_MS: u64 = 2_000;
const THINK_MS_EACH: u64 = 3;

/// Lives a worker's life: what `soak` starts this program for.
///
/// # Errors
/// As [`worker::live`].
pub(crate) async fn worker(folder: PathBuf) -> Result<Exit, Failure> {
    worker::live(&folder).await
}

/// Runs a soak and says how it went.
///
/// # Errors
/// When it could not begin, or could not be looked at. A run that fails is no error.
pub(crate) async fn soak(args: &SoakArgs, config: &Path) -> Result<Exit, Failure> {
    if args.list_chaos {
        print::text(&chaos::list())?;
        return Ok(Exit::Success);
    }
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
        .map_err(|error| Failure::internal(format!("cannot make a folder for the soak: {error}")))?;
    let plan = Arc::new(plan(args, config, folder.path())?);
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    let overseen = {
        let (plan, stop) = (Arc::clone(&plan), Arc::clone(&stop));
        tokio::task::spawn_blocking(move || parent::oversee(&plan, &stop, &|line| print::note(line)))
    };
    let mut overseen = std::pin::pin!(overseen);
    let seen = tokio::select! {
        seen = &mut overseen => seen,
        _caught = signals.next() => {
            print::note("the soak is ended and judged as far as it came");
            stop.store(true, Ordering::Relaxed);
            // A signal nobody waits for ends the program, so the next one is waited for as well.
            tokio::select! {
                seen = &mut overseen => seen,
                caught = signals.next() => return Ok(caught.exit()),
            }
        }
    };
    let seen = seen
        .map_err(|error| Failure::internal(format!("the soak met a fault of its own: {error}")))?
        .map_err(|error| Failure::internal(format!("cannot oversee the soak: {error}")))?;
    let evidence = tokio::select! {
        evidence = Evidence::collect(&plan, seen) => evidence?,
        caught = signals.next() => return Ok(caught.exit()),
    };
    let verdict = checker::judge(&plan, &evidence);
    publish(args, &plan, &evidence, &verdict)?;
    if args.keep || !verdict.passes() {
        print::note(&format!("what it left is kept in {}", folder.keep().display()));
    }
    Ok(if verdict.passes() { Exit::Success } else { Exit::Failed })
}

fn publish(args: &SoakArgs, plan: &Plan, evidence: &Evidence, verdict: &Verdict) -> Result<(), Failure> {
    print::text(&verdict.table(plan))?;
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", verdict.json(plan));
        std::fs::write(path, text).map_err(|error| cannot_write(path, &error))?;
    }
    if let Some(path) = &args.report {
        std::fs::write(path, report::page(plan, evidence, verdict)).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {error}; name a file in a folder that exists", path.display()))
}

fn plan(args: &SoakArgs, config: &Path, folder: &Path) -> Result<Plan, Failure> {
    let own = args.prompts.as_deref().map(|prompts| own(prompts, config)).transpose()?;
    let (usual_sessions, usual_turns) = if own.is_some() { OWN_SIZE } else { SIZE };
    let usual_chaos = if own.is_some() { "off" } else { "default" };
    let chaos = Chaos::parse(args.chaos.as_deref().unwrap_or(usual_chaos)).map_err(Failure::usage)?;
    if let (Some(_), Some(kind)) = (&own, chaos.unsafe_kind()) {
        let text = format!("--chaos {kind} is not for your own configuration; --list-chaos says what is");
        return Err(Failure::usage(text));
    }
    if args.defect.is_some() && !cfg!(debug_assertions) {
        return Err(Failure::usage("--defect is for builds for tests"));
    }
    if args.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(Failure::usage("--duration 0 runs no turn; say for how long turns begin, such as 90s"));
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
fn own(prompts: &Path, config: &Path) -> Result<Own, Failure> {
    let cannot =
        |path: &Path, error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let text = std::fs::read_to_string(prompts).map_err(|error| cannot(prompts, error))?;
    let prompts: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if prompts.is_empty() {
        return Err(Failure::usage("the file of --prompts has no line that says something"));
    }
    bob::config::load(config, &Environment::of_process(), &Overrides::default())?;
    let config = std::path::absolute(config).map_err(|error| cannot(config, error))?;
    Ok(Own { config, prompts })
}
