//! `batch` with the real binary: order, invalid lines, signals, progress, and `--finish` after a crash.

#[path = "batch/bad.rs"]
mod bad;
#[path = "batch/finish.rs"]
mod finish;
#[path = "batch/lines.rs"]
pub(crate) mod lines;
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
