//! The table of what is tried again, after how long, and by whom.

use super::*;
use proptest::prelude::*;

fn error(kind: LlmErrorKind) -> LlmError {
    LlmError::new(kind, "x")
}

fn rule(error: &LlmError, repeated: u32, remaining_ms: u64, has_fallback: bool, budget: bool) -> Verdict {
    let failure = Failure { error, repeated, remaining_ms, chance: 1.0, has_fallback, is_down: false };
    RetryPolicy::default().rule(failure, || budget)
}

#[test]
fn only_what_another_attempt_may_help_is_tried_again() {
    use LlmErrorKind as Kind;
    for kind in [Kind::Unavailable, Kind::RateLimited, Kind::Timeout] {
        assert_eq!(rule(&error(kind), 0, 90_000, true, true), Verdict::Again { delay_ms: 1_000 });
        assert_eq!(rule(&error(kind), 2, 90_000, true, true), Verdict::Fallback);
        assert_eq!(rule(&error(kind), 2, 90_000, false, true), Verdict::GiveUp);
    }
    for kind in [
        Kind::QuotaExhausted,
        Kind::Unauthorized,
        Kind::UnknownModel,
        Kind::UnknownProvider,
        Kind::MissingKey,
        Kind::ContextExceeded,
        Kind::Rejected,
        Kind::TooLarge,
        Kind::NotScripted,
    ] {
        assert_eq!(rule(&error(kind), 0, 90_000, true, true), Verdict::GiveUp, "{kind:?}");
    }
}

#[test]
fn l1_exactly_two_further_attempts_with_doubling_caps() {
    let error = error(LlmErrorKind::Unavailable);
    let verdicts: Vec<_> = (0..3).map(|repeated| rule(&error, repeated, 90_000, false, true)).collect();
    assert_eq!(verdicts, [Verdict::Again { delay_ms: 1_000 }, Verdict::Again { delay_ms: 2_000 }, Verdict::GiveUp]);
}

#[test]
fn l2_what_the_provider_asks_is_honoured_up_to_a_minute() {
    for (asked, waited) in [(0, 1_000), (500, 1_000), (7_000, 7_000), (60_000, 60_000), (1_382_400_000, 60_000)] {
        let error = error(LlmErrorKind::RateLimited).with_retry_after_ms(asked);
        assert_eq!(rule(&error, 0, 90_000, false, true), Verdict::Again { delay_ms: waited });
    }
}

#[test]
fn l2_no_wait_outlasts_the_turn() {
    let asked = error(LlmErrorKind::RateLimited).with_retry_after_ms(30_000);
    assert_eq!(rule(&asked, 0, 30_001, true, true), Verdict::Again { delay_ms: 30_000 });
    assert_eq!(rule(&asked, 0, 30_000, true, true), Verdict::Fallback);
    assert_eq!(rule(&asked, 0, 30_000, false, true), Verdict::GiveUp);
    assert_eq!(rule(&asked, 0, 0, true, true), Verdict::GiveUp, "nobody is left to answer");
}

#[test]
fn l1_an_empty_budget_is_asked_last_and_ends_it() {
    let unavailable = error(LlmErrorKind::Unavailable);
    assert_eq!(rule(&unavailable, 0, 90_000, true, false), Verdict::Fallback);
    let failure = Failure {
        error: &unavailable,
        repeated: 2,
        remaining_ms: 90_000,
        chance: 0.5,
        has_fallback: false,
        is_down: false,
    };
    let verdict = RetryPolicy::default().rule(failure, || panic!("no repetition is left to pay for"));
    assert_eq!(verdict, Verdict::GiveUp);
}

#[test]
fn l13_a_provider_that_is_down_is_not_asked_again() {
    let unavailable = error(LlmErrorKind::Unavailable);
    for (has_fallback, verdict) in [(true, Verdict::Fallback), (false, Verdict::GiveUp)] {
        let failure = Failure {
            error: &unavailable,
            repeated: 0,
            remaining_ms: 90_000,
            chance: 0.5,
            has_fallback,
            is_down: true,
        };
        let ruled = RetryPolicy::default().rule(failure, || panic!("nothing is to be paid for"));
        assert_eq!(ruled, verdict);
    }
}

proptest! {
    #[test]
    fn l2_a_wait_is_always_bounded(asked in any::<Option<u64>>(), repeated in 0_u32..5, remaining_ms in any::<u64>(), chance in any::<f64>()) {
        let limited = error(LlmErrorKind::RateLimited);
        let error = asked.map_or(limited.clone(), |asked| limited.with_retry_after_ms(asked));
        let failure = Failure { error: &error, repeated, remaining_ms, chance, has_fallback: false, is_down: false };
        if let Verdict::Again { delay_ms } = RetryPolicy::default().rule(failure, || true) {
            prop_assert!(repeated < 2 && delay_ms < remaining_ms && delay_ms <= MOST_RETRY_AFTER_MS);
        }
    }
}
