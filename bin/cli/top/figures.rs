//! Style of numbers and highlighted text.

use ratatui::style::{Color, Modifier, Style};

use super::model::Model;
use crate::commands::ps::table::duration;

/// Turns that ended in a second, over the last ten looks.
pub(super) fn recent_rate(model: &Model) -> f64 {
    let last: Vec<f64> = model.past.iter().rev().take(10).map(|sample| sample.turns_per_s).collect();
    if last.is_empty() { 0.0 } else { last.iter().sum::<f64>() / last.len() as f64 }
}

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub(super) fn coloured(model: &Model, colour: Color) -> Style {
    if model.is_plain { Style::new() } else { Style::new().fg(colour) }
}

/// A time of microseconds in at most seven characters.
pub(super) fn micros(us: u64) -> String {
    match us {
        0 => "-".to_owned(),
        1..=999 => format!("{us} µs"),
        1_000..=9_999 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => duration(us / 1_000),
    }
}
