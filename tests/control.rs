//! The control socket with the real binary: one process looked at and steered by another, and by hostile clients.

#[path = "control/far.rs"]
mod far;
#[path = "control/hostile.rs"]
mod hostile;
use crate::batch::lines;
#[path = "control/looks.rs"]
mod looks;
#[path = "control/places.rs"]
mod places;
#[path = "control/steers.rs"]
mod steers;
