//! A memory in a list keeps the rules; each rule is broken by a memory that is made for it.

use super::memory::check;
use crate::approvals::{ApprovalMemory, Standing};
use crate::context::Identity;
use crate::tools::ToolName;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    No,
    NeverEmpty,
    Forgets,
    AnyTool,
    AnyIdentity,
    AnyTenant,
    AnyPrincipal,
    FlipsAllowed,
    LastOnly,
    TakesBack,
}

struct Memory(Fault, Mutex<Vec<Arc<Standing>>>);

impl ApprovalMemory for Memory {
    fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>> {
        let kept = self.1.lock().unwrap();
        let is_it = |one: &&Arc<Standing>| {
            let is_theirs = match self.0 {
                Fault::AnyIdentity => true,
                Fault::AnyTenant => one.identity.principal == identity.principal,
                Fault::AnyPrincipal => one.identity.tenant == identity.tenant,
                _with_another_fault => one.identity == *identity,
            };
            (self.0 == Fault::AnyTool || one.tool == *tool) && is_theirs
        };
        let mut found: Vec<_> = kept.iter().filter(is_it).cloned().collect();
        if self.0 == Fault::FlipsAllowed {
            let flipped = |one: Arc<Standing>| Arc::new(Standing { allowed: !one.allowed, ..Standing::clone(&one) });
            found = found.into_iter().map(flipped).collect();
        }
        if self.0 == Fault::LastOnly {
            found.drain(..found.len().saturating_sub(1));
        }
        if self.0 == Fault::NeverEmpty && found.is_empty() {
            let standing = format!(r#"{{"tool":"{tool}","definition":"","text":"","allowed":true}}"#);
            found.push(Arc::new(serde_json::from_str(&standing).unwrap()));
        }
        found
    }

    fn keep(&self, standing: Arc<Standing>) {
        if self.0 != Fault::Forgets {
            self.1.lock().unwrap().push(standing);
        }
    }

    fn is_taken_back(&self, _standing: &Standing) -> bool {
        self.0 == Fault::TakesBack
    }
}

#[tokio::test]
async fn each_rule_of_a_memory_of_approvals_is_broken_by_one_with_its_fault() {
    let whole = check(|| Arc::new(Memory(Fault::No, Mutex::default()))).await;
    let all: BTreeSet<_> = whole.rules().iter().map(|(name, _)| *name).collect();
    whole.assert();
    let mut seen = BTreeSet::new();
    for (rule, fault) in [
        ("an empty memory recalls nothing", Fault::NeverEmpty),
        ("a decision is recalled as it was made", Fault::Forgets),
        ("a decision is recalled as it was made", Fault::FlipsAllowed),
        ("a decision is recalled for its tool only", Fault::AnyTool),
        ("a decision is recalled for its tenant and principal only", Fault::AnyIdentity),
        ("a decision is recalled for its tenant and principal only", Fault::AnyTenant),
        ("a decision is recalled for its tenant and principal only", Fault::AnyPrincipal),
        ("decisions about different arguments are all recalled", Fault::LastOnly),
        ("a decision that was just made is not taken back", Fault::TakesBack),
    ] {
        let suite = check(|| Arc::new(Memory(fault, Mutex::default()))).await;
        let is_broken = suite.rules().iter().any(|(name, found)| *name == rule && found.is_err());
        assert!(is_broken, "meant to break `{rule}`:\n{suite}");
        seen.insert(rule);
    }
    assert_eq!(seen, all);
}
