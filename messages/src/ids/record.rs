//! The id of a record, which is two numbers for every record of this runtime.

use super::Tail;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// One journal record: made once, before the first attempt to store it.
///
/// The text of one that is [`numbered`](Self::numbered) is made where it is needed: in the memory of a process there are
/// as many of them as records.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Numbered {
        epoch: u64,
        version: u64,
    },
    /// Any text that is not that of two numbers.
    Named(Arc<str>),
}

impl RecordId {
    /// Wraps a name that is known to be well formed.
    pub fn new(name: impl Into<Arc<str>> + AsRef<str>) -> Self {
        Self::numbers_of(name.as_ref()).unwrap_or_else(|| Self(Form::Named(name.into())))
    }

    /// The id of an owner's record: its epoch and the record's version, which no other record of the session has.
    pub fn numbered(epoch: u64, version: u64) -> Self {
        Self(Form::Numbered { epoch, version })
    }

    /// The id that is written so, if it is one of two numbers: one text has one form.
    fn numbers_of(name: &str) -> Option<Self> {
        let (epoch, version) = name.split_once('-')?;
        let id = Self::numbered(epoch.parse().ok()?, version.parse().ok()?);
        id.written(|text| text == name).then_some(id)
    }

    /// Gives its text to `reader`.
    fn written<T>(&self, reader: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            Form::Named(name) => reader(name),
            Form::Numbered { epoch, version } => {
                let mut text = Tail::default();
                text.number(*version, 1);
                text.push(b'-');
                text.number(*epoch, 1);
                reader(text.as_str())
            }
        }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(|text| f.write_str(text))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(|text| write!(f, "{text:?}"))
    }
}

impl Serialize for RecordId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for RecordId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_id_reads_as_its_numbers() {
        for number in [0, 1, 9, 10, 99_999_999, u64::MAX] {
            assert_eq!(RecordId::numbered(number, u64::MAX).to_string(), format!("{number}-{}", u64::MAX));
            assert_eq!(RecordId::numbered(1, number).to_string(), format!("1-{number}"));
            assert_eq!(RecordId::new(format!("1-{number}")), RecordId::numbered(1, number));
        }
    }

    #[test]
    fn every_text_stays_as_it_is() {
        for text in ["", "-", "1", "1-", "01-2", "+1-2", "1--2", "1-2-3", "18446744073709551616-1", "8d1-x"] {
            let id = RecordId::new(text);
            assert_eq!(id.to_string(), text);
            let written = serde_json::to_string(&id).unwrap();
            assert_eq!(written, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<RecordId>(&written).unwrap(), id);
            assert_ne!(id, RecordId::numbered(1, 2));
        }
    }
}
