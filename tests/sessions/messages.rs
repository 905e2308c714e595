//! Replies and changes of options as messages, and messages to the turns of a process that is no worker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bob::approvals::{ApprovalsMode, Decision};
use bob::events::AgentEvent;
use bob::inbox::{Attendant, InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest, Submitter, Worker};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::{Change, FinishReason, OptionsPatch, RequestId, ResumeReply};
use bob::store::{Fact, MemoryStore, Session, SessionStore};
use bob::tools::servers::{ServerId, ServerSpec};
use bob::tools::{ToolOutput, tool};
use bob::{AgentError, AgentRequest, AgentRuntime, SessionId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::runtime::{Nothing, asking, build, file_store, over, session, within};
use crate::support::scratch::Scratch;

fn submit(text: &str) -> InboxRequest {
    let submit = SubmitRequest { parts: vec![ContentPart::text(text)], ..SubmitRequest::default() };
    InboxRequest::Submit(Box::new(submit))
}

fn titled(title: &str) -> InboxRequest {
    let patch = OptionsPatch { title: Change::Set(title.into()), ..OptionsPatch::default() };
    InboxRequest::Configure { patch: Box::new(patch) }
}

fn message(session: &SessionId, name: &str, request: InboxRequest) -> InboxMessage {
    InboxMessage::new(session.clone(), RequestId::new(name), 1, request)
}

/// The title of a session and the number of its records.
async fn look(store: &Arc<dyn SessionStore>, session: &SessionId) -> (Option<String>, usize) {
    let records = store.load(session).await.unwrap();
    let folded = Session::fold(session.clone(), &records);
    (folded.latest_options().title.as_deref().map(str::to_owned), records.len())
}

#[tokio::test]
async fn a_reply_and_a_change_of_options_are_applied_once_by_name() {
    let store: Arc<dyn SessionStore> = MemoryStore::new();
    let (one, inbox) = (session("one"), store.inbox().unwrap());
    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages).contains("blue") {
        true => ScriptedReply::text("done"),
        false => ScriptedReply::call("ask_user", json!({"question": "Which colour?"})),
    });
    let submitter = Submitter::new(Arc::clone(&store)).unwrap();
    let worker = Worker::new(build(over(model).store(Arc::clone(&store))).await, Arc::clone(&store)).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));

    let mut turn = submitter.put(message(&one, "r", submit("paint it"))).await.unwrap();
    let asked = within(turn.outcome()).await.unwrap();
    assert_eq!(asked.finish_reason, FinishReason::Suspended);
    let token = asked.token.expect("a suspended turn has one");
    let resume = |text: &str| InboxRequest::Resume { token: token.clone(), reply: ResumeReply::Answer(text.into()) };
    let put = async |name: &str, request: InboxRequest| {
        let mut reply = submitter.put(message(&one, name, request)).await.unwrap();
        within(reply.outcome()).await
    };
    assert_eq!(put("q", resume("blue")).await.unwrap().content, "done");
    let records = look(&store, &one).await.1;
    assert_eq!(put("q", resume("red")).await.unwrap().content, "done", "the first of its name counts");
    let other = put("other", resume("red")).await.unwrap_err();
    assert!(matches!(&other, AgentError::Invalid(_)), "the token was used: {other:?}");
    // As after a worker that ended before it removed the message.
    inbox.put(message(&one, "q", resume("blue"))).await.unwrap();
    within(submitter.taken(&one, &RequestId::new("q"))).await.unwrap();
    assert_eq!(look(&store, &one).await.1, records, "nothing was run again");

    for _repeated in 0..2 {
        inbox.put(message(&one, "c", titled("Blue"))).await.unwrap();
        within(submitter.taken(&one, &RequestId::new("c"))).await.unwrap();
        assert_eq!(look(&store, &one).await, (Some("Blue".to_owned()), records + 1));
    }
    let elsewhere = InboxRequest::Resume { token: token.clone(), reply: ResumeReply::Answer("blue".into()) };
    let mut wrong = submitter.put(message(&session("two"), "q", elsewhere)).await.unwrap();
    assert!(matches!(within(wrong.outcome()).await, Err(AgentError::Invalid(_))), "it is another session's");
    until.cancel();
    within(works).await.unwrap();
}

#[tokio::test]
async fn a_suspended_turn_goes_on_by_a_decision_that_is_a_message_and_can_be_cancelled() {
    let store: Arc<dyn SessionStore> = MemoryStore::new();
    let one = session("one");
    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages).contains("written") {
        true => ScriptedReply::Stall,
        false => ScriptedReply::call("test/writes", json!({})),
    });
    let writes = tool("test/writes", "Writes.", |_: Nothing, _| async { Ok(ToolOutput::text("written")) });
    let runtime = build(asking(model).store(Arc::clone(&store)).tools(Arc::new(writes))).await;
    let submitter = Submitter::new(Arc::clone(&store)).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(Worker::new(runtime, Arc::clone(&store)).unwrap().run(until.clone()));
    let InboxRequest::Submit(asked) = submit("write it") else { unreachable!("it is one") };
    let asked = InboxRequest::Submit(Box::new(SubmitRequest { approvals: Some(ApprovalsMode::Suspend), ..*asked }));
    let mut turn = submitter.put(message(&one, "r", asked)).await.unwrap();
    let token = within(turn.outcome()).await.unwrap().token.expect("it is suspended");
    let reply = ResumeReply::Decision(Decision::AllowOnce);
    let mut resumed = submitter.put(message(&one, "q", InboxRequest::Resume { token, reply })).await.unwrap();
    within(async {
        while !store.load(&one).await.unwrap().iter().any(|record| matches!(record.fact, Fact::Result(_))) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    submitter.cancel(&one, &RequestId::new("q"), 1).await.unwrap();
    assert_eq!(within(resumed.outcome()).await.unwrap().finish_reason, FinishReason::Cancelled);
    within(submitter.taken(&one, &Submitter::cancellation_of(&RequestId::new("q")))).await.unwrap();
    until.cancel();
    within(works).await.unwrap();
}

/// The worker that takes over finishes the turn, and finds the reply that resumed it, and perhaps its first message.
#[tokio::test]
async fn a_resumed_turn_that_another_worker_finishes_is_told_once() {
    let store: Arc<dyn SessionStore> = MemoryStore::new();
    let (one, submitter) = (session("one"), Submitter::new(Arc::clone(&store)).unwrap());
    let told = Arc::<Mutex<Vec<String>>>::default();
    let worker = async |resumed: ScriptedReply| {
        let model = ScriptedLlm::from_fn(move |request| match format!("{:?}", request.messages).contains("blue") {
            true => resumed.clone(),
            false => ScriptedReply::call("ask_user", json!({"question": "Which colour?"})),
        });
        let runtime = build(over(model).store(Arc::clone(&store)).shutdown_grace(Duration::ZERO)).await;
        let (told, until) = (Arc::clone(&told), CancellationToken::new());
        let worker = Worker::new(runtime, Arc::clone(&store)).unwrap().telling(move |worked| {
            let outcome = worked.result.as_ref().expect("nothing is refused");
            told.lock().unwrap().push(format!("{:?} {}", outcome.finish_reason, outcome.content));
        });
        (tokio::spawn(worker.run(until.clone())), until)
    };
    let (first, until) = worker(ScriptedReply::Stall).await;
    let mut turn = submitter.put(message(&one, "r", submit("paint it"))).await.unwrap();
    let token = within(turn.outcome()).await.unwrap().token.expect("a suspended turn has one");
    let resume = InboxRequest::Resume { token, reply: ResumeReply::Answer("blue".to_owned()) };
    let mut reply = submitter.put(message(&one, "q", resume)).await.unwrap();
    within(async {
        while !store.load(&one).await.unwrap().iter().any(|record| matches!(record.fact, Fact::Resumed { .. })) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    until.cancel();
    within(first).await.unwrap();
    let (second, until) = worker(ScriptedReply::text("done")).await;
    assert_eq!(within(reply.outcome()).await.unwrap().content, "done");
    within(submitter.taken(&one, &RequestId::new("q"))).await.unwrap();
    until.cancel();
    within(second).await.unwrap();
    assert_eq!(*told.lock().unwrap(), ["Suspended ", "Final done"]);
}

#[tokio::test]
async fn a_process_that_is_no_worker_takes_the_messages_to_its_turns() {
    let folder = Scratch::new();
    let (owned, shared) = (file_store(folder.path()), file_store(folder.path()));
    let (one, r1) = (session("one"), RequestId::new("r1"));
    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages).contains("written") {
        true => ScriptedReply::Stall,
        false => ScriptedReply::call("test/writes", json!({})),
    });
    let writes = tool("test/writes", "Writes.", |_: Nothing, _| async { Ok(ToolOutput::text("written")) });
    let owner = build(asking(model).store(Arc::clone(&owned)).tools(Arc::new(writes))).await;
    let until = CancellationToken::new();
    let attends = tokio::spawn(Attendant::new(owner.clone(), Arc::clone(&owned)).unwrap().run(until.clone()));
    let asked = AgentRequest {
        request_id: Some(r1.clone()),
        approvals: ApprovalsMode::Wait,
        ..AgentRequest::text(one.clone(), "write it")
    };
    let mut stream = owner.run_stream(asked).await.unwrap();
    let approval = within(async {
        loop {
            let event = stream.next_event().await.expect("it asks before it ends");
            if let AgentEvent::ApprovalRequested { approval_id, .. } = &event.event {
                break approval_id.clone();
            }
        }
    })
    .await;

    // Another process.
    let (submitter, inbox) = (Submitter::new(Arc::clone(&shared)).unwrap(), shared.inbox().unwrap());
    let put = async |name: &str, request: InboxRequest| {
        inbox.put(message(&one, name, request)).await.unwrap();
        within(submitter.taken(&one, &RequestId::new(name))).await
    };
    let stdio = ServerSpec::stdio(ServerId::new("own"), "touch", ["made"]);
    let servers = OptionsPatch { servers: Change::Set([stdio].into()), ..OptionsPatch::default() };
    let refused = put("servers", InboxRequest::Configure { patch: Box::new(servers) }).await.unwrap_err();
    assert!(matches!(&refused, AgentError::Invalid(why) if why.contains("brings no tool servers")), "{refused:?}");
    let decision = Decision::AllowOnce;
    assert_eq!(put("decide", InboxRequest::Decide { approval: approval.clone(), decision }).await, Ok(()));
    assert_eq!(put("steer", InboxRequest::Steer { parts: vec![ContentPart::text("left")] }).await, Ok(()));
    assert_eq!(put("configure", titled("Painted")).await, Ok(()));
    let decision = Decision::Deny { reason: "no".to_owned() };
    let late =
        put("late", InboxRequest::Decide { approval: approval.clone(), decision: decision.clone() }).await.unwrap_err();
    assert!(matches!(&late, AgentError::Invalid(why) if why.contains("no such question")), "{late:?}");
    let waits = submitter.put(message(&one, "next", submit("and then?"))).await.unwrap();
    assert_eq!(submitter.first_request(&one).await, Ok(Some(r1.clone())));
    submitter.cancel(&one, &r1, 1).await.unwrap();
    within(async { while stream.next_event().await.is_some() {} }).await;
    let ended = stream.ended().expect("it has ended").clone().unwrap();
    assert_eq!(ended.response().finish_reason, FinishReason::Cancelled);
    within(submitter.taken(&one, &Submitter::cancellation_of(&r1))).await.unwrap();
    // A refusal proves that it looked again after the turn had ended.
    put("after", InboxRequest::Decide { approval, decision }).await.unwrap_err();
    let key = InboxKey { session: one.clone(), request: waits.request().clone() };
    assert_eq!(inbox.standing(key).await, Ok(InboxStanding::Waiting), "it begins no turns");

    assert_eq!(look(&shared, &one).await.0, Some("Painted".to_owned()));
    let records = shared.load(&one).await.unwrap();
    let steered = records.iter().filter(|record| matches!(&record.fact, Fact::Steered { .. }));
    assert_eq!(steered.count(), 1);
    until.cancel();
    within(attends).await.unwrap();
}

/// `run` and `chat` give their requests no names: these are named after their turns.
#[tokio::test]
async fn a_turn_whose_request_has_no_name_is_cancelled_and_its_end_is_found_also_behind_its_process() {
    for attends in [true, false] {
        let folder = Scratch::new();
        let (owned, shared) = (file_store(folder.path()), file_store(folder.path()));
        let one = session("one");
        let owner = build(over(ScriptedLlm::from_fn(|_| ScriptedReply::Stall)).store(Arc::clone(&owned))).await;
        let until = CancellationToken::new();
        let attendant = Attendant::new(owner.clone(), Arc::clone(&owned)).unwrap();
        let attendant = attends.then(|| tokio::spawn(attendant.run(until.clone())));
        let mut stream = owner.run_stream(AgentRequest::text(one.clone(), "hi")).await.unwrap();
        let submitter = Submitter::new(Arc::clone(&shared)).unwrap();
        let of = within(async {
            loop {
                if let Some(of) = submitter.first_request(&one).await.unwrap() {
                    break of;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        submitter.cancel(&one, &of, 1).await.unwrap();
        if !attends {
            assert!(within(owner.cancel(one.clone())).await, "its process ends it, and does not look into the inbox");
        }
        let outcome = within(submitter.cancelled(&one, &of)).await.unwrap().expect("it had begun");
        assert_eq!(outcome.finish_reason, FinishReason::Cancelled, "{attends}");
        within(async { while stream.next_event().await.is_some() {} }).await;
        until.cancel();
        if let Some(attendant) = attendant {
            within(attendant).await.unwrap();
        }
        within(owner.shutdown()).await;
    }
}
