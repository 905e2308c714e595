//! Prices, as whole numbers, so that sums and comparisons are exact.

use crate::chat::Usage;
use crate::cost::{Cost, scaled};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// What a million tokens cost, in millionths of the currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// The most a rate can be: ten million for a million tokens.
const MOST_MICROS: u64 = 10_000_000_000_000;

impl Rate {
    /// This many millionths for a million tokens; at most ten million in all.
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros > MOST_MICROS { MOST_MICROS } else { micros })
    }

    /// This amount for a million tokens; what is below zero, or no number, is nothing.
    pub fn from_amount(amount: f64) -> Self {
        Self::from_micros(scaled(amount, 1e6))
    }

    /// What a million tokens cost, as a decimal number.
    #[expect(clippy::cast_precision_loss, reason = "a rate is at most 2^44")]
    pub fn amount(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The price of so many tokens, in millionths of millionths.
    fn of(self, tokens: u64) -> u128 {
        u128::from(self.0) * u128::from(tokens)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.amount())
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.amount())
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_amount)
    }
}

/// What a model costs, each for a million tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// Tokens of prompts.
    pub input: Rate,
    /// Tokens of answers.
    pub output: Rate,
    /// Tokens of prompts that the provider had in its cache; as `input` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Rate>,
    /// Tokens of prompts that the provider wrote to its cache; as `input` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Rate>,
    /// The currency.
    #[serde(default = "usd", skip_serializing_if = "is_usd")]
    pub currency: Arc<str>,
    /// What long prompts cost, and the answers to them.
    #[serde(default, skip_serializing_if = "has_no_tiers")]
    pub tiers: Arc<[PriceTier]>,
}

/// What a model costs for prompts above a size, each for a million tokens. It applies to all tokens of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceTier {
    /// It applies to prompts of more tokens than this.
    pub above_tokens: u64,
    /// Tokens of prompts.
    pub input: Rate,
    /// Tokens of answers.
    pub output: Rate,
    /// Tokens of prompts that the provider had in its cache; as `input` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Rate>,
    /// Tokens of prompts that the provider wrote to its cache; as `input` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Rate>,
}

/// The currency of catalogues, and of the bounds of a selector.
pub const USD: &str = "USD";

fn usd() -> Arc<str> {
    USD.into()
}

fn is_usd(currency: &Arc<str>) -> bool {
    **currency == *USD
}

fn has_no_tiers(tiers: &Arc<[PriceTier]>) -> bool {
    tiers.is_empty()
}

impl ModelPrice {
    /// A price in US dollars, without prices for a cache or for long prompts.
    pub fn usd(input: Rate, output: Rate) -> Self {
        Self { input, output, cached_input: None, cache_write: None, currency: usd(), tiers: Arc::default() }
    }

    /// The price of a call with a prompt of so many tokens: of each rate the highest that applies.
    #[must_use]
    pub fn for_prompt(&self, input_tokens: u64) -> Self {
        let mut price = Self { tiers: Arc::default(), ..self.clone() };
        let highest = |known: Option<Rate>, input, of_tier: Option<Rate>, tier_input| {
            Some(known.unwrap_or(input).max(of_tier.unwrap_or(tier_input)))
        };
        for tier in self.tiers.iter().filter(|tier| input_tokens > tier.above_tokens) {
            price.cached_input = highest(price.cached_input, price.input, tier.cached_input, tier.input);
            price.cache_write = highest(price.cache_write, price.input, tier.cache_write, tier.input);
            (price.input, price.output) = (price.input.max(tier.input), price.output.max(tier.output));
        }
        price
    }

    /// Whether it is in US dollars.
    pub fn is_in_usd(&self) -> bool {
        is_usd(&self.currency)
    }

    /// What a prompt and an answer of so many tokens cost, without a cache.
    pub fn expected(&self, input_tokens: u64, output_tokens: u64) -> Cost {
        let price = self.for_prompt(input_tokens);
        rounded(price.input.of(input_tokens) + price.output.of(output_tokens))
    }

    /// What this usage of one call cost.
    pub fn of(&self, usage: &Usage) -> Cost {
        let cached = usage.cached_input_tokens.unwrap_or(0).min(usage.input_tokens);
        let written = usage.cache_write_tokens.unwrap_or(0).min(usage.input_tokens - cached);
        let plain = usage.input_tokens - cached - written;
        let price = self.for_prompt(usage.input_tokens);
        rounded(
            price.input.of(plain)
                + price.cached_input.unwrap_or(price.input).of(cached)
                + price.cache_write.unwrap_or(price.input).of(written)
                + price.output.of(usage.output_tokens),
        )
    }
}

/// Never less than it was.
fn rounded(picos: u128) -> Cost {
    Cost::from_nanos(u64::try_from(picos.div_ceil(1_000)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::MOST_NANOS;
    use proptest::prelude::*;

    #[test]
    fn a_usage_costs_what_its_parts_cost() {
        let price = ModelPrice {
            cached_input: Some(Rate::from_amount(0.075)),
            ..ModelPrice::usd(Rate::from_amount(0.15), Rate::from_amount(0.6))
        };
        let usage = Usage {
            input_tokens: 1_000,
            cached_input_tokens: Some(400),
            output_tokens: 100,
            total_tokens: 1_100,
            ..Usage::default()
        };
        // 600 × 0.15 + 400 × 0.075 + 100 × 0.6, for a million.
        assert_eq!(price.of(&usage), Cost::from_amount(0.000_18));
        assert_eq!(price.expected(1_000, 100).to_string(), "0.00021");
        assert_eq!(serde_json::to_string(&price).unwrap(), r#"{"input":0.15,"output":0.6,"cached_input":0.075}"#);
    }

    #[test]
    fn a_long_prompt_costs_the_highest_rates_that_apply_to_it() {
        let rate = Rate::from_amount;
        let tier = |above_tokens, input, output, cached_input| PriceTier {
            above_tokens,
            input: rate(input),
            output: rate(output),
            cached_input,
            cache_write: None,
        };
        let price = ModelPrice {
            cached_input: Some(rate(0.125)),
            // In any order; a higher tier that is cheaper lowers nothing.
            tiers: Arc::new([tier(400_000, 3.0, 12.0, Some(rate(0.3))), tier(200_000, 2.5, 15.0, None)]),
            ..ModelPrice::usd(rate(1.25), rate(10.0))
        };
        let usage = |input_tokens, cached| Usage {
            input_tokens,
            cached_input_tokens: Some(cached),
            output_tokens: 1_000,
            ..Usage::default()
        };
        assert_eq!(price.of(&usage(200_000, 0)), Cost::from_amount(0.25 + 0.01));
        assert_eq!(price.of(&usage(200_001, 0)), Cost::from_amount(0.500_002_5 + 0.015));
        assert_eq!(price.of(&usage(300_000, 100_000)), Cost::from_amount(0.5 + 0.25 + 0.015), "of a cache, as input");
        assert_eq!(price.of(&usage(500_000, 100_000)), Cost::from_amount(1.2 + 0.25 + 0.015), "each rate by itself");
        assert_eq!(price.expected(200_001, 1_000), price.of(&usage(200_001, 0)));
        let text = serde_json::to_string(&price).unwrap();
        assert_eq!(serde_json::from_str::<ModelPrice>(&text).unwrap(), price);
    }

    #[test]
    fn what_is_no_amount_is_nothing_and_what_is_too_much_is_the_most() {
        for nothing in [-1.0, f64::NAN, f64::NEG_INFINITY, 0.0] {
            assert!(Cost::from_amount(nothing).is_zero() && Rate::from_amount(nothing) == Rate::default(), "{nothing}");
        }
        assert_eq!(Cost::from_amount(f64::INFINITY), Cost::from_nanos(u64::MAX));
        assert_eq!(Cost::from_nanos(u64::MAX).plus(Cost::from_nanos(5)), Cost::from_amount(1e6));
    }

    proptest! {
        #[test]
        fn json_has_every_amount_exactly(nanos in 0..=MOST_NANOS, micros in 0..=MOST_MICROS) {
            let (cost, rate) = (Cost::from_nanos(nanos), Rate::from_micros(micros));
            let text = serde_json::to_string(&(cost, rate)).unwrap();
            prop_assert_eq!(serde_json::from_str::<(Cost, Rate)>(&text).unwrap(), (cost, rate));
        }
    }
}
