//! The control socket with the real binary: one process looked at and steered by another, and by hostile clients.

mod support;

#[path = "control/far.rs"]
mod far;
#[path = "cli/home.rs"]
#[allow(dead_code, reason = "the control socket needs a part of it")]
mod home;
#[path = "control/hostile.rs"]
mod hostile;
#[path = "batch/lines.rs"]
#[allow(dead_code, reason = "the control socket needs a part of it")]
mod lines;
#[path = "control/looks.rs"]
mod looks;
#[path = "control/places.rs"]
mod places;
#[path = "control/steers.rs"]
mod steers;
