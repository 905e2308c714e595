//! A conversation that outgrows its model, over a whole runtime.

use super::{Small, text};
use crate::home::Home;
use crate::support::runtime::{Recorder, build, over, say, session, turn, within};
use crate::support::stopwatch::Stopwatch;
use bob::events::AgentEvent;
use bob::model::{CondenseMethod, CondenseRequest, ContextCompactorPort, Summary};
use bob::sessions::FinishReason;
use bob::{AgentError, AgentRuntime};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const CONTEXT: u32 = 3_000;

fn long(number: usize) -> String {
    format!("message {number}; {}", "words ".repeat(100))
}

#[tokio::test]
async fn a_conversation_goes_on_for_ever_in_a_small_context() {
    let folder = tempfile::tempdir().unwrap();
    let store = || crate::support::runtime::file_store(folder.path());
    let (model, seen) = (Small::of(CONTEXT, "they counted messages"), Recorder::new());
    let builder = over(model.clone()).local_tools(false).store(store()).sink(Arc::clone(&seen) as _);
    let runtime = build(builder).await;
    let mut tokens = 0;
    for number in 1..=40 {
        let response = turn(&runtime, say(&long(number))).await;
        assert_eq!((response.finish_reason, response.steps), (FinishReason::Final, 1));
        tokens += response.usage.total_tokens;
    }
    let prompts = model.requests(false);
    assert_eq!(prompts.len(), 40);
    for (number, prompt) in (1..).zip(&prompts) {
        assert!(prompt.bytes() / 4 <= CONTEXT as usize * 3 / 4, "{} tokens", prompt.bytes() / 4);
        assert!(text(prompt.messages.last().unwrap()).starts_with(&format!("message {number};")));
    }
    let questions = model.requests(true);
    assert!(questions.len() > 1, "again and again");
    assert!(questions.iter().all(|question| question.bytes() / 4 < CONTEXT as usize && question.tools.is_empty()));
    let billed: u64 = model.asked().iter().map(|request| request.bytes() as u64 / 4).sum();
    assert_eq!(tokens, billed, "what summaries cost is in the turns' usage");

    // Each is reported, and no summary is shown as an answer.
    let condensed = seen.count(|event| {
        matches!(event.event, AgentEvent::HistoryCondensed { method: CondenseMethod::Summary, attempts: 1, .. })
    });
    assert_eq!(condensed, questions.len());
    let shown = seen.count(|event| {
        format!("{:?}", event.event).contains("LlmStreamChunk") && format!("{:?}", event.event).contains("counted")
    });
    assert_eq!(shown, 0);
    runtime.shutdown().await;

    // Another process continues.
    let model = Small::of(CONTEXT, "unused");
    let runtime = build(over(model.clone()).local_tools(false).store(store())).await;
    turn(&runtime, say("and then?")).await;
    let prompt = model.requests(false).remove(0);
    assert!(text(&prompt.messages[0]).starts_with("[Summary") && text(&prompt.messages[0]).contains("they counted"));
    assert!(prompt.bytes() / 4 <= CONTEXT as usize * 3 / 4);
    runtime.shutdown().await;
}

/// Writes nothing, in one way or another.
enum Brought {
    Words,
    Fails,
    Panics,
    /// Notifies when it begins.
    Hangs(Arc<Notify>),
}

impl ContextCompactorPort for Brought {
    fn condense(&self, _request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
        Box::pin(async move {
            match self {
                Self::Words => Ok(Summary { text: "brought from elsewhere".into(), usage: None }),
                Self::Fails => Err(AgentError::Internal("nothing comes to mind".into())),
                Self::Panics => panic!("a defect of the port"),
                Self::Hangs(began) => {
                    began.notify_one();
                    std::future::pending().await
                }
            }
        })
    }
}

#[tokio::test]
async fn an_embedder_may_bring_another_writer_and_no_fault_of_it_ends_a_turn() {
    for (port, method) in [
        (Brought::Words, CondenseMethod::Summary),
        (Brought::Fails, CondenseMethod::Truncated),
        (Brought::Panics, CondenseMethod::Truncated),
    ] {
        let (model, seen) = (Small::of(CONTEXT, "unused"), Recorder::new());
        let builder = over(model.clone()).local_tools(false).compactor(Arc::new(port)).sink(Arc::clone(&seen) as _);
        let runtime = build(builder).await;
        for number in 1..=24 {
            assert_eq!(turn(&runtime, say(&long(number))).await.finish_reason, FinishReason::Final);
        }
        assert!(model.requests(true).is_empty(), "the model is not asked for it");
        let told = seen
            .count(|event| matches!(&event.event, AgentEvent::HistoryCondensed { method: by, .. } if *by == method));
        assert!(told > 0, "{method:?}");
        assert!(model.requests(false).iter().all(|prompt| prompt.bytes() / 4 <= CONTEXT as usize * 3 / 4));
        runtime.shutdown().await;
    }
}

#[tokio::test]
async fn a_cancel_while_a_summary_is_written_is_answered_at_once() {
    let (model, began) = (Small::of(CONTEXT, "unused"), Arc::new(Notify::new()));
    let hangs = Brought::Hangs(Arc::clone(&began));
    let runtime = build(over(model).local_tools(false).compactor(Arc::new(hangs))).await;
    for number in 1..=40 {
        let running = tokio::spawn({
            let (runtime, request) = (runtime.clone(), say(&long(number)));
            async move { runtime.run(request).await }
        });
        let mut running = std::pin::pin!(within(running));
        tokio::select! {
            result = &mut running => {
                assert_eq!(result.unwrap().unwrap().response().finish_reason, FinishReason::Final);
                continue;
            }
            () = began.notified() => {}
        }
        let cancelled = Stopwatch::start();
        assert!(within(runtime.cancel(session("s"))).await);
        let response = running.await.unwrap().unwrap();
        let took = cancelled.elapsed();
        assert_eq!(response.response().finish_reason, FinishReason::Cancelled);
        assert!(took < Duration::from_secs(1), "{took:?}");
        runtime.shutdown().await;
        return;
    }
    panic!("the history never became too long");
}

#[test]
fn a_person_sees_that_the_conversation_was_condensed() {
    let home = Home::with(
        "default_model = \"demo:one\"",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = [\"*\"]\n\
         [prompt]\ncondense_trigger_ratio = 0.02\ncondense_target_ratio = 0.01\n",
    );
    let script = json!([{ "when": "Below is the transcript", "replies": [{ "text": "They talked." }] },
                        { "replies": [{ "text": "so it is" }] }]);
    home.scratch.write("s.json", script.to_string());
    let lines: String = (1..=30).map(|number| long(number) + "\n").collect();
    let run = home.agent(["chat", "--session", "long"]).stdin(lines).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("[the conversation is long: its first"), "{}", run.stderr);
    assert!(run.stderr.contains("became a summary"), "{}", run.stderr);
    assert!(!run.stdout.contains("They talked."), "a summary is no answer: {}", run.stdout);
    let journal = home.run(["sessions", "export", "long"]);
    assert!(journal.stdout.contains("\"kind\":\"condensed\""), "the record of it is kept");
    assert!(journal.stdout.contains("message 1;"), "and so is all that was said");
}
