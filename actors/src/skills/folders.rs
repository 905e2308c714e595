//! Skills from folders on disk, read again when they change.
//!
//! A source is looked up in the session's working folder first, then beside the configuration; of two skills with one
//! name the first one is used. Results are cached for each working folder. When skills are asked for, folders that are
//! watched are checked for added, removed or changed files; only then files are read. A check is valid for twenty times
//! as long as it took, at most a second, so that checks take a twentieth of one processor at most.

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

/// How long a check is valid at most, and how much longer than it took.
const FRESH: (Duration, u32) = (Duration::from_secs(1), 20);

/// One folder skills are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillSource {
    /// The folder as it was written; relative ones are looked up.
    pub path: PathBuf,
    /// Whether folders below those in it are searched as well.
    pub recursive: bool,
    /// Whether it is looked at again after the first time. Otherwise a change has an effect after a restart.
    pub watch: bool,
}

impl SkillSource {
    /// A folder that is searched with the folders below it, and watched.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), recursive: true, watch: true }
    }
}

/// Skills from folders.
#[derive(Debug, Clone)]
pub struct SkillFolders(Arc<Folders>);

#[derive(Debug)]
struct Folders {
    sources: Vec<SkillSource>,
    /// Where relative sources are looked up behind the session's working folder.
    base: PathBuf,
    /// Findings about sources that are not among these; part of every index.
    beside: Vec<SkillFinding>,
    known: Mutex<HashMap<Option<String>, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    /// Until when it needs no check.
    fresh_until: Instant,
    seen: Arc<Vec<Seen>>,
    index: Arc<SkillIndex>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    root: PathBuf,
    walk: Result<Walk, String>,
}

impl SkillFolders {
    /// Skills of these sources, the first one first; `base` is the configuration's folder.
    pub fn new(sources: Vec<SkillSource>, base: PathBuf) -> Self {
        Self(Arc::new(Folders { sources, base, beside: Vec::new(), known: Mutex::default() }))
    }

    /// With findings about further sources that cannot be used; they are reported with those of these.
    #[must_use]
    pub fn with_findings(self, beside: Vec<SkillFinding>) -> Self {
        let Folders { sources, base, .. } = &*self.0;
        let (sources, base) = (sources.clone(), base.clone());
        Self(Arc::new(Folders { sources, base, beside, known: Mutex::default() }))
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
        (Instant::now() < known.fresh_until).then(|| Arc::clone(&known.index))
    }

    fn read(&self, cwd: Option<&str>) -> Arc<SkillIndex> {
        let key = cwd.map(str::to_owned);
        let began = Instant::now();
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let seen = self.roots(cwd).into_iter().map(|(root, source)| {
            let known = before.as_ref().filter(|_| !source.watch).and_then(|before| before.at(&root));
            known.unwrap_or_else(|| Seen::of(root, source.recursive))
        });
        let seen: Vec<Seen> = seen.collect();
        let (longest, times) = FRESH;
        let fresh_until = Instant::now() + (began.elapsed() * times).min(longest);
        let known = match before {
            Some(before) if *before.seen == seen => Known { fresh_until, ..before },
            Some(_) | None => {
                let SkillIndex { skills, findings } = read_all(&seen);
                let findings = self.beside.iter().cloned().chain(findings).collect();
                Known { fresh_until, index: Arc::new(SkillIndex { skills, findings }), seen: Arc::new(seen) }
            }
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
    fn roots(&self, cwd: Option<&str>) -> Vec<(PathBuf, &SkillSource)> {
        let mut roots: Vec<(PathBuf, &SkillSource)> = Vec::new();
        for source in &self.sources {
            let near = cwd.and_then(|cwd| within(Path::new(cwd), &source.path));
            let own = self.base.join(&source.path);
            // A missing source is reported once, by its path beside the configuration.
            let own = Some(own).filter(|own| near.is_none() || own.is_dir());
            for root in [near, own].into_iter().flatten() {
                let real = root.canonicalize().unwrap_or(root);
                if !roots.iter().any(|(known, _)| *known == real) {
                    roots.push((real, source));
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

impl Known {
    fn at(&self, root: &Path) -> Option<Seen> {
        self.seen.iter().find(|seen| seen.root == root).cloned()
    }
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
