//! Stories of skills: chosen when a turn begins, the same after a crash, and chosen again at a major change.

use super::*;
use crate::event::AgentEvent;
use crate::skills::{Skill, SkillRules};
use crate::store::Fact;
use crate::turn::tests::world::skills;

fn skilled() -> Setup {
    let mut setup = native();
    setup.turn_config.skills = Some(SkillRules::default());
    setup
}

#[test]
fn skills_are_chosen_once_in_a_turn() {
    check(
        skilled(),
        &["user $s1x go", "calls local__read {}", "crash", "ok c00000001 a", "llm done", "user hi", "llm ho"],
        expect![[r#"
            > user $s1x go
                save options, input, started
                list skills
                save skills_selected
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > crash
                list skills
                t1 begins
                run c00000001 local/read {}
            > ok c00000001 a
                save result
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
            > user hi
                save input, started
                list skills
                save skills_selected
                infer step 1 with 5 messages
            > llm ho
                save answered, outcome
                finish t2 Final "ho"
        "#]],
    );
}

#[test]
fn a_session_without_skills_is_not_asked_for_any() {
    let mut told = Teller::new(native());
    told.step("user $s1x go");
    told.step("llm done");
    assert!(!told.trace.contains("skills"), "{}", told.trace);
}

#[test]
fn skills_that_changed_meanwhile_are_not_chosen_anew() {
    let mut told = Teller::new(skilled());
    told.step("user $s1x $s3x go");
    told.world.skills = Arc::new(skills(5));
    told.step("llm-fails");
    told.step("user $s1x $s3x go");
    told.step("calls local__read {}");
    told.world.skills = Arc::new(skills(2));
    told.step("crash");
    let chosen = told.world.events.iter().filter_map(|told| match &told.event {
        AgentEvent::SkillsSelected { skills, dropped, .. } => {
            let names: Vec<_> = skills.iter().map(|skill| skill.name.as_str()).collect();
            Some(format!("{} without {dropped:?}", names.join(" ")))
        }
        _ => None,
    });
    let chosen: Vec<_> = chosen.collect();
    assert_eq!(chosen, ["s1x without []", "s1x s3x without []", "s1x without [\"s3x\"]"]);
    let open = told.world.turn.session().and_then(|session| session.running()).unwrap();
    assert_eq!(open.skills.as_ref().map(|skills| skills.skills.len()), Some(2), "what was chosen stays chosen");
}

/// Each later selection: its causes, and the names of the skills.
fn reselected(told: &Teller) -> Vec<String> {
    let again = told.world.stored.iter().filter_map(|record| match &record.fact {
        Fact::SkillsReselected(again) => {
            let names: Vec<_> = again.skills.skills.iter().map(|skill| skill.name.as_str()).collect();
            Some(format!("{:?} {}", again.causes, names.join(" ")))
        }
        _other => None,
    });
    again.collect()
}

fn after(setup: Setup, steps: &[&str]) -> Teller {
    let mut told = Teller::new(setup);
    steps.iter().for_each(|step| told.step(step));
    told
}

/// The result of the call that ended last.
fn last_result(told: &Teller) -> String {
    let results = told.world.stored.iter().rev().filter_map(|record| match &record.fact {
        Fact::Result(result) => Some(result.output.for_model()),
        _other => None,
    });
    results.into_iter().next().expect("a call has ended")
}

#[test]
fn a_steered_turn_chooses_its_skills_again_before_the_next_prompt() {
    check(
        skilled(),
        &["user $s0x go", "calls local__write {}", "steer $s2x as well", "ok c00000001 a", "llm done"],
        expect![[r#"
            > user $s0x go
                save options, input, started
                list skills
                save skills_selected
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > steer $s2x as well
                save steered
                "$s2x as well" is taken: true
            > ok c00000001 a
                save result
                list skills
                save skills_reselected
                infer step 2 with 4 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
        "#]],
    );
}

#[test]
fn a_steer_message_that_comes_first_is_part_of_the_first_selection() {
    let mut told = Teller::new(skilled());
    let (input, turn_config) = (told.next_input("$s0x go"), Arc::clone(&told.world.turn_config));
    told.world.say(TurnMessage::Start { input, turn_config });
    while !matches!(told.world.turn.state, crate::turn::state::State::Start(_)) {
        let question = told.world.questions.remove(0);
        if let Some(message) = told.world.works(&question) {
            told.world.say(message);
        }
    }
    told.step("steer and $s2x");
    let first = told.world.turn.session().and_then(|session| session.running()).unwrap().skills.clone().unwrap();
    let names: Vec<_> = first.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["s0x", "s2x"]);
    assert_eq!(reselected(&told), Vec::<String>::new());
}

#[test]
fn two_failed_calls_in_a_row_are_one_cause_and_a_success_between_them_none() {
    let mut setup = skilled();
    setup.limits.max_consecutive_errors = 9;
    let told = after(
        setup.clone(),
        &[
            "user $s0x go",
            "calls local__write {}; local__write {\"a\":1}",
            "error c00000001 no",
            "error c00000002 no",
            "calls local__write {\"a\":2}",
            "error c00000003 no",
            "calls local__write {\"a\":3}",
            "error c00000004 no",
            "llm done",
        ],
    );
    assert_eq!(reselected(&told), ["[ToolErrors] s0x", "[ToolErrors] s0x"]);
    let told = after(
        setup,
        &[
            "user $s0x go",
            "calls local__write {}; local__write {\"a\":1}; local__write {\"a\":2}",
            "error c00000001 no",
            "ok c00000002 yes",
            "error c00000003 no",
            "llm done",
        ],
    );
    assert_eq!(reselected(&told), Vec::<String>::new());
}

#[test]
fn what_failed_calls_say_finds_a_skill_by_its_words_and_not_by_its_name() {
    let mut setup = skilled();
    setup.limits.max_consecutive_errors = 9;
    let calls = ["user hi", "calls local__write {}; local__write {\"a\":1}"];
    let mut told = after(setup.clone(), &calls);
    told.step("error c00000001 it does one thing");
    told.step("error c00000002 no");
    assert_eq!(
        reselected(&told),
        ["[ToolErrors] s0x s1x s2x"],
        "\"does\" is no keyword, and \"one\" and \"thing\" are"
    );
    let mut told = after(setup, &calls);
    told.step("error c00000001 use $s1x");
    told.step("error c00000002 no");
    assert_eq!(reselected(&told), ["[ToolErrors] s1x"], "a word of its name counts twice");
    let limit = told.world.turn.session().and_then(|session| session.running()).unwrap().skills.clone().unwrap();
    assert_eq!(limit.allow_tools, None, "it limits no tools in the middle of the work");
}

#[test]
fn a_model_asks_for_a_listed_skill_and_has_it_from_the_next_step_on() {
    check(
        skilled(),
        &["user hi", "calls local__use_skill {\"name\":\"s2x\"}", "ok c00000001 s2x", "llm done", "user hi", "llm ho"],
        expect![[r#"
            > user hi
                save options, input, started
                list skills
                save skills_selected
                infer step 1 with 1 messages
            > calls local__use_skill {"name":"s2x"}
                run c00000001 local/use_skill {"name":"s2x"}
                save answered
            > ok c00000001 s2x
                save result
                list skills
                save skills_reselected
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
            > user hi
                save input, started
                list skills
                save skills_selected
                infer step 1 with 5 messages
            > llm ho
                save answered, outcome
                finish t2 Final "ho"
        "#]],
    );
}

#[test]
fn a_skill_that_was_asked_for_stays_through_later_selections_of_its_turn() {
    let told = after(
        skilled(),
        &[
            "user $s0x go",
            "calls local__use_skill {\"name\":\"s2x\"}",
            "ok c00000001 s2x",
            "calls local__use_skill {\"name\":\"s2x\"}",
            "ok c00000002 s2x",
            "steer and now $s1x",
            "llm on",
            "llm done",
        ],
    );
    assert_eq!(reselected(&told), ["[UseSkill] s2x s0x", "[Steered] s2x s0x s1x"]);
    assert_eq!(last_result(&told), "the skill `s2x` is part of the instructions already");
}

#[test]
fn only_a_listed_skill_within_the_budget_can_be_asked_for() {
    let mut index = skills(3);
    let large = |skill: &Arc<Skill>| {
        Arc::new(Skill::new(skill.front.clone(), "Do it. ".repeat(40), skill.folder.clone(), skill.hash.clone()))
    };
    index.skills = index.skills.iter().map(large).collect();
    let index = Arc::new(index);
    let ask = |setup: Setup, names: &[&str]| {
        let mut told = Teller::new(setup);
        told.world.skills = Arc::clone(&index);
        told.step("user hi");
        for (at, name) in (1..).zip(names) {
            told.step(&format!("calls local__use_skill {{\"name\":\"{name}\"}}"));
            told.step(&format!("ok c0000000{at} x"));
        }
        (last_result(&told), reselected(&told).len())
    };
    assert_eq!(ask(skilled(), &["s7x"]), ("there is no skill `s7x` here; skills are: s0x, s1x, s2x".to_owned(), 0));
    let mut small = skilled();
    small.turn_config.skills = Some(SkillRules { token_budget_tokens: Some(180), ..SkillRules::default() });
    let text = "the skill `s2x` does not fit into the 720 bytes that skills may take beside s0x";
    assert_eq!(ask(small, &["s0x", "s2x"]), (text.to_owned(), 1));
}

#[test]
fn a_crash_between_a_cause_and_its_selection_chooses_again_once() {
    let told = after(
        skilled(),
        &["user $s0x go", "calls local__read {}", "steer $s2x as well", "crash", "ok c00000001 a", "llm done"],
    );
    assert_eq!(reselected(&told), ["[Steered] s0x s2x"]);
    let told = after(
        skilled(),
        &["user $s0x go", "calls local__read {}", "steer $s2x as well", "ok c00000001 a", "crash", "llm done"],
    );
    assert_eq!(reselected(&told), ["[Steered] s0x s2x"], "a selection that is stored is not made again");
}

#[test]
fn a_port_that_lists_none_leaves_the_skills_as_they_were() {
    let mut told = after(skilled(), &["user $s0x go", "calls local__write {}", "steer $s1x"]);
    told.world.skills = Arc::default();
    told.step("ok c00000001 a");
    assert_eq!(reselected(&told), ["[Steered] s0x s1x"]);
    let Some(Question::Infer(_, request)) = told.world.questions.last() else { panic!("the model is asked") };
    assert!(request.system.contains("## Skill s1x"), "{}", request.system);
}

#[test]
fn tools_follow_what_the_user_says_and_not_what_a_model_asks_for() {
    let offered = |told: &Teller| match told.world.questions.last() {
        Some(Question::Infer(_, request)) => request.tools.tools().iter().map(|tool| tool.id.to_string()).collect(),
        _other => Vec::new(),
    };
    let limited = ["local/read", "local/idem", "local/use_skill"];
    let mut told = after(skilled(), &["user $s1x go"]);
    assert_eq!(offered(&told), limited);
    // `s0x` lists no tools, which would lift the limit.
    told.step("calls local__use_skill {\"name\":\"s0x\"}");
    told.step("ok c00000001 s0x");
    assert_eq!(offered(&told), limited);
    told.step("steer use $s2x");
    told.step("llm well");
    assert!(offered(&told).contains(&"local/write".to_owned()), "the user asked for one without a list");
}

#[test]
fn skills_of_another_role_are_neither_chosen_nor_listed() {
    let mut setup = skilled();
    setup.turn_config.skills = Some(SkillRules { role: Some("writer".into()), ..SkillRules::default() });
    let mut told = Teller::new(setup);
    let mut index = skills(3);
    for (skill, roles) in index.skills.iter_mut().zip(["reviewer", "Writer, reviewer", ""]) {
        Arc::make_mut(skill).front.metadata.insert("roles".into(), roles.into());
    }
    told.world.skills = Arc::new(index);
    told.step("user $s0x $s1x go");
    let Some(Question::Infer(_, request)) = told.world.questions.last() else { panic!("the model is asked") };
    assert!(request.system.contains("## Skill s1x") && request.system.contains("| s2x |"), "{}", request.system);
    assert!(!request.system.contains("s0x"), "{}", request.system);
    told.step("calls local__use_skill {\"name\":\"s0x\"}");
    told.step("ok c00000001 x");
    assert_eq!(last_result(&told), "there is no skill `s0x` here; skills are: s1x, s2x");
}
