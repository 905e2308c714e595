//! Stories of skills: chosen once, and the same after a crash.

use super::*;
use crate::event::AgentEvent;
use crate::skills::SkillRules;
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
