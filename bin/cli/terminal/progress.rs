//! Output of a local model server while it starts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bob::model::server::{ProgressListener, STATE};
use bob_config::sanitise;

use crate::terminal::print;
use crate::terminal::screen::look::Look;

/// How often a state is told where none is drawn.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Whether states are drawn below all other output.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// The state of what is being installed, empty where nothing is.
static NOW: Mutex<String> = Mutex::new(String::new());

/// Says whether the lines that show [`state`] are drawn. What was installed before is forgotten.
pub(crate) fn drawn(is_drawn: bool) {
    IS_DRAWN.store(is_drawn, Ordering::Relaxed);
    set(String::new());
}

/// Where the installation or the start of a model is; empty when there is none.
pub(crate) fn state() -> String {
    NOW.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn set(state: String) {
    *NOW.lock().unwrap_or_else(PoisonError::into_inner) = state;
}

/// Shows each line on stderr without waiting, and states as one line that changes, or now and then where none can be
/// drawn. The lines are sanitised again.
pub(crate) fn to_stderr() -> ProgressListener {
    let told = Mutex::new(Instant::now());
    Arc::new(move |provider, line| {
        let line = match line.strip_prefix(STATE) {
            None => line,
            Some(state) if IS_DRAWN.load(Ordering::Relaxed) => return set(sanitise::clean(state).into_owned()),
            Some(state) => {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                if told.elapsed() < TOLD_EVERY {
                    return;
                }
                *told = Instant::now();
                state
            }
        };
        set(String::new());
        let line = format!("[{provider}] {line}");
        print::pass(match print::stderr_is_screen() {
            true => Look::now().note(&line),
            false => format!("{}\n", sanitise::clean(&line)),
        });
    })
}
