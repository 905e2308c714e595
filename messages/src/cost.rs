//! Amounts of money, as whole numbers, so that sums and comparisons are exact.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// An amount of money, in billionths of the currency of the price. Text and JSON have it as a decimal number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

/// The most an amount can be: a million. Larger ones are exact in no JSON number.
pub(crate) const MOST_NANOS: u64 = 1_000_000_000_000_000;

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// This many billionths; at most a million.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(if nanos > MOST_NANOS { MOST_NANOS } else { nanos })
    }

    /// This amount; what is below zero, or no number, is nothing.
    pub fn from_amount(amount: f64) -> Self {
        Self::from_nanos(scaled(amount, 1e9))
    }

    /// In billionths.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// As a decimal number.
    #[expect(clippy::cast_precision_loss, reason = "an amount is at most 2^50")]
    pub fn amount(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In millionths, rounded up.
    pub const fn micros(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whether it is nothing.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The sum of two amounts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self::from_nanos(self.0.saturating_add(other.0))
    }

    /// What is left of an amount; nothing, when more was used.
    #[must_use]
    pub const fn less(self, used: Self) -> Self {
        Self(self.0.saturating_sub(used.0))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.amount())
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.amount())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_amount)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before, and by the callers")]
pub(crate) fn scaled(amount: f64, parts: f64) -> u64 {
    let parts = (amount * parts).round();
    if parts.is_nan() || parts <= 0.0 { 0 } else { parts.min(1e18) as u64 }
}
