//! What a person sees of what was used.

use super::*;
use crate::terminal::spending::tests::{completed, priced, usage};
use bob::SessionId;
use bob::model::catalogue::{ModelPrice, Rate};
use bob::model::{StopReason, Usage};
use bob::sessions::TurnId;
use bob::store::{Answered, FORMAT, Fact, RecordId, StepCost};
use expect_test::expect;

fn record(turn: &str, model: &str, usage: Option<Usage>) -> Record {
    let cost = StepCost {
        usage,
        prompt_bytes: 0,
        stop_reason: StopReason::Stop,
        response_id: None,
        model: ModelName::parse(model).unwrap(),
        latency_ms: 1,
        cost: None,
    };
    Record {
        format: FORMAT,
        id: RecordId::new("r"),
        session: SessionId::parse("s").unwrap(),
        version: 1,
        epoch: 1,
        turn: Some(TurnId::new(turn)),
        at: 0,
        fact: Fact::Answered(Box::new(Answered::bare("", Vec::new(), cost))),
    }
}

fn prices() -> Prices {
    priced([("a:small", ModelPrice::usd(Rate::from_amount(1.0), Rate::from_amount(4.0)))])
}

#[test]
fn the_table_counts_the_last_turn_and_the_session_by_model() {
    let records = [
        record("t1", "a:small", Some(usage(1_000, None, 20))),
        record("t2", "a:small", Some(usage(2_000_000, Some(500), 100))),
        record("t2", "b:large", Some(usage(10, None, 1))),
    ];
    expect![[r#"
                   model     calls      input  cached  output               cost
        last turn  a:small       1  2,000,000     500     100           2.00 USD
        last turn  b:large       1         10       -       1            unknown
        last turn  together      2  2,000,010     500     101  2.00 USD and more
        session    a:small       2  2,001,000     500     120           2.00 USD
        session    b:large       1         10       -       1            unknown
        session    together      3  2,001,010     500     121  2.00 USD and more
    "#]]
    .assert_eq(&table(records.iter(), &prices(), 80));
    expect![[r#"
        last turn: a:small
          calls 1
          input 1,000
          cached -
          output 20
          cost 0.0011 USD
        session: a:small
          calls 1
          input 1,000
          cached -
          output 20
          cost 0.0011 USD
    "#]]
    .assert_eq(&table(records[..1].iter(), &prices(), 40));
    expect![[r#"
                   model  calls  input  cached  output     cost
        last turn  a:b        1      0       -       0  unknown
        session    a:b        1      0       -       0  unknown
        no price is known: [prices."provider:model"] sets the price of a model
        the provider did not report the tokens of some calls
    "#]]
    .assert_eq(&table([record("t", "a:b", None)].iter(), &Prices::default(), 80));
    assert_eq!(table([].iter(), &prices(), 80), "no usage in this session yet\n");
}

#[test]
fn the_line_of_a_turn_says_tokens_and_money_where_they_are_known() {
    let spent = |name: &str, usage| {
        let mut spent = Spending::default();
        spent.event(&completed(name, usage));
        spent
    };
    let turn = spent("a:small", Some(usage(1_200, None, 34)));
    let mut session = spent("b:large", Some(usage(5, None, 5)));
    session.extend(&turn);
    assert_eq!(
        summary(&turn, 3_210, Some(&session), &prices()),
        "[1,200 tokens in, 34 out; 3.2 s; 0.0013 USD, session 0.0013 USD and more]"
    );
    assert_eq!(summary(&turn, 3_210, Some(&session), &Prices::default()), "[1,200 tokens in, 34 out; 3.2 s]");
    assert_eq!(summary(&spent("a:small", None), 90, Some(&session), &Prices::default()), "[90 ms]");
}

#[test]
fn a_context_that_fills_is_shown() {
    assert_eq!(with_context("[5 ms]", 2_499, 10_000), "[5 ms]");
    assert_eq!(with_context("[5 ms]", 2_500, 10_000), "[5 ms; context 25 %]");
    assert_eq!(with_context("[5 ms]", 1, 0), "[5 ms]");
}
