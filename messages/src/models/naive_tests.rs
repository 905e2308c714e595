//! A second, naive selection to compare with: each rule as a sentence of its own, no order, no early exit.

use super::selection::EXPECTED_OUTPUT_TOKENS;
use super::{ModelBook, ModelEntry, ModelPrice, ModelSelector, Needs, Preference, ProviderStanding};
use crate::ids::ModelName;

/// All candidates, and the selected one: the candidate that no other candidate beats.
pub(super) fn select(book: &ModelBook, selector: &ModelSelector, needs: &Needs) -> (Vec<ModelName>, Option<ModelName>) {
    if selector.explicit.is_some() {
        return (Vec::new(), selector.explicit.clone());
    }
    if selector.preference == Preference::QualityFirst && book.quality_tiers.is_empty() {
        return (Vec::new(), None);
    }
    let candidates: Vec<&ModelEntry> =
        book.entries().iter().map(|entry| &**entry).filter(|entry| fits(book, selector, needs, entry)).collect();
    let best = candidates.iter().find(|one| !candidates.iter().any(|other| beats(book, selector, needs, other, one)));
    (candidates.iter().map(|entry| entry.name.clone()).collect(), best.map(|best| best.name.clone()))
}

fn fits(book: &ModelBook, selector: &ModelSelector, needs: &Needs, entry: &ModelEntry) -> bool {
    let is_ready = book.providers.get(entry.name.provider()) == Some(&ProviderStanding::Ready);
    let can = selector.require.iter().chain(&needs.require).all(|required| entry.abilities.contains(required));
    let is_large = match (selector.min_context_tokens, entry.context_tokens) {
        (Some(least), Some(has)) => least <= has,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let holds = entry.context_tokens.is_none() || needs.input_tokens <= u64::from(entry.context_tokens.unwrap());
    let price = entry.price.clone().filter(|price| &*price.currency == "USD");
    let is_cheap_in = match (selector.max_input_price_per_mtok, &price) {
        (Some(most), Some(price)) => rates(price, needs).0 <= most.amount(),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let is_cheap_out = match (selector.max_output_price_per_mtok, &price) {
        (Some(most), Some(price)) => rates(price, needs).1 <= most.amount(),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let is_priced = price.is_some() || selector.preference != Preference::CostFirst;
    is_ready && can && is_large && holds && is_cheap_in && is_cheap_out && is_priced
}

/// What a million tokens of this prompt and of its answer cost.
fn rates(price: &ModelPrice, needs: &Needs) -> (f64, f64) {
    let (mut input, mut output) = (price.input.amount(), price.output.amount());
    for tier in price.tiers.iter() {
        if tier.above_tokens < needs.input_tokens {
            input = f64::max(input, tier.input.amount());
            output = f64::max(output, tier.output.amount());
        }
    }
    (input, output)
}

fn beats(book: &ModelBook, selector: &ModelSelector, needs: &Needs, one: &ModelEntry, other: &ModelEntry) -> bool {
    let (a, b) = (badness(book, selector, needs, one), badness(book, selector, needs, other));
    a < b || (a == b && one.name.as_str() < other.name.as_str())
}

fn badness(book: &ModelBook, selector: &ModelSelector, needs: &Needs, entry: &ModelEntry) -> u128 {
    match selector.preference {
        Preference::CostFirst => {
            let price = entry.price.as_ref().unwrap();
            let micros = |amount: f64| format!("{:.0}", amount * 1e6).parse::<u128>().unwrap();
            let (input, output) = rates(price, needs);
            let picos =
                u128::from(needs.input_tokens) * micros(input) + u128::from(EXPECTED_OUTPUT_TOKENS) * micros(output);
            // A cost is whole billionths, and at most a million.
            picos.div_ceil(1_000).min(1_000_000_000_000_000)
        }
        Preference::LatencyFirst => {
            match (book.p50_ms.get(entry.name.provider()), book.classes.get(entry.name.provider())) {
                (Some(measured), _) => u128::from(*measured),
                (None, class) => u128::from(class.copied().unwrap_or_default().nominal_ms()),
            }
        }
        Preference::QualityFirst => {
            let mut tier = 0;
            for patterns in &book.quality_tiers {
                for pattern in patterns {
                    let text = entry.name.as_str();
                    let beginning = pattern.trim_end_matches('*');
                    if text == pattern || (pattern.ends_with('*') && text.get(..beginning.len()) == Some(beginning)) {
                        return tier;
                    }
                }
                tier += 1;
            }
            tier
        }
    }
}
