//! Counts of outcomes, for the summary and the exit code.

use std::collections::BTreeMap;
use std::time::Duration;

use bob::sessions::{FinishReason, TurnOutcome};
use hdrhistogram::Histogram;

use crate::exit::{self, Exit, Failure};

/// The longest time that is recorded exactly, in milliseconds: a day. Longer times count as this.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1_000;

pub(crate) struct Tally {
    finished: u64,
    limited: u64,
    suspended: u64,
    cancelled: u64,
    failed: BTreeMap<&'static str, u64>,
    again: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// How long turns took, milliseconds, of any length; `None` only if the library refuses to make one.
    times: Option<Histogram<u64>>,
    worst: Exit,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            finished: 0,
            limited: 0,
            suspended: 0,
            cancelled: 0,
            failed: BTreeMap::new(),
            again: 0,
            input_tokens: 0,
            output_tokens: 0,
            times: Histogram::new_with_max(LONGEST_MS, 3).ok(),
            worst: Exit::Success,
        }
    }
}

impl Tally {
    /// A line has its outcome. `is_new`: its turn ran now, and was not printed again.
    pub(crate) fn outcome(&mut self, outcome: &TurnOutcome, is_new: bool) {
        match outcome.finish_reason {
            // Its line has this error, and the batch its code.
            _ if exit::is_lost(outcome) => *self.failed.entry("store").or_default() += 1,
            FinishReason::Final => self.finished += 1,
            FinishReason::GuardExceeded => self.limited += 1,
            FinishReason::Suspended => self.suspended += 1,
            FinishReason::Cancelled => self.cancelled += 1,
            FinishReason::Error => {
                *self.failed.entry(outcome.error.as_ref().map_or("internal", |error| error.kind())).or_default() += 1;
            }
        }
        self.mark(Exit::of(outcome));
        if !is_new {
            self.again += 1;
            return;
        }
        self.input_tokens += outcome.usage.input_tokens;
        self.output_tokens += outcome.usage.output_tokens;
        if let Some(times) = &mut self.times {
            times.saturating_record(outcome.duration_ms);
        }
    }

    /// A line has no outcome.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        match failure.exit.is_cancelled() {
            true => self.cancelled += 1,
            false => *self.failed.entry(failure.kind).or_default() += 1,
        }
        self.mark(failure.exit);
    }

    /// Something else went wrong that the exit code must tell.
    pub(crate) fn mark(&mut self, exit: Exit) {
        if severity(exit) > severity(self.worst) {
            self.worst = exit;
        }
    }

    /// How many lines have a result.
    pub(crate) fn done(&self) -> u64 {
        self.finished + self.limited + self.suspended + self.cancelled + self.all_failed()
    }

    /// The code of the worst line.
    pub(crate) fn exit(&self) -> Exit {
        self.worst
    }

    fn all_failed(&self) -> u64 {
        self.failed.values().sum()
    }

    pub(crate) fn summary(&self, wall: Duration, not_run: Option<u64>) -> String {
        let (done, seconds) = (self.done(), wall.as_secs_f64());
        let rate = (done - self.again) as f64 / seconds.max(0.001);
        let mut text = format!("{done} {} in {seconds:.1} s, {rate:.1} turns/s\n", lines(done));
        text.push_str(&format!(
            "finished {}, limited {}, suspended {}, cancelled {}, failed {}{}\n",
            self.finished,
            self.limited,
            self.suspended,
            self.cancelled,
            self.all_failed(),
            self.kinds()
        ));
        text.push_str(&format!("tokens {} in, {} out", self.input_tokens, self.output_tokens));
        if let Some(times) = self.times.as_ref().filter(|times| !times.is_empty()) {
            let (half, most) = (times.value_at_quantile(0.5), times.value_at_quantile(0.99));
            text.push_str(&format!("; a turn took p50 {half} ms, p99 {most} ms"));
        }
        if self.again > 0 {
            text.push_str(&format!("\n{} {} printed again, from the store", self.again, had(self.again)));
        }
        match not_run {
            Some(0) => {}
            Some(left) => text.push_str(&format!("\n{left} {} not run", had(left))),
            None => text.push_str("\nthe rest of the input was not run"),
        }
        text
    }

    fn kinds(&self) -> String {
        if self.failed.is_empty() {
            return String::new();
        }
        let kinds: Vec<String> = self.failed.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        format!(" ({})", kinds.join(", "))
    }
}

fn lines(count: u64) -> &'static str {
    if count == 1 { "line" } else { "lines" }
}

fn had(count: u64) -> &'static str {
    if count == 1 { "line was" } else { "lines were" }
}

/// Order in which one exit code represents a whole batch: those that need action first.
fn severity(exit: Exit) -> u8 {
    match exit {
        Exit::Success => 0,
        // No batch ends so.
        Exit::Failed => 0,
        Exit::Guard => 1,
        Exit::Suspended => 2,
        Exit::HungUp | Exit::Interrupted | Exit::StdoutClosed | Exit::Terminated => 3,
        Exit::TryLater => 4,
        Exit::Usage => 5,
        Exit::Model => 6,
        Exit::Tools => 7,
        Exit::Store => 8,
        Exit::GaveUp => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::model::{LlmError, LlmErrorKind, Usage};
    use bob::sessions::TurnId;
    use bob::{AgentError, SessionId};
    use expect_test::expect;

    fn outcome(finish_reason: FinishReason, duration_ms: u64) -> TurnOutcome {
        let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
        let session = SessionId::parse("s").unwrap();
        TurnOutcome {
            usage,
            duration_ms,
            saved: true,
            ..TurnOutcome::bare(session, TurnId::new("t"), finish_reason, "")
        }
    }

    #[test]
    fn the_summary_counts_each_end_once() {
        let mut tally = Tally::default();
        (1..=98).for_each(|ms| tally.outcome(&outcome(FinishReason::Final, ms), true));
        tally.outcome(&outcome(FinishReason::GuardExceeded, 99), true);
        tally.outcome(&outcome(FinishReason::Suspended, 100), true);
        tally.outcome(&outcome(FinishReason::Cancelled, 7_000), false);
        let error = AgentError::from(LlmError::new(LlmErrorKind::Unavailable, "no connection"));
        tally.outcome(&TurnOutcome { error: Some(error), ..outcome(FinishReason::Error, 1) }, true);
        tally.failure(&Failure::usage("line 3: no"));
        assert_eq!(tally.done(), 103);
        expect![[r#"
            103 lines in 2.0 s, 51.0 turns/s
            finished 98, limited 1, suspended 1, cancelled 1, failed 2 (invalid 1, llm 1)
            tokens 1010 in, 202 out; a turn took p50 50 ms, p99 99 ms
            1 line was printed again, from the store
            4 lines were not run"#]]
        .assert_eq(&tally.summary(Duration::from_secs(2), Some(4)));
    }

    #[test]
    fn an_end_that_is_not_saved_is_counted_as_its_line_and_the_code_tell_it() {
        let mut tally = Tally::default();
        tally.outcome(&TurnOutcome { saved: false, ..outcome(FinishReason::Final, 1) }, true);
        tally.outcome(&TurnOutcome { saved: false, ..outcome(FinishReason::Suspended, 1) }, true);
        // A stopped turn is reported first and saved after that.
        tally.outcome(&TurnOutcome { saved: false, ..outcome(FinishReason::Cancelled, 1) }, true);
        let summary = tally.summary(Duration::from_secs(1), Some(0));
        let counts = "finished 0, limited 0, suspended 0, cancelled 1, failed 2 (store 2)";
        assert!(summary.contains(counts), "{summary}");
        assert_eq!((tally.done(), tally.exit()), (3, Exit::Store));
    }

    #[test]
    fn turns_of_any_length_are_told_as_they_are() {
        let mut tally = Tally::default();
        for ms in [1_500, 3_000, 37_017, 3_600_000] {
            tally.outcome(&outcome(FinishReason::Final, ms), true);
            let times = tally.times.as_ref().unwrap();
            let told = times.value_at_quantile(1.0);
            assert!(ms <= told && told <= ms + ms / 500, "{ms} ms told as {told}");
        }
        tally.outcome(&outcome(FinishReason::Final, u64::MAX), true);
        assert!(tally.summary(Duration::from_secs(1), None).contains("p50 370"), "half took 37 s and less");
    }

    #[test]
    fn the_worst_line_gives_the_code() {
        let mut tally = Tally::default();
        tally.outcome(&outcome(FinishReason::Final, 1), true);
        assert_eq!(tally.exit(), Exit::Success);
        tally.outcome(&outcome(FinishReason::GuardExceeded, 1), true);
        assert_eq!(tally.exit(), Exit::Guard);
        tally.failure(&Failure::usage("line 3: no"));
        tally.outcome(&outcome(FinishReason::Suspended, 1), true);
        assert_eq!(tally.exit(), Exit::Usage);
    }
}
