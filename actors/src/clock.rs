//! The one wall clock: when a record or an event was made. It may jump, so no deadline and no duration uses it; they run
//! on tokio's monotonic time.

use bob_messages::Millis;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch; 0 for a clock set before it.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// The wall clock of turns: the system's clock by default.
#[derive(Clone, Default)]
pub struct WallClock(Option<Arc<dyn Fn() -> Millis + Send + Sync>>);

impl WallClock {
    /// Another clock than the machine's: milliseconds since the Unix epoch at each call. It may jump.
    pub fn by(clock: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(clock)))
    }

    pub(crate) fn is_of_machine(&self) -> bool {
        self.0.is_none()
    }

    /// Milliseconds since the Unix epoch.
    pub fn now(&self) -> Millis {
        self.0.as_ref().map_or_else(now, |clock| clock())
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "WallClock(custom)" } else { "WallClock(machine)" })
    }
}
