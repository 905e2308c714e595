//! The name of a pool of machines.

use super::InvalidId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A pool of machines to which a session may be bound. Matches `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PoolName(Arc<str>);

impl PoolName {
    /// The most bytes a name may have.
    pub const MAX_BYTES: usize = 64;

    /// Validates a name.
    ///
    /// # Errors
    /// When the text does not match the form above.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let is_first = |c: char| c.is_ascii_alphanumeric();
        let is_fine = text.starts_with(is_first)
            && text.len() <= Self::MAX_BYTES
            && text.chars().all(|c| is_first(c) || matches!(c, '.' | '_' | '-'));
        match is_fine {
            true => Ok(Self(text.into())),
            false => Err(InvalidId(format!(
                "the pool {:?} is not a name: expected a letter or digit followed by up to 63 letters, digits, `.`, `_` or `-`",
                text.chars().take(80).collect::<String>()
            ))),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for PoolName {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        Self::parse(&text)
    }
}

impl From<PoolName> for String {
    fn from(name: PoolName) -> Self {
        name.0.as_ref().to_owned()
    }
}
