//! Texts that may be keys.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A text that is never written anywhere: nothing serialises it, and it prints as dots.
#[derive(Clone, Default)]
pub struct Hidden(Option<SecretString>);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<SecretString>) -> Self {
        Self(Some(text.into()))
    }

    /// The text; `None` if it was read from a journal.
    pub fn expose(&self) -> Option<&str> {
        self.0.as_ref().map(ExposeSecret::expose_secret)
    }
}

impl PartialEq for Hidden {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Hidden {}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "…" } else { "(not given)" })
    }
}

impl<'de> Deserialize<'de> for Hidden {
    /// A value that is present is taken, and hidden from then on.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<String>::deserialize(deserializer).map(|given| Self(given.map(Into::into)))
    }
}
