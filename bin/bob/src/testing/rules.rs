//! What the suites of ports that are asked something have in common.

use bob_actors::contract::{Found, dropped_after};
use futures_util::future::join_all;
use std::future::Future;

/// How many questions are asked beside each other.
const BESIDE: usize = 8;

/// Questions beside each other all have an answer.
pub(super) async fn beside<F: Future<Output = Found>>(ask: impl Fn() -> F) -> Found {
    join_all((0..BESIDE).map(|_| ask())).await.into_iter().collect()
}

/// A question that is dropped, whenever that is, leaves the port usable for the next one.
pub(super) async fn dropped<D: Future, F: Future<Output = Found>>(
    question: impl Fn() -> D,
    ask: impl Fn() -> F,
) -> Found {
    for polls in 0..16 {
        let was_ready = dropped_after(polls, question()).await;
        let next = ask().await;
        next.map_err(|seen| format!("{seen}, after a question that was dropped after {polls} polls"))?;
        if was_ready {
            break;
        }
    }
    Ok(())
}

/// Each of these suites broke the rule that it was made for, and together they broke all rules of the first one, which is
/// that of a port without a fault.
#[cfg(test)]
pub(super) fn each_rule_is_broken(
    whole: bob_actors::contract::Suite,
    faulty: Vec<(&'static str, bob_actors::contract::Suite)>,
) {
    use std::collections::BTreeSet;
    let all: BTreeSet<_> = whole.rules().iter().map(|(name, _)| *name).collect();
    whole.assert();
    let mut seen = BTreeSet::new();
    for (rule, suite) in faulty {
        let is_broken = suite.rules().iter().any(|(name, found)| *name == rule && found.is_err());
        assert!(is_broken, "meant to break `{rule}`:\n{suite}");
        seen.insert(rule);
    }
    assert_eq!(seen, all);
}
