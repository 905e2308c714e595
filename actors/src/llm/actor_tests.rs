//! The mailbox stays free whatever the providers do, and calls outlive their actor.

use super::*;
use crate::feed::Feed;
use crate::llm::deltas::DeltaSink;
use crate::llm::port::{LlmPort, ProviderLimits};
use crate::llm::retry::RetryPolicy;
use crate::llm::scripted::{ScriptedLlm, ScriptedReply};
use crate::llm::testing::{model, plain_request};
use bob_messages::chat::Message;
use bob_messages::ids::{ModelName, SessionId};
use bob_messages::llm::{Capabilities, LlmErrorKind};
use bob_messages::reply::Answer;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// A provider whose every answer waits for the test.
struct Manual {
    limits: ProviderLimits,
    /// It says so, and is wrong.
    at_hand: bool,
    asked: mpsc::UnboundedSender<(String, oneshot::Sender<ScriptedReply>)>,
}

type Asked = mpsc::UnboundedReceiver<(String, oneshot::Sender<ScriptedReply>)>;

fn manual(max_concurrent: usize) -> (Arc<Manual>, Asked) {
    let (asked, seen) = mpsc::unbounded_channel();
    let limits = ProviderLimits { max_concurrent, ..ProviderLimits::default() };
    (Arc::new(Manual { limits, at_hand: false, asked }), seen)
}

impl LlmPort for Manual {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        match model.provider() {
            "nobody" => Err(LlmError::new(LlmErrorKind::UnknownProvider, "who?")),
            _somebody => Ok(Capabilities::default()),
        }
    }

    fn limits(&self, _provider: &str) -> ProviderLimits {
        self.limits
    }

    fn is_at_hand(&self, _request: &LlmRequest) -> bool {
        self.at_hand
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        Box::pin(async move {
            let (answer, told) = oneshot::channel();
            self.asked.send((request.session.to_string(), answer)).expect("a test that listens");
            match told.await {
                Ok(reply) => ScriptedLlm::replies(vec![reply]).complete(request, &model).await,
                Err(_panic_wanted) => panic!("the provider's code is broken on purpose"),
            }
        })
    }
}

async fn start(port: Arc<dyn LlmPort>) -> (ActorRef<LlmMessage>, LlmArguments) {
    let arguments = LlmArguments::new(port, Feed::new(Vec::new()), RetryPolicy::default());
    let (actor, _joined) = Actor::spawn(None, LlmActor, arguments.clone()).await.unwrap();
    (actor, arguments)
}

fn infer(actor: &ActorRef<LlmMessage>, session: &str) -> Answer<Result<Arc<LlmAnswer>, LlmError>> {
    let (reply, answer) = Reply::channel();
    let session = SessionId::parse(session).unwrap();
    let request = Arc::new(LlmRequest { session, ..plain_request(vec![Message::user("x")]) });
    actor.send_message(LlmMessage::Infer { request, remaining_ms: 90_000, reply }).unwrap();
    answer
}

fn text(answer: Option<Result<Arc<LlmAnswer>, LlmError>>) -> String {
    answer.expect("an answer").expect("a success").text.clone()
}

#[tokio::test]
async fn a_profile_is_answered_while_calls_are_waiting() {
    let (port, mut asked) = manual(1);
    let (actor, _) = start(port).await;
    let _first = infer(&actor, "a");
    let _second = infer(&actor, "b");
    asked.recv().await.unwrap();
    for (name, known) in [("openai:m", true), ("nobody:m", false)] {
        let (reply, profile) = Reply::channel();
        actor.send_message(LlmMessage::Profile { model: model(name), reply }).unwrap();
        assert_eq!(profile.await.unwrap().is_ok(), known);
    }
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_and_abandoned_ones_leave() {
    let (port, mut asked) = manual(1);
    let (actor, _) = start(port).await;
    let first = infer(&actor, "a");
    let (_, answer_first) = asked.recv().await.unwrap();
    let abandoned = infer(&actor, "b");
    let third = infer(&actor, "c");
    assert!(asked.recv().now_or_never().is_none(), "one at a time");
    drop(abandoned);
    answer_first.send(ScriptedReply::text("one")).unwrap();
    assert_eq!(text(first.await), "one");
    let (session, answer_third) = asked.recv().await.unwrap();
    assert_eq!(session, "c");
    answer_third.send(ScriptedReply::text("three")).unwrap();
    assert_eq!(text(third.await), "three");
}

#[tokio::test]
async fn abandoning_a_call_drops_the_attempt_and_frees_its_place() {
    let (port, mut asked) = manual(1);
    let (actor, _) = start(port).await;
    let first = infer(&actor, "a");
    let (_, mut attempt) = asked.recv().await.unwrap();
    drop(first);
    attempt.closed().await;
    let second = infer(&actor, "b");
    asked.recv().await.unwrap().1.send(ScriptedReply::text("two")).unwrap();
    assert_eq!(text(second.await), "two");
}

#[tokio::test]
async fn a_call_survives_the_actor_and_still_counts() {
    let (port, mut asked) = manual(1);
    let (actor, arguments) = start(port).await;
    let first = infer(&actor, "a");
    let (_, answer_first) = asked.recv().await.unwrap();
    let waiting = infer(&actor, "b");
    // The mailbox is worked through before the actor ends.
    actor.drain_and_wait(None).await.unwrap();
    let (successor, _joined) = Actor::spawn(None, LlmActor, arguments).await.unwrap();
    let third = infer(&successor, "c");
    tokio::task::yield_now().await;
    assert!(asked.recv().now_or_never().is_none(), "the place is still taken");
    answer_first.send(ScriptedReply::text("one")).unwrap();
    assert_eq!(text(first.await), "one");
    for (answer, said) in [(waiting, "two"), (third, "three")] {
        asked.recv().await.unwrap().1.send(ScriptedReply::text(said)).unwrap();
        assert_eq!(text(answer.await), said);
    }
}

#[tokio::test]
async fn a_panic_in_a_port_is_heard_and_harms_nobody() {
    let (port, mut asked) = manual(1);
    let (actor, _) = start(port).await;
    let first = infer(&actor, "a");
    drop(asked.recv().await.unwrap());
    assert!(first.await.is_none(), "the one who asked is told that nobody will answer");
    let second = infer(&actor, "b");
    asked.recv().await.unwrap().1.send(ScriptedReply::text("two")).unwrap();
    assert_eq!(text(second.await), "two");
}

#[tokio::test(start_paused = true)]
async fn thousands_of_calls_are_answered_at_once() {
    let (actor, _) = start(Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("hello")]))).await;
    let calls: Vec<_> = (0..2_000).map(|number| infer(&actor, &format!("s{number}"))).collect();
    let started = tokio::time::Instant::now();
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(text(answer), "hello");
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "no timer was needed");
}

#[tokio::test]
async fn an_answer_that_is_not_at_hand_after_all_is_waited_for_in_a_task() {
    let (port, mut asked) = manual(1);
    let Some(port) = Arc::into_inner(port) else { panic!("it is shared") };
    let (actor, _) = start(Arc::new(Manual { at_hand: true, ..port })).await;
    let first = infer(&actor, "a");
    let (_, answer_first) = asked.recv().await.unwrap();
    let waiting = infer(&actor, "b");
    let (reply, providers) = Reply::channel();
    actor.send_message(LlmMessage::Providers { reply }).unwrap();
    assert_eq!(providers.await.unwrap().len(), 1, "the mailbox is free");
    answer_first.send(ScriptedReply::text("one")).unwrap();
    assert_eq!(text(first.await), "one");
    asked.recv().await.unwrap().1.send(ScriptedReply::text("two")).unwrap();
    assert_eq!(text(waiting.await), "two");
}

/// A provider that says in which task it answers.
struct Told {
    at_hand: bool,
    tasks: mpsc::UnboundedSender<tokio::task::Id>,
}

impl LlmPort for Told {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities::default())
    }

    fn is_at_hand(&self, _request: &LlmRequest) -> bool {
        self.at_hand
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        Box::pin(async move {
            assert_ne!(request.session.as_str(), "broken", "broken on purpose");
            self.tasks.send(tokio::task::id()).expect("a test that listens");
            Ok(LlmAnswer::text(model, "fine"))
        })
    }
}

#[tokio::test]
async fn only_an_answer_at_hand_is_made_where_the_question_arrives() {
    for at_hand in [true, false] {
        let (tasks, mut told) = mpsc::unbounded_channel();
        let (actor, _) = start(Arc::new(Told { at_hand, tasks })).await;
        for session in ["a", "b"] {
            assert_eq!(text(infer(&actor, session).await), "fine");
        }
        let (one, other) = (told.recv().await.unwrap(), told.recv().await.unwrap());
        assert_eq!(one == other, at_hand);
    }
}

#[tokio::test]
async fn a_panic_in_an_answer_at_hand_is_heard_and_harms_nobody() {
    let (tasks, _told) = mpsc::unbounded_channel();
    let (actor, _) = start(Arc::new(Told { at_hand: true, tasks })).await;
    assert!(infer(&actor, "broken").await.is_none());
    assert_eq!(text(infer(&actor, "b").await), "fine");
}
