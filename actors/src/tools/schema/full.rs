//! What is checked with the feature `json-schema`: all that a schema says.
//!
//! A schema may come from a stranger. It is small and not deep when it arrives here, and can still require unlimited
//! work: a few references double the work at each step, a chain of them is as deep as the stack, a pattern becomes a
//! machine of many megabytes. So it is surveyed before it is compiled ([`survey`]), and what a check would cost is
//! counted before it is made ([`cost`](super::cost)). Patterns are matched in linear time. Nothing is ever fetched.
//!
//! The first schema that is compiled in a process compiles the schema of schemas, too: 6 million instructions, more
//! than all the rest of a first turn. So a schema of plain keywords alone ([`plain::covers`]) is compiled when first arguments do
//! not fit it, and only to say why.

use super::cost::Cost;
use super::quick::Quick;
use super::survey::{self, Survey};
use super::{FEW_STEPS, MAX_COMPLAINTS, Misfit, STEPS_PER_VALUE, clip, plain};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use std::sync::OnceLock;

/// How large one compiled pattern may be, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Up to which depth the survey's bound lets a schema be compiled where we are; a deeper
/// one is compiled on a stack of its own.
const NEAR: usize = 64;

/// The stack on which a deep schema is compiled, in bytes. Memory is used as it is needed.
const DEEP_STACK_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(in crate::tools) struct Checker {
    /// Empty as long as the plain keywords of the schema were enough.
    validator: OnceLock<Result<Validator, String>>,
    /// The schema, where it has plain keywords alone.
    quick: Option<Quick>,
    values: usize,
    /// Whether each of its parts is reached in one way only.
    is_tree: bool,
}

impl Checker {
    pub(in crate::tools) fn read(schema: &Value) -> Result<Self, String> {
        let Survey { values, is_tree, depth, .. } = Survey::of(schema)?;
        let validator = match depth {
            0..=NEAR if plain::covers(schema) => OnceLock::new(),
            0..=NEAR => Ok(compile(schema)?).into(),
            _ => Ok(compile_apart(schema)?).into(),
        };
        let quick = validator.get().is_none().then(|| Quick::read(schema));
        Ok(Self { validator, quick, values, is_tree })
    }

    /// Checks arguments against the schema, which must be the one that was read. Errors: what is wrong with them.
    pub(in crate::tools) fn check(&self, schema: &Value, arguments: &Value) -> Result<(), Misfit> {
        let steps = self.steps(schema, arguments).ok_or(Misfit::TooMuch)?;
        if self.quick.as_ref().is_some_and(|quick| quick.takes(arguments)) {
            return Ok(());
        }
        let validator = self.validator.get_or_init(|| compile(schema));
        let validator = validator.as_ref().map_err(|why| Misfit::Complaints(vec![why.clone()]))?;
        if validator.is_valid(arguments) {
            return Ok(());
        }
        if steps > FEW_STEPS {
            return Err(Misfit::Complaints(vec!["they are too large to say where".to_owned()]));
        }
        let complaints = validator.iter_errors(arguments).take(MAX_COMPLAINTS);
        let complaints = complaints.map(|error| match error.instance_path().as_str() {
            "" => clip(&error.to_string()),
            place => format!("{}: {}", clip(place), clip(&error.to_string())),
        });
        Err(Misfit::Complaints(complaints.collect()))
    }

    /// How many steps a check takes at most; `None`: more than it may.
    fn steps(&self, schema: &Value, arguments: &Value) -> Option<usize> {
        let values = survey::values_in(arguments);
        // In a tree each part meets each value at most once.
        let at_most = self.values.saturating_mul(values);
        if self.is_tree && at_most <= FEW_STEPS {
            return Some(at_most);
        }
        let limit = FEW_STEPS.saturating_add(values.saturating_mul(STEPS_PER_VALUE));
        Cost::of(schema, self.values, arguments, limit)
    }
}

fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options().with_pattern_options(patterns);
    // A pattern among the arguments would be compiled to see whether it is one.
    let options = options.with_format("regex", |_any_text: &str| true);
    options.build(schema).map_err(|error| clip(&error.to_string()))
}

fn compile_apart(schema: &Value) -> Result<Validator, String> {
    let failed = || "it is too deep to be read here".to_owned();
    std::thread::scope(|scope| {
        let apart = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES);
        let compiling = apart.spawn_scoped(scope, || compile(schema)).map_err(|_no_thread| failed())?;
        compiling.join().unwrap_or_else(|_panicked| Err(failed()))
    })
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
