//! The ports to a person, and to what was decided.

use bob::BoxFuture;
use bob::approvals::{
    ApprovalMemory, ApprovalPort, ApprovalQuestion, Decision, Elicitation, ElicitationAnswer, Standing,
};
use bob::context::Identity;
use bob::tools::ToolName;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Says yes for good, and fills in no form.
#[derive(Default)]
pub struct OnThePhone(AtomicUsize);

impl OnThePhone {
    pub fn asked(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl ApprovalPort for OnThePhone {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let is_known =
            question.call.name.as_str() == "own/add" && question.choices.iter().any(|one| one == "allow_always");
        Box::pin(async move {
            match is_known {
                true => Decision::AllowAlways,
                false => Decision::Deny { reason: "I do not know it".into() },
            }
        })
    }

    fn elicit(&self, _: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(async { ElicitationAnswer::Decline })
    }
}

/// Lasting decisions in a list.
#[derive(Default)]
pub struct Decided(Mutex<Vec<Arc<Standing>>>);

impl Decided {
    pub fn kept(&self) -> usize {
        self.0.lock().expect("not poisoned").len()
    }
}

impl ApprovalMemory for Decided {
    fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>> {
        self.0
            .lock()
            .expect("not poisoned")
            .iter()
            .filter(|one| one.tool == *tool && one.identity == *identity)
            .cloned()
            .collect()
    }

    fn keep(&self, standing: Arc<Standing>) {
        standing.join(&mut self.0.lock().expect("not poisoned"));
    }

    fn is_taken_back(&self, _: &Standing) -> bool {
        false
    }
}
