//! The contract suite of a source of skills.

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;

use super::SkillPort;
use crate::contract::{Found, ODD_TEXTS, Suite, dropped_after, holds};
use bob_messages::skills::{SkillForm, SkillIndex, SkillQuery};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many indexes are asked for beside each other.
const BESIDE: usize = 8;

/// Checks a port against the rules of all sources of skills. Each rule has a port of its own, which `make` returns; it must
/// have a skill for a session in the folder `cwd`.
pub async fn skills(make: impl Fn() -> Arc<dyn SkillPort>, cwd: Option<String>) -> Suite {
    let mut suite = Suite::new("skill port");
    suite.rule("the index is the same while nothing changes", same(make(), cwd.clone())).await;
    suite.rule("each skill has a name of its own, a description and a body", complete(make(), cwd.clone())).await;
    suite.rule("each finding says where and what", findings(make(), cwd.clone())).await;
    suite.rule("indexes beside each other are all the same", beside(make(), cwd.clone())).await;
    suite.rule("scores are of skills in the index, and the same each time", scores(make(), cwd.clone())).await;
    suite.rule("a skill is rendered in every form or in none", forms(make(), cwd.clone())).await;
    suite.rule("an index that is dropped leaves the port usable", dropped(make(), cwd.clone())).await;
    suite.rule("a folder that is not there is an index, without a panic", absent(make(), cwd)).await;
    suite
}

/// The index; an error without skills.
async fn index(port: &dyn SkillPort, cwd: &Option<String>) -> Result<Arc<SkillIndex>, String> {
    let index = port.index(cwd.clone()).await;
    holds(!index.skills.is_empty(), || format!("no skill, and the findings {:?}", index.findings))?;
    Ok(index)
}

async fn scores(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    let index = index(&*port, &cwd).await?;
    let texts = index.skills.iter().map(|skill| skill.front.description.clone());
    for text in texts.chain(ODD_TEXTS.iter().map(|text| (*text).to_owned())) {
        let query = SkillQuery { text, ..SkillQuery::default() };
        let (first, second) = (port.score(&index, &query).await, port.score(&index, &query).await);
        holds(first == second, || format!("{first:?} and then {second:?} for {:?}", query.text))?;
        let unknown = first.into_iter().flatten().find(|(name, _)| index.get(name).is_none());
        holds(unknown.is_none(), || format!("a score of {unknown:?}, which is no skill"))?;
    }
    Ok(())
}

async fn forms(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    index(&*port, &cwd).await?.skills.iter().try_for_each(|skill| {
        let rendered = SkillForm::ALL.map(|form| port.render(skill, form).is_some());
        holds(rendered.iter().all(|form| *form == rendered[0]), || {
            format!("{} is rendered in some forms only", skill.name())
        })
    })
}

/// The names and texts of an index, whatever their order.
fn contents(index: &SkillIndex) -> BTreeSet<(&str, &str)> {
    index.skills.iter().map(|skill| (skill.name(), skill.hash.as_str())).collect()
}

fn are_same(first: &SkillIndex, second: &SkillIndex) -> Found {
    let (first, second) = (contents(first), contents(second));
    holds(first == second, || format!("{first:?} and then {second:?}"))
}

async fn same(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    are_same(&*index(&*port, &cwd).await?, &*index(&*port, &cwd).await?)
}

async fn complete(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    let mut names = BTreeSet::new();
    index(&*port, &cwd).await?.skills.iter().try_for_each(|skill| {
        let name = skill.name();
        holds(!name.is_empty(), || "a skill without a name".to_owned())?;
        holds(names.insert(name.to_owned()), || format!("two skills named {name}"))?;
        holds(!skill.front.description.trim().is_empty(), || format!("no description of {name}"))?;
        holds(!skill.body.trim().is_empty(), || format!("no body of {name}"))
    })
}

async fn findings(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    port.index(cwd).await.findings.iter().try_for_each(|finding| {
        holds(!finding.path.is_empty() && !finding.message.is_empty(), || format!("the finding {finding:?}"))
    })
}

async fn beside(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    let first = index(&*port, &cwd).await?;
    for other in join_all((0..BESIDE).map(|_| index(&*port, &cwd))).await {
        are_same(&first, &*other?)?;
    }
    Ok(())
}

async fn dropped(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    let first = index(&*port, &cwd).await?;
    for polls in 0..16 {
        let was_ready = dropped_after(polls, port.index(cwd.clone())).await;
        let next = index(&*port, &cwd).await.and_then(|next| are_same(&first, &next));
        next.map_err(|seen| format!("{seen}, after an index that was dropped after {polls} polls"))?;
        if was_ready {
            break;
        }
    }
    Ok(())
}

async fn absent(port: Arc<dyn SkillPort>, cwd: Option<String>) -> Found {
    let first = index(&*port, &cwd).await?;
    let folders = ODD_TEXTS.map(str::to_owned).into_iter().chain(["/no/such/folder".to_owned()]);
    for folder in folders.map(Some).chain([None]) {
        let _with_or_without_skills = port.index(folder).await;
    }
    are_same(&first, &*index(&*port, &cwd).await?).map_err(|seen| format!("{seen}, after folders that are not there"))
}
