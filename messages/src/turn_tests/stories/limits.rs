//! A person is asked at a limit, before the turn ends.

use super::{Setup, check, limited, told};
use crate::chat::GuardReason;
use crate::input::ApprovalsMode;
use crate::limits::Limits;
use crate::replay::replay;
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::turn::tests::world::World;
use expect_test::expect;

fn asking(change: impl FnOnce(&mut Limits)) -> Setup {
    Setup { approvals: ApprovalsMode::Wait, asks_at_limits: true, ..limited(change) }
}

/// The questions and decisions about limits in the journal.
fn decided(world: &World) -> Vec<(GuardReason, Option<bool>)> {
    let mut all = Vec::new();
    for record in &world.stored {
        match &record.fact {
            Fact::LimitAsked { guard, .. } => all.push((*guard, None)),
            Fact::LimitDecided { goes_on, .. } => all.last_mut().expect("it was asked").1 = Some(*goes_on),
            _ => {}
        }
    }
    all
}

fn replays(world: &World) {
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

fn limit(world: &World, at: usize) -> (GuardReason, u64, u64) {
    let asked = world.news.iter().filter_map(|news| match news {
        TurnNews::AtLimit { question, .. } => Some((question.guard, question.limit, question.portion)),
        _ => None,
    });
    asked.collect::<Vec<_>>()[at]
}

#[test]
fn a_yes_at_the_limit_of_model_calls_gives_as_many_again_and_a_no_ends_the_turn() {
    check(
        asking(|limits| limits.max_steps = 1),
        &[
            "user go",
            "calls local__read {}",
            "ok 1 one",
            "approve s-limit6",
            "calls local__read {\"a\":1}",
            "ok 2 two",
            "deny s-limit10",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 one
                save result, limit_asked
                pause the clock: MaxSteps 1 is reached; 1 more? (s-limit6)
            > approve s-limit6
                save limit_decided
                the clock goes on
                infer step 2 with 3 messages
            > calls local__read {"a":1}
                run c00000002 local/read {"a":1}
                save answered
            > ok 2 two
                save result, limit_asked
                pause the clock: MaxSteps 2 is reached; 1 more? (s-limit10)
            > deny s-limit10
                save limit_decided
                the clock goes on
                save outcome
                finish t1 GuardExceeded MaxSteps "Stopped: the turn used its 2 model calls (max_steps)." calls Ok Ok
        "#]],
    );
}

#[test]
fn calls_that_are_too_many_wait_for_the_person_and_run_after_a_yes() {
    check(
        asking(|limits| limits.max_tool_calls = 1),
        &[
            "user go",
            "calls local__read {}; local__read {\"a\":1}",
            "approve s-limit5",
            "ok 1 one",
            "ok 2 two",
            "llm done",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}; local__read {"a":1}
                save answered, limit_asked
                pause the clock: MaxToolCalls 1 is reached; 1 more? (s-limit5)
            > approve s-limit5
                save limit_decided
                the clock goes on
                run c00000001 local/read {}
                run c00000002 local/read {"a":1}
            > ok 1 one
                save result
            > ok 2 two
                save result
                infer step 2 with 4 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok Ok
        "#]],
    );
    check(
        asking(|limits| limits.max_tool_calls = 1),
        &["user go", "calls local__read {}; local__read {\"a\":1}", "deny s-limit5"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}; local__read {"a":1}
                save answered, limit_asked
                pause the clock: MaxToolCalls 1 is reached; 1 more? (s-limit5)
            > deny s-limit5
                save limit_decided
                the clock goes on
                run c00000001 local/read {}
                save result
        "#]],
    );
}

#[test]
fn an_open_question_is_asked_again_after_a_crash_and_a_decision_is_kept() {
    let story = ["user go", "calls local__read {}", "ok 1 one", "crash"];
    let world = told(asking(|limits| limits.max_steps = 1), &story);
    let asked = world.news.iter().filter(|news| matches!(news, TurnNews::AtLimit { .. })).count();
    assert_eq!((asked, decided(&world)), (2, vec![(GuardReason::MaxSteps, None)]), "asked twice, noted once");
    let story = [&story[..], &["approve s-limit6", "crash", "calls local__read {\"a\":1}", "ok 2 two"]].concat();
    let world = told(asking(|limits| limits.max_steps = 1), &story);
    assert_eq!(limit(&world, 2), (GuardReason::MaxSteps, 2, 1), "the larger limit is in the journal");
    replays(&world);
}

#[test]
fn a_time_without_progress_is_asked_about_while_the_model_works() {
    check(
        asking(|limits| limits.progress_timeout_ms = 1_000),
        &["user go", "quiet", "quiet", "approve s-limit4", "quiet", "deny s-limit6", "stop no_progress"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > quiet
                save limit_asked
                pause the clock: NoProgress 1000 is reached; 1000 more? (s-limit4)
            > quiet
            > approve s-limit4
                save limit_decided
                the clock goes on
            > quiet
                save limit_asked
                pause the clock: NoProgress 1000 is reached; 1000 more? (s-limit6)
            > deny s-limit6
                save limit_decided
                the clock goes on
                it is to be ended: no_progress
            > stop no_progress
                save limit_asked, limit_decided, limit_asked, limit_decided, outcome
                finish t1 GuardExceeded NoProgress "Stopped: the turn made no progress for 1000 ms (progress_timeout_ms)." (not saved)
        "#]],
    );
}

#[test]
fn progress_answers_the_question_about_it() {
    let world =
        told(asking(|_| {}), &["user go", "quiet", "calls local__read {}", "quiet", "ok 1 one", "quiet", "crash"]);
    assert_eq!(decided(&world), [(GuardReason::NoProgress, Some(true)); 3]);
    replays(&world);
}

#[test]
fn each_counted_limit_is_asked_about() {
    let one = ["user go", "calls local__read {}", "ok 1 one"];
    let failing = ["user go", "calls local__read {}", "error 1 no"];
    let twice = ["user go", "calls local__read {}; local__read {}"];
    let cases: [(Setup, &[&str], GuardReason); 5] = [
        (asking(|limits| limits.max_steps = 1), &one, GuardReason::MaxSteps),
        (asking(|limits| limits.max_total_tokens = 15), &one, GuardReason::MaxTotalTokens),
        (asking(|limits| limits.max_cost = crate::models::Cost::from_nanos(15_000)), &one, GuardReason::MaxCost),
        (asking(|limits| limits.max_consecutive_errors = 1), &failing, GuardReason::MaxConsecutiveErrors),
        (asking(|limits| limits.max_identical_calls = 1), &twice, GuardReason::MaxIdenticalCalls),
    ];
    for (setup, story, guard) in cases {
        let world = told(setup.clone(), story);
        assert_eq!(decided(&world), [(guard, None)]);
        let question = world.turn.session().and_then(|session| session.open.as_ref()?.at_limit.clone()).expect("asked");
        let yes = format!("approve {}", question.question);
        let world = told(setup.clone(), &[story, &[yes.as_str()]].concat());
        let goes_on = world.news.iter().all(|news| !matches!(news, TurnNews::Finished { .. }));
        assert!(goes_on && decided(&world) == [(guard, Some(true))], "{guard:?}");
        replays(&world);
        // Whoever does not ask ends as before.
        let world = told(Setup { asks_at_limits: false, ..setup }, story);
        assert_eq!(decided(&world), []);
    }
}

#[test]
fn a_limit_of_nothing_is_not_asked_about() {
    let world = told(asking(|limits| limits.max_tool_calls = 0), &["user go", "calls local__read {}"]);
    assert_eq!(decided(&world), []);
    assert!(world.news.iter().any(|news| matches!(news, TurnNews::Finished { .. })));
}
