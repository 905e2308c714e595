//! Resource usage of this process.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Ticks in `/proc`, independent of the kernel's timer frequency.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds of this process, user and system.
pub(crate) fn cpu() -> f64 {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap()).as_secs_f64()
}

/// Resident memory in bytes, in steps of a kibibyte.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    field(line, 1) as usize * 1_024
}

/// Seconds since the process was started, in steps of a clock tick.
pub(crate) fn since_start() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let started = field(after_name, 19) / TICKS_PER_SECOND;
    field(&std::fs::read_to_string("/proc/uptime").unwrap(), 0) - started
}

/// The share `part` of the values lies at or below this one.
pub(crate) fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((last * part).round() as usize).copied().unwrap_or_default()
}

fn field(text: &str, at: usize) -> f64 {
    text.split_whitespace().nth(at).unwrap().parse().unwrap()
}
