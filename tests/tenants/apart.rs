//! Two tenants on one runtime, in random interleavings of approvals, sessions and events: nothing of one is seen or decided
//! by the other. The check is tried with planted defects, which it finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bob::approvals::{ApprovalId, ApprovalMemory, ApprovalsMode, Decision, Standing};
use bob::context::{Identity, RequestContext, TenantRuntime};
use bob::events::{AgentEvent, AgentEvents, AgentStream, EventsFrom};
use bob::model::ContentPart;
use bob::sessions::{RequestId, SessionFilter, TurnId};
use bob::tools::ToolName;
use bob::{AgentError, AgentRequest, AgentRuntime, Runtime, SessionId};
use fastrand::Rng;
use futures_util::FutureExt;

use crate::support::runtime::{Recorder, build, session, within};
use crate::tenants::stage::{Notebook, Seen, context, paying};

/// How many interleavings there are.
const INTERLEAVINGS: u64 = 1_000;

/// How many operations an interleaving has.
const OPERATIONS: usize = 14;

const TENANTS: [&str; 2] = ["acme", "globex"];

const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// What is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    Nothing,
    /// Looks, decisions and events are not limited to the tenant.
    Unscoped,
    /// The store of decisions gives each identity those of all others, as if they were its own.
    SharedMemory,
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

/// The runtime as an operation of a tenant meets it.
struct View {
    runtime: Runtime,
    tenant: TenantRuntime,
    is_scoped: bool,
}

impl View {
    async fn decide(&self, at: SessionId, approval: ApprovalId, decision: Decision) -> Result<bool, AgentError> {
        match self.is_scoped {
            true => self.tenant.decide(at, approval, decision).await,
            false => self.runtime.decide(at, approval, decision).await,
        }
    }

    async fn events(&self, of: SessionId) -> AgentEvents {
        let events = match self.is_scoped {
            true => self.tenant.subscribe(of, EventsFrom::Beginning).await,
            false => self.runtime.subscribe(of, EventsFrom::Beginning).await,
        };
        events.unwrap()
    }

    /// All that lists, looks and records show, as text.
    async fn looks(&self, of: SessionId) -> String {
        let filter = SessionFilter::default();
        let (page, look, records) = match self.is_scoped {
            true => (
                self.tenant.sessions(filter, None).await,
                self.tenant.session(of.clone()).await,
                self.tenant.records(of).await,
            ),
            false => (
                self.runtime.sessions(filter, None).await,
                self.runtime.session(of.clone()).await,
                self.runtime.records(of).await,
            ),
        };
        format!("{:?} {:?} {:?}", page.unwrap(), look.unwrap(), records.unwrap())
    }

    async fn interrupts(&self, of: SessionId, deletes: bool) -> bool {
        match (self.is_scoped, deletes) {
            (true, false) => self.tenant.cancel(of).await.unwrap(),
            (true, true) => self.tenant.delete(of).await.unwrap_or(false),
            (false, false) => self.runtime.cancel(of).await,
            (false, true) => self.runtime.delete(of).await.unwrap_or(false),
        }
    }

    async fn steers(&self, of: SessionId, text: String) -> bool {
        let parts = vec![ContentPart::text(text)];
        match self.is_scoped {
            true => self.tenant.steer(of, None, parts).await.unwrap(),
            false => self.runtime.steer(of, parts).await.unwrap(),
        }
    }
}

/// A text that only requests of this tenant have.
fn mark(tenant: usize) -> String {
    format!("secret-of-{}", TENANTS[tenant])
}

/// One interleaving: what happens, and what is known of it.
struct Play {
    rng: Rng,
    views: [View; 2],
    seen: Arc<Recorder>,
    paid: Seen<Option<Arc<RequestContext>>>,
    /// To whom each session belongs.
    owners: BTreeMap<&'static str, usize>,
    streams: Vec<(usize, AgentStream)>,
    readers: Vec<(usize, AgentEvents)>,
    /// What each identity decided for good, and how many calls it allowed.
    always: BTreeSet<(usize, String)>,
    allowed: BTreeMap<(usize, String), usize>,
    ran: BTreeMap<(usize, String), usize>,
}

impl Play {
    async fn new(seed: u64, defect: Defect) -> Self {
        let (seen, paid) = (Recorder::new(), Seen::default());
        let memory: Arc<dyn ApprovalMemory> = match defect {
            Defect::SharedMemory => Arc::new(Mixed::default()),
            Defect::Nothing | Defect::Unscoped => Arc::new(Notebook::default()),
        };
        let builder = paying(&paid).approval_memory(memory).sink(seen.clone()).shutdown_grace(Duration::ZERO);
        let runtime = build(builder).await;
        let views = TENANTS.map(|tenant| View {
            runtime: runtime.clone(),
            tenant: runtime.tenant(tenant).unwrap(),
            is_scoped: defect != Defect::Unscoped,
        });
        let (owners, always) = (BTreeMap::new(), BTreeSet::new());
        let (allowed, ran) = (BTreeMap::new(), BTreeMap::new());
        let rng = Rng::with_seed(seed);
        Self { rng, views, seen, paid, owners, streams: Vec::new(), readers: Vec::new(), always, allowed, ran }
    }

    /// One operation of a tenant on a session, perhaps on one of the other.
    async fn step(&mut self) -> Result<(), String> {
        let who = self.rng.usize(..2);
        let id = SESSIONS[self.rng.usize(..SESSIONS.len())];
        let is_own = self.owners.get(id).is_none_or(|owner| *owner == who);
        match self.rng.u32(..12) {
            0..4 => self.request(who, id).await?,
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

    async fn request(&mut self, who: usize, id: &'static str) -> Result<(), String> {
        let principal = ["ann", "bea"][self.rng.usize(..2)];
        // The ids of requests collide, also between tenants.
        let request_id = Some(RequestId::new(format!("r{}", self.rng.u32(..4))));
        let request = AgentRequest::text(session(id), mark(who)).context(context(TENANTS[who], principal));
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
        let is_busy = self.streams.iter().any(|(_, other)| other.session() == stream.session());
        if !is_busy {
            read_on(&mut stream).await;
        }
        if stream.ended().is_none() {
            self.streams.push((who, stream));
        }
        Ok(())
    }

    /// A tenant decides about any question that was asked, and that it may have guessed the id of.
    async fn decide(&mut self, who: usize) -> Result<(), String> {
        let events = self.seen.events();
        let asked: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.event {
                AgentEvent::ApprovalRequested { approval_id, .. } => {
                    Some((event.session_id.clone()?, event.turn_id.clone()?, approval_id.clone()))
                }
                _ => None,
            })
            .collect();
        // The newest ones are open.
        let newest = &asked[asked.len().saturating_sub(4)..];
        let Some((at, _, approval)) = self.rng.choice(newest.to_vec()) else { return Ok(()) };
        // A session that was deleted and begun anew asks under the same ids: the last question is the open one.
        let is_it = |(session, _, other): &&(SessionId, TurnId, ApprovalId)| *session == at && *other == approval;
        let Some((_, turn, _)) = asked.iter().rev().find(is_it).cloned() else { return Ok(()) };
        let begun = events.iter().rev().find_map(|event| match &event.event {
            AgentEvent::TurnStarted { context, .. } if event.turn_id.as_ref() == Some(&turn) => context.clone(),
            _ => None,
        });
        let context = begun.ok_or("a turn without a context")?;
        let identity = of(&context);
        let decision = match self.rng.u32(..4) {
            0 => Decision::AllowAlways,
            1 => Decision::AllowSession,
            2 => Decision::AllowOnce,
            _ => Decision::Deny { reason: mark(who) },
        };
        let is_allowed = !matches!(decision, Decision::Deny { .. });
        let is_lasting = matches!(decision, Decision::AllowAlways | Decision::AllowSession);
        let counts = within(self.views[who].decide(at.clone(), approval, decision)).await;
        let counts = counts.map_err(|error| format!("a decision failed: {error}"))?;
        if !counts {
            return Ok(());
        }
        if identity.0 != who {
            return Err(format!("{} decided about a call of {}", TENANTS[who], TENANTS[identity.0]));
        }
        if is_allowed {
            *self.allowed.entry(identity.clone()).or_default() += 1;
        }
        if is_lasting {
            self.always.insert(identity);
        }
        let mut streams = std::mem::take(&mut self.streams);
        for (_, stream) in streams.iter_mut().filter(|(_, stream)| *stream.session() == at && *stream.turn() == turn) {
            while within(stream.next_event()).await.is_some() {}
        }
        streams.retain(|(_, stream)| stream.ended().is_none());
        self.streams = streams;
        Ok(())
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
        Ok(())
    }

    fn shows(&self, who: usize, text: &str, what: &str) -> Result<(), String> {
        let other = 1 - who;
        match text.contains(&mark(other)) || text.contains(TENANTS[other]) {
            true => Err(format!("{what} shows {} something of {}", TENANTS[who], TENANTS[other])),
            false => Ok(()),
        }
    }
}

/// Tenant and principal of a context.
fn of(context: &RequestContext) -> (usize, String) {
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
    let runtime = play.views[0].runtime.clone();
    drop(play);
    within(runtime.shutdown()).await;
    result.map_err(|why| format!("interleaving {seed}: {why}"))
}

#[tokio::test]
async fn a_thousand_interleavings_show_and_decide_nothing_of_the_other_tenant() {
    let happened = Mutex::default();
    for seed in 0..INTERLEAVINGS {
        play(seed, Defect::Nothing, &happened).await.unwrap();
    }
    let happened = happened.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{happened:?}");
    assert!(happened.values().all(|times| *times > 300), "enough happened: {happened:?}");
}

#[tokio::test]
async fn planted_defects_are_found() {
    for (defect, expected) in
        [(Defect::Unscoped, &["decided", "shows", "ended", "steered"][..]), (Defect::SharedMemory, &["who allowed"])]
    {
        let (happened, mut found) = (Mutex::default(), BTreeSet::<&str>::new());
        for seed in 0..INTERLEAVINGS {
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
