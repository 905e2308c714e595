use super::start::KILLED_LIMIT;
use super::{ChildEvent, ChildSet, Phase};
use bob_messages::outcome::EndReason;
use ractor::ActorCell;
use std::time::Duration;
use tokio::time::Instant;

impl ChildSet {
    /// Stops all children, the last started first; one that takes longer than its shutdown deadline is killed. With a
    /// limit the deadlines are shortened in proportion, so that a slow child takes no time from those that are
    /// stopped after it.
    ///
    /// A supervisor calls it in its `post_stop`, where it may wait. Otherwise the children would be killed.
    pub async fn stop(&mut self, limit: Option<Duration>) {
        let end = limit.map(|limit| Instant::now() + limit);
        // First make sure that no child is started while others stop.
        let mut left = Vec::new();
        for child in &mut self.children {
            let actor = match std::mem::replace(&mut child.phase, Phase::Stopped) {
                Phase::Restarting(restart) => restart.abandon(KILLED_LIMIT).await,
                Phase::Running { actor, .. } => Some(actor),
                Phase::Removing { actor, .. } => actor,
                Phase::GaveUp => {
                    child.phase = Phase::GaveUp;
                    None
                }
                Phase::Stopped => None,
            };
            left.push((actor, child.spec.shutdown_ms));
        }
        while let Some((actor, deadline_ms)) = left.pop() {
            let Some(actor) = actor else { continue };
            let before_ms = left.iter().filter(|(actor, _)| actor.is_some()).map(|(_, deadline_ms)| deadline_ms).sum();
            let patience = match end {
                Some(end) => share(end.saturating_duration_since(Instant::now()), deadline_ms, before_ms),
                None => Duration::from_millis(deadline_ms),
            };
            let child = &self.children[left.len()];
            if !stop(&actor, child.spec.drains, patience).await {
                tracing::warn!(child = child.spec.name, "a child did not stop in time and was killed");
            }
            (child.spec.on_down)();
            (child.spec.on_event)(ChildEvent::Stopped);
        }
    }
}

/// Stops one actor, or kills it. Returns whether it stopped by itself.
async fn stop(actor: &ActorCell, drains: bool, patience: Duration) -> bool {
    // A stop overtakes the messages in the mailbox. An actor that cannot be drained is ending already.
    if !drains || actor.drain().is_err() {
        actor.stop(Some(EndReason::Shutdown.to_string()));
    }
    if actor.wait(Some(patience)).await.is_ok() {
        return true;
    }
    actor.kill();
    let _left_behind = actor.wait(Some(KILLED_LIMIT)).await;
    false
}

/// The share of the time left for a child with this deadline, when the children that are stopped after it have
/// `rest_ms` of deadlines together.
fn share(left: Duration, mine_ms: u64, rest_ms: u64) -> Duration {
    let wanted = Duration::from_millis(mine_ms.saturating_add(rest_ms));
    if wanted <= left || wanted.is_zero() {
        return Duration::from_millis(mine_ms);
    }
    let nanos = left.as_nanos() * u128::from(mine_ms) / u128::from(mine_ms.saturating_add(rest_ms));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_that_fit_are_left_as_they_are() {
        assert_eq!(share(Duration::from_secs(9), 2_000, 4_000), Duration::from_secs(2));
    }

    #[test]
    fn deadlines_that_do_not_fit_are_shortened_in_proportion() {
        assert_eq!(share(Duration::from_secs(3), 2_000, 4_000), Duration::from_secs(1));
        assert_eq!(share(Duration::ZERO, 2_000, 4_000), Duration::ZERO);
        assert_eq!(share(Duration::from_secs(1), 2_000, 0), Duration::from_secs(1));
        assert_eq!(share(Duration::from_secs(1), 0, 0), Duration::ZERO);
    }
}
