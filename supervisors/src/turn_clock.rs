//! The clock of one turn, which stands still while a person is asked, and the questions that are open.

use crate::deadlines::Key;
use crate::patience::Patience;
use bob_actors::turn::TimeRun;
use bob_messages::ids::ApprovalId;
use bob_messages::limits::Limits;
use bob_messages::outcome::EndReason;
use bob_messages::reply::Signs;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The time limit of one turn, and how much of it is left.
#[derive(Debug)]
pub(crate) struct Clock {
    /// How long the turn may take, in milliseconds, once it runs.
    timeout_ms: u64,
    /// How long it may make no progress, in milliseconds; 0 is no bound.
    progress_timeout_ms: u64,
    /// How long a person may take to decide, in milliseconds.
    pub(crate) approval_timeout_ms: u64,
    /// Whether the turn is told before it ends without progress, since it asks a person then; and whether it was.
    pub(crate) asks: bool,
    told_quiet: bool,
    pub(crate) began: Option<Instant>,
    /// Set while the clock runs: when the turn is looked at again.
    pub(crate) deadline: Option<Key>,
    /// Set while the clock runs.
    patience: Option<Patience>,
    pub(crate) approvals: Vec<OpenQuestion>,
    /// What was left when the clock was paused, in milliseconds.
    pub(crate) left_ms: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct OpenQuestion {
    pub(crate) approval: ApprovalId,
    pub(crate) key: Key,
    /// The signs of life of the turn when it was asked whether a turn without progress goes on.
    pub(crate) quiet_at: Option<Signs>,
    /// Keeps the question at the approval port open.
    pub(crate) _task: Option<ApprovalTask>,
}

/// The task that asks the approval port. Dropping it withdraws the question.
#[derive(Debug)]
pub(crate) struct ApprovalTask(pub(crate) AbortHandle);

impl Drop for ApprovalTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Clock {
    pub(crate) fn new(limits: &Limits, asks: bool) -> Self {
        Self {
            timeout_ms: limits.turn_timeout_ms,
            progress_timeout_ms: limits.progress_timeout_ms,
            approval_timeout_ms: limits.approval_timeout_ms,
            asks,
            told_quiet: false,
            began: None,
            deadline: None,
            patience: None,
            approvals: Vec::new(),
            left_ms: None,
        }
    }

    /// Starts the clock, or lets it go on. Returns when the turn is looked at.
    pub(crate) fn run(&mut self, now: Instant, signs: Signs) -> Instant {
        self.told_quiet = false;
        let left = Duration::from_millis(self.left_ms.take().unwrap_or(self.timeout_ms));
        let patience = Patience::new(now, left, Duration::from_millis(self.progress_timeout_ms), signs);
        self.patience.insert(patience).next(now)
    }

    /// Looks at the running turn. Returns when to look again.
    pub(crate) fn look(&mut self, now: Instant, signs: Signs) -> Result<Option<Instant>, EndReason> {
        self.deadline = None;
        let Some(patience) = &mut self.patience else { return Ok(None) };
        self.told_quiet &= !patience.is_alive(signs);
        patience.look(now, signs).map(Some)
    }

    /// Handles a lack of progress. A turn that asks at its limits is warned once: returns when to check it again. `None`
    /// for any other turn, and for one that was warned and has made no progress since: it ends.
    pub(crate) fn warn_once(&mut self, now: Instant) -> Option<Instant> {
        let is_told = !self.asks || std::mem::replace(&mut self.told_quiet, true);
        let patience = self.patience.as_mut().filter(|_| !is_told)?;
        Some(patience.begin_anew(now))
    }

    /// Stops the clock while a person is asked. Returns the deadline to be removed.
    pub(crate) fn pause(&mut self, now: Instant, signs: Signs) -> Option<Key> {
        if let Some(patience) = self.patience.take() {
            self.left_ms = Some(millis(patience.left(now, signs)));
        }
        self.deadline.take()
    }

    /// How long the turn has run, for an actor that continues it.
    pub(crate) fn has_run(&self, signs: Signs) -> TimeRun {
        let left = self.patience.map(|patience| patience.left(Instant::now(), signs));
        let left_ms = left.map(millis).or(self.left_ms);
        let ran_ms = left_ms.map_or(0, |left_ms| self.timeout_ms.saturating_sub(left_ms));
        TimeRun { lasted_ms: self.began.map_or(0, |began| millis(began.elapsed())), ran_ms }
    }

    /// Whether it is paused because a person is asked.
    pub(crate) fn is_paused(&self) -> bool {
        self.left_ms.is_some()
    }

    /// Stops the clock and restores the whole time. Returns the deadlines to be removed.
    pub(crate) fn reset(&mut self) -> impl Iterator<Item = Key> + use<> {
        (self.left_ms, self.began, self.patience) = (None, None, None);
        let questions = std::mem::take(&mut self.approvals);
        self.deadline.take().into_iter().chain(questions.into_iter().map(|question| question.key))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
