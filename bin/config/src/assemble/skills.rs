//! Skills: their places as the configuration names them.

use std::path::PathBuf;

use bob::tools::skills::{GitSkills, SkillFinding, SkillFolders, SkillSource};

use crate::{Config, SourceKind};

/// The folder of the user's state in which commits of git sources are kept.
const CACHE: &str = "skills";

/// The skills of a configuration; `None` when it names no place of any. The mirrors of git sources are read and checked;
/// nothing is mirrored.
pub fn skills(config: &Config) -> Option<SkillFolders> {
    let (mut sources, mut findings) = (Vec::new(), Vec::new());
    for source in &config.skills.sources {
        match place(config, source) {
            Ok(path) => {
                let (recursive, watch) = (source.recursive, source.watch && source.kind == SourceKind::Directory);
                sources.push(SkillSource { path, recursive, watch });
            }
            Err(finding) => findings.push(finding),
        }
    }
    let is_empty = sources.is_empty() && findings.is_empty();
    (!is_empty).then(|| SkillFolders::new(sources, config.resolve("")).with_findings(findings))
}

/// The git sources of a configuration, in its order.
pub fn git_skills(config: &Config) -> Vec<GitSkills> {
    let sources = config.skills.sources.iter().filter(|source| source.kind == SourceKind::Git);
    sources.filter_map(|source| commit(source).ok()).collect()
}

/// Where commits of git sources are kept: in the user's folder for state. `None` without a home.
pub fn skills_cache(config: &Config) -> Option<PathBuf> {
    config.files().state.as_ref().map(|state| state.join(CACHE))
}

fn commit(source: &crate::SkillSource) -> Result<GitSkills, String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    GitSkills::new(text(&source.url), text(&source.rev), text(&source.path)).map_err(|error| error.to_string())
}

/// The folder of a source; for a git source, that of its mirror.
fn place(config: &Config, source: &crate::SkillSource) -> Result<PathBuf, SkillFinding> {
    let mirrored = || {
        let commit = commit(source)?;
        let cache = skills_cache(config).ok_or("there is no folder for state: set HOME or XDG_STATE_HOME")?;
        commit.checked(&cache).map_err(|error| error.to_string())
    };
    match source.kind {
        SourceKind::Directory => Ok(PathBuf::from(source.path.as_deref().unwrap_or_default())),
        SourceKind::Git => mirrored().map_err(|message| SkillFinding {
            path: source.url.clone().unwrap_or_default(),
            line: 0,
            column: 0,
            is_broken: true,
            message,
        }),
    }
}
