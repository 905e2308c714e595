//! Limits of tenants: turns at once, tokens and cost a day; and a fair share of the slots.

use std::sync::Arc;
use std::time::Duration;

use bob::config::Limits;
use bob::context::{TenantLimits, TenantUse};
use bob::model::catalogue::Cost;
use bob::model::{LlmErrorKind, LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, GuardReason};
use bob::store::{Append, MemoryStore, SessionStore};
use bob::tools::{Invocation, tool};
use bob::{AgentError, AgentRequest, AgentResponse, AgentRuntime, Runtime, RuntimeBuilder};
use bob_messages::chat::Message;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::runtime::{Nothing, build, over, session, within};
use crate::tenants::stage::Seen;

/// Calls the tool once if the message begins with `wait`; else it answers at once.
fn model() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request: &LlmRequest| match request.messages.last().map(AsRef::as_ref) {
        Some(Message::User { parts }) if parts[0].as_text().starts_with("wait") => {
            ScriptedReply::call("test/wait", json!({}))
        }
        _ => ScriptedReply::text("done"),
    })
}

/// A runtime whose tool waits for a permit, and says in which session it runs.
fn waiting() -> (RuntimeBuilder, Arc<Semaphore>, Seen<String>) {
    let (gate, entered) = (Arc::new(Semaphore::new(0)), Seen::default());
    let (opens, enters) = (Arc::clone(&gate), entered.clone());
    let run = move |_: Nothing, call: Invocation| {
        enters.push(call.context.session.to_string());
        let opens = Arc::clone(&opens);
        async move {
            opens.acquire().await.expect("an open gate").forget();
            Ok("waited")
        }
    };
    let wait = tool("test/wait", "Waits.", run).read_only();
    (over(model()).local_tools(false).tools(Arc::new(wait)), gate, entered)
}

async fn runs(runtime: &Runtime, tenant: &str, id: &str, text: &str) -> Result<AgentResponse, AgentError> {
    let request = AgentRequest::text(session(id), text);
    let result = within(runtime.tenant(tenant).expect("a tenant").run(request)).await;
    result.map(|result| result.response().clone())
}

fn spawned(
    runtime: &Runtime,
    tenant: &'static str,
    id: String,
    text: &'static str,
) -> tokio::task::JoinHandle<Result<AgentResponse, AgentError>> {
    let runtime = runtime.clone();
    tokio::spawn(async move { runs(&runtime, tenant, &id, text).await })
}

async fn uses(runtime: &Runtime, tenant: &str) -> TenantUse {
    within(runtime.tenant(tenant).expect("a tenant").usage()).await.expect("its use")
}

/// Gives another store the records of a session.
async fn copy(from: &dyn SessionStore, to: &dyn SessionStore, id: &str) {
    let records = from.load(&session(id)).await.expect("its records");
    let claim = to.claim(&session(id)).await.expect("a claim");
    let append = Append { session: session(id), epoch: claim.epoch, expected_version: 0, records };
    assert!(to.append(vec![append]).await.remove(0).is_ok());
    to.release(&session(id), claim.epoch).await;
}

/// Waits until so many turns of a tenant run, and so many inputs wait.
async fn until(runtime: &Runtime, tenant: &str, running: usize, waiting: usize) {
    within(async {
        loop {
            let now = uses(runtime, tenant).await;
            if (now.running_turns, now.waiting_turns) == (running, waiting) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

fn overloaded(result: Result<AgentResponse, AgentError>) -> (String, Option<u64>) {
    match result {
        Err(AgentError::Overloaded { text, retry_after_ms, .. }) => (text, retry_after_ms),
        other => panic!("not overloaded: {other:?}"),
    }
}

#[tokio::test]
async fn a_tenant_has_so_many_turns_at_once_and_delays_no_other() {
    let (builder, gate, _entered) = waiting();
    let one = TenantLimits { max_concurrent_turns: 1, ..TenantLimits::default() };
    let runtime = build(builder.limits_of_tenant("acme", one)).await;
    let first = spawned(&runtime, "acme", "a.1".to_owned(), "wait");
    until(&runtime, "acme", 1, 0).await;
    let second = spawned(&runtime, "acme", "a.2".to_owned(), "wait");
    until(&runtime, "acme", 1, 1).await;
    assert_eq!(runs(&runtime, "globex", "g.1", "hi").await.expect("it runs").content, "done");
    let third = spawned(&runtime, "globex", "g.2".to_owned(), "wait");
    until(&runtime, "globex", 1, 0).await;
    assert_eq!((uses(&runtime, "acme").await.running_turns, uses(&runtime, "acme").await.waiting_turns), (1, 1));
    gate.add_permits(3);
    for turn in [first, second, third] {
        assert_eq!(within(turn).await.expect("no panic").expect("it runs").content, "done");
    }
    until(&runtime, "acme", 0, 0).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn slots_go_to_tenants_in_turn_however_many_sessions_each_has() {
    let (builder, gate, entered) = waiting();
    let runtime = build(builder.max_concurrent_turns(1)).await;
    let first = spawned(&runtime, "acme", "a.0".to_owned(), "wait");
    until(&runtime, "acme", 1, 0).await;
    let mut turns = vec![first];
    for number in 1..=8 {
        turns.push(spawned(&runtime, "acme", format!("a.{number}"), "wait"));
        until(&runtime, "acme", 1, number).await;
    }
    for number in 1..=3 {
        turns.push(spawned(&runtime, "globex", format!("g.{number}"), "wait"));
        until(&runtime, "globex", 0, number).await;
    }
    gate.add_permits(turns.len());
    for turn in turns {
        within(turn).await.expect("no panic").expect("it runs");
    }
    let order: Vec<_> = entered.take().into_iter().map(|id| id.chars().next().expect("a letter")).collect();
    // The first one ran, and acme waits longer than globex.
    assert_eq!(order.iter().collect::<String>(), "aagagagaaaaa");
    runtime.shutdown().await;
}

#[tokio::test]
async fn one_tenant_is_overloaded_and_the_others_are_not() {
    let (builder, gate, _entered) = waiting();
    let one = TenantLimits { max_concurrent_turns: 1, ..TenantLimits::default() };
    let runtime = build(builder.max_waiting_turns(4).tenant_limits(one)).await;
    let mut turns = vec![spawned(&runtime, "acme", "a.0".to_owned(), "wait")];
    until(&runtime, "acme", 1, 0).await;
    for number in 1..=2 {
        turns.push(spawned(&runtime, "acme", format!("a.{number}"), "wait"));
        until(&runtime, "acme", 1, number).await;
    }
    let (text, _) = overloaded(runs(&runtime, "acme", "a.9", "hi").await);
    assert!(
        text.contains("the tenant acme has reached its limits, with 1 running turns and 2 waiting inputs"),
        "{text}"
    );
    // The other one runs one, and queues one in its half of the rest.
    turns.push(spawned(&runtime, "globex", "g.0".to_owned(), "wait"));
    until(&runtime, "globex", 1, 0).await;
    turns.push(spawned(&runtime, "globex", "g.1".to_owned(), "wait"));
    until(&runtime, "globex", 1, 1).await;
    gate.add_permits(turns.len());
    for turn in turns {
        within(turn).await.expect("no panic").expect("it runs");
    }
    runtime.shutdown().await;
}

/// The tokens of a turn of these tests.
async fn of_a_turn() -> u64 {
    let runtime = build(waiting().0).await;
    let tokens = runs(&runtime, "acme", "a", "hi").await.expect("it runs").usage.total_tokens;
    assert_eq!(uses(&runtime, "acme").await.tokens_today, tokens);
    runtime.shutdown().await;
    tokens
}

fn a_day(tokens: u64) -> TenantLimits {
    TenantLimits { max_tokens_per_day: tokens, ..TenantLimits::default() }
}

#[tokio::test]
async fn the_tokens_of_a_day_are_used_up_also_for_the_next_process() {
    let turn = of_a_turn().await;
    let store: Arc<dyn SessionStore> = MemoryStore::new();
    let over_store = || waiting().0.store(Arc::clone(&store)).tenant_limits(a_day(turn));
    let runtime = build(over_store()).await;
    assert_eq!(runs(&runtime, "acme", "a.1", "hi").await.expect("it runs").content, "done");
    let (text, retry_after) = overloaded(runs(&runtime, "acme", "a.2", "hi").await);
    assert!(text.contains(&format!("the tenant acme has used up its {turn} tokens a day")), "{text}");
    assert!(retry_after.is_some_and(|ms| (1..=24 * 3_600_000).contains(&ms)), "{retry_after:?}");
    assert!(runtime.session(session("a.2")).await.expect("a look").is_none(), "nothing was kept of it");
    assert_eq!(runs(&runtime, "globex", "g.1", "hi").await.expect("it has its own day").content, "done");
    let (acme, globex) = (uses(&runtime, "acme").await, uses(&runtime, "globex").await);
    assert_eq!((acme.tokens_today, globex.tokens_today), (turn, turn), "each is billed its own");
    // Requests without a tenant have no limit.
    within(runtime.run(AgentRequest::text(session("n"), "hi"))).await.expect("it runs");
    runtime.shutdown().await;

    let runtime = build(over_store()).await;
    assert_eq!(uses(&runtime, "acme").await.tokens_today, turn, "it is read from the journals");
    overloaded(runs(&runtime, "acme", "a.3", "hi").await);
    runtime.shutdown().await;
}

#[tokio::test]
async fn what_a_finished_turn_spends_is_counted_once_in_the_next_process() {
    let turn = of_a_turn().await;
    let store: Arc<dyn SessionStore> = MemoryStore::new();
    let day = a_day(100 * turn);
    let (builder, _gate, entered) = waiting();
    let runtime = build(builder.store(Arc::clone(&store)).tenant_limits(day)).await;
    let left = spawned(&runtime, "acme", "a.1".to_owned(), "wait for it");
    within(async {
        while entered.take().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // What the next process finds if this one ends within the call.
    let copied = MemoryStore::new();
    copy(&*store, &*copied, "a.1").await;
    let (builder, gate, _entered) = waiting();
    let next = build(builder.store(copied).tenant_limits(day)).await;
    gate.add_permits(1);
    let results = within(next.finish(session("a.1"))).await.expect("it goes on");
    let whole = results[0].response().usage.total_tokens;
    assert_eq!(uses(&next, "acme").await.tokens_today, whole, "once");
    next.shutdown().await;
    runtime.shutdown().await;
    drop(left);
}

#[tokio::test]
async fn a_turn_may_spend_what_is_left_of_the_day_and_no_more() {
    let turn = of_a_turn().await;
    let (builder, gate, _entered) = waiting();
    // Its calls do not wait.
    gate.add_permits(2);
    let runtime = build(builder.tenant_limits(a_day(turn + 1))).await;
    runs(&runtime, "acme", "a.1", "hi").await.expect("it runs");
    // One token is left: the turn ends at its guard after its first step.
    let cut = within(runtime.tenant("acme").unwrap().run(AgentRequest::text(session("a.2"), "wait"))).await;
    let cut = cut.expect("it runs").response().clone();
    assert_eq!((cut.finish_reason, cut.guard_reason), (FinishReason::GuardExceeded, Some(GuardReason::MaxTotalTokens)));
    // A stricter limit of the request stays.
    let limits = Limits { max_total_tokens: 5, ..Limits::default() };
    let request = AgentRequest { limits: Some(limits), ..AgentRequest::text(session("g"), "wait") };
    let strict = within(runtime.tenant("globex").unwrap().run(request)).await.expect("it runs").response().clone();
    assert_eq!(strict.guard_reason, Some(GuardReason::MaxTotalTokens));
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_running_turn_makes_no_further_model_call_when_others_have_used_up_the_day() {
    let turn = of_a_turn().await;
    let (builder, gate, entered) = waiting();
    let runtime = build(builder.tenant_limits(a_day(3 * turn))).await;
    let waits = spawned(&runtime, "acme", "a.1".to_owned(), "wait");
    within(async {
        while entered.take().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    while uses(&runtime, "acme").await.tokens_today < 3 * turn {
        let _may_be_refused_in_the_end = runs(&runtime, "acme", "a.2", "hi").await;
    }
    gate.add_permits(1);
    let ended = within(waits).await.expect("no panic").expect("it was taken");
    assert_eq!(ended.finish_reason, FinishReason::Error);
    let Some(AgentError::Llm(error)) = ended.error else { panic!("another error: {ended:?}") };
    assert_eq!(error.kind, LlmErrorKind::QuotaExhausted);
    assert!(error.message.contains("tokens a day"), "{error}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn what_two_tenants_spend_is_billed_to_each() {
    let runtime = build(waiting().0).await;
    let (mut rng, mut bills) = (fastrand::Rng::with_seed(3), [0; 2]);
    for number in 0..100 {
        let who = rng.usize(..2);
        let tenant = ["acme", "globex"][who];
        let id = format!("{tenant}.{}", number % 7);
        bills[who] += runs(&runtime, tenant, &id, "hi").await.expect("it runs").usage.total_tokens;
    }
    assert_eq!([uses(&runtime, "acme").await.tokens_today, uses(&runtime, "globex").await.tokens_today], bills);
    assert_eq!(uses(&runtime, "third").await, TenantUse::default());
    assert_eq!(uses(&runtime, "acme").await.cost_today, Cost::ZERO, "the model has no price");
    runtime.shutdown().await;
}
