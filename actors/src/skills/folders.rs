//! Skills from folders on disk, read again when they change.
//!
//! A source is looked up in the session's working folder first, then beside the configuration; of two skills with one
//! name the first one is used. Results are cached for each working folder. At most once a second the folders are
//! checked for added, removed or changed files; only then files are read.

use super::SkillPort;
use super::front_matter::{self, Read};
use super::walk::{FILE, Walk, walk};
use bob_messages::skills::{SkillFinding, SkillIndex};
use futures_util::future::BoxFuture;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many skills there may be; more are left out.
const MAX_SKILLS: usize = 256;

/// How many working folders are remembered; more are read anew.
const REMEMBERED_FOLDERS: usize = 64;

/// How long a check is valid.
const FRESH: Duration = Duration::from_secs(1);

/// One folder skills are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillSource {
    /// The folder as it was written; relative ones are looked up.
    pub path: PathBuf,
    /// Whether folders below those in it are searched as well.
    pub recursive: bool,
}

/// Skills from folders.
#[derive(Debug, Clone)]
pub struct SkillFolders(Arc<Folders>);

#[derive(Debug)]
struct Folders {
    sources: Vec<SkillSource>,
    /// Where relative sources are looked up behind the session's working folder.
    base: PathBuf,
    known: Mutex<HashMap<Option<String>, Known>>,
}

/// The cached result of one working folder.
#[derive(Debug, Clone)]
struct Known {
    looked: Instant,
    seen: Arc<Vec<Seen>>,
    index: Arc<SkillIndex>,
}

/// One place as it was found.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    root: PathBuf,
    walk: Result<Walk, String>,
}

impl SkillFolders {
    /// Skills of these sources, the first one first; `base` is the configuration's folder.
    pub fn new(sources: Vec<SkillSource>, base: PathBuf) -> Self {
        Self(Arc::new(Folders { sources, base, known: Mutex::default() }))
    }

    /// The skills for a session that works in this folder, read now. Blocks for as long as the disk takes.
    pub fn read(&self, cwd: Option<&str>) -> Arc<SkillIndex> {
        self.0.read(cwd)
    }

    /// Reads one skill's folder, or a folder of such folders, for validation. Blocks on the disk.
    pub fn read_one(path: &Path) -> SkillIndex {
        read_all(&[Seen::of(path.to_owned(), true)])
    }
}

impl SkillPort for SkillFolders {
    fn index(&self, cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>> {
        let folders = Arc::clone(&self.0);
        Box::pin(async move {
            if let Some(index) = folders.fresh(cwd.as_deref()) {
                return index;
            }
            let read = tokio::task::spawn_blocking(move || folders.read(cwd.as_deref()));
            read.await.unwrap_or_default()
        })
    }
}

impl Folders {
    fn fresh(&self, cwd: Option<&str>) -> Option<Arc<SkillIndex>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&cwd.map(str::to_owned))?;
        (known.looked.elapsed() < FRESH).then(|| Arc::clone(&known.index))
    }

    fn read(&self, cwd: Option<&str>) -> Arc<SkillIndex> {
        let key = cwd.map(str::to_owned);
        let looked = Instant::now();
        let seen: Vec<Seen> = self.roots(cwd).into_iter().map(|(root, recursive)| Seen::of(root, recursive)).collect();
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let known = match before {
            Some(before) if *before.seen == seen => Known { looked, ..before },
            Some(_) | None => Known { looked, index: Arc::new(read_all(&seen)), seen: Arc::new(seen) },
        };
        let index = Arc::clone(&known.index);
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED_FOLDERS && !all.contains_key(&key) {
            all.clear();
        }
        all.insert(key, known);
        index
    }

    /// The folders to look in, each once.
    fn roots(&self, cwd: Option<&str>) -> Vec<(PathBuf, bool)> {
        let mut roots: Vec<(PathBuf, bool)> = Vec::new();
        for source in &self.sources {
            let near = cwd.and_then(|cwd| within(Path::new(cwd), &source.path));
            let own = self.base.join(&source.path);
            // A missing source is reported once, by its path beside the configuration.
            let own = Some(own).filter(|own| near.is_none() || own.is_dir());
            for root in [near, own].into_iter().flatten() {
                let real = root.canonicalize().unwrap_or(root);
                if !roots.iter().any(|(known, _)| *known == real) {
                    roots.push((real, source.recursive));
                }
            }
        }
        roots
    }
}

/// Resolves a folder inside the session's folder. Links and paths that lead out are ignored, since tools write there.
fn within(folder: &Path, source: &Path) -> Option<PathBuf> {
    let (folder, near) = (folder.canonicalize().ok()?, folder.join(source).canonicalize().ok()?);
    (near.is_dir() && near.starts_with(folder)).then_some(near)
}

impl Seen {
    fn of(root: PathBuf, recursive: bool) -> Self {
        let walk = walk(&root, recursive).map_err(|error| format!("no skills are read from it: {error}"));
        Self { root, walk }
    }
}

/// Reads every skill of these places; of two with one name the first.
fn read_all(places: &[Seen]) -> SkillIndex {
    let mut index = SkillIndex::default();
    let mut names: HashSet<String> = HashSet::new();
    for place in places {
        let walk = match &place.walk {
            Ok(walk) => walk,
            Err(why) => {
                index.findings.push(whole(&place.root, why.clone()));
                continue;
            }
        };
        index.findings.extend(walk.passed.iter().map(|(path, why)| whole(path, why.clone())));
        for found in &walk.found {
            let path = found.folder.join(FILE);
            if index.skills.len() >= MAX_SKILLS {
                index.findings.push(whole(
                    &path,
                    format!("there are more than {MAX_SKILLS} skills; this one and those behind it are left out"),
                ));
                return index;
            }
            let text = match found.text() {
                Ok(text) => text,
                Err(why) => {
                    index.findings.push(whole(&path, why));
                    continue;
                }
            };
            let (path, folder) = (path.to_string_lossy(), found.folder.to_string_lossy());
            let name = found.folder.file_name().unwrap_or_default().to_string_lossy();
            let Read { skill, findings } = front_matter::read(&text, &path, &folder, &name);
            index.findings.extend(findings);
            let Some(skill) = skill else { continue };
            if names.insert(skill.name().to_owned()) {
                index.skills.push(Arc::new(skill));
            } else {
                let first = index.get(skill.name()).map(|first| first.folder.clone()).unwrap_or_default();
                let message =
                    format!("there is a skill `{}` in {first} already, which counts; rename one", skill.name());
                let finding = SkillFinding { is_broken: false, ..whole(Path::new(&*path), message) };
                index.findings.push(finding);
            }
        }
    }
    index
}

fn whole(path: &Path, message: String) -> SkillFinding {
    SkillFinding { path: path.display().to_string(), line: 0, column: 0, is_broken: true, message }
}
