//! A session belongs to the tenant of its first input that has one.

use bob::context::{RequestContext, TenantId};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{RequestId, SessionFilter, SessionOptions};
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
    turn(&runtime, say("before there was a tenant")).await;
    assert_eq!(turn(&runtime, named("acme")).await.content, "hello");
    let others = [
        (named("globex"), "belongs to another tenant; choose another session id"),
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
    assert_eq!(within(runtime.session(session("s"))).await.unwrap().unwrap().turns, 2, "nothing else ran");
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

#[tokio::test]
async fn the_answer_to_a_question_claims_a_session_as_any_input_does() {
    let ask = ScriptedReply::call("ask_user", serde_json::json!({"question": "which?"}));
    let runtime = build(scripted(vec![ask, ScriptedReply::text("done")])).await;
    within(runtime.run(say("go"))).await.unwrap();
    within(runtime.run(say("this one").context(context("acme", "ann")))).await.unwrap();
    refusal(within(runtime.run(say("hi").context(context("globex", "x")))).await);
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
