//! Skills: their places as the configuration names them.

use std::path::PathBuf;

use bob::tools::skills::{SkillFolders, SkillSource};

use crate::{Config, SourceKind};

/// The skills of a configuration; `None` when it names no place of any.
pub fn skills(config: &Config) -> Option<SkillFolders> {
    let source = |source: &crate::SkillSource| match source.kind {
        SourceKind::Directory => SkillSource { path: PathBuf::from(&source.path), recursive: source.recursive },
    };
    let sources: Vec<_> = config.skills.sources.iter().map(source).collect();
    (!sources.is_empty()).then(|| SkillFolders::new(sources, config.resolve("")))
}
