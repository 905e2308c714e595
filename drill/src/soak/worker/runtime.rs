//! The worker's runtime: its ports with faults before them, and the tool servers as real child processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bob::config::{Limits, TurnConfig};
use bob::events::EventSink;
use bob::model::ScriptedLlm;
use bob::store::{FileStore, SessionStore, SqliteStore, StoreOptions};
use bob::tools::Policy;
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{ModelName, Runtime, RuntimeBuilder};
use bob_actors::llm::RetryPolicy;
use bob_config::assemble::{self, Assembly, Choices};
use bob_config::{Config, Environment, Overrides};
use bob_messages::backoff::Backoff;
use bob_messages::store::StoreError;

use super::model::FaultyLlm;
use super::telling::Telling;
use super::{defects, tools};
use crate::soak::chaos::Kind;
use crate::soak::error::SoakError;
use crate::soak::plan::{Life, Plan, StoreKind};
use crate::soak::schedule::meets;
use crate::soak::turns::{self, SICK};
use crate::store::{Fault, FaultStore, Operation};
use crate::traps::Traps;

/// How long a sick server's start and its calls are waited for.
const SICK_MS: u64 = 1_500;

/// How long a slow operation of the store takes more.
const SLOW: Duration = Duration::from_millis(500);

/// Builds the runtime for one life of the worker.
/// Errors: when the store or the tree fails to start, or the user's configuration is invalid.
pub(crate) async fn open(
    plan: &Arc<Plan>,
    life: &Life,
    telling: &Telling,
    sink: Arc<dyn EventSink>,
    traps: &Traps,
) -> Result<Runtime, SoakError> {
    let store = before(open_store(plan)?, plan, telling, life.number);
    let builder = match &plan.own {
        None => scripted(plan, telling, store)?,
        Some(own) => {
            let overrides = Overrides::default();
            let config: Config = bob_config::load(&own.config, &Environment::of_process(), &overrides)?;
            let choices = Choices { store: Some(store), ..Choices::default() };
            let Assembly { builder, .. } =
                assemble::assemble(&config, &|name: &str| std::env::var(name).ok(), choices)?;
            builder
        }
    };
    builder.sink(sink).hook(traps.hook()).build().await.map_err(|error| SoakError::internal(error.to_string()))
}

/// The store behind what is planted in it and the faults of the plan.
pub(crate) fn before(
    inner: Arc<dyn SessionStore>,
    plan: &Arc<Plan>,
    telling: &Telling,
    life: u32,
) -> Arc<dyn SessionStore> {
    faulty(defects::store(inner, plan), plan, telling, life)
}

/// The store with faults before it: it refuses, loses its answer, and takes its time. Which operations are met follows
/// from the seed and from how many there were before in this life of the worker.
fn faulty(inner: Arc<dyn SessionStore>, plan: &Arc<Plan>, telling: &Telling, life: u32) -> Arc<dyn SessionStore> {
    if plan.chaos.is_off() {
        return inner;
    }
    let (plan, telling, count) = (Arc::clone(plan), telling.clone(), AtomicU64::new(0));
    FaultStore::judged(inner, move |operation, sessions| {
        if !matches!(operation, Operation::Claim | Operation::Append) {
            return None;
        }
        let place = [life.into(), count.fetch_add(1, Ordering::Relaxed)];
        let mut kinds = [Kind::StoreFail, Kind::StoreLost, Kind::StoreSlow].into_iter();
        let kind = kinds.find(|kind| meets(plan.seed, &plan.chaos, *kind, &place))?;
        telling.fault(kind, "store", sessions.iter().map(ToString::to_string).collect());
        Some(match kind {
            Kind::StoreFail => {
                Fault::Refuse(StoreError::Unavailable("the soak's store refuses, as planned".to_owned()))
            }
            Kind::StoreLost => {
                Fault::LoseAnswer(StoreError::InDoubt("the soak's store lost its answer, as planned".to_owned()))
            }
            _slow => Fault::Delay(SLOW),
        })
    })
}

fn open_store(plan: &Plan) -> Result<Arc<dyn SessionStore>, SoakError> {
    let path = plan.store_path();
    Ok(match plan.store {
        StoreKind::Sqlite => SqliteStore::open(&path, StoreOptions::default())?,
        StoreKind::Json | StoreKind::Postgres => FileStore::open(&path, StoreOptions::default())?,
    })
}

/// A runtime of the scripted model and this store, without its hook.
pub(crate) fn scripted(
    plan: &Arc<Plan>,
    telling: &Telling,
    store: Arc<dyn SessionStore>,
) -> Result<RuntimeBuilder, SoakError> {
    let name = ModelName::parse("soak:scripted")?;
    let script = Arc::clone(plan);
    let model = ScriptedLlm::from_fn(move |request| turns::reply(&script, request));
    let model = FaultyLlm::new(Arc::new(model), Arc::clone(plan), telling.clone());
    let retry = RetryPolicy { max: 3, backoff: Backoff { first_ms: 50, most_ms: 500 } };
    let policy = Policy { require_high_risk_approval: false, ..Policy::default() };
    let limits = Limits { turn_timeout_ms: 20_000, ..Limits::default() };
    // Where there is chaos, many sessions leave memory while they wait, and come back from their journals.
    let passivate = if plan.chaos.is_off() { 3_600_000 } else { plan.think_ms.max(100) };
    let builder = RuntimeBuilder::new(name.clone())
        .model(Arc::new(model))
        .store(store)
        .retry(retry)
        .policy(policy)
        .limits(limits)
        .turn_config(TurnConfig::new(name))
        .local_tools(false)
        .tools(Arc::new(tools::append(plan)))
        .tools(Arc::new(tools::panics()))
        .passivate_after(Duration::from_millis(passivate));
    let healthy = turns::healthy(plan).iter().map(|id| server(id, &[]));
    let sick = SICK.iter().filter(|_| plan.chaos.rate(Kind::ToolSick) > 0.0).map(|(id, mode)| {
        let spec = server(id, &["--mode", mode])?;
        Ok(ServerSpec { startup_timeout_ms: SICK_MS, tool_timeout_ms: Some(SICK_MS), ..spec })
    });
    let specs: Vec<ServerSpec> = healthy.chain(sick).collect::<Result<_, SoakError>>()?;
    Ok(specs.into_iter().fold(builder, RuntimeBuilder::tool_server))
}

fn server(id: &str, modes: &[&str]) -> Result<ServerSpec, SoakError> {
    let program = std::env::current_exe().map_err(|error| {
        SoakError::internal(format!("cannot find this program to run it as a tool server: {error}"))
    })?;
    let arguments = std::iter::once("drill-server").chain(modes.iter().copied());
    Ok(ServerSpec::stdio(ServerId::new(id), program.to_string_lossy(), arguments))
}
