//! The observing process of several workers that share a database. It submits to them as `submit` does, through the
//! library, strikes them and the database, and writes down what was acknowledged and reported.
//!
//! | file | owns |
//! |---|---|
//! | `database` | a cluster of its own, or a schema in one that was named |
//! | `proxy` | the way to the database, which can lose the answer of a commit |
//! | `fleet` | the processes of the workers |
//! | `load` | the submitters |
//! | `log` | what was acknowledged and reported |

mod database;
mod fleet;
mod load;
mod log;
mod proxy;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bob::inbox::Submitter;
use bob::store::{PostgresStore, SessionStore, StoreOptions};
use tokio::time::{Instant, sleep};

use super::chaos::Kind;
use super::checker::Evidence;
use super::error::SoakError;
use super::parent::{Looking, Sample, Seen, adopt_orphans};
use super::plan::{Defect, Plan, Replicas};
use super::schedule::{Strike, strikes};
use database::Database;
use fleet::Fleet;
use load::Load;
use log::Log;
use proxy::Proxy;

/// How often something is looked for that is due.
const TICK: Duration = Duration::from_millis(20);

/// Intervals of samples and of progress lines.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Workers in which no turn ends for so long hang; less where a defect is planted that lets them.
const SILENCE: Duration = Duration::from_secs(60);
const SILENCE_OF_DEFECTS: Duration = Duration::from_secs(15);

/// How long the messages whose outcome is there have to leave the inbox, and sessions to be given back.
const SETTLED_WITHIN: Duration = Duration::from_secs(15);

/// When the defect of that name marks the owners.
const MARKED_AFTER: Duration = Duration::from_secs(3);

/// How long a replica that is stopped stays so, in milliseconds: longer than the lease of 3 s.
const PAUSED_MS: (u64, u64) = (3_500, 2_500);

/// Where a kill hits: a third at once, a third within this many microseconds of the next write, a third of the next side
/// effect. One that does not come is not waited for.
const AIMED_WITHIN_US: u64 = 4_000;
const WRITES_WITHIN: Duration = Duration::from_secs(2);

/// Statements for the checks. A worker whose row was renewed, and that made another one, was taken for dead. One that made
/// another row before it renewed the first has lost an answer.
const GAPS: &str = "SELECT s.id, s.version, count(r.version), coalesce(max(r.version), 0) FROM bob_sessions s
    LEFT JOIN bob_records r ON r.session = s.number GROUP BY s.number, s.id, s.version
    HAVING count(r.version) <> s.version OR coalesce(max(r.version), 0) <> s.version";
const WAITING: &str = "SELECT session, request, coalesce(refusal, 'it waits') FROM bob_inbox";
const OWNED: &str = "SELECT s.id, coalesce(n.name, 'a worker that is gone') FROM bob_sessions s
    LEFT JOIN bob_nodes n ON n.number = s.node WHERE s.node IS NOT NULL";
const SUPERSEDED: &str = "SELECT n.name, count(*) FROM bob_nodes n
    WHERE n.renewed_at > n.entered_at + interval '100 milliseconds'
    AND EXISTS (SELECT FROM bob_nodes m WHERE m.name = n.name AND m.number > n.number) GROUP BY n.name";
const MARK: &str = "UPDATE bob_nodes SET dead = true WHERE NOT dead";

pub(super) async fn run(plan: &Arc<Plan>, stop: &AtomicBool, tell: fn(&str)) -> Result<Evidence, SoakError> {
    adopt_orphans().map_err(SoakError::of_run)?;
    let url = plan.replicas.as_ref().and_then(|replicas| replicas.url.as_deref());
    let database = Database::start(url).await?;
    let collected = collected(plan, stop, tell, &database).await;
    database.end().await;
    collected
}

async fn collected(
    plan: &Arc<Plan>,
    stop: &AtomicBool,
    tell: fn(&str),
    database: &Database,
) -> Result<Evidence, SoakError> {
    let log = Log::create(&plan.log_path()).map_err(SoakError::of_run)?;
    let seen = overseen(plan, stop, tell, database, &log).await?;
    log.close().map_err(SoakError::of_run)?;
    let mut evidence = Evidence { seen, ..Evidence::default() };
    evidence.read_files(plan)?;
    let store: Arc<dyn SessionStore> = opened(database.url(None)).await?;
    evidence.read_store(&store).await?;
    let asked = async |sql: &str| database.run(sql).await.map_err(SoakError::internal);
    let shared = &mut evidence.shared;
    let lines = |rows: Vec<Vec<String>>| rows.into_iter().map(|row| row.join(": ")).collect();
    let pair = |row: Vec<String>| <[String; 2]>::try_from(row).ok().map(|[one, other]| (one, other));
    shared.gaps = lines(asked(GAPS).await?);
    shared.waiting = lines(asked(WAITING).await?);
    shared.owned = asked(OWNED).await?.into_iter().filter_map(pair).collect();
    let superseded = asked(SUPERSEDED).await?.into_iter().filter_map(pair);
    shared.superseded = superseded.map(|(who, count)| (who, count.parse().unwrap_or_default())).collect();
    write_journals(plan, &evidence).map_err(SoakError::of_run)?;
    Ok(evidence)
}

/// The journals as text, in the folder of the run, since the database is not kept.
fn write_journals(plan: &Plan, evidence: &Evidence) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = std::io::BufWriter::new(std::fs::File::create(plan.folder.join("journals.jsonl"))?);
    for record in evidence.journals.values().flatten() {
        serde_json::to_writer(&mut file, &**record)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

async fn opened(url: String) -> Result<Arc<PostgresStore>, SoakError> {
    let options = StoreOptions { owner_name: "the soak".to_owned(), ..StoreOptions::default() };
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&url, options)).await;
    Ok(opened.map_err(|error| SoakError::internal(error.to_string()))??)
}

/// Starts the workers and the load, strikes until the load has ended, and ends them.
async fn overseen(
    plan: &Arc<Plan>,
    stop: &AtomicBool,
    tell: fn(&str),
    database: &Database,
    log: &Log,
) -> Result<Seen, SoakError> {
    let proxy = Proxy::start(database.target()?).await.map_err(SoakError::of_run)?;
    let url = database.url(Some(proxy.port));
    let count = plan.replicas.as_ref().map_or(1, |replicas| replicas.count);
    let of_workers = Plan { replicas: Some(Replicas { count, url: Some(url.clone()) }), ..Plan::clone(plan) };
    let mut fleet = Fleet::new(of_workers, log.clone());
    fleet.start_all().await?;
    let store: Arc<dyn SessionStore> = opened(url).await?;
    let submitter = Submitter::new(store).ok_or_else(|| SoakError::internal("the store of the soak has no inbox"))?;
    let load = Load::begin(Arc::clone(plan), submitter, log.clone());
    let now = Instant::now();
    let mut run = Run {
        plan,
        tell,
        database,
        proxy,
        fleet,
        load,
        log,
        began: now,
        sampled: now,
        told: now,
        marked: false,
        seen: Seen { began_at: log::now_ms(), ..Seen::default() },
        looking: Looking::default(),
    };
    run.until_the_load_has_ended(stop).await?;
    run.end().await
}

struct Run<'a> {
    plan: &'a Arc<Plan>,
    tell: fn(&str),
    database: &'a Database,
    proxy: Proxy,
    fleet: Fleet,
    load: Load,
    log: &'a Log,
    began: Instant,
    sampled: Instant,
    told: Instant,
    marked: bool,
    seen: Seen,
    looking: Looking,
}

impl Run<'_> {
    async fn until_the_load_has_ended(&mut self, stop: &AtomicBool) -> Result<(), SoakError> {
        let is_timed = |strike: &Strike| strike.kind.is_of_replicas();
        let has_strikes =
            super::chaos::ROWS.iter().any(|row| row.kind.is_of_replicas() && self.plan.chaos.rate(row.kind) > 0.0);
        let all = strikes(self.plan.seed, &self.plan.chaos).filter(is_timed);
        let mut strikes = all.take(if has_strikes { usize::MAX } else { 0 }).peekable();
        let silence = if self.plan.defect.is_some() { SILENCE_OF_DEFECTS } else { SILENCE };
        while !self.load.has_ended() {
            sleep(TICK).await;
            if stop.load(Ordering::Relaxed) {
                self.seen.is_interrupted = true;
                return Ok(());
            }
            if self.load.silent_for() > silence {
                self.seen.died = Some(format!("no turn ended for {} s", silence.as_secs()));
                return Ok(());
            }
            let elapsed = millis(self.began.elapsed());
            while let Some(strike) = strikes.next_if(|strike| strike.at_ms <= elapsed) {
                self.strike(strike).await?;
            }
            self.fleet.look(&mut self.seen).await?;
            if self.plan.has(Defect::LockIsDeath) && !self.marked && self.began.elapsed() > MARKED_AFTER {
                self.marked = true;
                self.database.run(MARK).await.map_err(SoakError::internal)?;
            }
            self.sample();
        }
        Ok(())
    }

    async fn strike(&mut self, strike: Strike) -> Result<(), SoakError> {
        match strike.kind {
            Kind::ReplicaKill => {
                self.aim(strike.pick).await;
                if let Some(who) = self.fleet.kill(strike.pick / 3) {
                    self.log.fault(strike.kind, who);
                }
            }
            Kind::ReplicaPause => {
                let (least, more) = PAUSED_MS;
                let time = Duration::from_millis(least + (strike.pick >> 8) % more);
                if let Some(who) = self.fleet.pause(strike.pick, time) {
                    self.log.fault(strike.kind, who);
                }
            }
            Kind::DatabaseRestart => {
                self.log.fault(strike.kind, "database".to_owned());
                self.database.restart().await?;
            }
            _commit_cut => {
                self.log.fault(strike.kind, "proxy".to_owned());
                self.proxy.arm();
            }
        }
        Ok(())
    }

    /// Waits for the instant at which a kill hits.
    async fn aim(&self, pick: u64) {
        let effects = self.plan.effects_path();
        let written = || std::fs::metadata(&effects).map_or(0, |metadata| metadata.len());
        let count = || if pick % 3 == 1 { self.proxy.writes() } else { written() };
        if pick.is_multiple_of(3) {
            return;
        }
        let (before, until) = (count(), Instant::now() + WRITES_WITHIN);
        while count() == before && Instant::now() < until {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_micros((pick >> 8) % AIMED_WITHIN_US)).await;
    }

    /// Samples the workers when that is due, and reports progress.
    fn sample(&mut self) {
        if self.sampled.elapsed() >= SAMPLE_EVERY {
            self.sampled = Instant::now();
            let figures = self.fleet.figures(&mut self.looking);
            let (at_ms, open) = (millis(self.began.elapsed()), self.load.open());
            let life = self.fleet.kills();
            self.seen.samples.push(Sample { at_ms, life, figures, live: open, running: open });
        }
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let of = self.plan.turns.map(|turns| format!(" of {}", u64::from(turns) * u64::from(self.plan.sessions)));
            (self.tell)(&format!(
                "{} s: {}{} turns answered, {} submitted and open, {} replicas, {} kills, {} pauses, {} commits cut",
                self.began.elapsed().as_secs(),
                self.load.answered(),
                of.unwrap_or_default(),
                self.load.open(),
                self.fleet.alive(),
                self.fleet.kills(),
                self.fleet.pauses(),
                self.proxy.cuts(),
            ));
        }
    }

    /// Ends the workers: those of a run that ended by itself hand over.
    async fn end(mut self) -> Result<Seen, SoakError> {
        self.fleet.resume_all();
        let is_cut = self.seen.is_interrupted || self.seen.died.is_some();
        if is_cut {
            self.fleet.kill_all().await;
        } else {
            self.settle().await;
            self.fleet.end(&mut self.seen).await;
        }
        self.load.end();
        self.seen.starts_ms = self.log.starts_ms();
        self.seen.cuts = self.proxy.cuts();
        self.looking.until_gone(self.database.postmaster());
        (self.seen.zombies, self.seen.orphans) = (self.looking.stayed, self.looking.orphans);
        self.seen.gone_ms = self.looking.gone_ms;
        Ok(self.seen)
    }

    /// A worker that was killed behind an outcome has left its message to the others.
    async fn settle(&mut self) {
        let until = Instant::now() + SETTLED_WITHIN;
        let waiting = async || self.database.run(WAITING).await.is_ok_and(|rows| rows.is_empty());
        while !waiting().await && Instant::now() < until {
            sleep(10 * TICK).await;
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
