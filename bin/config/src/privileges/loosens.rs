//! Keys that relax the default policy or lead outside the folder.

use std::path::{Component, Path, PathBuf};

use bob::tools::{Policy, Protection, Risk, Rules, ToolName};

use crate::Config;

/// Bob's own tools that change nothing; their risk is low, and running one twice does no harm.
const READING: [&str; 6] =
    ["local/read_file", "local/list_dir", "local/find_files", "local/search_files", "local/shell_output", "local/todo"];
/// Bob's own tools that change files; their risk is medium.
const CHANGING: [&str; 2] = ["local/write_file", "local/edit_file"];

/// Whether a path, with links in it followed as far as it is there, leads out of the configuration's folder.
pub(super) fn is_outside(config: &Config, path: &Path) -> bool {
    match (config.folder.canonicalize(), real(path)) {
        (Ok(folder), Some(path)) => !path.starts_with(folder),
        // A path that cannot be resolved counts as outside.
        (Err(_), _) | (_, None) => true,
    }
}

/// Whether a file is one of secrets, by its own name or by that to which it leads. A shorter list of patterns is another
/// privilege, which does not make this one less.
pub(super) fn is_secret(config: &Config, path: &Path) -> bool {
    let mut protection = Protection::default();
    protection.secret_files.extend(config.policy.secret_files.iter().cloned());
    let written = std::path::absolute(path).unwrap_or_else(|_as_written| path.to_owned());
    [Some(written), real(path)].iter().flatten().any(|path| protection.is_secret(path))
}

/// Resolves a path: links in its existing part are followed, the rest is appended.
fn real(path: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::new();
    for part in std::path::absolute(path).ok()?.components() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                real.push(part);
                let is_there = real.symlink_metadata().is_ok();
                // A link that leads nowhere may lead anywhere later.
                real = if is_there { real.canonicalize().ok()? } else { real };
            }
        }
    }
    Some(real)
}

pub(super) fn shown(config: &Config, path: &Path) -> String {
    let written = config.as_written(&path.display().to_string());
    match written.contains("${") {
        true => written.trim_start_matches("./").to_owned(),
        false => real(path).unwrap_or_else(|| path.to_owned()).display().to_string(),
    }
}

/// The default's denied tools that may be called here.
pub(super) fn tools(policy: &Policy, default: &Policy) -> Option<String> {
    let denied = &default.deny_tools;
    let callable: Vec<&str> = denied.iter().map(String::as_str).filter(|name| is_callable(policy, name)).collect();
    (!callable.is_empty())
        .then(|| format!("the model may call {}, which is denied by default (deny_tools)", callable.join(", ")))
}

pub(super) fn is_callable(policy: &Policy, name: &str) -> bool {
    match Rules::new(policy.clone()) {
        Ok(rules) => rules.allows(&ToolName::new(name)),
        Err(_unreadable) => true,
    }
}

/// Returns the elements of the default that the list lacks.
pub(super) fn shorter(key: &str, list: &[String], default: &[String]) -> Option<String> {
    let has = |wanted: &&String| list.iter().any(|one| one.eq_ignore_ascii_case(wanted));
    let missing: Vec<&str> = default.iter().filter(|wanted| !has(wanted)).map(String::as_str).collect();
    (!missing.is_empty()).then(|| format!("{key} does not have {}", missing.join(", ")))
}

/// Whether this risk may be lower than a tool's own. A server's tools are unknown before its start, and a pattern may
/// match any.
pub(super) fn lowers(name: &str, risk: Risk) -> bool {
    match risk {
        Risk::High => false,
        Risk::Medium => !changes_nothing(name) && !CHANGING.contains(&name),
        Risk::Low => !changes_nothing(name),
    }
}

/// Whether it is a tool of Bob's that only reads.
pub(super) fn changes_nothing(name: &str) -> bool {
    READING.contains(&name)
}
