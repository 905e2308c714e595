//! Which TurnActors of a runtime can still act.

use std::sync::Arc;
use tokio::sync::watch;

/// The TurnActors that can still act, those of a sessions supervisor that has ended among them. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct AtWork(Arc<watch::Sender<()>>);

/// One TurnActor can still act: held in its state, which is dropped when its last handler has returned, also after a kill.
#[derive(Debug)]
pub(crate) struct Acting(#[allow(dead_code, reason = "held, never read")] watch::Receiver<()>);

impl AtWork {
    pub(crate) fn begin(&self) -> Acting {
        Acting(self.0.subscribe())
    }

    /// Waits until all TurnActors have ended, without a limit. Cancel-safe.
    pub async fn all_ended(&self) {
        self.0.closed().await;
    }
}
