//! Where the configuration is looked for: in the project, and in the user's own folder.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::layers::Environment;

/// The name of a configuration file, in a project and in the user's folder.
pub const NAME: &str = "agent.toml";

/// The files of a configuration. What the main file says wins over the user's, key by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The project's file, or the one that was named; `None` where there is none.
    pub main: Option<PathBuf>,
    /// The user's own file, if it is there and is read.
    pub user: Option<PathBuf>,
    /// Whether the main file was named. Then it is the only one, and built-in defaults choose no model.
    pub is_named: bool,
    /// Where the user's own file is, or would be; `None` without a home.
    pub user_place: Option<PathBuf>,
    /// Where sessions are kept that belong to no project, and mirrors of all; `None` without a home.
    pub(super) state: Option<PathBuf>,
    /// Where files are kept that can be made again; `None` without a home.
    pub(super) cache: Option<PathBuf>,
}

impl Files {
    /// This file, and no other.
    pub fn named(file: impl Into<PathBuf>) -> Self {
        Self { main: Some(file.into()), is_named: true, ..Self::default() }
    }

    /// This file, and no other, in a process with this environment: what is built in may be kept in its folders.
    pub fn only(file: impl Into<PathBuf>, environment: &Environment) -> Self {
        let (state, cache) = (state(environment), cache(environment));
        Self { state, cache, user_place: user_place(environment), ..Self::named(file) }
    }

    /// The nearest `agent.toml` from `folder` upwards, and the user's. The search goes up to the folder that holds
    /// `.git`; outside of a repository, as far as the folders belong to one person and no other may write to them.
    /// Looks at the disk, and reads no file.
    pub fn find(folder: &Path, environment: &Environment) -> Self {
        let about = Self::none(environment);
        let user = about.user_place.clone();
        let main = above(folder).filter(|main| user.as_deref().is_none_or(|user| !is_same(main, user)));
        Self { main, user: user.filter(|file| is_there(file)), ..about }
    }

    /// No file, in a process with this environment: built-in defaults only.
    pub fn none(environment: &Environment) -> Self {
        Self {
            main: None,
            user: None,
            is_named: false,
            user_place: user_place(environment),
            state: state(environment),
            cache: cache(environment),
        }
    }

    /// Whether the main file came with the folder, so that a person must trust it first.
    pub fn needs_trust(&self) -> bool {
        self.main.is_some() && !self.is_named
    }

    /// The file that says most: the main one, else the user's, else the one that a project would have.
    pub fn first(&self) -> &Path {
        self.main.as_deref().or(self.user.as_deref()).unwrap_or(Path::new(NAME))
    }

    /// Those that are there, the strongest first.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        self.main.iter().chain(&self.user).map(PathBuf::as_path)
    }
}

/// A folder of the user's: that of a variable, or one below the home.
fn place(environment: &Environment, variable: &str, below: &str) -> Option<PathBuf> {
    let absolute = |name: &str| environment.path(name).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below)))
}

fn user_place(environment: &Environment) -> Option<PathBuf> {
    place(environment, "XDG_CONFIG_HOME", ".config").map(|config| config.join("cli-agent").join(NAME))
}

fn state(environment: &Environment) -> Option<PathBuf> {
    place(environment, "XDG_STATE_HOME", ".local/state").map(|state| state.join("bob"))
}

fn cache(environment: &Environment) -> Option<PathBuf> {
    place(environment, "XDG_CACHE_HOME", ".cache").map(|cache| cache.join("bob"))
}

/// The nearest configuration from a folder upwards; of the folder itself by its bare name.
fn above(folder: &Path) -> Option<PathBuf> {
    if is_there(&folder.join(NAME)) {
        return Some(PathBuf::from(NAME));
    }
    let folder = folder.canonicalize().ok()?;
    let repository = folder.ancestors().find(|folder| is_there(&folder.join(".git")));
    let owner = fs::metadata(&folder).ok()?.uid();
    let is_ours = |found: &Metadata| found.uid() == owner && found.mode() & 0o002 == 0;
    for above in folder.ancestors().skip(1) {
        let is_searched = match repository {
            Some(repository) => above.starts_with(repository),
            None => fs::metadata(above).is_ok_and(|found| is_ours(&found)),
        };
        if !is_searched {
            return None;
        }
        let file = above.join(NAME);
        if is_there(&file) {
            return Some(file);
        }
    }
    None
}

fn is_there(file: &Path) -> bool {
    file.symlink_metadata().is_ok()
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder with these files, each empty; a name that ends in `/` is a folder.
    fn tree(names: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in names {
            let path = root.path().join(name);
            match name.ends_with('/') {
                true => fs::create_dir_all(path).unwrap(),
                false => {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, "").unwrap();
                }
            }
        }
        root
    }

    fn found(root: &tempfile::TempDir, below: &str, variables: &[(&str, &str)]) -> Files {
        let absolute = |path: &str| root.path().join(path).to_str().unwrap().to_owned();
        let variables = variables.iter().map(|(name, path)| (*name, absolute(path)));
        Files::find(&root.path().join(below), &variables.collect())
    }

    fn main(root: &tempfile::TempDir, below: &str) -> Option<PathBuf> {
        let root_path = root.path().canonicalize().unwrap();
        found(root, below, &[]).main.map(|main| main.strip_prefix(&root_path).map(Path::to_owned).unwrap_or(main))
    }

    #[test]
    fn the_nearest_file_up_to_the_repository_is_found() {
        let root = tree(&["agent.toml", "repo/.git/", "repo/agent.toml", "repo/a/agent.toml", "repo/a/b/c/"]);
        assert_eq!(main(&root, "repo/a/b/c"), Some("repo/a/agent.toml".into()));
        assert_eq!(main(&root, "repo/a"), Some("agent.toml".into()), "that of the folder itself is named as it is");
        let root = tree(&["agent.toml", "repo/.git/", "repo/src/"]);
        assert_eq!(main(&root, "repo/src"), None, "nothing above the repository counts");
        assert_eq!(main(&root, "repo"), None);
    }

    #[test]
    fn outside_of_a_repository_the_search_ends_where_others_may_write() {
        let root = tree(&["agent.toml", "shared/mine/src/"]);
        assert_eq!(main(&root, "shared/mine/src"), Some("agent.toml".into()));
        fs::set_permissions(root.path().join("shared"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(main(&root, "shared/mine/src"), None);
    }

    #[test]
    fn the_users_file_is_in_the_folder_for_configurations() {
        let root = tree(&["home/.config/cli-agent/agent.toml", "xdg/cli-agent/agent.toml", "work/"]);
        let of = |variables: &[(&str, &str)]| found(&root, "work", variables).user;
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("HOME", "home")]), Some(root.path().join("home/.config/cli-agent/agent.toml")));
        let both = [("HOME", "home"), ("XDG_CONFIG_HOME", "xdg")];
        assert_eq!(of(&both), Some(root.path().join("xdg/cli-agent/agent.toml")));
        let nothing = found(&root, "work", &[("XDG_CONFIG_HOME", "work")]);
        assert_eq!((nothing.user, nothing.user_place), (None, Some(root.path().join("work/cli-agent/agent.toml"))));
        let own = found(&root, "xdg/cli-agent", &both);
        assert!(own.user.is_some(), "{own:?}");
    }
}
