//! When two records count as the same: what the machine decides, without times and sizes that are only estimates, and
//! without what older programs did not write down.

use crate::chat::ToolCall;
use crate::ids::ResumeToken;
use crate::store::{Answered, Ended, Fact, Record};
use serde_json::Value;
use std::sync::Arc;

/// Whether two records are the same but for times and estimated sizes.
pub(super) fn is_same(one: &Record, other: &Record) -> bool {
    let mut other = other.clone();
    // Older programs gave what was said into a turn no name, and did not write down what a person was shown.
    match (&one.fact, &mut other.fact) {
        (Fact::Steered { request_id: None, behind, .. }, Fact::Steered { request_id, behind: now, .. }) => {
            (*request_id, *now) = (None, *behind);
        }
        (Fact::ApprovalAsked { tool: None, reason, .. }, Fact::ApprovalAsked { tool, reason: now, .. }) => {
            *tool = None;
            now.clone_from(reason);
        }
        _as_it_is => {}
    }
    let other = &other;
    one == other || comparable(one).is_some_and(|one| Some(one) == comparable(other))
}

/// What of a record is compared, as JSON.
pub(super) fn comparable(record: &Record) -> Option<Value> {
    let mut record = Record { at: 0, ..record.clone() };
    match &mut record.fact {
        Fact::Answered(Answered { calls, cost, .. }) => {
            cost.prompt_bytes = 0;
            *calls = calls.iter().map(|call| Arc::new(ToolCall { argument_bytes: 0, ..(**call).clone() })).collect();
        }
        Fact::Malformed { cost, .. } => cost.prompt_bytes = 0,
        Fact::Outcome(Ended { suspended: Some(suspended), .. }) => {
            suspended.expires_at = None;
            // Older tokens did not begin with their session.
            let begins = format!("{}~", record.session);
            if let Some(bare) = suspended.token.as_str().strip_prefix(&begins) {
                suspended.token = ResumeToken::new(bare);
            }
        }
        _without_sizes => {}
    }
    serde_json::to_value(&record).ok()
}
