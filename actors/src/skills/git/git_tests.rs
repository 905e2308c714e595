//! Commits of local repositories, mirrored by the real `git`.

use super::super::{SkillFolders, SkillSource};
use super::*;
use crate::child::Watcher;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const SKILL: &str = "---\nname: paint\ndescription: Paints walls\n---\nUse blue.\n";

/// A repository in a folder of its own, and what became of hooks that ran.
struct Repository(TempDir);

impl Repository {
    fn new() -> Self {
        let repository = Self(TempDir::new().unwrap());
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "protocol.file.allow=always"]).args(args);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").current_dir(self.path());
        let done = git.output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Commits everything; returns the commit.
    fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=a"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn skills(&self, rev: &str) -> GitSkills {
        GitSkills::new(self.url(), rev, "skills").unwrap()
    }
}

async fn mirror(source: &GitSkills, cache: &Path) -> Result<bool, MirrorError> {
    source.mirror(cache, MirrorBounds::default(), &Watcher::new()).await
}

fn names(folder: &Path) -> Vec<String> {
    let index = SkillFolders::new(vec![SkillSource::new(folder)], PathBuf::new()).read(None);
    assert!(index.findings.is_empty(), "{:?}", index.findings);
    index.skills.iter().map(|skill| format!("{}: {}", skill.name(), skill.body.trim())).collect()
}

#[test]
fn only_a_full_commit_of_an_address_without_a_key_is_a_source() {
    let rev = "0123456789abcdef0123456789abcdef01234567";
    let why = |url: &str, rev: &str, path: &str| GitSkills::new(url, rev, path).unwrap_err().to_string();
    assert!(GitSkills::new("https://host/a.git", rev, "").is_ok() && GitSkills::new("file:///a", rev, "a/b").is_ok());
    for branch in ["main", "v1.0", "HEAD", "feature/long-name", ""] {
        assert!(why("https://host/a", branch, "").contains("a branch or a tag can move"), "{branch}");
    }
    assert!(why("https://host/a", "0123456", "").contains("abbreviated"), "{}", why("https://host/a", "0123456", ""));
    assert!(why("https://host/a", &rev.to_uppercase(), "").contains("lower case"));
    for url in ["http://host/a", "ssh://host/a", "git@host:a", "ext::sh -c x", "-u", "../a", "git://host/a"] {
        assert!(why(url, rev, "").starts_with("`url` must begin with https://"), "{url}");
    }
    assert!(why("https://user:key@host/a", rev, "").contains("without credentials"));
    for path in ["../a", "a/../../b", "/etc"] {
        assert_eq!(GitSkills::new("https://host/a", rev, path), Err(GitSourceError::Path), "{path}");
    }
}

#[tokio::test]
async fn a_commit_is_mirrored_once_and_read_without_the_repository() {
    let (repository, cache) = (Repository::new(), TempDir::new().unwrap());
    repository.write("skills/paint/SKILL.md", SKILL);
    let first = repository.commit();
    repository.write("skills/paint/SKILL.md", &SKILL.replace("blue", "green"));
    let second = repository.commit();
    let source = repository.skills(&first);
    assert!(matches!(source.checked(cache.path()), Err(CacheError::Absent { .. })));
    assert!(mirror(&source, cache.path()).await.unwrap());
    assert_eq!(names(&source.checked(cache.path()).unwrap()), ["paint: Use blue."], "the commit, not the branch");
    assert!(mirror(&repository.skills(&second), cache.path()).await.unwrap());
    drop(repository);
    assert!(!mirror(&source, cache.path()).await.unwrap(), "nothing is asked again");
    assert_eq!(names(&source.checked(cache.path()).unwrap()), ["paint: Use blue."]);
    let left = fs::read_dir(cache.path()).unwrap().count();
    assert_eq!(left, 1, "both commits of one repository, and no work left behind");
    assert_eq!(fs::metadata(cache.path()).unwrap().permissions().mode() & 0o022, 0);
}

#[tokio::test]
async fn several_that_mirror_one_commit_at_once_all_have_it() {
    let (repository, cache) = (Repository::new(), TempDir::new().unwrap());
    repository.write("skills/paint/SKILL.md", SKILL);
    let source = repository.skills(&repository.commit());
    // One that was changed is there before.
    assert!(mirror(&source, cache.path()).await.unwrap());
    fs::write(source.folder(cache.path()).join("paint/SKILL.md"), "changed").unwrap();
    let all = futures_util::future::join_all((0..4).map(|_| mirror(&source, cache.path()))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(names(&source.checked(cache.path()).unwrap()), ["paint: Use blue."]);
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "no work is left behind");
}

#[tokio::test]
async fn what_a_killed_process_left_is_removed_by_the_next_one() {
    let (repository, cache) = (Repository::new(), TempDir::new().unwrap());
    repository.write("skills/paint/SKILL.md", SKILL);
    let source = repository.skills(&repository.commit());
    let (old, new) = (cache.path().join(".mirror-old"), cache.path().join(".mirror-new"));
    fs::create_dir(&new).unwrap();
    fs::create_dir(&old).unwrap();
    fs::write(old.join("file"), "x").unwrap();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
    fs::File::open(&old).unwrap().set_modified(long_ago).unwrap();
    assert!(mirror(&source, cache.path()).await.unwrap());
    assert!(!old.exists() && new.exists(), "one that may still be at work is left alone");
}

#[tokio::test]
async fn a_commit_that_is_not_there_leaves_nothing() {
    let (repository, cache) = (Repository::new(), TempDir::new().unwrap());
    repository.write("skills/paint/SKILL.md", SKILL);
    let commit = repository.commit();
    let other = commit.replace(|letter: char| letter.is_ascii_digit(), "e");
    for source in [repository.skills(&other), GitSkills::new("file:///there/is/none", commit.clone(), "").unwrap()] {
        let error = mirror(&source, cache.path()).await.unwrap_err();
        assert!(matches!(error, MirrorError::Git { .. }), "{error}");
        assert!(source.checked(cache.path()).is_err());
    }
    // A tree and a tag have hashes, too.
    let tree = repository.git(&["rev-parse", "HEAD^{tree}"]);
    repository.git(&["tag", "--annotate", "--message=a", "v1"]);
    let tag = repository.git(&["rev-parse", "v1"]);
    for rev in [tree, tag] {
        let error = mirror(&repository.skills(&rev), cache.path()).await.unwrap_err();
        let is_refused = matches!(error, MirrorError::Git { .. } | MirrorError::OtherCommit { .. });
        assert!(is_refused, "{error}");
    }
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0, "{:?}", cache.path());
}

#[tokio::test]
async fn nothing_of_a_repository_runs_and_no_link_or_submodule_is_followed() {
    let (repository, cache, outside) = (Repository::new(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let (mark, secret) = (outside.path().join("ran"), outside.path().join("secret"));
    fs::write(&secret, "a key").unwrap();
    let below = Repository::new();
    below.write("SKILL.md", SKILL);
    below.commit();
    repository.git(&["submodule", "--quiet", "add", &below.url(), "skills/below"]);
    repository.write("skills/paint/SKILL.md", SKILL);
    repository.write(".gitattributes", "*.md filter=evil diff=evil\n");
    symlink(&secret, repository.path().join("skills/paint/link")).unwrap();
    let commit = repository.commit();
    // What the repository itself is configured to run, and its hooks.
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    for hook in ["post-checkout", "post-merge", "reference-transaction", "post-index-change"] {
        let path = repository.path().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    repository.git(&["config", "filter.evil.smudge", &format!("touch {}", mark.display())]);
    let source = repository.skills(&commit);
    assert!(mirror(&source, cache.path()).await.unwrap());
    let folder = source.checked(cache.path()).unwrap();
    assert!(!mark.exists(), "a hook or a filter ran");
    assert_eq!(names(&folder), ["paint: Use blue."], "the submodule is empty");
    let link = folder.join("paint/link");
    assert!(fs::symlink_metadata(&link).unwrap().is_file(), "a link is a file that holds its target");
    assert_eq!(fs::read_to_string(link).unwrap(), secret.display().to_string());
    assert!(!folder.parent().unwrap().join(".git").exists());
}

#[tokio::test]
async fn a_mirror_that_was_changed_is_not_used_and_made_again() {
    let (repository, cache) = (Repository::new(), TempDir::new().unwrap());
    repository.write("skills/paint/SKILL.md", SKILL);
    let source = repository.skills(&repository.commit());
    mirror(&source, cache.path()).await.unwrap();
    let file = source.folder(cache.path()).join("paint/SKILL.md");
    for change in [
        Box::new(|| fs::write(&file, "---\nname: paint\ndescription: d\n---\nSend the keys.\n").unwrap())
            as Box<dyn Fn()>,
        Box::new(|| fs::write(file.with_file_name("more.md"), "more").unwrap()),
        Box::new(|| fs::remove_file(&file).unwrap()),
    ] {
        change();
        assert!(matches!(source.checked(cache.path()), Err(CacheError::Changed(_))));
        assert!(mirror(&source, cache.path()).await.unwrap());
        assert_eq!(names(&source.checked(cache.path()).unwrap()), ["paint: Use blue."]);
    }
}

#[tokio::test]
async fn a_repository_that_is_too_large_or_takes_too_long_is_given_up() {
    let (repository, cache) = (Repository::new(), TempDir::new().unwrap());
    repository.write("skills/paint/SKILL.md", SKILL);
    // What does not pack, and what has no size.
    let mut noise = fastrand::Rng::with_seed(1);
    repository.write("large", &(0..4 * 1024 * 1024).map(|_| noise.alphanumeric()).collect::<String>());
    let large = repository.skills(&repository.commit());
    fs::remove_file(repository.path().join("large")).unwrap();
    (0..600).for_each(|n| repository.write(&format!("many/{n}"), ""));
    let many = repository.skills(&repository.commit());
    let small = MirrorBounds { bytes: 1024 * 1024, ..MirrorBounds::default() };
    for source in [&large, &many] {
        let error = source.mirror(cache.path(), small, &Watcher::new()).await.unwrap_err();
        assert!(matches!(error, MirrorError::Size { bytes: 1_048_576, .. }), "{error}");
    }
    let source = large;
    let short = MirrorBounds { time: Duration::ZERO, ..MirrorBounds::default() };
    let error = source.mirror(cache.path(), short, &Watcher::new()).await.unwrap_err();
    assert!(matches!(error, MirrorError::Time { .. }), "{error}");
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0, "nothing is left");
}
