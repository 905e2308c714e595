//! Names that providers accept.
//!
//! Providers refuse `/` in function names and allow at most 64 characters of `[A-Za-z0-9_-]`. A tool's name becomes
//! `local__read_file`: readable, ending in the tool's own name; a short hash goes in only where two names would meet
//! or a name is too long. [`crate::tools::ToolSet`] keeps the way back.

use crate::ids::ToolName;
use crate::trace::fnv64;
use std::collections::BTreeSet;

/// The limit of providers.
pub const MAX_BYTES: usize = 64;

/// The native names of a list of tools, in order, all different.
pub fn native_names<'a>(names: impl Iterator<Item = &'a ToolName>) -> Vec<String> {
    // The question to the user is offered beside the tools and keeps its name.
    let mut taken = BTreeSet::from([ToolName::ASK_USER.to_owned()]);
    names
        .map(|name| {
            let plain = native_form(name);
            let chosen = if taken.contains(&plain) { hashed(name) } else { plain };
            taken.insert(chosen.clone());
            chosen
        })
        .collect()
}

/// The native form of one name, hashed only when it does not fit.
pub fn native_form(name: &ToolName) -> String {
    let spelled: String = name.as_str().split('/').map(spell).collect::<Vec<_>>().join("__");
    if spelled.is_empty() || spelled.len() > MAX_BYTES { hashed(name) } else { spelled }
}

fn spell(part: &str) -> String {
    part.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Prefix, hash of the whole name, and as much of the tool's own name's end as fits.
fn hashed(name: &ToolName) -> String {
    let hash = format!("{:08x}", fnv64(name.as_str().as_bytes()) >> 32);
    let own = spell(name.own_name());
    let room = MAX_BYTES - hash.len() - 2;
    let own = &own[own.len().saturating_sub(room)..];
    let rest = room - own.len();
    let prefix = spell(name.as_str().split('/').next().unwrap_or_default());
    if rest > prefix.len() + 2 && prefix != own { format!("{prefix}__{hash}__{own}") } else { format!("{hash}__{own}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &[&str]) -> Vec<String> {
        native_names(list.iter().map(|name| ToolName::new(*name)).collect::<Vec<_>>().iter())
    }

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(names(&["local/read_file", "mcp/files/list"]), ["local__read_file", "mcp__files__list"]);
    }

    #[test]
    fn a_hash_goes_in_only_where_two_names_meet() {
        let got = names(&["mcp/a/b__c", "mcp/a__b/c", "ask_user"]);
        assert_eq!(got[0], "mcp__a__b__c");
        assert!(got[1].starts_with("mcp__") && got[1].ends_with("__c") && got[1].len() == 5 + 8 + 3, "{got:?}");
        assert_ne!(got[2], "ask_user");
    }

    #[test]
    fn a_long_name_keeps_the_tools_own_name() {
        let got = names(&[&format!("mcp/{}/read", "server".repeat(20))]);
        assert!(got[0].len() <= MAX_BYTES && got[0].ends_with("__read"), "{got:?}");
    }

    proptest! {
        #[test]
        fn any_names_become_different_acceptable_ones(list in proptest::collection::btree_set("[a-z/_. é]{0,90}", 0..12)) {
            let list: Vec<_> = list.into_iter().map(ToolName::new).collect();
            let native = native_names(list.iter());
            let distinct: BTreeSet<_> = native.iter().collect();
            prop_assert_eq!(distinct.len(), list.len());
            for name in &native {
                prop_assert!((1..=MAX_BYTES).contains(&name.len()));
                prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
            }
        }
    }
}
