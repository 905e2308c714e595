//! Who is asked for a summary, and what becomes of an answer that does not come.

use super::*;
use bob_messages::chat::Usage;
use bob_messages::ids::{ModelName, SessionId, TurnId};
use tokio::sync::oneshot;

fn request() -> Arc<CondenseRequest> {
    Arc::new(CondenseRequest {
        session: SessionId::parse("s").unwrap(),
        turn: TurnId::new("t"),
        context: None,
        step: 1,
        model: ModelName::parse("scripted:m").unwrap(),
        attempt: 1,
        earlier: None,
        messages: Vec::new(),
        max_bytes: 100,
        question_bytes: 1_000,
        within_ms: 500,
        traceparent: "".into(),
        tracestate: None,
        interactive: false,
    })
}

/// Does as it was made, and tells when its future is dropped.
struct Port(fn() -> BoxFuture<'static, Result<Summary, AgentError>>);

impl ContextCompactorPort for Port {
    fn condense(&self, _request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
        (self.0)()
    }
}

async fn asked(compactor: &Compactor) -> Option<Result<Arc<Summary>, AgentError>> {
    let (reply, answer) = Reply::channel();
    compactor.ask(&Address::default(), request(), reply);
    answer.await
}

#[tokio::test(start_paused = true)]
async fn whoever_is_brought_writes_it_and_every_failure_is_an_answer() {
    let short =
        Compactor::new(Arc::new(Port(|| Box::pin(async { Ok(Summary { text: "short".into(), usage: None }) }))));
    assert_eq!(asked(&short).await.unwrap().unwrap().text, "short");
    let silent = Compactor::new(Arc::new(Port(|| Box::pin(std::future::pending()))));
    assert!(matches!(asked(&silent).await, Some(Err(AgentError::Timeout { .. }))), "after its time");
    let broken = Compactor::new(Arc::new(Port(|| Box::pin(async { panic!("a defect of the port") }))));
    let panicked = asked(&broken).await;
    assert!(matches!(&panicked, Some(Err(AgentError::Internal(why))) if why.contains("panicked")), "{panicked:?}");
    // There is no LlmActor.
    assert!(matches!(asked(&Compactor::default()).await, Some(Err(AgentError::Llm(_)))));
}

#[tokio::test]
async fn a_turn_that_wants_it_no_more_lets_go_of_the_port() {
    struct Told(Option<oneshot::Sender<()>>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.take().map(|told| told.send(()));
        }
    }
    struct Waits(std::sync::Mutex<Option<oneshot::Sender<()>>>);
    impl ContextCompactorPort for Waits {
        fn condense(&self, _request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
            let told = Told(self.0.lock().unwrap().take());
            Box::pin(async move {
                let _held = told;
                std::future::pending().await
            })
        }
    }
    let (told, let_go) = oneshot::channel();
    let compactor = Compactor::new(Arc::new(Waits(std::sync::Mutex::new(Some(told)))));
    let (reply, answer) = Reply::<Result<Arc<Summary>, AgentError>>::channel();
    compactor.ask(
        &Address::default(),
        Arc::new(CondenseRequest { within_ms: 3_600_000, ..(*request()).clone() }),
        reply,
    );
    tokio::task::yield_now().await;
    drop(answer);
    tokio::time::timeout(Duration::from_secs(20), let_go).await.expect("let go in time").expect("told");
}

#[test]
fn an_answer_that_was_cut_says_so_and_one_that_was_refused_is_none_and_is_paid_for() {
    let usage = Some(Usage { total_tokens: 9, ..Usage::default() });
    let answer = |stop_reason| {
        let model = ModelName::parse("scripted:m").unwrap();
        let text = "half of a sum".to_owned();
        Ok(Arc::new(LlmAnswer::text(model, text).with_stop_reason(stop_reason).with_usage(usage).with_latency_ms(1)))
    };
    assert_eq!(written(answer(StopReason::MaxTokens)).unwrap().text, "half of a sum […]");
    assert_eq!(written(answer(StopReason::Refusal)), Ok(Summary { text: String::new(), usage }));
    assert_eq!(written(answer(StopReason::Stop)).unwrap().text, "half of a sum");
}
