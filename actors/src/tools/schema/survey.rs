//! What a schema consists of, found without following any reference, and where its references lead.

use serde_json::Value;
use std::collections::BTreeSet;

const MAX_PATTERNS: usize = 64;

/// How many different parts a schema may refer to.
const MAX_REFERENCES: usize = 256;

/// How deep a schema may be with its references followed.
const MAX_DEPTH: usize = 1_024;

/// The keywords that refer to another part.
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

#[derive(Debug, Default)]
pub(super) struct Survey<'s> {
    pub(super) values: usize,
    /// Whether each part is reached in one way only.
    pub(super) is_tree: bool,
    /// A bound on the depth with all references followed: no way passes one target twice.
    pub(super) depth: usize,
    references: BTreeSet<&'s str>,
    patterns: usize,
    is_draft_4: bool,
}

impl<'s> Survey<'s> {
    pub(super) fn of(schema: &'s Value) -> Result<Self, String> {
        let dialect = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let mut survey = Self { is_tree: true, is_draft_4: dialect.contains("draft-04"), ..Self::default() };
        survey.look(schema, true)?;
        if survey.patterns > MAX_PATTERNS {
            return Err(format!("it has more than {MAX_PATTERNS} patterns"));
        }
        if survey.references.len() > MAX_REFERENCES {
            return Err(format!("it refers to more than {MAX_REFERENCES} different parts"));
        }
        survey.depth = depth_of(schema);
        for reference in &survey.references {
            let targets = targets(schema, reference)?;
            survey.depth += targets.iter().map(|target| depth_of(target)).sum::<usize>();
        }
        match survey.depth {
            0..=MAX_DEPTH => Ok(survey),
            _ => Err(format!("with its references it is deeper than {MAX_DEPTH}")),
        }
    }

    fn look(&mut self, value: &'s Value, is_top: bool) -> Result<(), String> {
        self.values += 1;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
            Value::Array(items) => items.iter().try_for_each(|item| self.look(item, false)),
            Value::Object(fields) => fields.iter().try_for_each(|(keyword, said)| {
                self.note(keyword, said, is_top)?;
                self.look(said, false)
            }),
        }
    }

    fn note(&mut self, keyword: &str, said: &'s Value, is_top: bool) -> Result<(), String> {
        match (keyword, said) {
            (reference, Value::String(target)) if REFERENCES.contains(&reference) => {
                self.is_tree = false;
                self.references.insert(target);
            }
            // Below it, references would mean something else.
            ("$id", Value::String(_)) if !is_top => return Err("a part of it has an `$id` of its own".to_owned()),
            ("id", Value::String(_)) if !is_top && self.is_draft_4 => {
                return Err("a part of it has an `id` of its own".to_owned());
            }
            // These look at what is beside them once more.
            ("unevaluatedProperties" | "unevaluatedItems", _) => self.is_tree = false,
            ("pattern", Value::String(_)) => self.patterns += 1,
            ("patternProperties", Value::Object(patterns)) => self.patterns += patterns.len(),
            _other => {}
        }
        Ok(())
    }
}

pub(super) fn values_in(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values_in).sum::<usize>(),
    }
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
    }
}

/// Which parts a reference means: none for one that leads nowhere, several for a name that several have.
pub(super) fn targets<'s>(schema: &'s Value, reference: &str) -> Result<Vec<&'s Value>, String> {
    let own = schema.get("$id").and_then(Value::as_str).unwrap_or_default();
    let inside = reference.strip_prefix(own).unwrap_or(reference);
    let Some(fragment) = inside.strip_prefix('#').or_else(|| inside.is_empty().then_some("")) else {
        let shown: String = reference.chars().take(80).collect();
        return Err(format!("it refers to {shown:?}, and nothing is fetched for a schema"));
    };
    let fragment = decoded(fragment);
    if fragment.is_empty() || fragment.starts_with('/') {
        return Ok(schema.pointer(&fragment).into_iter().collect());
    }
    let mut named = Vec::new();
    find_named(schema, &fragment, &mut named);
    Ok(named)
}

fn find_named<'s>(value: &'s Value, name: &str, named: &mut Vec<&'s Value>) {
    let is_named = |keyword: &str| value.get(keyword).and_then(Value::as_str) == Some(name);
    if is_named("$anchor") || is_named("$dynamicAnchor") {
        named.push(value);
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Array(items) => items.iter().for_each(|item| find_named(item, name, named)),
        Value::Object(fields) => fields.values().for_each(|field| find_named(field, name, named)),
    }
}

/// A fragment without its percent signs.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
