//! Output of a local model server while it starts.

use std::sync::Arc;

use bob::model::server::Progress;
use bob_config::sanitise;

use crate::terminal::print;

/// Shows each line on stderr without waiting. The lines are sanitised again.
pub(crate) fn to_stderr() -> Progress {
    Arc::new(|provider, line| print::pass(format!("{}\n", sanitise::clean(&format!("[{provider}] {line}")))))
}
