//! The permission mode of a session: which calls run, ask or are denied when no rule and no decision is about them.

use crate::risk::Risk;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// What a session may do without asking, from the narrowest to the widest.
///
/// A mode never lifts a denial, and what governs the agent (its configuration, its store, what people decided) is asked
/// about in each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionMode {
    /// Calls of low risk run, all others are denied.
    Plan,
    /// Calls of low risk run, all others ask; without a person to ask, they are denied.
    #[default]
    Ask,
    /// As [`Ask`](Self::Ask), and changes of medium risk that the runtime's own file tools make inside the session's
    /// folders run.
    Edits,
    /// Everything the policy allows runs.
    Auto,
}

impl PermissionMode {
    /// All modes, from the narrowest to the widest.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Ask, Self::Edits, Self::Auto];

    /// Its name, as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Edits => "edits",
            Self::Auto => "auto",
        }
    }

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// The next wider mode; after the widest, the narrowest.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Plan => Self::Ask,
            Self::Ask => Self::Edits,
            Self::Edits => Self::Auto,
            Self::Auto => Self::Plan,
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Reads a mode, or what older records have in its place: the risk up to which a call needed no approval. Approval of
/// high risk is [`PermissionMode::Auto`]; what else older records can name leaves the mode to the policy.
pub(crate) fn mode_or_risk<'de, D: Deserializer<'de>>(source: D) -> Result<Option<PermissionMode>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Mode(PermissionMode),
        Approved(Risk),
    }
    Ok(match Option::<Either>::deserialize(source)? {
        Some(Either::Mode(mode)) => Some(mode),
        Some(Either::Approved(Risk::High)) => Some(PermissionMode::Auto),
        Some(Either::Approved(Risk::Low | Risk::Medium)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SessionOptions;

    #[test]
    fn the_modes_are_ordered_and_each_is_reached_from_each() {
        assert!(PermissionMode::ALL.is_sorted());
        for mode in PermissionMode::ALL {
            assert_eq!(PermissionMode::named(mode.as_str()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
            assert_eq!(mode.next().next().next().next(), mode);
        }
        assert_eq!(PermissionMode::named("Auto"), None);
    }

    #[test]
    fn older_records_are_read_and_newer_ones_are_read_again() {
        for (text, mode) in [
            ("{}", None),
            (r#"{"approve":null}"#, None),
            (r#"{"approve":"medium"}"#, None),
            (r#"{"approve":"high"}"#, Some(PermissionMode::Auto)),
            (r#"{"mode":"edits"}"#, Some(PermissionMode::Edits)),
        ] {
            let options: SessionOptions = serde_json::from_str(text).unwrap();
            assert_eq!(options.mode, mode, "{text}");
            let again = serde_json::to_string(&options).unwrap();
            assert_eq!(serde_json::from_str::<SessionOptions>(&again).unwrap(), options);
        }
        assert!(serde_json::from_str::<SessionOptions>(r#"{"mode":"yolo"}"#).is_err());
    }
}
