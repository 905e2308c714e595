//! Messages of several tenants through one inbox.

use std::sync::Arc;

use bob::approvals::{ApprovalId, ApprovalsMode, Decision};
use bob::context::RequestContext;
use bob::events::AgentEvent;
use bob::inbox::{InboxKey, InboxMessage, InboxRequest, Pending, SubmitRequest, Submitter, Worker};
use bob::model::ContentPart;
use bob::sessions::{CancellationToken, OptionsPatch, RequestId, ResumeReply, ResumeToken};
use bob::store::{MemoryStore, SessionStore};
use bob::{AgentError, AgentRuntime, Runtime, SessionId};
use tokio::task::JoinHandle;

use crate::support::runtime::{build, session, within};
use crate::tenants::stage::{Seen, paying};

/// A store, its submitters, and a worker when it is begun.
struct Inboxes {
    store: Arc<dyn SessionStore>,
    operator: Submitter,
    acme: Submitter,
    globex: Submitter,
    until: CancellationToken,
}

impl Inboxes {
    fn new() -> Self {
        let store: Arc<dyn SessionStore> = MemoryStore::new();
        let operator = Submitter::new(Arc::clone(&store)).unwrap();
        let [acme, globex] = ["acme", "globex"].map(|tenant| operator.clone().of_tenant(tenant).unwrap());
        Self { store, operator, acme, globex, until: CancellationToken::new() }
    }

    async fn begins(&self) -> JoinHandle<Runtime> {
        let runtime = build(paying(&Seen::default()).store(Arc::clone(&self.store))).await;
        let worker = Worker::new(runtime.clone(), Arc::clone(&self.store)).unwrap();
        let until = self.until.clone();
        tokio::spawn(async move {
            worker.run(until).await;
            runtime
        })
    }

    async fn ends(self, works: JoinHandle<Runtime>) {
        self.until.cancel();
        within(within(works).await.unwrap().shutdown()).await;
    }

    /// How many records and waiting messages a session has.
    async fn looks(&self, of: &SessionId) -> (usize, usize) {
        let waiting = self.store.inbox().unwrap().take(of).await.unwrap();
        (self.store.load(of).await.unwrap().len(), waiting.len())
    }
}

fn message(name: &str, request: InboxRequest) -> InboxMessage {
    InboxMessage::new(session("plans"), RequestId::new(name), 1, request)
}

/// A submission whose calls are denied, or wait for a decision.
fn pays(approvals: Option<ApprovalsMode>, context: Option<RequestContext>) -> InboxRequest {
    let (parts, context) = (vec![ContentPart::text("pay")], context.map(Arc::new));
    InboxRequest::Submit(Box::new(SubmitRequest { parts, approvals, context, ..SubmitRequest::default() }))
}

#[track_caller]
fn refused(result: Result<Pending, AgentError>, expected: &str) {
    match result {
        Err(AgentError::Invalid(text)) => assert!(text.contains(expected) && !text.contains("acme"), "{text}"),
        other => panic!("not refused: {other:?}"),
    }
}

/// The question that its turn asks.
async fn question(pending: &mut Pending) -> ApprovalId {
    loop {
        if let AgentEvent::ApprovalRequested { approval_id, .. } =
            within(pending.next_event()).await.unwrap().expect("a question comes before the end").event
        {
            return approval_id;
        }
    }
}

#[tokio::test]
async fn a_request_id_of_another_tenant_tells_nothing_of_its_turn() {
    let (inboxes, plans, r1) = (Inboxes::new(), session("plans"), RequestId::new("r1"));
    let works = inboxes.begins().await;
    let Inboxes { operator, acme, globex, .. } = &inboxes;
    let mut first = acme.put(message("r1", pays(None, None))).await.unwrap();
    let outcome = within(first.outcome()).await.unwrap();
    // The message is removed behind the outcome.
    within(acme.taken(&plans, &r1)).await.unwrap();
    let before = inboxes.looks(&plans).await;
    assert_eq!(before.1, 0);

    let other = "belongs to another tenant";
    refused(globex.put(message("r1", pays(None, None))).await, other);
    refused(globex.put(message("r2", pays(None, None))).await, other);
    refused(operator.put(message("r1", pays(None, Some(RequestContext::of_tenant("globex"))))).await, other);
    refused(operator.put(message("r1", pays(None, None))).await, "belongs to a tenant");
    let named = globex.put(message("r1", pays(None, Some(RequestContext::of_tenant("acme"))))).await;
    assert!(matches!(named, Err(AgentError::Invalid(_))), "{named:?}");
    assert_eq!(globex.outcome_of(&plans, &r1).await.unwrap(), None);
    assert_eq!(globex.cancelled(&plans, &r1).await.unwrap(), None);
    assert_eq!(inboxes.looks(&plans).await, before, "nothing was kept");

    assert_eq!(acme.outcome_of(&plans, &r1).await.unwrap(), Some(outcome.clone()));
    for submitter in [acme, operator] {
        let mut again =
            submitter.put(message("r1", pays(None, Some(RequestContext::of_tenant("acme"))))).await.unwrap();
        assert_eq!(within(again.outcome()).await.unwrap(), outcome);
    }
    inboxes.ends(works).await;
}

#[tokio::test]
async fn nothing_is_decided_steered_cancelled_resumed_or_changed_in_a_session_of_another_tenant() {
    let (inboxes, plans, r1) = (Inboxes::new(), session("plans"), RequestId::new("r1"));
    let works = inboxes.begins().await;
    let Inboxes { acme, globex, .. } = &inboxes;
    let mut first = acme.put(message("r1", pays(Some(ApprovalsMode::Wait), None))).await.unwrap();
    let approval = question(&mut first).await;
    let before = inboxes.looks(&plans).await;

    let allows = || InboxRequest::Decide { approval: approval.clone(), decision: Decision::AllowOnce };
    let reply = ResumeReply::Answer("yes".into());
    let messages = [
        allows(),
        InboxRequest::Steer { parts: vec![ContentPart::text("pay twice")] },
        InboxRequest::Cancel { of: r1.clone() },
        InboxRequest::Resume { token: ResumeToken::of(&plans, "t"), reply },
        InboxRequest::Configure { patch: Box::default() },
    ];
    for (at, request) in messages.into_iter().enumerate() {
        refused(globex.put(message(&format!("m{at}"), request)).await, "there is no session plans");
    }
    let unknown = globex.cancel(&session("unknown"), &r1, 1).await.unwrap_err().to_string();
    let cancel = globex.cancel(&plans, &r1, 1).await.unwrap_err().to_string();
    assert_eq!(cancel, unknown.replace("unknown", "plans"), "as of a session that does not exist");
    assert_eq!(globex.first_request(&plans).await.unwrap(), None);
    assert_eq!(inboxes.looks(&plans).await, before);

    assert_eq!(acme.first_request(&plans).await.unwrap(), Some(r1));
    drop(acme.put(message("d", allows())).await.unwrap());
    within(acme.taken(&plans, &RequestId::new("d"))).await.unwrap();
    globex.taken(&plans, &RequestId::new("d")).await.unwrap();
    assert_eq!(within(first.outcome()).await.unwrap().content, "done");
    let patch = Box::new(OptionsPatch::default());
    drop(acme.put(message("c", InboxRequest::Configure { patch })).await.unwrap());
    within(acme.taken(&plans, &RequestId::new("c"))).await.unwrap();
    inboxes.ends(works).await;
}

#[tokio::test]
async fn a_submission_that_waits_is_seen_and_cancelled_by_its_tenant_only() {
    let (inboxes, plans, r1) = (Inboxes::new(), session("plans"), RequestId::new("r1"));
    let Inboxes { operator, acme, globex, .. } = &inboxes;
    let mut first = acme.put(message("r1", pays(None, None))).await.unwrap();
    refused(globex.put(message("r1", pays(None, None))).await, "belongs to another tenant");
    refused(operator.put(message("r1", pays(None, None))).await, "belongs to a tenant");
    let mut second = globex.put(message("r2", pays(None, None))).await.unwrap();
    assert!(globex.cancel(&plans, &r1, 1).await.is_err());
    assert_eq!(globex.first_request(&plans).await.unwrap(), Some(RequestId::new("r2")));
    assert_eq!(acme.first_request(&plans).await.unwrap(), Some(r1));
    assert_eq!(inboxes.looks(&plans).await, (0, 2));
    acme.cancel(&plans, &RequestId::new("r0"), 1).await.unwrap_err();
    globex.cancel(&plans, &RequestId::new("r2"), 1).await.unwrap();
    acme.put(message("x", InboxRequest::Cancel { of: RequestId::new("r1") })).await.unwrap();
    assert_eq!(inboxes.looks(&plans).await, (0, 4));

    let works = inboxes.begins().await;
    assert!(within(first.outcome()).await.is_err(), "it was cancelled before its turn");
    assert!(within(second.outcome()).await.is_err());
    assert_eq!(within(globex.cancelled(&plans, &RequestId::new("r2"))).await.unwrap(), None);
    inboxes.ends(works).await;
}

#[tokio::test]
async fn of_two_messages_of_one_name_to_a_new_session_the_second_is_told_nothing_of_the_turn_of_the_first() {
    let (inboxes, plans) = (Inboxes::new(), session("plans"));
    let Inboxes { acme, globex, .. } = &inboxes;
    let mut second = globex.put(message("r1", pays(None, None))).await.unwrap();
    // As when both were put at the same time.
    let key = InboxKey { session: plans, request: RequestId::new("r1") };
    assert!(inboxes.store.inbox().unwrap().settle(key, None).await.unwrap());
    let mut first = acme.put(message("r1", pays(None, None))).await.unwrap();
    let works = inboxes.begins().await;
    within(first.outcome()).await.unwrap();
    for _asked in 0..3 {
        let told = within(second.next_event()).await;
        assert!(matches!(&told, Err(AgentError::Invalid(text)) if text.contains("another tenant")), "{told:?}");
    }
    assert!(within(second.outcome()).await.is_err());
    inboxes.ends(works).await;
}

#[test]
fn the_name_of_a_tenant_is_checked() {
    let submitter = Submitter::new(MemoryStore::new()).unwrap();
    assert!(matches!(submitter.of_tenant(""), Err(AgentError::Invalid(_))));
}
