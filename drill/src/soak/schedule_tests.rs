use super::*;
use crate::soak::chaos::Shape;

fn usual() -> Chaos {
    Chaos::parse("default", Shape::Worker).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
    let of = |seed| strikes(seed, &usual()).take(1_000).collect::<Vec<_>>();
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    let met = |seed| (0..1_000).map(|n| meets(seed, &usual(), Kind::Cancel, &[n])).collect::<Vec<_>>();
    assert_eq!(met(7), met(7));
    assert_ne!(met(7), met(8));
}

#[test]
fn strikes_come_in_order_and_as_often_as_their_rate_says() {
    let all: Vec<_> = strikes(1, &usual()).take_while(|strike| strike.at_ms < 600_000).collect();
    assert!(all.is_sorted_by_key(|strike| strike.at_ms));
    let of = |kind| all.iter().filter(|strike| strike.kind == kind).count();
    assert_eq!((of(Kind::McpKill), of(Kind::ProcessKill), of(Kind::Overload)), (300, 10, 60));
    assert_eq!(strikes(1, &Chaos::default()).next(), None);
}

#[test]
fn a_share_meets_about_that_share_and_one_kind_does_not_tell_of_another() {
    let met = |kind| (0..20_000_u64).filter(|n| meets(3, &usual(), kind, &[n % 100, n / 100])).count();
    assert!((800..1_200).contains(&met(Kind::Cancel)), "{}", met(Kind::Cancel));
    let both =
        (0..20_000_u64).filter(|n| meets(3, &usual(), Kind::Cancel, &[*n]) && meets(3, &usual(), Kind::Llm429, &[*n]));
    assert!(both.count() < 80);
}

#[test]
fn waits_have_their_mean_and_an_end() {
    let waits: Vec<_> = (0..10_000).map(|n| exponential_ms(draw(1, 2, &[n]), 100)).collect();
    let mean = waits.iter().sum::<u64>() / 10_000;
    assert!((90..110).contains(&mean), "{mean}");
    assert!(waits.iter().all(|wait| *wait <= 500));
}
