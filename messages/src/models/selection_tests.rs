use super::naive;
use super::*;
use crate::ids::ModelName;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of as maybe;
use proptest::prelude::*;
use proptest::sample::select as one_of;
use std::collections::BTreeSet;

fn model(name: &str) -> ModelName {
    ModelName::parse(name).unwrap()
}

fn entry(name: &str, input: f64, output: f64, abilities: &[Requirement]) -> ModelEntry {
    ModelEntry {
        name: model(name),
        context_tokens: Some(100_000),
        max_output_tokens: None,
        price: Some(ModelPrice::usd(Rate::from_amount(input), Rate::from_amount(output))),
        abilities: abilities.iter().copied().collect(),
    }
}

/// Few different values, so that ties and boundaries are frequent.
fn any_entry() -> impl Strategy<Value = ModelEntry> {
    let rate = || one_of(vec![0.0, 0.1, 0.15, 1.0, 2.5]);
    let currency = one_of(vec!["USD", "USD", "USD", "EUR"]);
    let tier = (one_of(vec![10_u64, 1_000, 8_000]), rate(), rate()).prop_map(|(above_tokens, input, output)| {
        let (input, output) = (Rate::from_amount(input), Rate::from_amount(output));
        PriceTier { above_tokens, input, output, cached_input: None, cache_write: None }
    });
    let price = maybe((rate(), rate(), currency, vec(tier, 0..3))).prop_map(|price| {
        price.map(|(input, output, currency, tiers)| ModelPrice {
            currency: currency.into(),
            tiers: tiers.into(),
            ..ModelPrice::usd(Rate::from_amount(input), Rate::from_amount(output))
        })
    });
    let name = (one_of(vec!["a", "b", "c", "d"]), one_of(vec!["m", "m1", "m2", "n", "n1"]));
    let context = one_of(vec![None, Some(1_000), Some(8_000), Some(200_000)]);
    (name, context, price, btree_set(one_of(Requirement::ALL.to_vec()), 0..5)).prop_map(
        |((provider, name), context_tokens, price, abilities)| ModelEntry {
            name: model(&format!("{provider}:{name}")),
            context_tokens,
            max_output_tokens: None,
            price,
            abilities,
        },
    )
}

fn any_book() -> impl Strategy<Value = ModelBook> {
    let providers = || one_of(vec!["a", "b", "c", "d"]).prop_map(str::to_owned);
    let standing = prop_oneof![
        4 => Just(ProviderStanding::Ready),
        1 => Just(ProviderStanding::NoKey { variable: "KEY".into() }),
        1 => Just(ProviderStanding::Unknown),
    ];
    let class = one_of(vec![LatencyClass::Low, LatencyClass::Medium, LatencyClass::High]);
    let pattern = one_of(vec!["a:m", "a:*", "b:m1", "c:n*", "*", "d:m2"]).prop_map(str::to_owned);
    (
        vec(any_entry(), 0..16),
        btree_map(providers(), standing, 0..5),
        btree_map(providers(), one_of(vec![1_000_u64, 2_000, 3_000]), 0..4),
        btree_map(providers(), class, 0..4),
        vec(vec(pattern, 0..3), 0..4),
    )
        .prop_map(|(mut entries, providers, p50_ms, classes, quality_tiers)| {
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            entries.dedup_by(|one, other| one.name == other.name);
            ModelBook { providers, p50_ms, classes, quality_tiers, ..ModelBook::of(entries) }
        })
}

fn any_selector() -> impl Strategy<Value = ModelSelector> {
    let rate = || maybe(one_of(vec![0.0, 0.1, 0.15, 1.0]).prop_map(Rate::from_amount));
    (
        proptest::option::weighted(0.05, Just(model("x:y"))),
        btree_set(one_of(Requirement::ALL.to_vec()), 0..3),
        rate(),
        rate(),
        maybe(one_of(vec![1_u32, 1_000, 8_000, 8_001])),
        one_of(Preference::ALL.to_vec()),
    )
        .prop_map(|(explicit, require, input, output, min_context_tokens, preference)| ModelSelector {
            explicit,
            require,
            max_input_price_per_mtok: input,
            max_output_price_per_mtok: output,
            min_context_tokens,
            preference,
        })
}

fn any_needs() -> impl Strategy<Value = Needs> {
    let require = btree_set(one_of(vec![Requirement::Vision, Requirement::Audio]), 0..2);
    (one_of(vec![0_u64, 10, 1_000, 1_001, 100_000]), require)
        .prop_map(|(input_tokens, require)| Needs { input_tokens, require })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_selection_is_that_of_the_naive_one(book in any_book(), selector in any_selector(), needs in any_needs()) {
        let selection = select(&book, &selector, &needs);
        let (candidates, best) = naive::select(&book, &selector, &needs);
        prop_assert_eq!(&selection.model, &best);
        prop_assert_eq!(&select(&book, &selector, &needs), &selection, "the same arguments");
        if selector.explicit.is_none() && !selection.ranked.is_empty() {
            let ranked: BTreeSet<_> = selection.ranked.iter().map(|ranked| ranked.model.clone()).collect();
            prop_assert_eq!(ranked, candidates.iter().cloned().collect::<BTreeSet<_>>());
            let refused: usize = selection.refused.iter().map(|refused| refused.count).sum();
            prop_assert_eq!(refused + candidates.len(), book.entries().len(), "each model is explained");
        }
        // A name is read as the selector it was made of.
        let named = book.selector(&selector.name()).unwrap();
        prop_assert_eq!(named, selector);
    }
}

#[test]
fn an_explanation_names_the_candidates_and_what_refused_each() {
    let mut book = ModelBook::of([
        entry("a:cheap", 0.1, 0.4, &[Requirement::ToolUse]),
        entry("a:seeing", 0.5, 1.5, &[Requirement::ToolUse, Requirement::Vision]),
        entry("b:seeing", 0.5, 1.5, &[Requirement::ToolUse, Requirement::Vision]),
        entry("b:dear", 5.0, 25.0, &[Requirement::ToolUse, Requirement::Vision]),
        entry("c:seeing", 0.1, 0.1, &[Requirement::Vision]),
    ]);
    book.providers.insert("c".into(), ProviderStanding::NoKey { variable: "C_API_KEY".into() });
    let selector = ModelSelector {
        max_output_price_per_mtok: Some(Rate::from_amount(2.0)),
        ..ModelSelector::new(Preference::CostFirst).requiring([Requirement::Vision])
    };
    let needs = Needs { input_tokens: 2_000, ..Needs::default() };
    let selection = select(&book, &selector, &needs);
    assert_eq!(selection.model, Some(model("a:seeing")), "the tie goes by name");
    assert_eq!(selection.why, "first of 2 candidates by cost_first: about 0.0025 USD");
    let refused: Vec<_> = selection.refused.iter().map(|refused| (&*refused.why, refused.models[0].as_str())).collect();
    let expected = [
        ("no key: C_API_KEY is not set", "c:seeing"),
        ("lacks vision", "a:cheap"),
        ("answers above 2 USD per million tokens", "b:dear"),
    ];
    assert_eq!(refused, expected);
    let impossible = select(&book, &selector.requiring([Requirement::Audio]), &needs);
    assert_eq!(impossible.model, None);
    assert_eq!(impossible.why, "no model fits: lacks audio (3); no key: C_API_KEY is not set (1); lacks vision (1)");
}

#[test]
fn a_bound_on_prices_holds_for_those_of_the_prompt() {
    let tiered = |name, input| {
        let mut entry = entry(name, 1.0, 1.0, &[]);
        let (input, output) = (Rate::from_amount(input), Rate::from_amount(1.0));
        let tier = PriceTier { above_tokens: 50_000, input, output, cached_input: None, cache_write: None };
        entry.price.as_mut().unwrap().tiers = [tier].into();
        entry
    };
    let book = ModelBook::of([tiered("a:dear", 4.0), tiered("b:long", 1.5)]);
    let most = Some(Rate::from_amount(2.0));
    let selector = ModelSelector { max_input_price_per_mtok: most, ..ModelSelector::new(Preference::LatencyFirst) };
    let chosen = |input_tokens| select(&book, &selector, &Needs { input_tokens, ..Needs::default() });
    assert_eq!(chosen(50_000).model, Some(model("a:dear")), "its price for long prompts is not that of this one");
    let long = chosen(50_001);
    assert_eq!(long.model, Some(model("b:long")));
    assert_eq!(long.refused[0].why, "prompts above 2 USD per million tokens");
}

#[test]
fn latency_is_the_class_until_it_was_measured_and_quality_the_tiers() {
    let mut book =
        ModelBook::of([entry("a:m", 1.0, 1.0, &[]), entry("b:m", 1.0, 1.0, &[]), entry("c:m", 1.0, 1.0, &[])]);
    let chosen = |book: &ModelBook, preference| {
        let selection = select(book, &ModelSelector::new(preference), &Needs::default());
        (selection.model.map(|model| model.to_string()), selection.why)
    };
    assert_eq!(chosen(&book, Preference::LatencyFirst).0.as_deref(), Some("a:m"), "all count as medium");
    book.classes.insert("b".into(), LatencyClass::Low);
    let (model, why) = chosen(&book, Preference::LatencyFirst);
    assert_eq!(model.as_deref(), Some("b:m"));
    assert!(why.ends_with("b counts as 1000 ms, not measured yet"), "{why}");
    book.p50_ms.extend([("b".to_owned(), 4_000), ("c".to_owned(), 900)]);
    let (model, why) = chosen(&book, Preference::LatencyFirst);
    assert_eq!(model.as_deref(), Some("c:m"));
    assert!(why.ends_with("c answers in 900 ms (median)"), "{why}");
    let (model, why) = chosen(&book, Preference::QualityFirst);
    assert!(model.is_none() && why.contains("models_catalog.quality_tiers"), "{why}");
    book.quality_tiers = vec![vec!["c:m".into()], vec!["b:*".into()]];
    let (model, why) = chosen(&book, Preference::QualityFirst);
    assert_eq!(
        (model.as_deref(), why.as_str()),
        (Some("c:m"), "first of 3 candidates by quality_first: quality tier 1")
    );
}

#[test]
fn a_closed_catalogue_selects_nothing_but_an_explicit_model() {
    let book = ModelBook::closed("the cache is 30 h old");
    let selection = select(&book, &ModelSelector::default(), &Needs::default());
    assert_eq!(selection.model, None);
    assert_eq!(selection.why, "the catalogue of models is not available: the cache is 30 h old");
    let explicit = ModelSelector { explicit: Some(model("a:m")), ..ModelSelector::default() };
    assert_eq!(select(&book, &explicit, &Needs::default()).model, Some(model("a:m")));
    let error = book.selector(&model("select:cheap")).unwrap_err().to_string();
    assert_eq!(error, "no [models.cheap] is configured for select:cheap; there is none");
}
