//! Prices of models, as configured. None are built in, since prices change.

use super::keys::{PRICE, Rule::Text};
use super::table::table;

table! {
    /// `[prices."<provider:model>"]`: the price for a million tokens each.
    #[derive(PartialEq)]
    pub struct Price {
        /// Tokens of prompts.
        pub input: f64 => PRICE,
        /// Tokens of answers.
        pub output: f64 => PRICE,
        /// Tokens of prompts that the provider had in its cache; as `input` if not set.
        pub cached_input: Option<f64> = None => PRICE,
        /// Tokens of prompts that the provider wrote to its cache; as `input` if not set.
        pub cache_write: Option<f64> = None => PRICE,
        /// The currency: a short text that is shown after amounts.
        pub currency: String = "USD".to_owned() => Text,
    }
}
