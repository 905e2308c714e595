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
//! - Of what is said of tools, each setting is taken from the most specific entry that has it:
//!   the one with the tool's own name, else the pattern with the longest beginning before its
//!   first `*`, `?`, `[` or `{`.

use bob_messages::ids::ToolName;
use bob_messages::tools::{CallContext, Risk, RiskSource, ToolDescriptor};
use globset::{Glob, GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
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
    /// What is said of tools, by full name or pattern.
    pub tools: BTreeMap<String, ToolOverride>,
}

/// What the configuration says of a tool, or of those a pattern names; what is `None` stays as the tool says.
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
    /// What is said of tools, the most specific first.
    said: Vec<Said>,
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
        let said = policy.tools.iter().map(|(pattern, settings)| Said::new(pattern, *settings));
        let mut said = said.collect::<Result<Vec<_>, _>>().map_err(|error| error.of("tools"))?;
        // Stable, so that those alike stay in the order of their letters.
        said.sort_by_key(|said| std::cmp::Reverse(said.specificity()));
        Ok(Self { policy, allow, deny, said, timeout_ms: None })
    }

    /// Sets the time limit of calls for which no rule has one.
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
        if let Some((pattern, risk)) = self.said_of(&descriptor.id, |said| said.risk) {
            descriptor.risk = risk;
            descriptor.risk_from = RiskSource::Configuration { pattern: pattern.to_owned() };
        }
        if let Some((_, idempotent)) = self.said_of(&descriptor.id, |said| said.idempotent) {
            descriptor.idempotent = idempotent;
        }
        descriptor
    }

    /// A setting of a tool, and the name or pattern it is under.
    fn said_of<T>(&self, name: &ToolName, setting: impl Fn(&ToolOverride) -> Option<T>) -> Option<(&str, T)> {
        let about = self.said.iter().filter(|said| said.is_about(name));
        about.filter_map(|said| Some((said.pattern.as_str(), setting(&said.settings)?))).next()
    }

    /// How long a call of this tool may run, in milliseconds.
    pub fn timeout_ms(&self, name: &ToolName, context: &CallContext) -> u64 {
        self.ruled_timeout_ms(name).unwrap_or(context.tool_timeout_ms)
    }

    /// What the rules say of how long a call of this tool may run, in milliseconds; `None`: nothing.
    pub(crate) fn ruled_timeout_ms(&self, name: &ToolName) -> Option<u64> {
        let said = self.said_of(name, |said| said.timeout_ms).map(|(_, timeout_ms)| timeout_ms);
        said.or(self.timeout_ms)
    }

    /// Why a person must be asked before a call of this tool; `None`: nobody must.
    pub fn asks(&self, tool: &ToolDescriptor, context: &CallContext) -> Option<&'static str> {
        let approved = context.approve.is_some_and(|up_to| up_to >= tool.risk);
        match (tool.risk, &tool.risk_from) {
            (Risk::Low | Risk::Medium, _) => None,
            (Risk::High, _) if approved || !self.policy.require_high_risk_approval => None,
            (Risk::High, RiskSource::Default) => {
                Some("its server does not say what the tool may do, so it is of high risk")
            }
            (Risk::High, RiskSource::Program | RiskSource::Annotation { .. } | RiskSource::Configuration { .. }) => {
                Some("the tool is of high risk")
            }
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

/// What is said of a tool, or of those a pattern names.
#[derive(Debug)]
struct Said {
    pattern: String,
    /// `None`: it is a name.
    matcher: Option<GlobMatcher>,
    settings: ToolOverride,
}

/// What makes a name a pattern.
const WILD: [char; 4] = ['*', '?', '[', '{'];

impl Said {
    fn new(pattern: &str, settings: ToolOverride) -> Result<Self, BadPattern> {
        let is_wild = pattern.contains(WILD);
        let matcher = is_wild.then(|| glob(pattern).map(|glob| glob.compile_matcher())).transpose()?;
        Ok(Self { pattern: pattern.to_owned(), matcher, settings })
    }

    fn is_about(&self, name: &ToolName) -> bool {
        match &self.matcher {
            Some(matcher) => matcher.is_match(name.as_str()),
            None => self.pattern == name.as_str(),
        }
    }

    /// The larger it is, the less is meant: whether it is a name, how long it is before anything wild, and in all.
    fn specificity(&self) -> (bool, usize, usize) {
        let literal = self.pattern.find(WILD).unwrap_or(self.pattern.len());
        (self.matcher.is_none(), literal, self.pattern.len())
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

fn bad(pattern: &str, error: &globset::Error) -> BadPattern {
    BadPattern { pattern: pattern.to_owned(), reason: error.kind().to_string() }
}

fn glob(pattern: &str) -> Result<Glob, BadPattern> {
    let everything = pattern == "*";
    let glob = GlobBuilder::new(if everything { "**" } else { pattern }).literal_separator(true).build();
    glob.map_err(|error| bad(pattern, &error))
}

fn glob_set(patterns: &[String]) -> Result<GlobSet, BadPattern> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(glob(pattern)?);
    }
    set.build().map_err(|error| bad("", &error))
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
