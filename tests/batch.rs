//! `batch` with the real binary: order, invalid lines, signals, progress, and `--finish` after a crash.

mod support;

#[path = "batch/bad.rs"]
mod bad;
#[path = "batch/finish.rs"]
mod finish;
#[path = "cli/home.rs"]
#[allow(dead_code, reason = "a batch needs a part of it")]
mod home;
#[path = "batch/lines.rs"]
mod lines;
#[path = "batch/order.rs"]
mod order;
#[path = "batch/poison.rs"]
mod poison;
#[path = "batch/progress.rs"]
mod progress;
#[path = "batch/stops.rs"]
mod stops;
#[path = "batch/unread.rs"]
mod unread;
