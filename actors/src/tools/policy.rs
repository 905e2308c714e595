//! Who may call what: the rules as data, and their reading.
//!
//! Pure: the gate asks, nothing here looks at a call's effects. Patterns are globs
//! over a tool's whole name in which `*` stays inside one part of the name
//! (`mcp/files/*`) and `**` crosses parts; a lone `*` is every tool.
//!
//! - Deny beats allow, whatever the order and wherever the rule is from.
//! - Allowing compares names as they are. Denying also looks at the trimmed name in
//!   lower case, and at the namespaces a name is in: denying `mcp/*` denies
//!   `mcp/files/read`, so no spelling of a name gets around a denial.
//! - A session's own list narrows; it never widens.

use bob_messages::ids::ToolName;
use bob_messages::tools::{CallContext, Risk, ToolDescriptor};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rules over all tools of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Patterns of the tools that may be called.
    pub allow_tools: Vec<String>,
    /// Patterns of the tools that may not, whatever `allow_tools` says.
    pub deny_tools: Vec<String>,
    /// Commands no shell line may name, each a single word.
    pub deny_commands: Vec<String>,
    /// How large a call's arguments may be, as JSON, in bytes.
    pub max_payload_bytes: usize,
    /// Whether a person must allow each high-risk call.
    pub require_high_risk_approval: bool,
    /// What is said of single tools, by full name.
    pub tools: BTreeMap<String, ToolOverride>,
}

/// What the configuration says of one tool; what is `None` stays as the tool says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOverride {
    /// What may go wrong.
    pub risk: Option<Risk>,
    /// How long a call may run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether running it twice is the same as running it once.
    pub idempotent: Option<bool>,
}

/// Commands a shell line may not name when nothing else is configured.
pub const DENIED_COMMANDS: [&str; 12] =
    ["rm", "rmdir", "shred", "sudo", "su", "doas", "dd", "mkfs", "shutdown", "reboot", "halt", "poweroff"];

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_tools: vec!["*".to_owned()],
            deny_tools: vec!["local/shell_exec".to_owned()],
            deny_commands: DENIED_COMMANDS.map(str::to_owned).to_vec(),
            max_payload_bytes: 1024 * 1024,
            require_high_risk_approval: true,
            tools: BTreeMap::new(),
        }
    }
}

/// A rule that cannot be understood; nothing starts with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Not a glob.
    #[error("`{key}` has the pattern {pattern:?}, which is not a glob ({reason}); write for example \"mcp/files/*\"")]
    Pattern {
        /// The key of the policy.
        key: &'static str,
        /// What was written.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Not one word.
    #[error("`deny_commands` has the entry {0:?}, which is not a single command; write for example \"rm\"")]
    Command(String),
}

/// The rules, ready to be asked.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    allow: Names,
    deny: GlobSet,
    /// How long a call may run when nothing is said of its tool; `None`: as long as
    /// its context says.
    timeout_ms: Option<u64>,
}

impl Rules {
    /// Reads a policy.
    ///
    /// # Errors
    /// [`PolicyError`] at the first rule that cannot be understood.
    pub fn new(policy: Policy) -> Result<Self, PolicyError> {
        let allow = Names::new(&policy.allow_tools).map_err(|error| error.of("allow_tools"))?;
        let lowered: Vec<String> = policy.deny_tools.iter().map(|pattern| pattern.trim().to_lowercase()).collect();
        let deny = glob_set(&lowered).map_err(|error| error.of("deny_tools"))?;
        if let Some(bad) =
            policy.deny_commands.iter().find(|word| word.is_empty() || word.contains(char::is_whitespace))
        {
            return Err(PolicyError::Command(bad.clone()));
        }
        Ok(Self { policy, allow, deny, timeout_ms: None })
    }

    /// The same, with a limit of its own for calls of tools of which nothing is said.
    #[must_use]
    pub fn with_timeout_ms(self, timeout_ms: Option<u64>) -> Self {
        Self { timeout_ms, ..self }
    }

    /// Whether a rule denies this name.
    pub fn denies(&self, name: &ToolName) -> bool {
        let lowered = name.as_str().trim().to_lowercase();
        let mut within = lowered.as_str();
        loop {
            if self.deny.is_match(within) {
                return true;
            }
            match within.rsplit_once('/') {
                Some((namespace, _)) => within = namespace,
                None => return false,
            }
        }
    }

    /// Whether the rules leave this name callable.
    pub fn allows(&self, name: &ToolName) -> bool {
        self.allow.contain(name) && !self.denies(name)
    }

    /// The tool as this policy sees it.
    pub fn apply_to(&self, mut descriptor: ToolDescriptor) -> ToolDescriptor {
        if let Some(said) = self.policy.tools.get(descriptor.id.as_str()) {
            descriptor.risk = said.risk.unwrap_or(descriptor.risk);
            descriptor.idempotent = said.idempotent.unwrap_or(descriptor.idempotent);
        }
        descriptor
    }

    /// How long a call of this tool may run, in milliseconds.
    pub fn timeout_ms(&self, name: &ToolName, context: &CallContext) -> u64 {
        let said = self.policy.tools.get(name.as_str()).and_then(|said| said.timeout_ms);
        said.or(self.timeout_ms).unwrap_or(context.tool_timeout_ms)
    }

    /// Why a person must be asked before a call of this risk; `None`: nobody must.
    pub fn asks(&self, risk: Risk, context: &CallContext) -> Option<&'static str> {
        let approved = context.approve.is_some_and(|up_to| up_to >= risk);
        match risk {
            Risk::Low | Risk::Medium => None,
            Risk::High if approved || !self.policy.require_high_risk_approval => None,
            Risk::High => Some("the tool is of high risk"),
        }
    }

    /// The first command of a shell line that no line may name.
    pub fn denied_command(&self, line: &str) -> Option<String> {
        let denied = |word: &String| self.policy.deny_commands.iter().any(|denied| denied.eq_ignore_ascii_case(word));
        super::commands::named_in(line).into_iter().find(denied)
    }

    /// How large a call's arguments may be, as JSON, in bytes.
    pub fn max_payload_bytes(&self) -> usize {
        self.policy.max_payload_bytes
    }
}

/// A list of patterns that allow.
#[derive(Debug)]
pub(crate) struct Names(GlobSet);

impl Names {
    fn new(patterns: &[String]) -> Result<Self, BadPattern> {
        glob_set(patterns).map(Self)
    }

    /// A session's own list. A pattern that is not a glob allows nothing.
    pub(crate) fn of_session(patterns: &[String]) -> Self {
        let readable: Vec<String> =
            patterns.iter().filter(|pattern| glob_set(std::slice::from_ref(*pattern)).is_ok()).cloned().collect();
        Self(glob_set(&readable).unwrap_or_else(|_all_were_read_one_by_one| GlobSet::empty()))
    }

    pub(crate) fn contain(&self, name: &ToolName) -> bool {
        self.0.is_match(name.as_str())
    }
}

struct BadPattern {
    pattern: String,
    reason: String,
}

impl BadPattern {
    fn of(self, key: &'static str) -> PolicyError {
        PolicyError::Pattern { key, pattern: self.pattern, reason: self.reason }
    }
}

fn glob_set(patterns: &[String]) -> Result<GlobSet, BadPattern> {
    let bad = |pattern: &str, error: globset::Error| BadPattern {
        pattern: pattern.to_owned(),
        reason: error.kind().to_string(),
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let everything = pattern == "*";
        let glob = GlobBuilder::new(if everything { "**" } else { pattern }).literal_separator(true).build();
        set.add(glob.map_err(|error| bad(pattern, error))?);
    }
    set.build().map_err(|error| bad("", error))
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
