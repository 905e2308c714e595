//! The table that is built in: a model a line, its fields with tabs between; prices for a million tokens.

use super::{FormatError, named};
use bob_messages::models::{ModelEntry, ModelPrice, PriceTier, Rate, Requirement};

/// How the table begins.
const HEAD: &str = "# bob-models 1";

pub(super) fn read(text: &str) -> Result<Vec<ModelEntry>, FormatError> {
    if !text.starts_with(HEAD) {
        return Err(super::unknown());
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    let entry = |(at, line)| entry(line).ok_or_else(|| FormatError::new(format!("line {} is no model", at + 1)));
    lines.map(entry).collect()
}

fn entry(line: &str) -> Option<ModelEntry> {
    let mut fields = line.split('\t');
    let (provider, model) = fields.next()?.split_once(':')?;
    let mut next = || fields.next().unwrap_or_default();
    let (context, answer) = (next().parse().ok(), next().parse().ok());
    let mut rate = || next().parse().ok().map(Rate::from_amount);
    let (input, output, cached_input, cache_write) = (rate(), rate(), rate(), rate());
    let price = input.zip(output).map(|(input, output)| ModelPrice {
        cached_input,
        cache_write,
        ..ModelPrice::usd(input, output)
    });
    let abilities = next().split(',').filter(|word| !word.is_empty());
    let tiers = next().split(';').filter(|tier| !tier.is_empty()).map(tier).collect::<Option<Vec<_>>>()?;
    Some(ModelEntry {
        name: named(provider, model)?,
        context_tokens: context,
        max_output_tokens: answer,
        price: price.map(|price| ModelPrice { tiers: tiers.into(), ..price }),
        abilities: abilities.map(Requirement::parse).collect::<Option<_>>()?,
    })
}

/// The prices above a size: `200000:2.5,15,0.25,`.
fn tier(text: &str) -> Option<PriceTier> {
    let (above, rates) = text.split_once(':')?;
    let mut rates = rates.split(',').map(|rate| rate.parse().ok().map(Rate::from_amount));
    let (input, output) = (rates.next()??, rates.next()??);
    let (cached_input, cache_write) = (rates.next().flatten(), rates.next().flatten());
    Some(PriceTier { above_tokens: above.parse().ok()?, input, output, cached_input, cache_write })
}
