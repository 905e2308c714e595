//! Lasting decisions belong to a tenant and a principal, and a policy can leave them out.

use std::sync::Arc;

use bob::approvals::{ApprovalsMode, Decision};
use bob::config::Limits;
use bob::context::RequestContext;
use bob::events::{AgentEvent, EventsFrom};
use bob::inbox::{InboxMessage, InboxRequest, SubmitRequest, Submitter, Worker};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::RequestId;
use bob::store::MemoryStore;
use bob::tools::{Policy, tool};
use bob::{AgentRequest, AgentRuntime};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::runtime::{Nothing, Recorder, build, say, session, turn, within};
use crate::tenants::stage::{Notebook, Person, Seen, asks, context, paying};

#[tokio::test]
async fn always_of_one_tenant_or_principal_opens_nothing_for_another() {
    for leaks in [false, true] {
        let (paid, (person, asked)) = (Seen::default(), Person::saying(Decision::AllowAlways));
        let memory = Arc::new(Notebook { leaks, ..Notebook::default() });
        let runtime = build(paying(&paid).approvals(person).approval_memory(memory)).await;
        let mut number = 0;
        let mut times_asked = async |context| {
            number += 1;
            turn(&runtime, asks(&format!("s{number}"), context)).await;
            asked.take().len()
        };
        assert_eq!(times_asked(context("acme", "ann")).await, 1);
        assert_eq!(times_asked(context("acme", "ann")).await, 0, "ann said always");
        assert_eq!(times_asked(context("acme", "bea")).await, 1, "bea was not asked yet");
        assert_eq!(times_asked(context("globex", "ann")).await, 1, "another ann");
        assert_eq!(times_asked(RequestContext::of_tenant("acme")).await, 1, "nobody in particular");
        assert_eq!(times_asked(RequestContext::of_principal("ann")).await, 1, "ann of no tenant");
        assert_eq!(times_asked(RequestContext::default()).await, 1, "no identity");
        assert_eq!(times_asked(context("globex", "ann")).await, 0);
        assert_eq!(paid.take().len(), 8, "and each call ran once it was allowed");
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn a_decision_for_a_session_belongs_to_its_principal_as_well() {
    let (paid, (person, asked)) = (Seen::default(), Person::saying(Decision::AllowSession));
    let runtime = build(paying(&paid).approvals(person)).await;
    for (principal, expected) in [("ann", 1), ("ann", 0), ("bea", 1), ("ann", 0), ("bea", 0)] {
        turn(&runtime, asks("shared", context("acme", principal))).await;
        assert_eq!(asked.take().len(), expected, "{principal}");
    }
}

#[tokio::test]
async fn a_denial_for_good_denies_nothing_to_another_tenant() {
    let reason = "not with us".to_owned();
    let (paid, (person, asked)) = (Seen::default(), Person::saying(Decision::DenyAlways { reason }));
    let memory = Arc::new(Notebook::default());
    let runtime = build(paying(&paid).approvals(person).approval_memory(memory)).await;
    turn(&runtime, asks("a", context("acme", "ann"))).await;
    turn(&runtime, asks("b", context("acme", "ann"))).await;
    assert_eq!(asked.take().len(), 1, "the second is denied without a question");
    turn(&runtime, asks("c", context("globex", "ann"))).await;
    assert_eq!(asked.take().len(), 1, "globex is asked");
}

#[tokio::test]
async fn a_policy_leaves_always_out_of_questions_and_then_it_decides_about_one_call() {
    let (paid, (person, asked)) = (Seen::default(), Person::saying(Decision::AllowAlways));
    let (seen, memory) = (Recorder::new(), Arc::new(Notebook::default()));
    let policy = Policy { offer_always: false, ..Policy::default() };
    let builder = paying(&paid).policy(policy).approvals(person).approval_memory(memory).sink(seen.clone());
    let runtime = build(builder).await;
    assert!(!runtime.offers_always());
    turn(&runtime, AgentRequest { approvals: ApprovalsMode::Wait, ..say("pay") }).await;
    let offered = ["allow_once", "allow_session", "edit", "deny"].map(str::to_owned).to_vec();
    assert_eq!(asked.take()[0].choices, offered);
    let told = seen.events().into_iter().find_map(|event| match event.event {
        AgentEvent::ApprovalRequested { choices, .. } => Some(choices),
        _ => None,
    });
    assert_eq!(told, Some(offered));
    // Said all the same, it applied to its call only: in this session and in others.
    for id in ["s", "other"] {
        turn(&runtime, AgentRequest { session: session(id), approvals: ApprovalsMode::Wait, ..say("pay") }).await;
        assert_eq!(asked.take().len(), 1, "{id} is asked again");
    }
    assert_eq!(paid.take().len(), 3);
}

#[tokio::test]
async fn a_late_reader_of_a_question_is_offered_what_a_decision_would_count_as() {
    for offer_always in [true, false] {
        let policy = Policy { offer_always, ..Policy::default() };
        let runtime = build(paying(&Seen::default()).policy(policy)).await;
        let suspended = AgentRequest { approvals: ApprovalsMode::Suspend, ..say("pay") };
        within(runtime.run(suspended)).await.unwrap();
        let mut late = within(runtime.subscribe(session("s"), EventsFrom::Beginning)).await.unwrap();
        let offered = loop {
            match &within(late.next()).await.unwrap().unwrap().event {
                AgentEvent::ApprovalRequested { choices, .. } => break choices.clone(),
                _other => {}
            }
        };
        let offers_always = offered.iter().any(|choice| choice.ends_with("_always"));
        assert_eq!(offers_always, offer_always, "{offered:?}");
        within(runtime.shutdown()).await;
    }
}

fn choices_of(event: &AgentEvent) -> Option<&[String]> {
    match event {
        AgentEvent::ApprovalRequested { choices, .. } => Some(choices),
        _other => None,
    }
}

#[tokio::test]
async fn a_reader_that_fell_behind_is_offered_what_a_decision_would_count_as() {
    let mut replies = vec![ScriptedReply::call("bank/look", json!({})); 300];
    replies.push(ScriptedReply::call("bank/pay", json!({})));
    let look = tool("bank/look", "Looks.", |_: Nothing, _| async { Ok("fine") }).read_only();
    let policy = Policy { offer_always: false, ..Policy::default() };
    let builder = paying(&Seen::default()).model(Arc::new(ScriptedLlm::replies(replies)));
    let runtime = build(builder.tools(Arc::new(look)).policy(policy)).await;
    let mut slow = within(runtime.subscribe(session("s"), EventsFrom::Now)).await.unwrap();
    let limits = Limits { max_steps: 310, max_tool_calls: 310, max_identical_calls: 310, ..Limits::default() };
    let request = AgentRequest { approvals: ApprovalsMode::Suspend, limits: Some(limits), ..say("pay") };
    within(runtime.run(request)).await.unwrap();
    let mut prompts = 0;
    let offered = loop {
        let event = within(slow.next()).await.unwrap().unwrap();
        prompts += usize::from(matches!(event.event, AgentEvent::PromptBuilt { .. }));
        if let Some(choices) = choices_of(&event.event) {
            break choices.to_vec();
        }
    };
    assert!(prompts < 301, "it did fall behind");
    assert!(!offered.iter().any(|choice| choice.ends_with("_always")), "{offered:?}");
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn who_submits_to_a_worker_is_offered_no_decision_that_may_count_for_less() {
    for offer_always in [true, false] {
        let policy = Policy { offer_always, ..Policy::default() };
        let store = MemoryStore::new();
        let runtime = build(paying(&Seen::default()).policy(policy).store(store.clone())).await;
        let worker = Worker::new(runtime, store.clone()).unwrap();
        let until = CancellationToken::new();
        let works = tokio::spawn(worker.run(until.clone()));
        let approvals = Some(ApprovalsMode::Suspend);
        let submit = SubmitRequest { parts: vec![ContentPart::text("pay")], approvals, ..SubmitRequest::default() };
        let request = InboxRequest::Submit(Box::new(submit));
        let message = InboxMessage::new(session("s"), RequestId::new("r"), 1, request);
        let mut pending = within(Submitter::new(store).unwrap().put(message)).await.unwrap();
        let offered = loop {
            let event = within(pending.next_event()).await.unwrap().expect("a question comes before the end");
            if let Some(choices) = choices_of(&event.event) {
                break choices.to_vec();
            }
        };
        assert_eq!(offered, ["allow_once", "allow_session", "edit", "deny"]);
        until.cancel();
        within(works).await.unwrap();
    }
}
