//! The port without a person keeps the rules; each rule is broken by a port that is made for it.

use super::approvals::check;
use crate::approvals::{ApprovalPort, ApprovalQuestion, Decision};
use bob_actors::contract::Suite;
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Leaves everything to the defaults, which decline.
struct Nobody;

impl ApprovalPort for Nobody {}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Always,
    OneAtATime,
    NotFreed,
    NoControls,
}

struct Faulty(Fault, AtomicU32);

/// Sets a count to 0 when it is dropped.
struct Freed<'a>(&'a AtomicU32);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

impl ApprovalPort for Faulty {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        Box::pin(async move {
            let Self(fault, count) = self;
            assert!(*fault != Fault::NoControls || !question.reason.contains('\u{1b}'), "not shown");
            if *fault == Fault::Always {
                return Decision::AllowAlways;
            }
            let is_counted = matches!(fault, Fault::OneAtATime | Fault::NotFreed);
            if is_counted && count.fetch_add(1, Ordering::SeqCst) > 0 {
                return std::future::pending().await;
            }
            let _freed = (*fault == Fault::OneAtATime).then(|| Freed(count));
            tokio::time::sleep(Duration::from_millis(1)).await;
            if *fault == Fault::NotFreed {
                count.store(0, Ordering::SeqCst);
            }
            Decision::Deny { reason: "no".to_owned() }
        })
    }
}

async fn of(fault: Fault) -> Suite {
    check(|| Arc::new(Faulty(fault, AtomicU32::new(0)))).await
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_a_port_to_a_person_is_broken_by_a_port_with_its_fault() {
    let whole = check(|| Arc::new(Nobody)).await;
    let all: BTreeSet<_> = whole.rules().iter().map(|(name, _)| *name).collect();
    whole.assert();
    let mut seen = BTreeSet::new();
    for (rule, fault) in [
        ("a decision is one of the choices of its question", Fault::Always),
        ("questions beside each other are all decided", Fault::OneAtATime),
        ("a question that is withdrawn leaves the port usable", Fault::NotFreed),
        ("a question with unusual texts is decided, without a panic", Fault::NoControls),
    ] {
        let suite = of(fault).await;
        let is_broken = suite.rules().iter().any(|(name, found)| *name == rule && found.is_err());
        assert!(is_broken, "meant to break `{rule}`:\n{suite}");
        seen.insert(rule);
    }
    assert_eq!(seen, all);
}
