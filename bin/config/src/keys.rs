//! The description of a key, and rules for values beyond their types.
//!
//! Each key is declared once, in the schema, with its type, its default and its rule. Everything else, such as the
//! accepted names, is derived from that.

use bob::sessions::PoolName;

use super::secret::has_credentials;
use super::tree::{self, Item};

pub(super) struct Key {
    /// Its name; empty for a flattened part, whose keys are in the table itself.
    pub(super) name: &'static str,
    pub(super) rule: Rule,
    /// The keys of the tables below it.
    pub(super) below: &'static [Key],
    /// Whether there is a table for each name or position below it, instead of one.
    pub(super) is_many: bool,
}

/// Paths of all keys, in the order of the schema. `*` stands for a name chosen by the user or for an index.
pub(super) fn paths(keys: &[Key]) -> Vec<String> {
    let of = |key: &Key| {
        if key.name.is_empty() {
            return paths(key.below);
        }
        let many = if key.is_many { ".*" } else { "" };
        let below = paths(key.below).into_iter().map(|path| format!("{}{many}.{path}", key.name));
        if key.below.is_empty() { vec![key.name.to_owned()] } else { below.collect() }
    };
    keys.iter().flat_map(of).collect()
}

pub(super) fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().flat_map(|key| if key.name.is_empty() { names(key.below) } else { vec![key.name] }).collect()
}

/// A rule for a value beyond its type. For a list it applies to each element.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Nothing more.
    Any,
    /// An integer between two inclusive bounds.
    Whole(u64, u64),
    /// A number between two bounds, both included.
    Decimal(f64, f64),
    Text,
    /// `provider:model`.
    Model,
    /// `provider:model`, or empty.
    ModelOrEmpty,
    /// An `http://` or `https://` address without user and password.
    Address,
    Pattern,
    /// A pattern of tool names, and perhaps one of arguments in parentheses.
    CallPattern,
    /// The name of one program without its folder; `*` stands for any characters.
    Command,
    /// A short name of letters, digits, `_` and `-`.
    Id,
    /// The name of a pool of machines, as the command line takes it.
    Pool,
}

/// Times are at least a millisecond, since a time of nothing would end everything before it began, and at most a week.
pub(super) const TIME: Rule = Rule::Whole(1, 7 * 24 * 3_600_000);
/// More of anything that is counted in a turn or in a process is a slip of the finger.
pub(super) const COUNT: Rule = Rule::Whole(1, 1_000_000);
pub(super) const RATIO: Rule = Rule::Decimal(0.0, 1.0);
/// A million tokens for more than this is a slip of the finger, or a currency that wants another unit.
pub(super) const PRICE: Rule = Rule::Decimal(0.0, 10_000_000.0);

impl Rule {
    /// Returns the error of a value. A value of the wrong type is skipped; its reader reports it.
    pub(super) fn complaint(self, item: &Item<'_>) -> Option<String> {
        let unless = |is_fine: bool, form: &str| (!is_fine).then(|| form.to_owned());
        let text = tree::text(item);
        match self {
            Self::Any => None,
            Self::Whole(least, most) => {
                let is_inside =
                    tree::whole(item)?.is_some_and(|number| (i128::from(least)..=i128::from(most)).contains(&number));
                unless(is_inside, &format!("must be between {least} and {most}"))
            }
            Self::Decimal(least, most) => {
                unless((least..=most).contains(&tree::decimal(item)?), &format!("must be between {least} and {most}"))
            }
            Self::Text => unless(!text?.trim().is_empty(), "must not be empty"),
            Self::Model => unless(is_model(text?), MODEL_FORM),
            Self::ModelOrEmpty => unless(text?.is_empty() || is_model(text?), MODEL_FORM),
            Self::Address if has_credentials(text?) => {
                Some("must not carry a user or a password; use `api_key` or a header".to_owned())
            }
            Self::Address => unless(is_address(text?), "must begin with http:// or https:// and a host"),
            Self::CallPattern => unless(is_call_rule(text?), CALL_RULE_FORM),
            Self::Command => unless(is_command(text?), COMMAND_FORM),
            Self::Pattern => unless(is_pattern(text?), PATTERN_FORM),
            Self::Id => unless(is_id(text?), ID_FORM),
            Self::Pool => PoolName::parse(text?).is_err().then(|| POOL_FORM.to_owned()),
        }
    }
}

pub(super) const MODEL_FORM: &str = "must have the form provider:model, for example \"openai:gpt-4o-mini\"";

pub(super) fn is_model(text: &str) -> bool {
    let is_complete = text.split_once(':').is_some_and(|(provider, model)| is_id(provider) && !model.trim().is_empty());
    is_complete && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_address(text: &str) -> bool {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', ':'])) && !text.contains(char::is_whitespace)
}

const PATTERN_FORM: &str =
    "matches no tool: names are local/<tool>, mcp/<server>/<tool> or agent/<id>, and a lone \"*\" is every tool";

const CALL_RULE_FORM: &str = "must be a tool, or a tool with a pattern of its arguments in parentheses, for example \
    \"local/shell_exec(git *)\" or \"local/edit_file(src/**)\"";

fn is_call_rule(text: &str) -> bool {
    match text.split_once('(') {
        None => is_pattern(text),
        Some((tool, about)) => {
            is_pattern(tool) && about.strip_suffix(')').is_some_and(|about| !about.trim().is_empty())
        }
    }
}

const COMMAND_FORM: &str = "must be the name of one program without a folder, for example \"rm\"; to match arguments, write a rule in `deny` or \
     `ask`, for example \"local/shell_exec(git push *)\"";

fn is_command(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c == '/' || c.is_whitespace())
}

pub(super) fn is_pattern(text: &str) -> bool {
    let is_space = |space: &str| matches!(space, "local" | "mcp" | "agent") || space.contains(['*', '?', '[', '{']);
    text == "*" || text.split_once('/').is_some_and(|(space, name)| is_space(space) && !name.is_empty())
}

const POOL_FORM: &str = "must be a pool: 1 to 64 letters, digits, `.`, `_` or `-`, beginning with a letter or digit";

pub(super) const ID_FORM: &str = "must be 1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit";

pub(super) fn is_id(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
