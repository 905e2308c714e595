//! `/permissions`: what may run without asking, what is denied, and the lasting decisions.

use std::path::PathBuf;

use bob::approvals::PermissionMode;
use bob_config::{Config, assemble};

use super::mode;
use crate::commands::approvals;
use crate::exit::Failure;
use crate::runtime::remembered::Place;

pub(super) struct Rules {
    /// Rows of a name and what it is.
    rows: Vec<(&'static str, String)>,
    /// The folder that lasting decisions belong to.
    folder: PathBuf,
}

impl Rules {
    pub(super) fn of(config: &Config) -> Self {
        let rules = &config.policy.rules;
        let listed = [
            ("allow", &rules.allow),
            ("ask", &rules.ask),
            ("deny", &rules.deny),
            ("tools", &rules.allow_tools),
            ("never", &rules.deny_tools),
            ("shell", &rules.deny_commands),
            ("asked", &rules.ask_commands),
        ];
        // All tools are no rule.
        let is_rule =
            |name: &str, patterns: &[String]| !(patterns.is_empty() || (name == "tools" && patterns == ["*"]));
        let listed = listed.into_iter().filter(|(name, patterns)| is_rule(name, patterns));
        let rows = listed.map(|(name, patterns)| {
            let what = match name {
                "allow" => "runs without asking: ",
                "ask" => "asks in every mode: ",
                "deny" => "is denied: ",
                "tools" => "only these are offered: ",
                "never" => "not offered: ",
                "asked" => "programs that ask in every mode: ",
                _shell => "denied programs: ",
            };
            (name, format!("{what}{}", patterns.join(", ")))
        });
        let sandbox = ("sandbox", assemble::sandbox(config).to_string());
        Self { rows: rows.chain([sandbox]).collect(), folder: config.folder.clone() }
    }

    /// All of it, with the decisions that last; `next` is the mode from the next turn on.
    pub(super) fn text(&self, now: PermissionMode, next: PermissionMode) -> Result<String, Failure> {
        let named = |name, mode| (name, format!("{mode}: {}", mode::means(mode)));
        let mut modes = vec![named("mode", now)];
        modes.extend((next != now).then(|| named("next", next)));
        let rows = modes.iter().chain(&self.rows);
        let mut text: String = rows.map(|(name, what)| format!("{name:<8} {what}\n")).collect();
        let decided = match Place::of(&self.folder) {
            Some(place) => approvals::listed(&place)?,
            None => Vec::new(),
        };
        if decided.is_empty() {
            text.push_str("always   no lasting decisions for this folder\n");
        }
        for decision in decided {
            text.push_str(&format!("always   {decision}\n"));
        }
        text.push_str("/mode changes the mode, `cli-agent approvals revoke ID` a decision, [policy] the rules\n");
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob_config::{Environment, Overrides, parse};
    use std::path::Path;

    #[test]
    fn every_rule_of_the_policy_is_named() {
        let text = "runtime.default_model = 'a:b'\npolicy.allow = ['local/shell_exec(git *)']\npolicy.ask = ['local/todo']\n\
                    policy.deny_tools = ['mcp/x/*']\npolicy.deny = ['local/write_file(src/**)']\n";
        let config = parse(text, Path::new("agent.toml"), &Environment::default(), &Overrides::default()).unwrap();
        let shown = Rules::of(&config).text(PermissionMode::Ask, PermissionMode::Ask).unwrap();
        for row in [
            "mode     ask: what changes something asks",
            "allow    runs without asking: local/shell_exec(git *)",
            "ask      asks in every mode: local/todo",
            "deny     is denied: local/write_file(src/**)",
            "never    not offered: mcp/x/*",
            "sandbox  off",
            "always   ",
        ] {
            assert!(shown.lines().any(|line| line.starts_with(row)), "{row}: {shown}");
        }
        assert!(!shown.contains("tools    "), "all tools are no rule: {shown}");
        assert!(!shown.contains("next     "), "{shown}");
        let shown = Rules::of(&config).text(PermissionMode::Ask, PermissionMode::Plan).unwrap();
        assert!(shown.starts_with("mode     ask: ") && shown.contains("\nnext     plan: "), "{shown}");
    }
}
