//! Lasting decisions belong to a tenant and a principal, and a policy can leave them out.

use std::sync::Arc;

use bob::approvals::{ApprovalsMode, Decision};
use bob::context::RequestContext;
use bob::events::{AgentEvent, EventsFrom};
use bob::tools::Policy;
use bob::{AgentRequest, AgentRuntime};

use crate::support::runtime::{Recorder, build, say, session, turn, within};
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
