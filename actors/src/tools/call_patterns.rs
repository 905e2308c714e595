//! Patterns of calls in the grammar of rules, for what is asked about them beside the policy.

use super::call_rules::CallRule;
use super::links::led;
use super::patterns::BadPattern;
use super::policy::PolicyError;
use bob_messages::chat::ToolCall;
use bob_messages::tools::{CallContext, ToolDescriptor};

/// Patterns of calls. None at all is every call.
#[derive(Debug, Default)]
pub(crate) struct CallPatterns(Vec<CallRule>);

impl CallPatterns {
    /// Reads them. Errors: the first one that is none; `key` is where they are configured.
    pub(crate) fn new(key: &'static str, patterns: &[String]) -> Result<Self, PolicyError> {
        let of = |bad: BadPattern| PolicyError::Rule { key, rule: bad.pattern, reason: bad.reason };
        patterns.iter().map(|pattern| CallRule::new(pattern)).collect::<Result<_, _>>().map(Self).map_err(of)
    }

    pub(crate) fn are_of(&self, tool: &ToolDescriptor) -> bool {
        self.0.is_empty() || self.0.iter().any(|rule| rule.is_of(tool))
    }

    /// Whether one of them may be about this call, as a rule that asks or denies may be. Follows links on the disk.
    pub(crate) fn may_be_about(&self, tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> bool {
        let of_tool: Vec<&CallRule> = self.0.iter().filter(|rule| rule.is_of(tool)).collect();
        let is_about = |call: &ToolCall| of_tool.iter().any(|rule| rule.may_be_about(tool, call, context));
        self.0.is_empty()
            || is_about(call)
            || !of_tool.is_empty() && led(tool, call, context).is_some_and(|led| is_about(&led))
    }
}
