//! Folders of skills keep the rules; each rule is broken by a port that is made for it.

use super::*;
use crate::contract::testing::each_rule_is_broken;
use bob_messages::skills::{FrontMatter, Skill, SkillFinding, SkillScores};
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Grows,
    NoDescription,
    EmptyFinding,
    OneAtATime,
    NotFreed,
    NoFolder,
    ScoresUnknown,
    SomeForms,
}

struct Faulty(Fault, AtomicU32);

fn skill(number: u32, description: &str) -> Arc<Skill> {
    let front =
        FrontMatter { name: format!("skill-{number}"), description: description.to_owned(), ..FrontMatter::default() };
    Arc::new(Skill::new(front, "Do it.".to_owned(), "/skills".to_owned(), number.to_string()))
}

impl SkillPort for Faulty {
    fn index(&self, cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>> {
        Box::pin(async move {
            let Self(fault, count) = self;
            let is_counted = matches!(fault, Fault::Grows | Fault::OneAtATime | Fault::NotFreed);
            let before = if is_counted { count.fetch_add(1, Ordering::SeqCst) } else { 0 };
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut index = SkillIndex { skills: vec![skill(0, "Does it.")], findings: Vec::new() };
            match fault {
                Fault::None | Fault::ScoresUnknown | Fault::SomeForms => {}
                Fault::Grows => index.skills.extend((1..=before).map(|number| skill(number, "Does it."))),
                Fault::NoDescription => index.skills = vec![skill(0, " ")],
                Fault::EmptyFinding => index.findings.push(SkillFinding {
                    path: String::new(),
                    line: 0,
                    column: 0,
                    is_broken: true,
                    message: String::new(),
                }),
                // An index that is asked for beside another finds nothing.
                Fault::OneAtATime if before > 0 => index.skills.clear(),
                Fault::NotFreed if before > 0 => index.skills.clear(),
                Fault::OneAtATime | Fault::NotFreed => {}
                Fault::NoFolder => assert!(cwd.is_some_and(|cwd| cwd == "/work"), "there is no such folder"),
            }
            if matches!(fault, Fault::OneAtATime | Fault::NotFreed) {
                count.store(0, Ordering::SeqCst);
            }
            Arc::new(index)
        })
    }

    fn score<'a>(&'a self, _: &'a SkillIndex, _: &'a SkillQuery) -> BoxFuture<'a, Option<SkillScores>> {
        let name = if self.0 == Fault::ScoresUnknown { "skill-9" } else { "skill-0" };
        Box::pin(std::future::ready(Some(SkillScores::from([(name.to_owned(), 500)]))))
    }

    fn render(&self, skill: &Skill, form: SkillForm) -> Option<String> {
        let is_rendered = self.0 != Fault::SomeForms || form == SkillForm::Whole;
        is_rendered.then(|| format!("{} {form:?}", skill.name()))
    }
}

async fn of(fault: Fault) -> Suite {
    skills(|| Arc::new(Faulty(fault, AtomicU32::new(0))), Some("/work".to_owned())).await
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_a_source_of_skills_is_broken_by_a_port_with_its_fault() {
    of(Fault::None).await.assert();
    let mut suites = Vec::new();
    for (rule, fault) in [
        ("the index is the same while nothing changes", Fault::Grows),
        ("each skill has a name of its own, a description and a body", Fault::NoDescription),
        ("each finding says where and what", Fault::EmptyFinding),
        ("indexes beside each other are all the same", Fault::OneAtATime),
        ("scores are of skills in the index, and the same each time", Fault::ScoresUnknown),
        ("a skill is rendered in every form or in none", Fault::SomeForms),
        ("an index that is dropped leaves the port usable", Fault::NotFreed),
        ("a folder that is not there is an index, without a panic", Fault::NoFolder),
    ] {
        suites.push((rule, of(fault).await));
    }
    each_rule_is_broken(suites);
}

#[cfg(feature = "skills")]
#[tokio::test]
async fn folders_of_skills_keep_the_rules() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().canonicalize().unwrap();
    for (name, text) in [("pdf", "---\nname: pdf\ndescription: Reads PDF.\n---\nDo it.\n"), ("bad", "no head")] {
        std::fs::create_dir(path.join(name)).unwrap();
        std::fs::write(path.join(name).join("SKILL.md"), text).unwrap();
    }
    let source = super::super::SkillSource::new(".");
    let make =
        || -> Arc<dyn SkillPort> { Arc::new(super::super::SkillFolders::new(vec![source.clone()], path.clone())) };
    skills(make, Some(path.to_string_lossy().into_owned())).await.assert();
}
