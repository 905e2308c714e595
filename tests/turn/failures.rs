//! A provider that fails: the turn ends, the session is kept, the next turn works.

use bob::model::LlmErrorKind;
use bob::sessions::FinishReason;
use bob::{AgentError, AgentRuntime};

use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{KINDS, build, file_store, provided, say, session, turn};
use crate::support::scratch::Scratch;

#[tokio::test]
async fn provider_error_saves_the_session_and_ends_the_turn() {
    for kind in KINDS {
        for (reply, asked, error_kind) in [
            (Reply::status(400), 1, LlmErrorKind::Rejected),
            (Reply::status(401), 1, LlmErrorKind::Unauthorized),
            (Reply::status(500), 3, LlmErrorKind::Unavailable),
        ] {
            let folder = Scratch::new();
            let mut script = vec![reply; asked];
            script.push(Reply::text("Back again."));
            let provider = FakeProvider::start(script);
            let runtime = build(provided(&provider, kind).store(file_store(folder.path()))).await;
            let answer = turn(&runtime, say("first question")).await;
            assert_eq!((answer.finish_reason, answer.saved), (FinishReason::Error, true), "{kind:?} {error_kind:?}");
            let Some(AgentError::Llm(error)) = &answer.error else { panic!("a model failure: {answer:?}") };
            assert_eq!(error.kind, error_kind);
            assert_eq!(provider.requests().len(), asked, "{error_kind:?} is retried as often as it should be");
            let stored = runtime.records(session("s")).await.expect("the journal is read");
            let journal = serde_json::to_string(&stored).expect("records are JSON");
            assert!(journal.contains("first question"), "{journal}");

            let next = turn(&runtime, say("second question")).await;
            assert_eq!(next.content, "Back again.");
            let body = provider.requests()[asked].body.to_string();
            assert!(body.contains("first question") && body.contains("second question"), "{body}");
            runtime.shutdown().await;
        }
    }
}
