//! Usage and cost: the line at the end of each turn, and the table of `/cost`.

use bob::ModelName;
use bob::store::Record;
use textwrap::core::display_width;

use crate::terminal::show::took;
use crate::terminal::spending::{Prices, Spending, Used, grouped};

/// The share of the context from which on it is shown after each turn, in percent.
const LEAST_PERCENT: u64 = 25;

/// The line at the end of a turn, with the cost of the session where that is known.
pub(super) fn summary(turn: &Spending, duration_ms: u64, session: Option<&Spending>, prices: &Prices) -> String {
    let Used { calls, unknown, usage, .. } = turn.total();
    let tokens = match calls > unknown {
        true => format!("{} tokens in, {} out; ", grouped(usage.input_tokens), grouped(usage.output_tokens)),
        false => String::new(),
    };
    let cost = turn.cost(prices);
    let cost = match cost.is_known() {
        true => {
            let session = session.map(|session| format!(", session {}", session.cost(prices)));
            format!("; {cost}{}", session.unwrap_or_default())
        }
        false => String::new(),
    };
    format!("[{tokens}{}{cost}]", took(duration_ms))
}

/// The line with how full the context is, once that is worth a look.
pub(super) fn with_context(summary: &str, tokens: u64, of: u64) -> String {
    let percent = tokens.saturating_mul(100).checked_div(of).unwrap_or(0);
    match percent >= LEAST_PERCENT {
        true => format!("{}; context {percent} %]", summary.trim_end_matches(']')),
        false => summary.to_owned(),
    }
}

/// The table of `/cost` for a session's journal.
pub(super) fn table<'a>(records: impl Iterator<Item = &'a Record> + Clone, prices: &Prices, columns: usize) -> String {
    let session = Spending::of_records(records.clone());
    let Some(last) = records.clone().filter(|record| Spending::is_in(record)).last() else {
        return "no usage in this session yet\n".to_owned();
    };
    let of_turn = Spending::of_records(records.filter(|record| record.turn == last.turn));
    let mut rows: Vec<Row> = Vec::new();
    for (what, spending) in [("last turn", &of_turn), ("session", &session)] {
        rows.extend(spending.models().map(|(model, used)| Row::of(what, model, used, prices)));
        if spending.models().count() > 1 {
            rows.push(Row::new(what, "together".to_owned(), &spending.total(), spending.cost(prices).to_string()));
        }
    }
    let mut text = if needed(&rows) <= columns { side_by_side(&rows) } else { one_below_another(&rows) };
    if !session.cost(prices).is_known() {
        text.push_str("no price is known: [prices.\"provider:model\"] sets the price of a model\n");
    }
    if session.total().estimated > 0 {
        text.push_str("the tokens of interrupted calls are estimated\n");
    }
    if session.total().unknown > 0 {
        text.push_str("the provider did not report the tokens of some calls\n");
    }
    text
}

/// A row: purpose, model, calls, three kinds of tokens, and cost.
struct Row([String; 7]);

const HEAD: [&str; 7] = ["", "model", "calls", "input", "cached", "output", "cost"];

impl Row {
    fn of(what: &str, model: &ModelName, used: &Used, prices: &Prices) -> Self {
        let mut alone = Spending::default();
        alone.add_used(model, used);
        Self::new(what, model.to_string(), used, alone.cost(prices).to_string())
    }

    fn new(what: &str, model: String, used: &Used, cost: String) -> Self {
        let usage = &used.usage;
        let cached = usage.cached_input_tokens.map_or_else(|| "-".to_owned(), grouped);
        let [input, output] = [usage.input_tokens, usage.output_tokens].map(grouped);
        Self([what.to_owned(), model, grouped(used.calls), input, cached, output, cost])
    }
}

fn widths(rows: &[Row]) -> [usize; 7] {
    std::array::from_fn(|at| {
        let cells = rows.iter().map(|row| display_width(&row.0[at]));
        cells.max().unwrap_or(0).max(HEAD[at].len())
    })
}

fn needed(rows: &[Row]) -> usize {
    widths(rows).iter().sum::<usize>() + 2 * (HEAD.len() - 1)
}

fn side_by_side(rows: &[Row]) -> String {
    let widths = widths(rows);
    let line = |cells: [&str; 7]| {
        let cells = cells.iter().zip(widths).enumerate().map(|(at, (cell, width))| {
            let space = " ".repeat(width.saturating_sub(display_width(cell)));
            // Names on the left, numbers on the right.
            if at < 2 { format!("{cell}{space}") } else { format!("{space}{cell}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let body = rows.iter().map(|row| line(row.0.each_ref().map(String::as_str)));
    std::iter::once(line(HEAD)).chain(body).collect()
}

fn one_below_another(rows: &[Row]) -> String {
    let row = |Row([what, model, calls, input, cached, output, cost]): &Row| {
        format!(
            "{what}: {model}\n  calls {calls}\n  input {input}\n  cached {cached}\n  output {output}\n  cost {cost}\n"
        )
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
