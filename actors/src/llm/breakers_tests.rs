//! What opens a provider's breaker, what does not, and what is said meanwhile.

use super::*;
use std::time::Duration;

const POLICY: BreakerPolicy = BreakerPolicy { failures: 2, lasting_ms: 0, probe_every_ms: 5_000 };

fn end(kind: LlmErrorKind) -> Result<(), LlmError> {
    Err(LlmError::new(kind, format!("it was {kind:?}")))
}

fn down(policy: BreakerPolicy) -> Breakers {
    let breakers = Breakers::new(policy);
    for _ in 0..policy.failures {
        breakers.pass("p").unwrap().tell(&end(LlmErrorKind::Timeout));
    }
    breakers
}

#[tokio::test(start_paused = true)]
async fn l13_only_outages_open_it() {
    use LlmErrorKind as Kind;
    for (kind, opens) in [
        (Kind::Unavailable, true),
        (Kind::Timeout, true),
        (Kind::RateLimited, false),
        (Kind::QuotaExhausted, false),
        (Kind::Unauthorized, false),
        (Kind::UnknownModel, false),
        (Kind::ContextExceeded, false),
        (Kind::Rejected, false),
        (Kind::TooLarge, false),
        (Kind::NotStarted, false),
        (Kind::NotScripted, false),
    ] {
        let breakers = Breakers::new(POLICY);
        (0..10).filter_map(|_| breakers.pass("p").ok()).for_each(|pass| pass.tell(&end(kind)));
        assert_eq!(breakers.look("p").is_err(), opens, "{kind:?}");
        assert!(breakers.look("another").is_ok(), "each provider has its own");
    }
}

#[tokio::test(start_paused = true)]
async fn l13_a_call_that_was_let_go_is_no_failure() {
    let breakers = Breakers::new(POLICY);
    (0..10).for_each(|_| drop(breakers.pass("p").unwrap()));
    assert!(breakers.look("p").is_ok());
}

#[tokio::test(start_paused = true)]
async fn l13_the_refusal_says_since_when_and_when_again() {
    let breakers = down(POLICY);
    tokio::time::advance(Duration::from_millis(1_500)).await;
    let error = breakers.pass("p").unwrap_err();
    assert_eq!(error.message, "provider p has been down for 2 s: next try in 4 s (last: it was Timeout)");
    assert_eq!((error.kind, breakers.look("p").unwrap_err()), (LlmErrorKind::Unavailable, error));

    tokio::time::advance(Duration::from_millis(3_500)).await;
    let probe = breakers.pass("p").unwrap();
    let text = breakers.look("p").unwrap_err().message;
    assert_eq!(text, "provider p has been down for 5 s: it is being tried now (last: it was Timeout)");
    let state = ProviderState {
        provider: "p".into(),
        down: Some(Down { for_ms: 5_000, next_try_in_ms: None }),
        last_error: Some("it was Timeout".into()),
    };
    assert_eq!(breakers.states(), [state]);
    probe.tell(&Ok(()));
    assert!(breakers.states()[0].down.is_none() && breakers.look("p").is_ok());
}

#[tokio::test(start_paused = true)]
async fn l13_a_probe_that_is_abandoned_or_says_nothing_gives_its_place_back() {
    let breakers = down(POLICY);
    tokio::time::advance(Duration::from_secs(5)).await;
    drop(breakers.pass("p").unwrap());
    let again = breakers.pass("p").unwrap();
    assert!(breakers.pass("p").is_err(), "one at a time");
    again.tell(&end(LlmErrorKind::TooLarge));
    breakers.pass("p").unwrap().tell(&end(LlmErrorKind::RateLimited));
    assert!(breakers.pass("p").is_ok(), "a busy provider is there");
}
