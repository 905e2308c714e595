//! Calls that need approval at any risk of their tool, and calls that no approval can allow.
//!
//! A tool looks at what a call names ([`ToolPort::concern`](super::port::ToolPort::concern)), which may touch a disk; the
//! actor that owns the gate never waits for that. So the gate judges first and keeps in the same moment what a person would
//! be asked about, and both are held in a task until the tool has looked.

use super::catalogue::Tool;
use super::gate::{Gate, Judged};
use super::port::Concern;
use super::standing::{is_allowed_exactly, shown};
use bob_messages::tools::{CheckRequest, Risk, Verdict};
use std::sync::Arc;

/// What a person would be asked about: a call, and its tool as it was when the call was judged.
#[derive(Debug)]
pub(crate) struct Reserved {
    check: CheckRequest,
    tool: Option<Arc<Tool>>,
}

impl Gate {
    pub(crate) fn port_of(&self, check: &CheckRequest) -> Option<usize> {
        self.tool(&check.call.name).map(|tool| tool.port)
    }

    /// What a person would be asked about this call, should its tool be concerned.
    pub(crate) fn reserve(&self, check: &CheckRequest) -> Reserved {
        Reserved { check: check.clone(), tool: self.tool(&check.call.name).cloned() }
    }
}

impl Reserved {
    /// What becomes of a call that was judged, now that its tool has looked at it.
    pub(crate) fn weigh(self, judged: Judged, concern: Option<Concern>) -> Judged {
        match concern {
            None => judged,
            Some(Concern::Deny(reason)) => Judged::Told(Verdict::Deny { reason }),
            Some(Concern::Unknown(why)) => Judged::Told(Verdict::Unavailable { why: format!("not run: {why}") }),
            Some(Concern::Ask(reason)) => self.asks(judged, &reason),
        }
    }

    /// The tool is concerned. It is described only now, since mostly it is not.
    fn asks(self, judged: Judged, reason: &str) -> Judged {
        let Self { check, tool } = self;
        let tool = tool.map(|tool| (tool.definition.digest(), tool));
        if tool.as_ref().is_some_and(|(digest, _)| is_allowed_exactly(&check, digest)) {
            return judged;
        }
        let reason = match judged {
            Judged::Told(Verdict::Ask { reason: also, .. }) => format!("it {reason}, and {also}"),
            Judged::Told(_) | Judged::MayRun(_) => format!("it {reason}"),
        };
        // What is decided beyond this call is about exactly its arguments.
        let shown = tool.map(|(digest, tool)| shown(&check, &tool.descriptor, digest, (Vec::new(), true)));
        Judged::Told(Verdict::Ask { risk: Risk::High, reason, tool: shown.unwrap_or_default() })
    }
}

#[cfg(test)]
#[path = "concern_tests.rs"]
mod tests;
