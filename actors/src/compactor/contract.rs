//! The contract suite of a summariser.

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;

use super::ContextCompactorPort;
use crate::contract::{Found, ODD_TEXTS, Suite, dropped_after, holds};
use bob_messages::chat::Message;
use bob_messages::condense::{CondenseRequest, MAX_SUMMARY_BYTES};
use bob_messages::ids::{ModelName, SessionId, TurnId};
use futures_util::future::join_all;
use std::sync::Arc;

/// How many summaries are asked for beside each other.
const BESIDE: usize = 8;

/// Checks a port against the rules of all summarisers. Each rule has a port of its own, which `make` returns.
pub async fn compactor(make: impl Fn() -> Arc<dyn ContextCompactorPort>) -> Suite {
    let mut suite = Suite::new("compactor port");
    suite.rule("a history has a summary of at most the size that is asked for", summarised(make())).await;
    suite.rule("a second attempt for a small size gives no more than that", small(make())).await;
    suite.rule("summaries beside each other are all written", beside(make())).await;
    suite.rule("a summary that is dropped leaves the port usable", dropped(make())).await;
    suite.rule("an unusual history is summarised or refused, without a panic", unusual(make())).await;
    suite
}

fn history() -> Vec<Message> {
    let say = |round| [Message::user(format!("Question {round}")), Message::assistant(format!("Answer {round}"))];
    (1..=20).flat_map(say).collect()
}

fn request(messages: Vec<Message>, max_bytes: usize) -> CondenseRequest {
    CondenseRequest {
        session: SessionId::parse("contract").unwrap_or_else(|never| unreachable!("{never}")),
        turn: TurnId::new("turn"),
        step: 1,
        model: ModelName::parse("contract:model").unwrap_or_else(|never| unreachable!("{never}")),
        attempt: 1,
        earlier: None,
        messages: messages.into_iter().map(Arc::new).collect(),
        max_bytes,
        question_bytes: 64 * 1024,
        within_ms: 30_000,
        traceparent: Arc::from(""),
        tracestate: None,
        context: None,
        interactive: true,
    }
}

async fn written(port: &dyn ContextCompactorPort) -> Found {
    let asked = request(history(), MAX_SUMMARY_BYTES);
    let summary = port.condense(Arc::new(asked)).await.map_err(|error| format!("the error `{error}`"))?.text;
    holds(!summary.trim().is_empty(), || "an empty summary".to_owned())?;
    fits(&summary, MAX_SUMMARY_BYTES)
}

fn fits(summary: &str, most: usize) -> Found {
    holds(summary.len() <= most, || format!("a summary of {} bytes, and {most} were asked for", summary.len()))
}

async fn summarised(port: Arc<dyn ContextCompactorPort>) -> Found {
    written(&*port).await
}

async fn small(port: Arc<dyn ContextCompactorPort>) -> Found {
    let asked =
        CondenseRequest { attempt: 2, earlier: Some(Arc::from("There was a question.")), ..request(history(), 200) };
    match port.condense(Arc::new(asked)).await {
        Ok(summary) => fits(&summary.text, 200),
        Err(_refused) => Ok(()),
    }
}

async fn beside(port: Arc<dyn ContextCompactorPort>) -> Found {
    join_all((0..BESIDE).map(|_| written(&*port))).await.into_iter().collect()
}

async fn dropped(port: Arc<dyn ContextCompactorPort>) -> Found {
    for polls in 0..16 {
        let asked = Arc::new(request(history(), MAX_SUMMARY_BYTES));
        let was_ready = dropped_after(polls, port.condense(asked)).await;
        let next = written(&*port).await;
        next.map_err(|seen| format!("{seen}, after a summary that was dropped after {polls} polls"))?;
        if was_ready {
            break;
        }
    }
    Ok(())
}

async fn unusual(port: Arc<dyn ContextCompactorPort>) -> Found {
    let mut histories =
        vec![Vec::new(), vec![Message::User { parts: Vec::new() }], vec![Message::user("x".repeat(1 << 20))]];
    histories.extend(ODD_TEXTS.map(|text| vec![Message::user(text), Message::assistant(text)]));
    for messages in histories {
        let asked = request(messages, MAX_SUMMARY_BYTES);
        let _summarised_or_refused = port.condense(Arc::new(asked)).await;
    }
    written(&*port).await.map_err(|seen| format!("{seen}, after unusual histories"))
}
