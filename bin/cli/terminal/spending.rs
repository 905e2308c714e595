//! Usage: tokens by model, and their cost where prices are known.
//!
//! It sums up events and journals and prints nothing. A model without a price has an unknown cost, never zero.

use std::collections::BTreeMap;
use std::sync::Arc;

use bob::ModelName;
use bob::events::{AgentEvent, Delta};
use bob::model::Usage;
use bob::model::catalogue::{Catalogue, ModelCatalogPort, ModelPrice};
use bob::store::{Fact, Record, StepCost};

/// Prices of models: those of the configuration, then those of the catalogue.
#[derive(Clone, Default)]
pub(crate) struct Prices(Option<Arc<Catalogue>>);

impl Prices {
    pub(crate) fn of(catalogue: &Arc<Catalogue>) -> Self {
        Self(Some(Arc::clone(catalogue)))
    }

    /// The price of a call of a model with a prompt of so many tokens.
    fn get(&self, model: &ModelName, input_tokens: u64) -> Option<ModelPrice> {
        Some(self.0.as_ref()?.price(model)?.for_prompt(input_tokens))
    }
}

const BYTES_A_TOKEN: u64 = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Calls that were answered or interrupted.
    pub(crate) calls: u64,
    /// Calls for which the provider reported no tokens.
    pub(crate) unknown: u64,
    /// Calls that were interrupted, whose tokens are estimated.
    pub(crate) estimated: u64,
    /// The tokens of all but the unknown ones.
    pub(crate) usage: Usage,
    /// These tokens by the size of the prompt, since long ones may cost more: in thousands, rounded up, less one.
    by_size: BTreeMap<u64, Usage>,
}

impl Used {
    pub(crate) fn of(usage: &Usage) -> Self {
        let by_size = BTreeMap::from([(usage.input_tokens.saturating_sub(1) / 1_000, *usage)]);
        Self { calls: 1, usage: *usage, by_size, ..Self::default() }
    }

    fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.unknown += more.unknown;
        self.estimated += more.estimated;
        self.usage.add(&more.usage);
        for (size, usage) in &more.by_size {
            self.by_size.entry(*size).or_default().add(usage);
        }
    }
}

/// Usage as the records of a session tell it one after the other.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) spending: Spending,
    /// The model of the turn.
    asked: Option<ModelName>,
}

impl Recorded {
    pub(crate) fn record(&mut self, record: &Record) {
        let cost: Option<&StepCost> = match &record.fact {
            Fact::Started { model, .. } => {
                self.asked = Some(model.clone());
                None
            }
            Fact::Outcome(ended) => {
                if let (Some(model), Some(estimated)) = (&self.asked, &ended.estimated) {
                    self.spending.add_used(model, &Used { estimated: 1, ..Used::of(estimated) });
                }
                None
            }
            Fact::Answered(answered) => Some(&answered.cost),
            Fact::Malformed { cost, .. } => Some(cost),
            _other_facts_cost_nothing => None,
        };
        if let Some(cost) = cost {
            self.spending.add(&cost.model, cost.usage.as_ref());
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spending {
    by_model: BTreeMap<ModelName, Used>,
    /// An estimate of the prompt and the answer under way.
    under_way: Option<(u64, u64)>,
}

impl Spending {
    pub(crate) fn event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::PromptBuilt { estimated_tokens, .. } => self.under_way = Some((*estimated_tokens, 0)),
            AgentEvent::LlmStreamChunk { delta: Delta::Text(text) | Delta::Reasoning(text), .. } => {
                let (_, bytes) = self.under_way.get_or_insert_default();
                *bytes = bytes.saturating_add(text.len() as u64);
            }
            AgentEvent::LlmCompleted { model, usage, .. } => {
                self.under_way = None;
                self.add(model, usage.as_ref());
            }
            AgentEvent::LlmFailed { .. } => self.under_way = None,
            // The call that the end interrupted.
            AgentEvent::TurnFinished { outcome } => {
                if let (Some((input_tokens, bytes)), Some(model)) = (self.under_way.take(), &outcome.model) {
                    let output_tokens = bytes / BYTES_A_TOKEN;
                    let total_tokens = input_tokens + output_tokens;
                    let usage = Usage { input_tokens, output_tokens, total_tokens, ..Usage::default() };
                    self.add_used(model, &Used { estimated: 1, ..Used::of(&usage) });
                }
            }
            _other_events_cost_nothing => {}
        }
    }

    /// Usage recorded in these records, of one session or one turn of it. That of an interrupted call is an estimate.
    pub(crate) fn of_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut recorded = Recorded::default();
        records.into_iter().for_each(|record| recorded.record(record));
        recorded.spending
    }

    pub(crate) fn is_in(record: &Record) -> bool {
        match &record.fact {
            Fact::Answered(_) | Fact::Malformed { .. } => true,
            Fact::Outcome(ended) => ended.estimated.is_some(),
            _other_facts_cost_nothing => false,
        }
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for (model, more) in &other.by_model {
            self.add_used(model, more);
        }
    }

    pub(crate) fn add_used(&mut self, model: &ModelName, more: &Used) {
        self.by_model.entry(model.clone()).or_default().add(more);
    }

    pub(crate) fn tokens(&self) -> (u64, bool) {
        let known: u64 = self.by_model.values().map(|used| used.usage.total_tokens).sum();
        let about = self.under_way.map(|(prompt, bytes)| prompt + bytes / BYTES_A_TOKEN);
        (known + about.unwrap_or(0), about.is_some())
    }

    pub(crate) fn models(&self) -> impl Iterator<Item = (&ModelName, &Used)> {
        self.by_model.iter()
    }

    pub(crate) fn total(&self) -> Used {
        let mut total = Used::default();
        self.by_model.values().for_each(|used| total.add(used));
        total
    }

    pub(crate) fn cost(&self, prices: &Prices) -> Cost {
        let mut cost = Cost::default();
        for (model, used) in &self.by_model {
            let Some(price) = prices.get(model, 0) else {
                cost.is_short = true;
                continue;
            };
            let amount = cost.amounts.entry(price.currency.to_string()).or_default();
            let sizes = used.by_size.iter();
            let priced = sizes.filter_map(|(size, usage)| Some((usage, prices.get(model, size * 1_000 + 1)?)));
            *amount += priced.map(|(usage, price)| price.of(usage).amount()).sum::<f64>();
            cost.is_short |= used.unknown > 0;
        }
        cost
    }

    fn add(&mut self, model: &ModelName, usage: Option<&Usage>) {
        let unknown = || Used { calls: 1, unknown: 1, ..Used::default() };
        self.add_used(model, &usage.map_or_else(unknown, Used::of));
    }
}

/// An amount of money, or several where prices are in several currencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    amounts: BTreeMap<String, f64>,
    /// Whether more was used than has a price.
    is_short: bool,
}

impl Cost {
    /// Whether anything has a price.
    pub(crate) fn is_known(&self) -> bool {
        !self.amounts.is_empty()
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let amounts: Vec<String> = self.amounts.iter().map(|(currency, amount)| money(*amount, currency)).collect();
        let more = if self.is_short && self.is_known() { " and more" } else { "" };
        let unknown = if self.is_known() { "" } else { "unknown" };
        write!(f, "{}{more}{unknown}", amounts.join(" + "))
    }
}

/// An amount with as many places as say something.
fn money(amount: f64, currency: &str) -> String {
    match amount {
        _ if amount == 0.0 => format!("0 {currency}"),
        _ if amount < 0.000_1 => format!("under 0.0001 {currency}"),
        _ if amount < 1.0 => format!("{amount:.4} {currency}"),
        _ => format!("{amount:.2} {currency}"),
    }
}

pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
#[path = "spending_tests.rs"]
pub(crate) mod tests;
