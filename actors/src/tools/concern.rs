//! Calls that need approval at any risk of their tool, and calls that no approval can allow.
//!
//! A tool looks at what a call names ([`ToolPort::concern`](super::port::ToolPort::concern)), which may touch a disk; the
//! actor that owns the gate never waits for that. So the gate judges first and says in the same moment what a person would
//! be asked, and both are held in a task until the tool has looked.

use super::gate::{Gate, Judged};
use super::port::Concern;
use super::standing::{is_allowed_exactly, shown};
use bob_messages::approvals::AskedTool;
use bob_messages::tools::{CheckRequest, Risk, Verdict};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Reserved {
    is_allowed: bool,
    tool: Arc<AskedTool>,
}

impl Gate {
    pub(crate) fn port_of(&self, check: &CheckRequest) -> Option<usize> {
        self.tool(&check.call.name).map(|tool| tool.port)
    }

    /// What a person would be asked about this call, should its tool be concerned.
    pub(crate) fn reserve(&self, check: &CheckRequest) -> Reserved {
        let Some(tool) = self.tool(&check.call.name) else {
            return Reserved { is_allowed: false, tool: Arc::default() };
        };
        let digest = tool.definition.digest();
        let is_allowed = is_allowed_exactly(check, &digest);
        // What is decided beyond this call is about exactly its arguments.
        Reserved { is_allowed, tool: shown(check, &tool.descriptor, digest, (Vec::new(), true)) }
    }
}

impl Reserved {
    /// What becomes of a call that was judged, now that its tool has looked at it.
    pub(crate) fn weigh(self, judged: Judged, concern: Option<Concern>) -> Judged {
        match concern {
            None => judged,
            Some(Concern::Deny(reason)) => Judged::Told(Verdict::Deny { reason }),
            Some(Concern::Unknown(why)) => Judged::Told(Verdict::Unavailable { why: format!("not run: {why}") }),
            Some(Concern::Ask(_)) if self.is_allowed => judged,
            Some(Concern::Ask(reason)) => {
                let reason = match judged {
                    Judged::Told(Verdict::Ask { reason: also, .. }) => format!("it {reason}, and {also}"),
                    Judged::Told(_) | Judged::MayRun(_) => format!("it {reason}"),
                };
                Judged::Told(Verdict::Ask { risk: Risk::High, reason, tool: self.tool })
            }
        }
    }
}

#[cfg(test)]
#[path = "concern_tests.rs"]
mod tests;
