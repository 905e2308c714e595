//! A summariser that keeps the rules, and one for each rule that breaks it.

use super::*;
use crate::contract::testing::each_rule_is_broken;
use bob_messages::condense::Summary;
use bob_messages::error::AgentError;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Empty,
    OneSize,
    OneAtATime,
    NotFreed,
    FirstMessage,
}

struct Faulty(Fault, AtomicU32);

/// Sets a count to 0 when it is dropped.
struct Freed<'a>(&'a AtomicU32);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

impl ContextCompactorPort for Faulty {
    fn condense(&self, request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
        Box::pin(async move {
            let Self(fault, count) = self;
            if matches!(fault, Fault::OneAtATime | Fault::NotFreed) && count.fetch_add(1, Ordering::SeqCst) > 0 {
                return Err(AgentError::Internal("in use".to_owned()));
            }
            let _freed = (*fault == Fault::OneAtATime).then(|| Freed(count));
            tokio::time::sleep(Duration::from_millis(1)).await;
            if *fault == Fault::NotFreed {
                count.store(0, Ordering::SeqCst);
            }
            if *fault == Fault::FirstMessage {
                let _first = &request.messages[0];
            }
            let text = match fault {
                Fault::Empty => String::new(),
                Fault::OneSize => "a word ".repeat(100),
                _others => "There were questions.".to_owned(),
            };
            Ok(Summary { text, usage: None })
        })
    }
}

async fn of(fault: Fault) -> Suite {
    compactor(|| Arc::new(Faulty(fault, AtomicU32::new(0)))).await
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_a_summariser_is_broken_by_a_port_with_its_fault() {
    of(Fault::None).await.assert();
    let mut suites = Vec::new();
    for (rule, fault) in [
        ("a history has a summary of at most the size that is asked for", Fault::Empty),
        ("a second attempt for a small size gives no more than that", Fault::OneSize),
        ("summaries beside each other are all written", Fault::OneAtATime),
        ("a summary that is dropped leaves the port usable", Fault::NotFreed),
        ("an unusual history is summarised or refused, without a panic", Fault::FirstMessage),
    ] {
        suites.push((rule, of(fault).await));
    }
    each_rule_is_broken(suites);
}
