//! The restart rule: table tests, and properties of all sequences of failures.

use super::*;
use proptest::prelude::*;

/// Each row: when it died, after how long a life, how; and the verdict.
fn check(rule: RestartRule, story: &[(u64, Option<u64>, bool, Verdict)]) {
    let mut log = RestartLog::default();
    for &(now_ms, lived_ms, normally, expected) in story {
        if let Some(lived_ms) = lived_ms {
            log.started(now_ms - lived_ms);
        }
        assert_eq!(log.rule(now_ms, Died { normally }, &rule, 1.0), expected, "at {now_ms} ms");
    }
}

const fn after(delay_ms: u64) -> Verdict {
    Verdict::RestartAfter { delay_ms }
}

#[test]
fn a_core_actor_comes_back_at_once_then_later_and_later_then_never() {
    let rows = [
        (10, Some(5), false, after(0)),
        (20, Some(5), false, after(200)),
        (300, Some(5), false, after(400)),
        (800, Some(5), false, after(800)),
        (2_000, Some(5), false, after(1_600)),
        (4_000, Some(5), false, Verdict::GiveUp),
    ];
    check(RestartRule::CORE, &rows);
}

#[test]
fn a_server_waits_before_its_first_restart() {
    check(RestartRule::SERVER, &[(10, Some(5), false, after(200)), (500, Some(5), false, after(400))]);
}

#[test]
fn a_minute_of_health_makes_the_next_delay_the_first_again() {
    let rows = [
        (1_000, Some(500), false, after(200)),
        (2_000, Some(500), false, after(400)),
        (63_000, Some(59_999), false, after(800)),
        (124_000, Some(60_000), false, after(200)),
    ];
    check(RestartRule::SERVER, &rows);
}

#[test]
fn health_does_not_refill_the_intensity() {
    let intensity = RestartIntensity { max_restarts: 2, within_ms: 180_000 };
    let rule = RestartRule { intensity, ..RestartRule::CORE };
    let rows = [
        (61_000, Some(61_000), false, after(0)),
        (122_000, Some(61_000), false, after(0)),
        (183_000, Some(61_000), false, Verdict::GiveUp),
        (241_000, None, false, after(0)),
    ];
    check(rule, &rows);
}

#[test]
fn a_failed_start_counts_like_a_death() {
    let intensity = RestartIntensity { max_restarts: 2, within_ms: 1_000 };
    let rule = RestartRule { intensity, ..RestartRule::CORE };
    check(rule, &[(1, Some(1), false, after(0)), (2, None, false, after(200)), (3, None, false, Verdict::GiveUp)]);
}

#[test]
fn the_restart_type_decides_which_ends_are_left_alone() {
    for (restart, normally, expected) in [
        (RestartType::Permanent, true, after(0)),
        (RestartType::Permanent, false, after(0)),
        (RestartType::Transient, true, Verdict::LeaveEnded),
        (RestartType::Transient, false, after(0)),
        (RestartType::Temporary, true, Verdict::LeaveEnded),
        (RestartType::Temporary, false, Verdict::LeaveEnded),
    ] {
        check(RestartRule { restart, ..RestartRule::CORE }, &[(5, Some(5), normally, expected)]);
    }
}

#[test]
fn no_restarts_allowed_means_none() {
    let intensity = RestartIntensity { max_restarts: 0, within_ms: 1_000 };
    check(RestartRule { intensity, ..RestartRule::CORE }, &[(5, Some(5), false, Verdict::GiveUp)]);
}

fn any_rule() -> impl Strategy<Value = RestartRule> {
    (0..6_u32, 1..5_000_u64, 0..3_u32, 1..500_u64, 1..4_000_u64, 1..5_000_u64).prop_map(
        |(max_restarts, within_ms, at_once, first_ms, most_ms, healthy_ms)| RestartRule {
            restart: RestartType::Permanent,
            intensity: RestartIntensity { max_restarts, within_ms },
            at_once,
            backoff: Backoff { first_ms, most_ms },
            healthy_ms,
        },
    )
}

proptest! {
    #[test]
    fn no_period_holds_more_restarts_than_allowed(
        rule in any_rule(),
        lives in prop::collection::vec((0..3_000_u64, 0.0..=1.0_f64), 1..80),
    ) {
        let mut log = RestartLog::default();
        let (mut up, mut restarts) = (0, Vec::new());
        for (lived, chance) in lives {
            log.started(up);
            let now = up + lived;
            match log.rule(now, Died { normally: false }, &rule, chance) {
                Verdict::RestartAfter { delay_ms } => {
                    up = now + delay_ms;
                    restarts.push(up);
                }
                // A manual restart does not reset the log.
                Verdict::GiveUp => up = now,
                Verdict::LeaveEnded => prop_assert!(false, "a permanent child is never left ended"),
            }
        }
        for (index, &first) in restarts.iter().enumerate() {
            let within = restarts[index..].iter().filter(|&&other| other - first < rule.intensity.within_ms).count();
            prop_assert!(within <= rule.intensity.max_restarts as usize);
        }
    }

    #[test]
    fn a_delay_stays_within_its_bounds(
        rule in any_rule(),
        lives in prop::collection::vec((0..3_000_u64, 0.0..=1.0_f64), 1..80),
    ) {
        let mut log = RestartLog::default();
        let (mut up, mut in_a_row) = (0, 0_u32);
        for (lived, chance) in lives {
            log.started(up);
            let now = up + lived;
            if lived >= rule.healthy_ms {
                in_a_row = 0;
            }
            if let Verdict::RestartAfter { delay_ms } = log.rule(now, Died { normally: false }, &rule, chance) {
                in_a_row += 1;
                prop_assert!(delay_ms <= rule.backoff.most_ms);
                if in_a_row <= rule.at_once {
                    prop_assert_eq!(delay_ms, 0);
                } else if in_a_row == rule.at_once + 1 {
                    prop_assert!(delay_ms <= rule.backoff.first_ms);
                }
                up = now + delay_ms;
            } else {
                up = now;
            }
        }
    }

    #[test]
    fn a_healthy_life_makes_the_delay_the_first_again(rule in any_rule(), deaths in 0..20_u32) {
        // A period of one millisecond never gives up on deaths that lie apart.
        let intensity = RestartIntensity { max_restarts: 1, within_ms: 1 };
        let rule = RestartRule { intensity, at_once: 0, ..rule };
        let (mut log, mut up) = (RestartLog::default(), 0);
        for _ in 0..deaths {
            log.started(up);
            if let Verdict::RestartAfter { delay_ms } = log.rule(up + 1, Died { normally: false }, &rule, 1.0) {
                up += 1 + delay_ms;
            }
        }
        log.started(up);
        let verdict = log.rule(up + rule.healthy_ms.max(1), Died { normally: false }, &rule, 1.0);
        prop_assert_eq!(verdict, Verdict::RestartAfter { delay_ms: rule.backoff.delay_ms(1, 1.0) });
    }
}
