//! Names of requests in little room: of each only a fingerprint, which says "perhaps" of two names that share it.
//!
//! Two of a session's names share one about once in 10^14; the caller then looks the name up in the journal.

use crate::ids::RequestId;
use crate::trace::fnv64;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::collections::BTreeSet;

/// How many hexadecimal digits a fingerprint has.
const DIGITS: usize = 12;

/// Some names, each by its fingerprint of 48 bits. As text: their digits, one behind the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names(BTreeSet<u64>);

impl Names {
    pub(super) fn insert(&mut self, name: &RequestId) {
        self.0.insert(fingerprint(name));
    }

    /// Whether this is one of them, but for a name that shares its fingerprint with one.
    pub(super) fn has(&self, name: &RequestId) -> bool {
        !self.0.is_empty() && self.0.contains(&fingerprint(name))
    }
}

/// A hash, folded to 48 bits: the same in every process and for ever.
fn fingerprint(name: &RequestId) -> u64 {
    let hash = fnv64(name.as_str().as_bytes());
    (hash ^ (hash >> 48)) & 0xffff_ffff_ffff
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.0.len() * DIGITS);
        for fingerprint in &self.0 {
            text.push_str(&format!("{fingerprint:012x}"));
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.as_bytes().chunks(DIGITS);
        let one = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == DIGITS);
            digits.and_then(|digits| u64::from_str_radix(digits, 16).ok())
        };
        let names = digits.map(one).collect::<Option<_>>();
        names.map(Self).ok_or_else(|| D::Error::custom("these are no fingerprints of names"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_also_when_they_were_written_down() {
        let mut names = Names::default();
        let name = |number: u32| RequestId::new(format!("request {number}"));
        (0..5_000).for_each(|number| names.insert(&name(number)));
        assert_eq!(names.0.len(), 5_000, "no two share a fingerprint");
        let text = serde_json::to_string(&names).unwrap();
        assert_eq!(text.len(), 5_000 * DIGITS + 2);
        let read: Names = serde_json::from_str(&text).unwrap();
        assert_eq!(read, names);
        assert!((0..5_000).all(|number| read.has(&name(number))));
        assert!((5_000..10_000).all(|number| !read.has(&name(number))));
        assert_eq!(serde_json::from_str::<Names>("\"\"").unwrap(), Names::default());
        assert!(serde_json::from_str::<Names>("\"00ff\"").is_err());
        assert!(serde_json::from_str::<Names>("\"zzzzzzzzzzzz\"").is_err());
    }

    #[test]
    fn a_fingerprint_stays_what_it_was() {
        assert_eq!(format!("{:012x}", fingerprint(&RequestId::new("r1"))), "8307b57befb0");
    }
}
