//! A child that is suspended for a person suspends its parent by one token, also over several levels and processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::approvals::{ApprovalsMode, Decision, PermissionMode};
use bob::model::{LlmRequest, ScriptedReply};
use bob::sessions::{FinishReason, ResumeReply, ResumeToken, SessionFilter, SessionState, SuspendReason};
use bob::store::{Fact, MemoryStore, Session, SessionStore};
use bob::tools::{Invocation, ToolError, ToolPort, tool};
use bob::{AgentRequest, AgentResponse, AgentRuntime, Runtime, RuntimeBuilder, SessionId};
use serde_json::json;

use crate::subagents::stage::{Gate, Nothing, agent, asks, calls, children, last, playing};
use crate::support::runtime::{say, session, within};

/// A tool that needs a yes, and counts its calls.
fn counted(ran: &Arc<AtomicUsize>) -> Arc<dyn ToolPort> {
    let ran = Arc::clone(ran);
    let change = move |_: Nothing, _: Invocation| {
        ran.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, ToolError>("changed") }
    };
    Arc::new(tool("own/change", "Changes.", change))
}

/// root > a > b, which asks.
pub(super) fn three_levels(who: &str, request: &LlmRequest) -> ScriptedReply {
    match (who, request.step) {
        ("root", _) if last(request).contains("something else") => ScriptedReply::text("else"),
        ("root", 1) => asks("a", "go"),
        ("a", 1) => asks("b", "go"),
        ("b", 1) => ScriptedReply::call("own/change", json!({})),
        _ => ScriptedReply::text(format!("{who}: {}", last(request).contains("changed"))),
    }
}

pub(super) fn staged(
    play: fn(&str, &LlmRequest) -> ScriptedReply,
    store: &Arc<MemoryStore>,
    ran: &Arc<AtomicUsize>,
) -> RuntimeBuilder {
    let store: Arc<dyn SessionStore> = Arc::<MemoryStore>::clone(store);
    let (builder, _) = playing(play);
    let builder = builder.store(store).tools(counted(ran)).permission_mode(PermissionMode::Ask);
    let builder = builder.subagent(agent("a").max_depth(1).budget_ratio(1.0)).subagent(agent("b").budget_ratio(1.0));
    builder.limits(crate::subagents::ends::generous())
}

pub(super) fn suspending() -> AgentRequest {
    AgentRequest { approvals: ApprovalsMode::Suspend, ..say("go") }
}

/// The token, and the question.
#[track_caller]
pub(super) fn waits(response: &AgentResponse) -> (ResumeToken, String) {
    assert_eq!(response.finish_reason, FinishReason::Suspended, "{response:?}");
    assert_eq!(response.suspend_reason, Some(SuspendReason::ApprovalRequired));
    (response.token.clone().unwrap(), response.question.clone().unwrap())
}

pub(super) async fn run(runtime: &Runtime, request: AgentRequest) -> AgentResponse {
    within(runtime.run(request)).await.unwrap().response().clone()
}

pub(super) async fn resume(runtime: &Runtime, token: &ResumeToken, decision: Decision) -> AgentResponse {
    let reply = ResumeReply::Decision(decision);
    within(runtime.resume(token.clone(), reply)).await.unwrap().response().clone()
}

pub(super) async fn folded(runtime: &Runtime, of: &SessionId) -> Session {
    Session::fold(of.clone(), &within(runtime.records(of.clone())).await.unwrap())
}

/// The sessions below the session of the tests, the nearest first.
async fn below(runtime: &Runtime) -> Vec<SessionId> {
    let mut all = vec![session("s")];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(runtime, &all[at]).await.into_iter().map(|child| child.session));
        at += 1;
    }
    all.split_off(1)
}

/// The sessions of a store that work for others.
async fn below_in(store: &Arc<MemoryStore>) -> Vec<SessionId> {
    let page = within(store.list(&SessionFilter::default(), None)).await.unwrap();
    page.sessions.into_iter().map(|summary| summary.session).filter(|id| *id != session("s")).collect()
}

/// Every session below has begun one turn, and its journal is one that the machine writes.
pub(super) async fn assert_begun_once(runtime: &Runtime) {
    for id in below(runtime).await.into_iter().chain([session("s")]) {
        let records = within(runtime.records(id.clone())).await.unwrap();
        let starts = records.iter().filter(|record| matches!(record.fact, Fact::Started { .. })).count();
        assert_eq!(starts, 1, "{id}");
        let replayed = bob_messages::replay::replay(&records);
        assert!(replayed.is_ok(), "{id}: {replayed:?}");
    }
}

/// Waits until every session below has closed its turn.
pub(super) async fn all_closed(runtime: &Runtime) {
    within(async {
        loop {
            let mut is_open = false;
            for id in below(runtime).await {
                is_open |= folded(runtime, &id).await.open.is_some();
            }
            if !is_open {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_tree_of_three_levels_is_resumed_in_another_process_by_one_token() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let first = staged(three_levels, &store, &ran).build().await.unwrap();
    let suspended = run(&first, suspending()).await;
    let (token, question) = waits(&suspended);
    assert_eq!(question, "May own/change run with {}? (asked by the agent a > b)");
    assert_eq!(token.session(), Some(session("s")));
    let so_far = suspended.delegated.unwrap();
    assert_eq!((so_far.sessions, so_far.steps, suspended.steps), (2, 2, 1));
    for id in below(&first).await {
        let open = folded(&first, &id).await.open.expect("it waits");
        assert!(open.suspended.is_some_and(|suspension| suspension.expires_at.is_none()), "{id}");
    }
    within(first.shutdown()).await;

    let second = staged(three_levels, &store, &ran).build().await.unwrap();
    let ended = resume(&second, &token, Decision::AllowOnce).await;
    assert_eq!((ended.finish_reason, ended.content.as_str()), (FinishReason::Final, "root: false"), "{ended:?}");
    assert_eq!(ended.tool_transcript[0].result, "a: false");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let used = ended.delegated.clone().unwrap();
    assert_eq!((used.sessions, used.steps, used.tool_calls, ended.steps), (2, 4, 2, 2), "each step counts once");
    assert_begun_once(&second).await;
    for child in children(&second, &session("s")).await {
        assert_eq!(child.state, Some(SessionState::Idle));
    }
    let again = within(second.resume(token, ResumeReply::Decision(Decision::AllowOnce))).await;
    assert!(again.is_err(), "a token is good for one answer: {again:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_no_and_changed_arguments_reach_the_child_that_asked() {
    for (decision, ran_after, sees) in [
        (Decision::Deny { reason: "not today".into() }, 0, "not today"),
        (Decision::Edit { arguments: json!({}) }, 1, "changed"),
    ] {
        let (store, ran) = (MemoryStore::new(), Arc::default());
        let runtime = staged(three_levels, &store, &ran).build().await.unwrap();
        let (token, _) = waits(&run(&runtime, suspending()).await);
        let ended = resume(&runtime, &token, decision).await;
        assert_eq!((ended.finish_reason, ran.load(Ordering::SeqCst)), (FinishReason::Final, ran_after));
        let asked = folded(&runtime, &below(&runtime).await[1]).await;
        let history = format!("{:?}", asked.history);
        assert!(history.contains(sees), "{history}");
    }
}

#[tokio::test]
async fn a_program_decides_by_the_childs_question_and_the_root_goes_on() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let runtime = staged(three_levels, &store, &ran).build().await.unwrap();
    let (token, _) = waits(&run(&runtime, suspending()).await);
    let asker = below(&runtime).await.pop().unwrap();
    let question = folded(&runtime, &asker).await.first_undecided().unwrap().undecided().cloned().unwrap();
    assert!(within(runtime.decide(asker.clone(), question.clone(), Decision::AllowOnce)).await.unwrap());
    within(async {
        while folded(&runtime, &session("s")).await.open.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert!(!within(runtime.decide(asker, question, Decision::AllowOnce)).await.unwrap(), "it was decided");
    assert!(within(runtime.resume(token, ResumeReply::Decision(Decision::AllowOnce))).await.is_err());
}

#[tokio::test]
async fn a_session_is_deleted_with_those_that_wait_below_it() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let runtime = staged(three_levels, &store, &ran).build().await.unwrap();
    waits(&run(&runtime, suspending()).await);
    let ids = below(&runtime).await;
    assert!(within(runtime.delete(session("s"))).await.unwrap());
    for id in ids {
        assert_eq!(within(runtime.records(id)).await.unwrap().len(), 0);
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_session_is_deleted_with_its_sub_agents_that_have_ended() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let runtime = staged(three_levels, &store, &ran).build().await.unwrap();
    let asked = run(&runtime, suspending()).await;
    let token = asked.token.clone().unwrap();
    within(runtime.resume(token, ResumeReply::Decision(Decision::AllowOnce))).await.unwrap();
    let ids = below(&runtime).await;
    assert!(ids.len() >= 2, "at two levels: {ids:?}");
    // Sessions that a program has work for another one are the program's.
    let own = bob::sessions::SessionOptions {
        parent: Some(bob::sessions::ParentTurn {
            session: session("s"),
            turn: asked.turn_id.clone(),
            call: bob::tools::CallId::new("c1"),
            depth: 1,
            line: None,
            on_parent_end: None,
        }),
        ..Default::default()
    };
    within(runtime.open(session("own"), own)).await.unwrap();
    assert!(within(runtime.delete(session("s"))).await.unwrap());
    for id in ids {
        assert_eq!(within(runtime.records(id)).await.unwrap().len(), 0);
    }
    assert!(!within(runtime.records(session("own"))).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_token_of_a_child_is_for_its_caller() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let runtime = staged(three_levels, &store, &ran).build().await.unwrap();
    waits(&run(&runtime, suspending()).await);
    for id in below(&runtime).await {
        let token = folded(&runtime, &id).await.open.unwrap().suspended.unwrap().token;
        let refused = within(runtime.resume(token, ResumeReply::Decision(Decision::AllowOnce))).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("works for a call")), "{id}");
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn another_input_closes_the_whole_tree_and_what_it_would_do_is_not_done() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let first = staged(three_levels, &store, &ran).build().await.unwrap();
    let (token, _) = waits(&run(&first, suspending()).await);
    within(first.shutdown()).await;
    let second = staged(three_levels, &store, &ran).build().await.unwrap();
    assert_eq!(run(&second, say("something else")).await.content, "else");
    // The end of the process waits for it.
    within(second.shutdown()).await;
    for id in [session("s")].into_iter().chain(below_in(&store).await) {
        let left = Session::fold(id.clone(), &within(store.load(&id)).await.unwrap());
        assert!(left.open.is_none(), "{id} is open");
    }
    let second = staged(three_levels, &store, &ran).build().await.unwrap();
    assert_eq!(below(&second).await.len(), 2);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let late = within(second.resume(token, ResumeReply::Decision(Decision::AllowOnce))).await;
    assert!(late.is_err(), "{late:?}");
    for id in below(&second).await {
        let records = within(second.records(id.clone())).await.unwrap();
        let replayed = bob_messages::replay::replay(&records);
        assert!(replayed.is_ok(), "{id}: {replayed:?}");
    }
}

/// Two calls of an agent that asks, and one of one that does not.
fn beside(who: &str, request: &LlmRequest) -> ScriptedReply {
    match (who, request.step) {
        ("root", 1) => calls([
            ("agent/b", json!({"task": "one"})),
            ("agent/b", json!({"task": "two"})),
            ("agent/a", json!({"task": "three"})),
        ]),
        ("b", 1) => ScriptedReply::call("own/change", json!({})),
        _ => ScriptedReply::text("done"),
    }
}

#[tokio::test]
async fn two_that_ask_in_one_step_are_asked_about_one_after_the_other() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let runtime = staged(beside, &store, &ran).build().await.unwrap();
    let first = run(&runtime, suspending()).await;
    let (token, _) = waits(&first);
    assert_eq!(first.tool_transcript.len(), 1, "the call that needs no person has its result");
    let second = resume(&runtime, &token, Decision::AllowOnce).await;
    let (other, _) = waits(&second);
    assert_ne!(token, other);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let ended = resume(&runtime, &other, Decision::AllowOnce).await;
    assert_eq!((ended.finish_reason, ran.load(Ordering::SeqCst)), (FinishReason::Final, 2), "{ended:?}");
    assert_eq!(ended.delegated.as_ref().unwrap().sessions, 3);
    assert_begun_once(&runtime).await;
}

/// Two calls of an agent that asks before it goes to the gate.
fn to_the_gate(who: &str, request: &LlmRequest) -> ScriptedReply {
    match (who, request.step) {
        ("root", 1) => calls([("agent/b", json!({"task": "one"})), ("agent/b", json!({"task": "two"}))]),
        ("b", 1) => ScriptedReply::call("own/gate", json!({})),
        _ => ScriptedReply::text("done"),
    }
}

#[tokio::test]
async fn a_cancelled_resumption_closes_those_that_still_wait() {
    let (store, gate) = (MemoryStore::new(), Gate::default());
    let builder = staged(to_the_gate, &store, &Arc::default()).tools(gate.tool());
    let runtime = builder.build().await.unwrap();
    let (token, _) = waits(&run(&runtime, suspending()).await);
    let resumed = tokio::spawn({
        let runtime = runtime.clone();
        async move { resume(&runtime, &token, Decision::AllowOnce).await }
    });
    within(gate.entered.notified()).await;
    assert!(within(runtime.cancel(session("s"))).await);
    let ended = within(resumed).await.unwrap();
    assert_eq!(ended.finish_reason, FinishReason::Cancelled);
    assert_eq!(ended.delegated.unwrap().sessions, 2, "what both used until then is on the bill");
    all_closed(&runtime).await;
    assert_eq!((below(&runtime).await.len(), gate.passed.load(Ordering::SeqCst)), (2, 0));
}
