//! What the system says this process has used.

use rustix::time::{ClockId, clock_gettime};

/// CPU seconds of this process, of its own and in the system.
pub(crate) fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Resident memory in bytes.
pub(crate) fn resident() -> usize {
    let pages = field(&std::fs::read_to_string("/proc/self/statm").unwrap(), 1) as usize;
    pages * rustix::param::page_size()
}

/// Seconds since the process was started, in steps of a clock tick.
pub(crate) fn since_start() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let started = field(after_name, 19) / rustix::param::clock_ticks_per_second() as f64;
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
