//! A session belongs to the tenant of its first input, or to none.

use bob::context::{RequestContext, TenantId};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, RequestId, SessionFilter, SessionOptions};
use bob::{AgentError, AgentRequest, AgentRuntime, AskError};

use crate::support::runtime::{build, ended, file_store, over, say, scripted, session, turn, within};
use crate::tenants::stage::context;

#[track_caller]
fn refusal(result: Result<bob::AgentRunResult, AgentError>) -> String {
    match result {
        Err(AgentError::Invalid(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_request_of_another_tenant_is_refused_and_told_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let hello = || scripted(vec![ScriptedReply::text("hello")]).store(file_store(folder.path()));
    let runtime = build(hello()).await;
    let named = |tenant: &str| AgentRequest {
        request_id: Some(RequestId::new("r1")),
        ..say("hi").context(context(tenant, "ann"))
    };
    assert_eq!(turn(&runtime, named("acme")).await.content, "hello");
    let others = [
        (named("globex"), "belongs to another tenant or to none; choose another session id"),
        (say("hi").context(RequestContext::of_principal("ann")), "give the request a context with that tenant"),
        (say("hi"), "give the request a context with that tenant"),
    ];
    for (request, expected) in others {
        let why = refusal(within(runtime.run(request.clone())).await);
        assert!(why.contains(expected) && !why.contains("acme"), "{why}");
        // Also from the journal, by a process that has nothing in memory.
        assert!(within(runtime.close(session("s"))).await);
        assert_eq!(refusal(within(runtime.run(request)).await), why);
    }
    let again = turn(&runtime, named("acme")).await;
    assert_eq!((again.content.as_str(), again.request_id), ("hello", Some(RequestId::new("r1"))));
    assert_eq!(within(runtime.session(session("s"))).await.unwrap().unwrap().turns, 1, "nothing else ran");
    ended(runtime).await;

    let next = build(hello()).await;
    let why = refusal(within(next.run(named("globex"))).await);
    assert!(why.contains("another tenant"), "{why}");
    turn(&next, say("and on").context(context("acme", "bea"))).await;
}

#[tokio::test]
async fn a_session_may_be_opened_for_a_tenant() {
    let runtime = build(scripted(vec![ScriptedReply::text("hello")])).await;
    let of = |tenant: &str| SessionOptions { tenant: Some(tenant.into()), ..SessionOptions::default() };
    within(runtime.open(session("s"), of("acme"))).await.unwrap();
    within(runtime.open(session("s"), of("acme"))).await.unwrap();
    for options in [of("globex"), SessionOptions::default()] {
        let refused = within(runtime.open(session("s"), options)).await.unwrap_err();
        assert!(refused.to_string().contains("another tenant"), "{refused}");
    }
    assert!(within(runtime.open(session("t"), of(""))).await.unwrap_err().to_string().contains("empty"));
    refusal(within(runtime.run(say("hi").context(context("globex", "x")))).await);
    // Options of a request do not change the tenant either.
    let request = AgentRequest { options: Some(of("globex")), ..say("hi").context(context("acme", "x")) };
    assert!(refusal(within(runtime.run(request)).await).contains("different tenants"));
    let request = AgentRequest { options: Some(SessionOptions::default()), ..say("hi").context(context("acme", "x")) };
    turn(&runtime, request).await;
    let look = within(runtime.session(session("s"))).await.unwrap().unwrap();
    assert_eq!(look.options.tenant.as_ref().map(TenantId::as_str), Some("acme"));
}

/// What was said in it was not said to a tenant, nor is the open question asked of one.
#[tokio::test]
async fn a_session_that_began_without_a_tenant_is_closed_to_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let ask = ScriptedReply::call("ask_user", serde_json::json!({"question": "which?"}));
    let script = || vec![ask.clone(), ScriptedReply::text("done")];
    let runtime = build(scripted(script()).store(file_store(folder.path()))).await;
    within(runtime.run(say("the word is swordfish"))).await.unwrap();
    let before = within(runtime.records(session("s"))).await.unwrap().len();
    let acme = runtime.tenant("acme").unwrap();
    for request in [say("which word?"), say("this one").context(context("acme", "ann"))] {
        let why = refusal(within(acme.run(request.clone())).await);
        assert!(why.contains("belongs to another tenant or to none"), "{why}");
        assert!(within(runtime.close(session("s"))).await);
        assert_eq!(refusal(within(acme.run(request)).await), why, "also from the journal");
    }
    assert!(within(acme.session(session("s"))).await.unwrap().is_none());
    assert!(within(acme.open(session("s"), SessionOptions::default())).await.is_err());
    assert_eq!(within(runtime.records(session("s"))).await.unwrap().len(), before, "nothing is kept");
    assert_eq!(turn(&runtime, say("the first")).await.content, "done", "its question is still open");
}

#[tokio::test]
async fn a_tenant_cancels_its_input_that_waits_to_be_the_first_of_its_session_and_no_other() {
    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages.last()).contains("slow") {
        true => ScriptedReply::Stall,
        false => ScriptedReply::text("hello"),
    });
    let runtime = build(over(model).max_concurrent_turns(1)).await;
    let (acme, globex) = (runtime.tenant("acme").unwrap(), runtime.tenant("globex").unwrap());
    let at = |id: &str| AgentRequest::text(session(id), "hi");
    let mut slow = within(runtime.run_stream(AgentRequest::text(session("busy"), "slow"))).await.unwrap();
    within(slow.next()).await;
    let (one, two) =
        (within(acme.run_stream(at("one"))).await.unwrap(), within(runtime.run_stream(at("two"))).await.unwrap());
    assert!(!within(globex.cancel(session("one"))).await.unwrap(), "it is acme's");
    assert!(!within(acme.cancel(session("two"))).await.unwrap(), "it is the operator's");
    assert!(within(acme.cancel(session("one"))).await.unwrap());
    let answer = |result| match result {
        Ok(bob::AgentRunResult::Finished(response)) => (response.finish_reason, response.content),
        other => panic!("no end: {other:?}"),
    };
    assert_eq!(answer(within(one.finish()).await).0, FinishReason::Cancelled);
    assert!(within(runtime.cancel(session("busy"))).await);
    assert_eq!(answer(within(two.finish()).await).1, "hello");
}

#[tokio::test]
async fn a_context_with_too_much_is_refused_before_anything_is_kept() {
    let runtime = build(scripted(vec![ScriptedReply::text("hello")])).await;
    let large = RequestContext::default().data(&"x".repeat(20_000)).unwrap();
    let why = refusal(within(runtime.run(say("hi").context(large))).await);
    assert!(why.contains("the context's data has 20002 bytes; at most 16384 are accepted"), "{why}");
    assert!(within(runtime.session(session("s"))).await.unwrap().is_none());
}

#[tokio::test]
async fn a_tenant_asks_for_values_and_condenses_its_sessions_only() {
    #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        name: String,
    }

    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages.last()).contains("Who wrote") {
        true => ScriptedReply::text(r#"{"name": "Ann"}"#),
        false => ScriptedReply::text("They talked about the plans of Ann."),
    });
    let runtime = build(over(model)).await;
    let (acme, globex) = (runtime.tenant("acme").unwrap(), runtime.tenant("globex").unwrap());
    assert_eq!(within(acme.ask("hi")).await.unwrap(), "They talked about the plans of Ann.");
    assert_eq!(within(acme.run_as::<Person>(say("Who wrote it?"))).await.unwrap().output.name, "Ann");
    let list = async || within(acme.sessions(SessionFilter::default(), None)).await.unwrap().sessions;
    let before = list().await;
    assert_eq!(before.len(), 2);
    let refused = within(globex.run_as::<Person>(say("Who wrote it?"))).await;
    let Err(AskError::Refused(AgentError::Invalid(why))) = refused else { panic!("not refused: {refused:?}") };
    assert!(why.contains("belongs to another tenant"), "{why}");
    assert_eq!(list().await, before, "nothing ran");

    for _spoken in 0..3 {
        turn(&runtime, say(&"words ".repeat(200)).context(context("acme", "ann"))).await;
    }
    let unknown = within(globex.condense(session("unknown"), None)).await.unwrap_err();
    assert_eq!(within(globex.condense(session("s"), None)).await.unwrap_err(), unknown);
    assert!(within(acme.condense(session("s"), None)).await.unwrap().messages > 0);
    within(runtime.shutdown()).await;
}
