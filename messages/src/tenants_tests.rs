//! Limits of tenants: exact at the limit, and per day.

use super::*;
use proptest::prelude::*;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name)
}

fn tokens(tokens: u64) -> Spent {
    Spent { tokens, cost: Cost::ZERO }
}

#[test]
fn a_tenant_has_its_own_limits_or_those_of_all_and_no_tenant_has_none() {
    let (few, many) = (
        TenantLimits { max_concurrent_turns: 1, ..TenantLimits::default() },
        TenantLimits { max_concurrent_turns: 9, ..TenantLimits::default() },
    );
    let rules = TenantRules { all: few, own: BTreeMap::from([(tenant("acme"), many)]) };
    assert_eq!((rules.of(Some(&tenant("acme"))), rules.of(Some(&tenant("globex")))), (many, few));
    assert_eq!(rules.of(None), TenantLimits::default());
}

#[test]
fn a_limit_is_used_up_exactly_when_it_is_reached_and_until_the_next_day() {
    let (mut book, acme, now) = (DayBook::default(), tenant("acme"), 10 * DAY_MS + 1_000);
    let limits =
        TenantLimits { max_tokens_per_day: 100, max_cost_per_day: Cost::from_amount(2.5), ..TenantLimits::default() };
    assert!(limits.is_daily() && !TenantLimits::default().is_daily());
    book.add(&acme, now, Spent { tokens: 99, cost: Cost::from_amount(1.0) });
    let left = book.left(&acme, &limits, now).unwrap();
    assert_eq!(left, LeftToday { tokens: Some(1), cost: Some(Cost::from_amount(1.5)) });
    book.add(&acme, now, tokens(1));
    let used_up = book.left(&acme, &limits, now).unwrap_err();
    assert_eq!(used_up.retry_after_ms, 24 * 3_600_000 - 1_000);
    assert!(used_up.text.contains("the tenant acme has used up its 100 tokens a day"), "{used_up}");
    // Another one has spent nothing, and the next day begins anew.
    assert_eq!(book.left(&tenant("globex"), &limits, now).unwrap().tokens, Some(100));
    assert_eq!(book.left(&acme, &limits, 11 * DAY_MS).unwrap().tokens, Some(100));
    let more = TenantLimits { max_tokens_per_day: 0, ..limits };
    book.add(&acme, now, Spent { tokens: 0, cost: Cost::from_amount(1.5) });
    assert!(book.left(&acme, &more, now).unwrap_err().text.contains("its budget of 2.5 a day"));
    assert_eq!(book.left(&acme, &TenantLimits::default(), now), Ok(LeftToday::default()), "no limits");
}

proptest! {
    /// The book has, for the newest day, what each tenant spent on it, whatever the others spend and when.
    #[test]
    fn the_book_has_the_sums_of_the_newest_day(entries in prop::collection::vec((0..3_u8, 0..3_i64, 0..DAY_MS, 0..100_u64), 0..40)) {
        let mut book = DayBook::default();
        let (mut newest, mut sums) = (0, BTreeMap::<u8, u64>::new());
        for (who, on, at, spent) in entries {
            book.add(&tenant(&who.to_string()), on * DAY_MS + at, tokens(spent));
            if on > newest {
                (newest, sums) = (on, BTreeMap::new());
            }
            if on == newest {
                *sums.entry(who).or_default() += spent;
            }
            for who in 0..3_u8 {
                let known = book.spent(&tenant(&who.to_string()), newest * DAY_MS);
                prop_assert_eq!(known.tokens, sums.get(&who).copied().unwrap_or_default());
                prop_assert_eq!(book.spent(&tenant(&who.to_string()), (newest + 1) * DAY_MS), Spent::default());
            }
        }
    }
}
