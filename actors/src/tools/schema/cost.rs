//! How much work it is to check arguments against a schema: the check is walked through
//! without being made, and the walk ends when it has become too long.
//!
//! The walk never stops at a branch that fails, so it is at least as long as the check.

use super::survey::{REFERENCES, targets};
use serde_json::{Map, Value};

/// How deep a check may go; each step of it is a few frames on the stack.
const MAX_DEPTH: usize = 512;

/// How many bytes of a text are looked at in one step, and how many entries of a list.
const AT_ONCE: usize = 32;

pub(super) struct Cost<'s> {
    schema: &'s Value,
    /// How many values it consists of.
    values: usize,
    /// How many steps may still be taken.
    left: usize,
    depth: usize,
    /// The parts that are being checked against the same value; one that is met again says nothing new.
    here: Vec<&'s Value>,
}

impl<'s> Cost<'s> {
    /// How many steps a check takes; `None`: more than this limit, or too deep.
    pub(super) fn of(schema: &'s Value, values: usize, arguments: &Value, limit: usize) -> Option<usize> {
        let mut cost = Self { schema, values, left: limit, depth: 0, here: Vec::new() };
        cost.meet(schema, arguments)?;
        Some(limit - cost.left)
    }

    fn pay(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps)?;
        Some(())
    }

    /// Another value is looked at.
    fn descend(&mut self, part: &'s Value, value: &Value) -> Option<()> {
        let here = std::mem::take(&mut self.here);
        let met = self.meet(part, value);
        self.here = here;
        met
    }

    fn meet(&mut self, part: &'s Value, value: &Value) -> Option<()> {
        self.pay(1 + self.here.len() / AT_ONCE)?;
        let Value::Object(fields) = part else { return Some(()) };
        if self.here.iter().any(|seen| std::ptr::eq(*seen, part)) {
            return Some(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.here.push(part);
        let looks_twice = ["unevaluatedProperties", "unevaluatedItems"].iter().any(|word| fields.contains_key(*word));
        for _ in 0..=usize::from(looks_twice) {
            for (keyword, said) in fields {
                self.obey(keyword, said, fields, value)?;
            }
        }
        self.here.pop();
        self.depth -= 1;
        Some(())
    }

    fn obey(&mut self, keyword: &str, said: &'s Value, beside: &'s Map<String, Value>, value: &Value) -> Option<()> {
        match (keyword, said) {
            (reference, Value::String(target)) if REFERENCES.contains(&reference) => {
                // A name is looked for everywhere; a path says where it leads.
                let is_path = target.strip_prefix('#').is_some_and(|path| path.is_empty() || path.starts_with('/'));
                self.pay(if is_path { target.len() } else { self.values } / AT_ONCE)?;
                // One that leads out was refused when the schema was read.
                let targets = targets(self.schema, target).unwrap_or_default();
                targets.into_iter().try_for_each(|target| self.meet(target, value))
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                parts.iter().try_for_each(|part| self.meet(part, value))
            }
            ("not" | "if" | "then" | "else", part) => self.meet(part, value),
            ("dependentSchemas" | "dependencies", Value::Object(parts)) => {
                parts.values().try_for_each(|part| self.meet(part, value))
            }
            ("properties", Value::Object(parts)) => self.properties(parts, value),
            ("patternProperties", Value::Object(parts)) => self.patterned(parts, value),
            ("additionalProperties" | "unevaluatedProperties", part) => {
                let patterns = beside.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
                value.as_object().into_iter().flatten().try_for_each(|(_, field)| {
                    self.pay(patterns)?;
                    self.descend(part, field)
                })
            }
            ("propertyNames", part) => value
                .as_object()
                .into_iter()
                .flatten()
                .try_for_each(|(name, _)| self.descend(part, &Value::String(name.clone()))),
            ("items" | "prefixItems", Value::Array(parts)) => {
                let items = value.as_array().into_iter().flatten();
                parts.iter().zip(items).try_for_each(|(part, item)| self.descend(part, item))
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", part) => {
                value.as_array().into_iter().flatten().try_for_each(|item| self.descend(part, item))
            }
            ("enum", Value::Array(words)) => self.pay(words.len() / AT_ONCE),
            ("required", Value::Array(names)) => self.pay(names.len() / AT_ONCE),
            ("pattern", _) => self.pay(value.as_str().map_or(0, str::len) / AT_ONCE),
            _costs_nothing_more => Some(()),
        }
    }

    fn properties(&mut self, parts: &'s Map<String, Value>, value: &Value) -> Option<()> {
        let Value::Object(fields) = value else { return Some(()) };
        self.pay(parts.len() / AT_ONCE)?;
        parts.iter().try_for_each(|(name, part)| match fields.get(name) {
            Some(field) => self.descend(part, field),
            None => Some(()),
        })
    }

    fn patterned(&mut self, parts: &'s Map<String, Value>, value: &Value) -> Option<()> {
        let Value::Object(fields) = value else { return Some(()) };
        for (name, field) in fields {
            self.pay(parts.len() * (1 + name.len() / AT_ONCE))?;
            parts.values().try_for_each(|part| self.descend(part, field))?;
        }
        Some(())
    }
}
