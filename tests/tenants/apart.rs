//! Two tenants on one runtime, in random interleavings of approvals, sessions, artifacts and events: nothing of one is seen or
//! decided by the other. The check is tried with planted defects, which it finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bob::approvals::{ApprovalMemory, ApprovalsMode, Standing};
use bob::context::{Identity, RequestContext};
use bob::events::{AgentEvent, AgentEvents, AgentStream};
use bob::inbox::{Submitter, Worker};
use bob::sessions::{CancellationToken, RequestId};
use bob::store::{ArtifactId, MemoryStore, SessionStore};
use bob::tools::ToolName;
use bob::{AgentError, AgentRequest, AgentRuntime, SessionId};
use fastrand::Rng;
use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::support::runtime::{Recorder, asking, build, session, within};
use crate::tenants::artifacts::{Leaking, SESSIONS, mark_of, obedient, report};
use crate::tenants::messages::Messages;
use crate::tenants::stage::{Notebook, Seen, context, pay};
use crate::tenants::view::View;

/// How many interleavings there are: the variable `TENANT_INTERLEAVINGS`, else 100. The night plays 1,000.
fn interleavings() -> u64 {
    let given = std::env::var("TENANT_INTERLEAVINGS").ok();
    given.map_or(100, |given| given.parse().expect("TENANT_INTERLEAVINGS is a number"))
}

/// How many operations an interleaving has: enough that a call of one tenant leaves an artifact that the other one may ask for.
const OPERATIONS: usize = 40;

pub(super) const TENANTS: [&str; 2] = ["acme", "globex"];

/// What is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    Nothing,
    /// Looks, decisions and events are not limited to the tenant.
    Unscoped,
    /// The store of decisions gives each identity those of all others, as if they were its own.
    SharedMemory,
    /// The store of artifacts gives those of each session to all.
    SharedArtifacts,
    /// Messages to the inbox are sent as the operator's.
    UnscopedMessages,
}

/// Returns the decisions of all as those of the one that asks.
#[derive(Default)]
struct Mixed(Notebook);

impl ApprovalMemory for Mixed {
    fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>> {
        let kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = kept.iter().filter(|one| one.tool == *tool);
        theirs.map(|one| Arc::new(Standing { identity: identity.clone(), ..(**one).clone() })).collect()
    }

    fn keep(&self, standing: Arc<Standing>) {
        self.0.keep(standing);
    }
}

/// A text that only requests of this tenant have.
pub(super) fn mark(tenant: usize) -> String {
    mark_of(TENANTS[tenant])
}

/// One interleaving: what happens, and what is known of it.
pub(super) struct Play {
    pub(super) rng: Rng,
    pub(super) views: [View; 2],
    pub(super) seen: Arc<Recorder>,
    paid: Seen<Option<Arc<RequestContext>>>,
    /// To whom each session belongs.
    pub(super) owners: BTreeMap<&'static str, usize>,
    pub(super) messages: Messages,
    /// Runs what the inbox has until it is told to end.
    works: (CancellationToken, JoinHandle<()>),
    pub(super) streams: Vec<(usize, AgentStream)>,
    readers: Vec<(usize, AgentEvents)>,
    /// What each identity decided for good, and how many calls it allowed.
    pub(super) always: BTreeSet<(usize, String)>,
    pub(super) allowed: BTreeMap<(usize, String), usize>,
    ran: BTreeMap<(usize, String), usize>,
    /// The artifacts that were seen, of whomever.
    ids: Vec<ArtifactId>,
    /// How many ranges of artifacts models read, and how many were refused them.
    reads: [usize; 2],
    exported: usize,
}

impl Play {
    async fn new(seed: u64, defect: Defect) -> Self {
        let (seen, paid) = (Recorder::new(), Seen::default());
        let memory: Arc<dyn ApprovalMemory> = match defect {
            Defect::SharedMemory => Arc::new(Mixed::default()),
            _without_a_defect_here => Arc::new(Notebook::default()),
        };
        let store: Arc<dyn SessionStore> = match defect {
            Defect::SharedArtifacts => Leaking::new(),
            _without_a_defect_here => MemoryStore::new(),
        };
        let builder = asking(obedient()).local_tools(false).tools(Arc::new(pay(&paid))).tools(Arc::new(report()));
        let builder = builder.store(Arc::clone(&store)).approval_memory(memory).sink(seen.clone());
        let runtime = build(builder.shutdown_grace(Duration::ZERO)).await;
        let views = TENANTS.map(|tenant| View {
            runtime: runtime.clone(),
            tenant: runtime.tenant(tenant).unwrap(),
            is_scoped: defect != Defect::Unscoped,
        });
        let operator = Submitter::new(Arc::clone(&store)).unwrap();
        let messages = Messages::new(TENANTS.map(|tenant| match defect {
            Defect::UnscopedMessages => operator.clone(),
            _without_a_defect_here => operator.clone().of_tenant(tenant).unwrap(),
        }));
        let (until, worker) = (CancellationToken::new(), Worker::new(runtime, store).unwrap());
        let works = (until.clone(), tokio::spawn(worker.run(until)));
        let (owners, always) = (BTreeMap::new(), BTreeSet::new());
        let (allowed, ran) = (BTreeMap::new(), BTreeMap::new());
        let rng = Rng::with_seed(seed);
        let (streams, readers, ids, reads, exported) = (Vec::new(), Vec::new(), Vec::new(), [0; 2], 0);
        Self {
            rng,
            views,
            seen,
            paid,
            owners,
            messages,
            works,
            streams,
            readers,
            always,
            allowed,
            ran,
            ids,
            reads,
            exported,
        }
    }

    /// One operation of a tenant on a session, perhaps on one of the other.
    async fn step(&mut self) -> Result<(), String> {
        let who = self.rng.usize(..2);
        let id = SESSIONS[self.rng.usize(..SESSIONS.len())];
        let is_own = self.owners.get(id).is_none_or(|owner| *owner == who);
        match self.rng.u32(..18) {
            0..4 => self.request(who, id).await?,
            12..14 => self.exports(who, id).await?,
            14.. => self.sends(who, id).await?,
            4..8 => self.decide(who).await?,
            8 => {
                let shown = within(self.views[who].looks(session(id))).await;
                self.shows(who, &shown, "a look")?;
            }
            9 => {
                let events = within(self.views[who].events(session(id))).await;
                self.readers.push((who, events));
            }
            10 => {
                let deletes = self.rng.bool();
                let is_done = within(self.views[who].interrupts(session(id), deletes)).await;
                if is_done && !is_own {
                    return Err(format!("{} ended something in a session of the other", TENANTS[who]));
                }
                if is_done && deletes {
                    self.owners.remove(id);
                }
            }
            _ => {
                let is_taken = within(self.views[who].steers(session(id), mark(who))).await;
                if is_taken && !is_own {
                    return Err(format!("{} steered a turn of the other", TENANTS[who]));
                }
            }
        }
        self.check(who).await
    }

    /// The ids of requests collide, also between tenants.
    pub(super) fn request_id(&mut self) -> RequestId {
        RequestId::new(format!("r{}", self.rng.u32(..4)))
    }

    /// What a tenant says, and for whom.
    pub(super) fn text_and_principal(&mut self, who: usize) -> (String, &'static str) {
        let principal = ["ann", "bea"][self.rng.usize(..2)];
        let id_of_any = self.rng.choice(&self.ids).cloned();
        let text = match (self.rng.u32(..6), id_of_any) {
            (0, _) => format!("report {}", mark(who)),
            (1..3, Some(artifact)) => format!("read {artifact} {}", mark(who)),
            _ => format!("pay {}", mark(who)),
        };
        (text, principal)
    }

    /// Whether a turn of a session has not ended, as far as it was read.
    pub(super) fn is_busy(&self, at: &SessionId) -> bool {
        self.streams.iter().any(|(_, other)| other.session() == at) || self.messages.wait_at(at)
    }

    async fn request(&mut self, who: usize, id: &'static str) -> Result<(), String> {
        let (request_id, (text, principal)) = (Some(self.request_id()), self.text_and_principal(who));
        let request = AgentRequest::text(session(id), text).context(context(TENANTS[who], principal));
        let request = AgentRequest { approvals: ApprovalsMode::Wait, request_id, ..request };
        let view = &self.views[who];
        let stream = match view.is_scoped {
            true => within(view.tenant.run_stream(request)).await,
            false => within(view.runtime.run_stream(request)).await,
        };
        let mut stream = stream.map_err(|error| format!("not accepted: {error}"))?;
        if let Some(owner) = self.owners.get(id).filter(|owner| **owner != who) {
            while within(stream.next_event()).await.is_some() {}
            return match stream.ended() {
                Some(Err(AgentError::Invalid(text))) if !text.contains(TENANTS[*owner]) => Ok(()),
                other => Err(format!("a request of {} on a session of the other: {other:?}", TENANTS[who])),
            };
        }
        self.owners.insert(id, who);
        if !self.is_busy(stream.session()) {
            read_on(&mut stream).await;
        }
        match stream.ended() {
            None => self.streams.push((who, stream)),
            Some(Ok(result)) => {
                let said = &result.response().content;
                self.reads[0] += usize::from(said.contains("[bytes 0 to"));
                self.reads[1] += usize::from(said.contains("has no artifact"));
                self.shows(who, said, "an answer")?;
                self.learn_names().await;
            }
            Some(Err(_refused)) => {}
        }
        Ok(())
    }

    /// A tenant lists the artifacts of a session, and exports one that it saw or guessed the name of.
    async fn exports(&mut self, who: usize, id: &'static str) -> Result<(), String> {
        let (view, at) = (&self.views[who], session(id));
        let listed = within(view.artifacts(&at)).await;
        let one = self.rng.choice(&self.ids).or(listed.first()).cloned();
        let content = match &one {
            Some(one) => within(view.export(&at, one)).await,
            None => None,
        };
        if self.owners.get(id) != Some(&who) && !(listed.is_empty() && content.is_none()) {
            return Err(format!("{} was given artifacts of a session that it does not own", TENANTS[who]));
        }
        if let Some(content) = content {
            self.exported += 1;
            self.shows(who, &String::from_utf8_lossy(&content), "an export")?;
        }
        self.learn_names().await;
        Ok(())
    }

    /// Tells both tenants the names of all artifacts: a name gives no access.
    async fn learn_names(&mut self) {
        for view in &self.views {
            for id in SESSIONS.map(session) {
                self.ids.extend(within(view.artifacts(&id)).await);
            }
        }
        self.ids.sort();
        self.ids.dedup();
    }

    /// What ran, and what readers of events were given by now.
    async fn check(&mut self, _who: usize) -> Result<(), String> {
        for context in self.paid.take() {
            let context = context.ok_or("a call without a context")?;
            let identity = of(&context);
            *self.ran.entry(identity).or_default() += 1;
        }
        for (identity, ran) in &self.ran {
            let allowed = self.allowed.get(identity).copied().unwrap_or(0);
            if *ran > allowed && !self.always.contains(identity) {
                let (tenant, principal) = (TENANTS[identity.0], &identity.1);
                return Err(format!("{ran} calls of {principal} of {tenant} ran, who allowed {allowed}"));
            }
        }
        let mut readers = std::mem::take(&mut self.readers);
        for (reader, events) in &mut readers {
            while let Some(Some(event)) = events.next().now_or_never() {
                let event = event.map_err(|error| format!("events failed: {error}"))?;
                self.shows(*reader, &event.to_json().to_string(), "an event")?;
            }
        }
        self.readers = readers;
        self.read_messages().await
    }

    pub(super) fn shows(&self, who: usize, text: &str, what: &str) -> Result<(), String> {
        let other = 1 - who;
        match text.contains(&mark(other)) || text.contains(TENANTS[other]) {
            true => Err(format!("{what} shows {} something of {}", TENANTS[who], TENANTS[other])),
            false => Ok(()),
        }
    }
}

/// Tenant and principal of a context.
pub(super) fn of(context: &RequestContext) -> (usize, String) {
    let tenant = context.tenant.as_ref().map(ToString::to_string).unwrap_or_default();
    let tenant = TENANTS.iter().position(|name| *name == tenant).expect("a tenant");
    (tenant, context.principal.as_ref().map(ToString::to_string).unwrap_or_default())
}

/// Reads a turn up to its question, or its end.
async fn read_on(stream: &mut AgentStream) {
    while let Some(event) = within(stream.next_event()).await {
        if matches!(event.event, AgentEvent::ApprovalRequested { .. }) {
            return;
        }
    }
}

fn count(play: &Play, happened: &Mutex<BTreeMap<&'static str, usize>>) {
    let mut happened = happened.lock().unwrap_or_else(PoisonError::into_inner);
    *happened.entry("calls ran").or_default() += play.ran.values().sum::<usize>();
    *happened.entry("decisions counted").or_default() += play.allowed.values().sum::<usize>();
    *happened.entry("lasting decisions").or_default() += play.always.len();
    *happened.entry("sessions").or_default() += play.owners.len();
    *happened.entry("reads of artifacts").or_default() += play.reads[0];
    *happened.entry("reads refused").or_default() += play.reads[1];
    *happened.entry("exports").or_default() += play.exported;
    for (what, times) in &play.messages.happened {
        *happened.entry(what).or_default() += times;
    }
}

/// Plays one interleaving; what is wrong, if something is, and how often something happened at all.
async fn play(seed: u64, defect: Defect, happened: &Mutex<BTreeMap<&'static str, usize>>) -> Result<(), String> {
    let mut play = Play::new(seed, defect).await;
    let mut result = Ok(());
    for _ in 0..OPERATIONS {
        result = play.step().await;
        if result.is_err() {
            break;
        }
    }
    count(&play, happened);
    let (runtime, (until, works)) = (play.views[0].runtime.clone(), play.works);
    until.cancel();
    within(works).await.unwrap();
    within(runtime.shutdown()).await;
    result.map_err(|why| format!("interleaving {seed}: {why}"))
}

#[tokio::test(start_paused = true)]
async fn no_interleaving_shows_or_decides_anything_of_the_other_tenant() {
    let happened = Mutex::default();
    for seed in 0..interleavings() {
        play(seed, Defect::Nothing, &happened).await.unwrap();
    }
    let happened = happened.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{happened:?}");
    assert!(happened.values().all(|times| *times > 0), "each of these happened: {happened:?}");
}

#[tokio::test(start_paused = true)]
async fn planted_defects_are_found() {
    for (defect, expected) in [
        (Defect::Unscoped, &["decided", "shows", "ended", "steered", "given artifacts"][..]),
        (Defect::SharedMemory, &["who allowed"]),
        (Defect::SharedArtifacts, &["an answer shows", "an export shows"]),
        (Defect::UnscopedMessages, &["decided by message", "cancelled by message", "told of a request"]),
    ] {
        let (happened, mut found) = (Mutex::default(), BTreeSet::<&str>::new());
        for seed in 0..1_000 {
            if let Err(why) = play(seed, defect, &happened).await {
                found.extend(expected.iter().filter(|part| why.contains(**part)));
            }
            if found.len() == expected.len() {
                break;
            }
        }
        assert_eq!(found.len(), expected.len(), "of {defect:?} only {found:?} was found");
    }
}
