//! The keys about hooks: programs that are run at points of a turn.

use std::collections::BTreeMap;

use super::keys::Rule::{CallPattern, Text, Whole};
use super::secret::Secret;
use super::table::table;
use super::words::{HookFailure, HookOn};

table! {
    /// `[hooks.<name>]`: a program that is run at a point of a turn. Hooks are asked in the order of their names.
    pub struct Hook {
        /// When it is run.
        pub on: HookOn,
        /// Rules over the calls that it is about; every call if there are none.
        pub calls: Vec<String> = Vec::new() => CallPattern,
        /// The program; no shell reads it.
        pub command: String => Text,
        /// Its arguments, as they are.
        pub args: Vec<String> = Vec::new(),
        /// Environment variables set for it, beyond the small list it inherits.
        pub env: BTreeMap<String, Secret> = BTreeMap::new(),
        /// How long one run may take, milliseconds.
        pub timeout_ms: u64 = 10_000 => Whole(1, 600_000),
        /// What its failure comes to before a call.
        pub on_failure: HookFailure = HookFailure::Deny,
    }
}
