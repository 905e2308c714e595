//! What every actor that hosts tools does with its questions.
//!
//! A [`Host`] is the gate of one actor and the ports behind it: it says what there is, judges calls, and runs each in a
//! task of its own that ends with the actor. A call that fails, panics or takes too long is answered with an error
//! result: nothing a tool does ends the actor.

use super::gate::{Admitted, Gate, GateError, Judged, Refusal};
use super::grant::KeyPlace;
use super::leading::Leading;
use super::policy::Policy;
#[cfg(feature = "mcp")]
use super::policy::Rules;
use super::port::{Concern, Invocation, ToolError, ToolPort};
use super::progress::ProgressRoom;
use crate::store::Artifacts;
use bob_messages::chat::{CallStatus, ToolCall};
use bob_messages::ids::ToolName;
use bob_messages::reply::{Reply, SoFar};
use bob_messages::tools::{CallContext, CheckRequest, ToolDescriptor, ToolOutput, ToolReturn, ToolsMessage, Verdict};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, poll};
use ractor::ActorCell;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// No call runs longer, whatever is configured: a day, in milliseconds. It keeps
/// deadlines inside what a clock can hold.
const LONGEST_CALL_MS: u64 = 24 * 60 * 60 * 1000;

/// What is said of a call that did not start, since another process may have its session by now.
const NO_LEASE: &str = "not run: the database that keeps the sessions did not renew this process's lease in time";

/// How long a call waits for the renewal of a lease that is over, and how long it sleeps between two looks: a process that
/// was away renews it within a second of its return, and the call's record may be in the journal before that.
const LEASE_AWAITED: Duration = Duration::from_secs(3);
const LEASE_LOOKS: Duration = Duration::from_millis(50);

pub(crate) struct Host {
    ports: Ports,
    gate: Gate,
    progress: ProgressRoom,
}

pub(crate) type Listed = (Arc<dyn ToolPort>, Vec<ToolDescriptor>);

/// The ports of a host. They hear of its end, however it ends.
struct Ports(Vec<Arc<dyn ToolPort>>);

impl Drop for Ports {
    fn drop(&mut self) {
        self.0.iter().for_each(|port| port.host_ended());
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Host {
    /// Hosts the tools of these ports, in the order they are offered, with the key of its predecessor. Errors: when a
    /// rule cannot be understood, when the tools cannot stand side by side, or when the system gives no key.
    pub(crate) fn new(ports: Vec<Listed>, policy: Policy, key: &KeyPlace) -> Result<Self, GateError> {
        let (ports, lists): (Vec<_>, Vec<_>) = ports.into_iter().unzip();
        let gate = Gate::new(lists, policy)?.succeeding(key);
        Ok(Self { ports: Ports(ports), gate, progress: ProgressRoom::unread() })
    }

    /// Hosts nothing yet, under these rules.
    #[cfg(feature = "mcp")]
    pub(crate) fn empty(rules: Arc<Rules>, key: &KeyPlace) -> Result<Self, GateError> {
        let gate = Gate::with_rules([], rules)?.succeeding(key);
        Ok(Self { ports: Ports(Vec::new()), gate, progress: ProgressRoom::unread() })
    }

    pub(crate) fn telling(self, progress: ProgressRoom) -> Self {
        Self { progress, ..self }
    }

    /// Hosts these instead. Grants stay good for the tools that stayed as they were.
    /// Errors: when the tools cannot stand side by side; then everything stays as it was.
    #[cfg(feature = "mcp")]
    pub(crate) fn renew(&mut self, ports: Vec<Listed>) -> Result<(), GateError> {
        let (ports, lists): (Vec<_>, Vec<_>) = ports.into_iter().unzip();
        self.gate.renew(lists)?;
        self.ports = Ports(ports);
        Ok(())
    }

    /// Replaces the lists of the ports. Grants stay good for the tools that stayed as they were.
    /// Errors: when the tools cannot stand side by side; then everything stays as it was.
    pub(crate) fn relist(&mut self, lists: Vec<Vec<ToolDescriptor>>) -> Result<(), GateError> {
        self.gate.renew(lists)
    }

    pub(crate) fn offered(&self) -> Arc<[Arc<ToolDescriptor>]> {
        self.gate.offered()
    }

    /// Answers a question; `owner` is the actor with which the calls end.
    pub(crate) fn attend(&mut self, question: ToolsMessage, owner: &ActorCell) {
        match question {
            ToolsMessage::Check { check, context, reply } => self.judge(check, context, reply, owner),
            ToolsMessage::Call { call, grant, context, reply } => match self.gate.admit(&call, &grant, &context) {
                Ok(admitted) => match self.gate.leading_now(&call, &context) {
                    None => self.run(admitted, call, context, Asker::Call(reply), owner),
                    Some(leading) => self.run_if_as_before(leading, admitted, (call, context), reply, owner),
                },
                Err(refusal) => reply.send(refusal_result(refusal)),
            },
            // Another process may go on with the task.
            ToolsMessage::GiveUp { session, wait, .. } if self.progress.runtime().holds_lease(&session) => {
                self.ports.0.iter().for_each(|port| port.give_up(&wait));
            }
            ToolsMessage::GiveUp { .. } => {}
        }
    }

    /// Judges a call. What its tool has to look at first is looked at in a task, which then answers.
    fn judge(&mut self, check: CheckRequest, context: Arc<CallContext>, mut reply: Reply<Verdict>, owner: &ActorCell) {
        let judged = self.gate.judge(&check, &context);
        let is_refused = matches!(judged, Judged::Told(Verdict::Deny { .. } | Verdict::Invalid { .. }));
        let port = self.gate.port_of(&check).filter(|_| !is_refused).and_then(|port| self.ports.0.get(port)).cloned();
        let looking = port.as_ref().and_then(|port| port.concern(&check.call, &context));
        let leading = port.as_ref().and_then(|_| self.gate.leading(&check, &context));
        let (Some(port), true) = (port, looking.is_some() || leading.is_some()) else {
            return match judged {
                Judged::Told(verdict) => reply.send(verdict),
                Judged::MayRun(admitted) => self.run(admitted, check.call, context, Asker::Check(reply), owner),
            };
        };
        let (reserved, progress, owner) = (self.gate.reserve(&check), self.progress.clone(), owner.clone());
        tokio::spawn(async move {
            let concern = tokio::select! {
                biased;
                () = reply.abandoned() => return,
                concern = looked(leading, looking) => concern,
                _ = owner.wait(None) => return,
            };
            match reserved.weigh(judged, concern) {
                Judged::Told(verdict) => reply.send(verdict),
                Judged::MayRun(admitted) => {
                    let asker = Asker::Check(reply);
                    let (invocation, limit) = admitted.prepared(&*port, check.call, context, &progress, asker.so_far());
                    run(port, invocation, limit, asker, owner).await;
                }
            }
        });
    }

    /// Runs a call about whose path there are rules, unless it leads by now to where it was not allowed.
    fn run_if_as_before(
        &self,
        (leading, before): (Leading, Option<Concern>),
        admitted: Admitted,
        (call, context): (Arc<ToolCall>, Arc<CallContext>),
        mut reply: Reply<ToolReturn>,
        owner: &ActorCell,
    ) {
        let port = Arc::clone(&self.ports.0[admitted.port]);
        let (progress, owner) = (self.progress.clone(), owner.clone());
        tokio::spawn(async move {
            let refused = tokio::select! {
                biased;
                () = reply.abandoned() => return,
                refused = leading.refused_now(before) => refused,
                _ = owner.wait(None) => return,
            };
            if let Some(refusal) = refused {
                return reply.send(refusal_result(refusal));
            }
            let asker = Asker::Call(reply);
            let (invocation, limit) = admitted.prepared(&*port, call, context, &progress, asker.so_far());
            run(port, invocation, limit, asker, owner).await;
        });
    }

    fn run(&self, admitted: Admitted, call: Arc<ToolCall>, context: Arc<CallContext>, asker: Asker, owner: &ActorCell) {
        let port = Arc::clone(&self.ports.0[admitted.port]);
        let (invocation, limit) = admitted.prepared(&*port, call, context, &self.progress, asker.so_far());
        // In a box, since a task moves what it is given several times.
        tokio::spawn(Box::pin(run(port, invocation, limit, asker, owner.clone())));
    }
}

/// What there is to be said of a call before it runs: by the rules over where its path leads, then by its tool.
async fn looked(leading: Option<Leading>, looking: Option<BoxFuture<'static, Option<Concern>>>) -> Option<Concern> {
    let led = match leading {
        Some(leading) => leading.looked_at().await,
        None => None,
    };
    match (led, looking) {
        (Some(Concern::Deny(reason)), _) => Some(Concern::Deny(reason)),
        (led, Some(looking)) => Concern::joined(led, looking.await),
        (led, None) => led,
    }
}

impl Admitted {
    /// The call as its tool gets it, and how long it may run from now on.
    fn prepared(
        self,
        port: &dyn ToolPort,
        call: Arc<ToolCall>,
        context: Arc<CallContext>,
        progress: &ProgressRoom,
        so_far: SoFar,
    ) -> (Invocation, Limit) {
        let Self { port: _, timeout_ms, ruled_ms, read_only, may_repeat } = self;
        let timeout_ms = port.limit_ms(&call, ruled_ms).unwrap_or(timeout_ms);
        let started = Instant::now();
        let deadline = started + Duration::from_millis(timeout_ms.min(LONGEST_CALL_MS));
        let progress = progress.keeping(&so_far);
        let artifacts = progress.runtime().artifacts().clone();
        let invocation = Invocation { call, context, deadline, may_repeat, progress };
        (invocation, Limit { started, timeout_ms, read_only, so_far, artifacts })
    }
}

/// Who asked for the call: to run it, or to judge it and run it at once.
enum Asker {
    Call(Reply<ToolReturn>),
    Check(Reply<Verdict>),
}

impl Asker {
    /// Notes to a caller that asked for a verdict that the call runs; the others know.
    fn note_running(&mut self) {
        match self {
            Self::Call(_) => {}
            Self::Check(reply) => reply.note(Verdict::Running),
        }
    }

    /// Where it keeps what the call puts out before its result.
    fn so_far(&self) -> SoFar {
        match self {
            Self::Call(reply) => reply.so_far().clone(),
            Self::Check(reply) => reply.so_far().clone(),
        }
    }

    fn is_abandoned(&mut self) -> bool {
        match self {
            Self::Call(reply) => reply.is_abandoned(),
            Self::Check(reply) => reply.is_abandoned(),
        }
    }

    async fn abandoned(&mut self) {
        match self {
            Self::Call(reply) => reply.abandoned().await,
            Self::Check(reply) => reply.abandoned().await,
        }
    }

    fn send(self, returned: ToolReturn) {
        match self {
            Self::Call(reply) => reply.send(returned),
            Self::Check(reply) => reply.send(Verdict::Ran(Box::new(returned))),
        }
    }
}

/// How long a call may take, and what is said when it took longer.
struct Limit {
    started: Instant,
    timeout_ms: u64,
    read_only: bool,
    /// What the call has put out until then.
    so_far: SoFar,
    /// Where the large parts of its result go.
    artifacts: Artifacts,
}

/// Runs one call until it is over, unwanted or too late, and answers it.
#[expect(clippy::manual_async_fn, reason = "the future of an async fn has room for its arguments twice")]
fn run(
    port: Arc<dyn ToolPort>,
    invocation: Invocation,
    limit: Limit,
    mut asker: Asker,
    owner: ActorCell,
) -> impl Future<Output = ()> + Send {
    async move {
        if asker.is_abandoned() {
            return;
        }
        let holds_lease = || invocation.progress.runtime().holds_lease(&invocation.context.session);
        if !limit.read_only && !holds_lease() {
            // In a box of its own, as below.
            let renewed = Box::pin(async {
                while !holds_lease() {
                    tokio::time::sleep(LEASE_LOOKS).await;
                }
            });
            let until = invocation.deadline.min(Instant::now() + LEASE_AWAITED);
            tokio::select! {
                biased;
                () = asker.abandoned() => return,
                () = renewed => {}
                () = tokio::time::sleep_until(until) => return asker.send(ToolReturn::not_run(NO_LEASE)),
            }
        }
        let (name, deadline) = (invocation.call.name.clone(), invocation.deadline);
        let context = Arc::clone(&invocation.context);
        let mut work = pin!(AssertUnwindSafe(async { port.call_tool(invocation).await }).catch_unwind());
        let (status, output) = match poll!(work.as_mut()) {
            // Most tools of this process are done at once: no clock is set for them.
            Poll::Ready(ended) => result(ended, &name),
            Poll::Pending => {
                asker.note_running();
                // In a box of its own: its timer and its watch over the owner would make every call's task large.
                let ended = Box::pin(async {
                    tokio::select! {
                        biased;
                        () = asker.abandoned() => None,
                        ended = &mut work => Some(result(ended, &name)),
                        // The calls of an actor end with it, however it ends; the dropped reply
                        // tells the asker. One whose end came in between is told it.
                        _ = owner.wait(None) => match poll!(work.as_mut()) {
                            Poll::Ready(ended) => Some(result(ended, &name)),
                            Poll::Pending => None,
                        },
                        () = tokio::time::sleep_until(deadline) => {
                            Some((CallStatus::Error, ToolOutput::error(limit.too_late(&name))))
                        }
                    }
                });
                match ended.await {
                    Some(ended) => ended,
                    None => return,
                }
            }
        };
        let output = match limit.artifacts.would_spill(&output) {
            false => output,
            // What the journal is to name must be durable before. In a box of its own, as above.
            true => {
                let spilled = Box::pin(limit.artifacts.spill(&context.session, output));
                tokio::select! {
                    biased;
                    () = asker.abandoned() => return,
                    output = spilled => output,
                }
            }
        };
        let duration_ms = u64::try_from(limit.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        asker.send(ToolReturn { status, output, duration_ms });
    }
}

fn result(ended: std::thread::Result<Result<ToolOutput, ToolError>>, name: &ToolName) -> (CallStatus, ToolOutput) {
    match ended {
        Ok(Ok(output)) if output.is_error => (CallStatus::Error, output),
        Ok(Ok(output)) => (CallStatus::Ok, output),
        Ok(Err(error)) => (status_of(&error), ToolOutput::error(error.to_string())),
        Err(_panic) => {
            tracing::error!(tool = %name, "a tool panicked");
            (CallStatus::Error, ToolOutput::error(format!("the tool panicked: {name} has a fault of its own")))
        }
    }
}

impl Limit {
    fn too_late(&self, name: &ToolName) -> String {
        let Self { timeout_ms, read_only, .. } = self;
        let text = match read_only {
            true => format!("{name} timed out after {timeout_ms} ms"),
            false => format!("{name} timed out after {timeout_ms} ms; it may have done part of its work"),
        };
        self.so_far.behind(text)
    }
}

fn status_of(error: &ToolError) -> CallStatus {
    match (error.is_outcome_unknown(), error.is_unavailable()) {
        (true, _) => CallStatus::Unknown,
        // As everything that was not run: it is no error of the caller.
        (false, true) => CallStatus::Cancelled,
        (false, false) => CallStatus::Error,
    }
}

fn refusal_result(refusal: Refusal) -> ToolReturn {
    match refusal {
        Refusal::Denied(reason) => ToolReturn::note(CallStatus::Denied, reason),
        Refusal::Invalid(complaint) => ToolReturn::note(CallStatus::Error, complaint),
    }
}
