//! `skills`: lists, shows, checks and updates skills. Only an update starts a program.

use std::path::Path;
use std::sync::Arc;

use bob::config::Watcher;
use bob::tools::skills::{MirrorBounds, Skill, SkillFinding, SkillFolders, SkillIndex};
use bob_config::{Config, assemble};
use serde_json::{Value, json};

use crate::arguments::SkillsAction;
use crate::exit::{Exit, Failure};
use crate::terminal::print;

/// How many characters of a description are shown in a list.
const MOST_DESCRIPTION: usize = 70;

/// How many findings `doctor` and a start repeat.
const MOST_FINDINGS: usize = 3;

/// Performs an action on the skills of a configuration.
/// Errors: when there is no such skill or folder, or stdout cannot be written.
pub(crate) fn skills(
    action: &SkillsAction,
    configured: impl FnOnce() -> Result<Config, Failure>,
    update: impl FnOnce(bool) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    match action {
        SkillsAction::List(args) => {
            let config = configured()?;
            let index = index(&config)?;
            list(&index, !config.skills.sources.is_empty(), args.json)
        }
        SkillsAction::Show { name, json } => {
            let index = index(&configured()?)?;
            show(&index, name, *json)
        }
        SkillsAction::Update(args) => update(args.json),
        SkillsAction::Validate { path: Some(path), json } => validate(&read_one(path)?, *json),
        SkillsAction::Validate { path: None, json } => {
            let index = index(&configured()?)?;
            validate(&index, *json)
        }
    }
}

/// Mirrors the git sources of a configuration whose commits are not in the cache. Every source is tried. Errors: when
/// there is no folder for the cache, or stdout cannot be written. Exit code 1 if a source could not be mirrored.
pub(crate) async fn update(config: &Config, as_json: bool) -> Result<Exit, Failure> {
    let sources = assemble::git_skills(config);
    let cache = assemble::skills_cache(config)
        .ok_or_else(|| Failure::usage("there is no folder for state: set HOME or XDG_STATE_HOME"))?;
    let (watcher, mut told, mut failed) = (Watcher::new(), Vec::new(), 0);
    for source in &sources {
        let mirrored = source.mirror(&cache, MirrorBounds::default(), &watcher).await;
        let (url, rev) = (source.url(), source.rev());
        failed += usize::from(mirrored.is_err());
        if as_json {
            let error = mirrored.as_ref().err().map(ToString::to_string);
            let folder = source.folder(&cache);
            told.push(json!({ "url": url, "rev": rev, "mirrored": mirrored.is_ok_and(|new| new), "folder": folder, "error": error }));
            continue;
        }
        match mirrored {
            Ok(true) => print::line(&format!("mirrored    {url} {rev}"))?,
            Ok(false) => print::line(&format!("up to date  {url} {rev}"))?,
            Err(error) => print::note(&error.to_string()),
        }
    }
    if as_json {
        print::json(&json!({ "ok": failed == 0, "sources": told }))?;
    } else if sources.is_empty() {
        print::note("no git sources of skills; add [[skills.sources]] with type = \"git\" to agent.toml");
    }
    Ok(if failed > 0 { Exit::Failed } else { Exit::Success })
}

fn index(config: &Config) -> Result<Arc<SkillIndex>, Failure> {
    let workspace = assemble::workspace(config)?;
    let folders = assemble::skills(config);
    let read = folders.map(|folders| folders.read(workspace.to_str()));
    Ok(read.unwrap_or_default())
}

fn read_one(path: &Path) -> Result<SkillIndex, Failure> {
    // The file itself may be named as well as its folder.
    let is_skill = path.is_file() && path.file_name().is_some_and(|name| name == "SKILL.md");
    let folder = if is_skill { path.parent().filter(|folder| *folder != Path::new("")) } else { Some(path) };
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::usage(format!("there is no folder {}; name a skill's folder", path.display())));
    }
    let index = SkillFolders::read_one(folder);
    // A named path without a skill is an error: probably a typo.
    match index.skills.is_empty() && index.findings.is_empty() {
        true => Err(Failure::usage(format!("there is no SKILL.md in {}; name a skill's folder", path.display()))),
        false => Ok(index),
    }
}

fn list(index: &SkillIndex, is_configured: bool, as_json: bool) -> Result<Exit, Failure> {
    let mut skills: Vec<&Arc<Skill>> = index.skills.iter().collect();
    skills.sort_by_key(|skill| skill.name());
    if as_json {
        let skills: Vec<Value> = skills.iter().map(|skill| described(skill)).collect();
        print::json(&json!({ "skills": skills, "findings": index.findings }))?;
        return Ok(Exit::Success);
    }
    for skill in &skills {
        let description = print::on_one_line(&skill.front.description, MOST_DESCRIPTION);
        print::line(&format!("{:<24} {description}", skill.name()))?;
    }
    for finding in &index.findings {
        print::note(&told(finding));
    }
    if skills.is_empty() && index.findings.is_empty() {
        print::note(match is_configured {
            true => "no skills found in the folders of [[skills.sources]]",
            false => "no skills found; add [[skills.sources]] to agent.toml",
        });
    }
    Ok(Exit::Success)
}

fn show(index: &SkillIndex, name: &str, as_json: bool) -> Result<Exit, Failure> {
    let Some(skill) = index.get(name) else {
        let broken =
            index.findings.iter().find(|finding| finding.is_broken && finding.path.contains(&format!("/{name}/")));
        let why = broken.map_or_else(|| "`cli-agent skills list` lists them".to_owned(), told);
        return Err(Failure::usage(format!("there is no skill {name:?}; {why}")));
    };
    if as_json {
        let mut all = described(skill);
        all["body"] = skill.body.as_str().into();
        print::json(&all)?;
        return Ok(Exit::Success);
    }
    let front = &skill.front;
    let mut head = vec![("name", front.name.clone()), ("description", front.description.clone())];
    head.extend(front.license.iter().map(|license| ("license", license.clone())));
    head.extend(front.compatibility.iter().map(|needs| ("compatibility", needs.clone())));
    head.extend(front.allowed_tools.iter().map(|tools| ("allowed-tools", tools.join(" "))));
    head.extend(front.metadata.iter().map(|(key, value)| ("metadata", format!("{key}: {value}"))));
    head.push(("folder", skill.folder.clone()));
    for (key, value) in head {
        print::line(&format!("{key:<14} {value}"))?;
    }
    print::line(&format!("\n{}", skill.body))?;
    Ok(Exit::Success)
}

fn validate(index: &SkillIndex, as_json: bool) -> Result<Exit, Failure> {
    let broken = index.findings.iter().filter(|finding| finding.is_broken).count();
    if as_json {
        let names: Vec<&str> = index.skills.iter().map(|skill| skill.name()).collect();
        print::json(&json!({ "ok": broken == 0, "skills": names, "findings": index.findings }))?;
    } else {
        for finding in &index.findings {
            print::line(&told(finding))?;
        }
        print::note(&format!(
            "{} can be used, {}, {}",
            print::counted(index.skills.len(), "skill"),
            print::counted(broken, "error"),
            print::counted(index.findings.len() - broken, "remark")
        ));
    }
    Ok(if broken > 0 { Exit::Failed } else { Exit::Success })
}

/// The check of `doctor`; `None` when no skills are configured.
pub(crate) fn checked(config: &Config) -> Option<Result<String, String>> {
    assemble::skills(config)?;
    let index = match index(config) {
        Ok(index) => index,
        Err(failure) => return Some(Err(failure.message)),
    };
    let broken: Vec<&SkillFinding> = index.findings.iter().filter(|finding| finding.is_broken).collect();
    let told: Vec<String> = broken.iter().take(MOST_FINDINGS).map(|finding| finding.to_string()).collect();
    Some(match broken.len() {
        0 => Ok(format!("{} can be used", index.skills.len())),
        some => Err(format!(
            "{some} broken and left out, for example {}; see `cli-agent skills validate`",
            told.join(" · ")
        )),
    })
}

fn told(finding: &SkillFinding) -> String {
    format!("{}: {finding}", if finding.is_broken { "error" } else { "remark" })
}

fn described(skill: &Skill) -> Value {
    let front = &skill.front;
    json!({
        "name": front.name, "description": front.description, "license": front.license,
        "compatibility": front.compatibility, "metadata": front.metadata, "allowed_tools": front.allowed_tools,
        "folder": skill.folder, "hash": skill.hash,
    })
}
