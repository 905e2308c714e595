//! Tokens and money, counted.

use super::*;
use bob::model::catalogue::{CatalogueSettings, ModelFacts, Rate};
use bob::model::{ScriptedLlm, StopReason};

pub(crate) fn usage(input: u64, cached: Option<u64>, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input + output,
        cached_input_tokens: cached,
        ..Usage::default()
    }
}

fn model(name: &str) -> ModelName {
    ModelName::parse(name).unwrap()
}

pub(crate) fn completed(name: &str, usage: Option<Usage>) -> AgentEvent {
    AgentEvent::LlmCompleted {
        model: model(name),
        latency_ms: 1,
        usage,
        stop_reason: StopReason::Stop,
        response_id: None,
        cost: None,
    }
}

/// Prices of these models beside those that are built in.
pub(crate) fn priced(prices: impl IntoIterator<Item = (&'static str, ModelPrice)>) -> Prices {
    let prices = prices.into_iter().map(|(name, price)| (model(name), price)).collect();
    let facts = ModelFacts::open(CatalogueSettings { prices, ..CatalogueSettings::default() });
    Prices::of(&Catalogue::new(facts, Arc::new(ScriptedLlm::new(Vec::new()))))
}

fn prices() -> Prices {
    let rate = Rate::from_amount;
    let price = |input, output, cached_input: Option<f64>, currency: &str| ModelPrice {
        cached_input: cached_input.map(rate),
        cache_write: Some(rate(2.0 * input)),
        currency: currency.into(),
        ..ModelPrice::usd(rate(input), rate(output))
    };
    priced([("a:b", price(1.0, 4.0, Some(0.5), "USD")), ("c:d", price(10.0, 20.0, None, "EUR"))])
}

#[test]
fn each_kind_of_token_has_its_price() {
    let price = &prices().get(&ModelName::parse("a:b").unwrap(), 0).unwrap();
    let price_of = |usage: &Usage, price: &ModelPrice| price.of(usage).amount();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(price_of(&usage(1_000_000, None, 0), price), 1.0);
    close(price_of(&usage(1_000_000, Some(400_000), 250_000), price), 0.6 + 0.2 + 1.0);
    let written = Usage { cache_write_tokens: Some(100_000), ..usage(1_000_000, Some(400_000), 0) };
    close(price_of(&written, price), 0.5 + 0.2 + 0.2);
    // A provider that counts wrongly costs no negative amount.
    close(price_of(&usage(10, Some(1_000_000), 0), price), 5e-6);
    close(
        price_of(&usage(1_000_000, Some(1_000_000), 0), &prices().get(&ModelName::parse("c:d").unwrap(), 0).unwrap()),
        10.0,
    );
}

#[test]
fn models_and_currencies_are_kept_apart_and_what_has_no_price_is_not_free() {
    let mut spending = Spending::default();
    spending.event(&completed("a:b", Some(usage(500_000, None, 0))));
    spending.event(&completed("c:d", Some(usage(100_000, None, 0))));
    assert_eq!(spending.cost(&prices()).to_string(), "1.00 EUR + 0.5000 USD");
    spending.event(&completed("e:f", Some(usage(7, None, 1))));
    assert_eq!(spending.cost(&prices()).to_string(), "1.00 EUR + 0.5000 USD and more");
    assert_eq!(spending.total().usage.total_tokens, 600_008);
    let calls: Vec<u64> = spending.models().map(|(_, used)| used.calls).collect();
    assert_eq!(calls, [1, 1, 1]);

    let mut unpriced = Spending::default();
    unpriced.event(&completed("e:f", None));
    assert_eq!(unpriced.cost(&prices()).to_string(), "unknown");
    assert!(!unpriced.cost(&prices()).is_known());
}

#[test]
fn a_call_with_a_long_prompt_costs_more_and_many_short_ones_do_not() {
    let prices = priced([]);
    let name = "gemini:gemini-2.5-pro";
    let cost = |calls: &[u64]| {
        let mut spending = Spending::default();
        calls.iter().for_each(|input| spending.event(&completed(name, Some(usage(*input, None, 0)))));
        spending.cost(&prices).to_string()
    };
    assert_eq!((cost(&[200_000]), cost(&[200_001])), ("0.2500 USD".to_owned(), "0.5000 USD".to_owned()));
    assert_eq!(cost(&[150_000, 150_000, 300_000]), "1.12 USD");
}

#[test]
fn what_is_under_way_is_estimated_until_it_is_known() {
    let mut spending = Spending::default();
    assert_eq!(spending.tokens(), (0, false));
    spending.event(&AgentEvent::PromptBuilt {
        messages: 1,
        estimated_tokens: 100,
        dropped_messages: 0,
        cut_layers: Vec::new(),
        cut_bytes: 0,
    });
    let text = Delta::Text("twenty letters here.".to_owned());
    spending.event(&AgentEvent::LlmStreamChunk { message_id: "m".to_owned(), delta: text });
    assert_eq!(spending.tokens(), (105, true));
    spending.event(&completed("a:b", Some(usage(90, None, 9))));
    assert_eq!(spending.tokens(), (99, false));
}

#[test]
fn amounts_have_the_places_that_say_something() {
    assert_eq!(money(0.0, "USD"), "0 USD");
    assert_eq!(money(0.000_012, "USD"), "under 0.0001 USD");
    assert_eq!(money(0.012_34, "USD"), "0.0123 USD");
    assert_eq!(money(12.345, "EUR"), "12.35 EUR");
    assert_eq!((grouped(0), grouped(999), grouped(1_000), grouped(1_234_567)).3, "1,234,567");
    assert_eq!(grouped(1_000), "1,000");
}
