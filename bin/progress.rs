//! What a local model server says while it starts, for the person who waits.

use std::sync::Arc;

use bob_actors::model_server::Progress;

use crate::print;

/// Shows each line on stderr. The lines are without control characters; they pass the sanitiser all the same.
pub(crate) fn to_stderr() -> Progress {
    Arc::new(|provider, line| print::note(&format!("[{provider}] {line}")))
}
