//! What a local model server says while it starts, for the person who waits.

use std::sync::Arc;

use bob::model_server::Progress;
use bob_config::sanitise;

use crate::terminal::print;

/// Shows each line on stderr, without waiting for its reader. The lines are without control characters; they pass the sanitiser all the same.
pub(crate) fn to_stderr() -> Progress {
    Arc::new(|provider, line| print::pass(format!("{}\n", sanitise::clean(&format!("[{provider}] {line}")))))
}
