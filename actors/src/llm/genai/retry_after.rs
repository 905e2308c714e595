//! What a provider asks us to wait, out of its headers.

use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::time::{SystemTime, UNIX_EPOCH};

/// In milliseconds; `None` when nothing sensible was asked.
pub(super) fn read(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|text| whole(text.parse().ok()?)) {
        return Some(ms);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    parse(text(RETRY_AFTER.as_str())?, now)
}

/// Seconds, with or without a fraction, or an HTTP date; `now` in seconds since 1970.
fn parse(text: &str, now: u64) -> Option<u64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return whole(seconds * 1_000.0);
    }
    Some(date(text)?.saturating_sub(now).saturating_mul(1_000))
}

fn whole(ms: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked, and a cast saturates")]
    (ms.is_finite() && ms >= 0.0).then_some(ms as u64)
}

/// Seconds since 1970 of a date like `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<u64> {
    let (_weekday, rest) = text.split_once(", ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let [day, month, year, time, "GMT"] = fields[..] else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? as u64 + 1;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let clock: Vec<u64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = clock[..] else { return None };
    if !(1970..10_000).contains(&year) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years are counted from March, so that the leap day comes last.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = years / 4 - years / 100 + years / 400;
    let days = 365 * years + leap_days + (153 * months + 2) / 5 + day - 1;
    let days_before_1970 = 719_468;
    Some((days - days_before_1970) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
#[path = "retry_after_tests.rs"]
mod tests;
