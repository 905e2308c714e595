//! Who may call what: the rules as data, and their reading.
//!
//! Pure: the gate asks, nothing here looks at a call's effects. Patterns are globs over a tool's whole name in which
//! `*` stays inside one part of the name (`mcp/files/*`) and `**` crosses parts; a lone `*` is every tool.
//!
//! - Deny beats allow, whatever the order and wherever the rule is from.
//! - Allowing compares names as they are. Denying also looks at the trimmed name in
//!   lower case, and at the namespaces a name is in: denying `mcp/*` denies
//!   `mcp/files/read`, so no spelling of a name gets around a denial.
//! - A session's own list narrows; it never widens.
//! - Of what is said of tools, each setting is taken from the most specific entry that has it:
//!   the one with the tool's own name, else the pattern with the longest beginning before its
//!   first `*`, `?`, `[` or `{`.

use super::call_rules::{CallRules, CallRuling, Subject, is_like_whatever_case, subject};
use super::patterns::{BadPattern, glob, glob_set};
use bob_messages::chat::ToolCall;
use bob_messages::ids::ToolName;
use bob_messages::permission::PermissionMode;
use bob_messages::tools::{CallContext, Risk, RiskSource, ToolDescriptor, ToolKind, ToolSource};
use globset::{GlobMatcher, GlobSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rules over all tools of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Patterns of the tools that may be called.
    pub allow_tools: Vec<String>,
    /// Patterns of the tools that may not, whatever `allow_tools` says.
    pub deny_tools: Vec<String>,
    /// Rules over calls that run without asking, as `local/shell_exec(git *)`; see [`Rules`].
    pub allow: Vec<String>,
    /// Rules over calls that ask in every mode, also those that `allow` covers.
    pub ask: Vec<String>,
    /// Rules over calls that are denied, also those that the others cover. One without arguments denies the tool.
    pub deny: Vec<String>,
    /// Commands no shell line may name, each a single word, in which `*` stands for any characters and `?` for one.
    pub deny_commands: Vec<String>,
    /// Commands that ask in every mode, in the form of `deny_commands`. A line that names one is allowed by a yes to exactly
    /// its call, not by `allow` and not by a yes to calls like it. `find` with `-delete` is taken for `rm`.
    #[serde(default)]
    pub ask_commands: Vec<String>,
    /// How large a call's arguments may be, as JSON, in bytes.
    pub max_payload_bytes: usize,
    /// What sessions may do without asking, unless a session or a request names a mode.
    pub mode: Option<PermissionMode>,
    /// Whether the mode is [`PermissionMode::Ask`] where none is named; otherwise it is [`PermissionMode::Auto`].
    pub require_high_risk_approval: bool,
    /// Whether questions offer decisions that apply to later sessions (`allow_always`, `deny_always`).
    #[serde(default = "yes")]
    pub offer_always: bool,
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

/// Commands a shell line may not name in [`Policy::terminal`]: they change who runs a command, a whole disk, or whether the
/// machine runs.
const DENIED_AT_A_TERMINAL: [&str; 13] = [
    "sudo", "su", "doas", "pkexec", "runuser", "run0", "dd", "mkfs*", "wipefs", "shutdown", "reboot", "halt",
    "poweroff",
];

/// Commands that [`Policy::terminal`] asks about in every mode: what they remove is not kept for an undo.
const ASKED_AT_A_TERMINAL: [&str; 4] = ["rm", "rmdir", "shred", "unlink"];

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_tools: vec!["*".to_owned()],
            deny_tools: vec!["local/shell_exec".to_owned()],
            allow: Vec::new(),
            ask: Vec::new(),
            deny: Vec::new(),
            deny_commands: DENIED_COMMANDS.map(str::to_owned).to_vec(),
            ask_commands: Vec::new(),
            max_payload_bytes: 1024 * 1024,
            mode: None,
            require_high_risk_approval: true,
            offer_always: true,
            tools: BTreeMap::new(),
        }
    }
}

fn yes() -> bool {
    true
}

impl Policy {
    /// The policy for a person at work at a terminal, which the profile `terminal` of a configuration has: the shell is
    /// offered, and asks like everything that changes something; commands that remove files ask in every mode; commands
    /// that change who runs a command, a whole disk or whether the machine runs are denied.
    pub fn terminal() -> Self {
        Self {
            deny_tools: Vec::new(),
            ask_commands: ASKED_AT_A_TERMINAL.map(str::to_owned).to_vec(),
            deny_commands: DENIED_AT_A_TERMINAL.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }

    /// The mode of sessions that name none.
    pub fn default_mode(&self) -> PermissionMode {
        let unnamed = if self.require_high_risk_approval { PermissionMode::Ask } else { PermissionMode::Auto };
        self.mode.unwrap_or(unnamed)
    }
}

/// A rule that cannot be understood; nothing starts with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// Not a rule over calls.
    #[error(
        "`{key}` has the rule {rule:?}, which cannot be read ({reason}); write for example \"local/shell_exec(git *)\""
    )]
    Rule {
        /// The key of the policy.
        key: &'static str,
        /// What was written.
        rule: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Not one word.
    #[error(
        "`deny_commands` and `ask_commands` have names of single commands without a folder, not {0:?}; write for example \"rm\""
    )]
    Command(String),
}

/// The rules, ready to be asked.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    allow: Names,
    deny: GlobSet,
    calls: CallRules,
    /// What is said of tools, the most specific first.
    said: Vec<Said>,
    /// How long a call may run when nothing is said of its tool; `None`: as long as its context says.
    timeout_ms: Option<u64>,
}

impl Rules {
    /// Reads a policy.
    ///
    /// # Errors
    /// [`PolicyError`] at the first rule that cannot be understood.
    pub fn new(policy: Policy) -> Result<Self, PolicyError> {
        let of = |key| move |bad: BadPattern| PolicyError::Pattern { key, pattern: bad.pattern, reason: bad.reason };
        let calls = CallRules::new(&policy.allow, &policy.ask, &policy.deny);
        let calls = calls.map_err(|(key, bad)| PolicyError::Rule { key, rule: bad.pattern, reason: bad.reason })?;
        let allow = Names::new(&policy.allow_tools).map_err(of("allow_tools"))?;
        let denied = policy.deny_tools.iter().chain(CallRules::denied_tools(&policy.deny));
        let lowered: Vec<String> = denied.map(|pattern| pattern.trim().to_lowercase()).collect();
        let deny = glob_set(&lowered).map_err(of("deny_tools"))?;
        let mut commands = policy.deny_commands.iter().chain(&policy.ask_commands);
        if let Some(bad) =
            commands.find(|word| word.is_empty() || word.contains(|c: char| c == '/' || c.is_whitespace()))
        {
            return Err(PolicyError::Command(bad.clone()));
        }
        let said = policy.tools.iter().map(|(pattern, settings)| Said::new(pattern, *settings));
        let mut said = said.collect::<Result<Vec<_>, _>>().map_err(of("tools"))?;
        // Stable, so that those alike stay in the order of their letters.
        said.sort_by_key(|said| std::cmp::Reverse(said.specificity()));
        Ok(Self { policy, allow, deny, calls, said, timeout_ms: None })
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

    pub(crate) fn ruling(&self, tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> CallRuling<'_> {
        let ruling = self.calls.judge(tool, call, context);
        match ruling {
            CallRuling::Nothing | CallRuling::Allowed => match subject(tool, call) {
                Subject::Line(line) => self.asked_command(line).map_or(ruling, CallRuling::AsksCommand),
                Subject::Path(_) | Subject::Address(_) | Subject::Unknown => ruling,
            },
            CallRuling::Denied(_) | CallRuling::Asks(_) | CallRuling::AsksCommand(_) => ruling,
        }
    }

    /// Whether a rule is about what calls of this tool name.
    pub(crate) fn have_arguments_of(&self, tool: &ToolDescriptor) -> bool {
        self.calls.have_arguments_of(tool)
    }

    /// The mode of a call's session.
    pub fn mode(&self, context: &CallContext) -> PermissionMode {
        context.mode.unwrap_or_else(|| self.policy.default_mode())
    }

    /// Why the mode of its session denies a call of this tool, also one that was allowed before.
    pub fn denied_by_mode(&self, tool: &ToolDescriptor, context: &CallContext) -> Option<String> {
        let is_denied = self.mode(context) == PermissionMode::Plan && tool.risk > Risk::Low;
        is_denied.then(|| {
            format!(
                "{} changes something, and this session is in the mode \"plan\", in which nothing is changed: say what \
                 you would do",
                tool.id
            )
        })
    }

    /// Why a person must be asked before a call of this tool, in the mode of its session; `None`: it may run unasked.
    pub fn asks(&self, tool: &ToolDescriptor, context: &CallContext) -> Option<&'static str> {
        let is_unasked = match (tool.risk, self.mode(context)) {
            (Risk::Low, _) | (_, PermissionMode::Auto) => true,
            (Risk::Medium, PermissionMode::Edits) => is_own_edit(tool),
            (Risk::Medium | Risk::High, PermissionMode::Plan | PermissionMode::Ask)
            | (Risk::High, PermissionMode::Edits) => false,
        };
        match (tool.risk, &tool.risk_from) {
            (Risk::Low | Risk::Medium | Risk::High, _) if is_unasked => None,
            (Risk::Low | Risk::Medium, _) => Some("the tool changes something"),
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
        let denied = |word: &String| self.policy.deny_commands.iter().any(|denied| is_like_whatever_case(denied, word));
        super::commands::named_in(line).into_iter().find(denied)
    }

    /// The first entry of `ask_commands` that a shell line names.
    fn asked_command(&self, line: &str) -> Option<&str> {
        if self.policy.ask_commands.is_empty() {
            return None;
        }
        let named = super::commands::named_in(line);
        let is_named = |asked: &&String| {
            // The words of `find` are among the names, as it may run them.
            let is_like = |word: &String| is_like_whatever_case(asked, if word == "-delete" { "rm" } else { word });
            named.iter().any(is_like)
        };
        self.policy.ask_commands.iter().find(is_named).map(String::as_str)
    }

    /// How large a call's arguments may be, as JSON, in bytes.
    pub fn max_payload_bytes(&self) -> usize {
        self.policy.max_payload_bytes
    }
}

fn is_own_edit(tool: &ToolDescriptor) -> bool {
    match tool.kind {
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => tool.source == ToolSource::Local,
        ToolKind::Read | ToolKind::Search | ToolKind::Execute | ToolKind::Think | ToolKind::Fetch | ToolKind::Other => {
            false
        }
    }
}

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

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
