//! Other names of keys and words, which are read as the names of the schema. Each file, and each layer above the files, is
//! renamed before it is merged, so a key is one key whichever name it has.

use std::borrow::Cow;

use toml::Spanned;

use super::problem::Findings;
use super::tree::{Item, Table, Value};

/// Other names of keys in a table: its name, the other name, and where its value belongs.
const KEYS: [(&str, &str, (&str, &str)); 7] = [
    ("prompt", "history_condense_trigger_ratio", ("prompt", "condense_trigger_ratio")),
    ("prompt", "history_condense_target_ratio", ("prompt", "condense_target_ratio")),
    ("prompt", "history_condense_model", ("prompt", "condense_model")),
    ("prompt", "skills_token_budget_ratio", ("skills", "token_budget_ratio")),
    ("prompt", "skills_token_budget_tokens", ("skills", "token_budget_tokens")),
    ("prompt", "skills_top_k", ("skills", "top_k")),
    ("runtime.resume", "checkpoint_ttl_ms", ("runtime", "suspend_timeout_ms")),
];

/// Keys of the design that stand for nothing that could be set there: the table, the key, and why.
const GONE: [(&str, &str, &str); 5] = [
    (
        "runtime.resume",
        "signing_key",
        "a resume token is compared with the one in the journal of its session, and nothing is signed",
    ),
    (
        "runtime.cancellation",
        "mode",
        "there is one way to cancel: what runs is stopped, and what it may have done is told",
    ),
    ("mcp.pool", "scope", OF_A_SERVER),
    ("mcp.pool", "tenant_scope", OF_A_SERVER),
    (
        "mcp.pool",
        "shutdown_grace_ms",
        "each process is stopped in the same three steps, the end of its input, TERM and KILL, within 4 s",
    ),
];

const OF_A_SERVER: &str = "which sessions share a process is said for each server, by `isolation` in `[[mcp.servers]]`";

/// Other words for a value: the list of tables, the key in each, the other word, and the one of the schema.
const WORDS: [(&str, &str, &str, &str); 3] = [
    ("mcp.servers", "transport", "streamable-http", "http"),
    ("mcp.servers", "transport", "streamable_http", "http"),
    ("skills.sources", "type", "git_mirror", "git"),
];

/// Gives keys and words the names of the schema. A key that is there under both names is a mistake.
pub(super) fn rename<'t>(root: &mut Table<'t>, findings: &mut Findings) {
    for (section, other, (to, name)) in KEYS {
        let Some((key, item)) = table_mut(root, section).and_then(|table| table.remove_entry(other)) else { continue };
        if !root.contains_key(to) {
            root.insert(named(&key, to), Item::new(key.span(), Value::Table(Table::new())));
        }
        let Some(table) = table_mut(root, to) else { continue };
        if table.contains_key(name) {
            findings.add(key.span(), format!("`{section}.{other}` is another name of `{to}.{name}`; give one of them"));
            continue;
        }
        table.insert(named(&key, name), item);
    }
    for (section, key, why) in GONE {
        let Some(table) = table_mut(root, section) else { continue };
        if let Some((at, _)) = table.remove_entry(key) {
            findings.add(at.span(), format!("`{section}.{key}` cannot be set: {why}; remove it"));
        }
        // What is left of a table that is not known here is unknown.
        if table.is_empty()
            && let Some((above, name)) = section.rsplit_once('.')
            && let Some(above) = table_mut(root, above)
        {
            above.remove(name);
        }
    }
    for (list, key, other, word) in WORDS {
        let Some((section, list)) = list.split_once('.') else { continue };
        let tables = table_mut(root, section).and_then(|table| table.get_mut(list));
        let Some(Value::Array(tables)) = tables.map(Spanned::get_mut) else { continue };
        for one in tables.iter_mut() {
            let Value::Table(one) = one.get_mut() else { continue };
            if let Some(Value::String(text)) = one.get_mut(key).map(Spanned::get_mut)
                && text == other
            {
                *text = Cow::Borrowed(word);
            }
        }
    }
}

/// A key with another name, at the place of this one.
fn named<'t>(key: &Spanned<Cow<'_, str>>, name: &'static str) -> Spanned<Cow<'t, str>> {
    Spanned::new(key.span(), Cow::Borrowed(name))
}

/// The table of this name; names of nested ones have dots between them.
fn table_mut<'r, 't>(root: &'r mut Table<'t>, name: &str) -> Option<&'r mut Table<'t>> {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    match (root.get_mut(first)?.get_mut(), rest) {
        (Value::Table(table), None) => Some(table),
        (Value::Table(table), Some(rest)) => table_mut(table, rest),
        _ => None,
    }
}
