//! Where the files before a conversation are found, when they are read again, and what is refused.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::mpsc;
use std::time::SystemTime;
use tempfile::TempDir;

/// A session's folder, a configuration's folder and the reader over them.
struct Fixture {
    workspace: TempDir,
    folder: TempDir,
    reader: PromptReader,
}

impl Fixture {
    fn new(named: &[&str]) -> Self {
        let (workspace, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = PromptFiles {
            texts: PromptLayers {
                instructions: "Be kind.".into(),
                bootstrap: "Here.".into(),
                ..PromptLayers::default()
            },
            named: named.iter().map(|&name| name.to_owned()).collect(),
            memory: "MEMORY.md".into(),
            tool_notes: "TOOLS.md".into(),
            workspace: workspace.path().to_owned(),
            folder: folder.path().to_owned(),
            ..PromptFiles::default()
        };
        Self { workspace, folder, reader: PromptReader::new(files) }
    }

    fn layers(&self) -> Arc<PromptLayers> {
        self.reader.layers(None).unwrap_or_else(|error| panic!("{error}"))
    }

    fn refusal(&self) -> String {
        self.reader.layers(None).expect_err("a refusal").to_string()
    }
}

/// Writes a file that is there with something of the same length, later by the clock of any file system.
fn rewrite(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    let later = SystemTime::now() + Duration::from_secs(1);
    fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
}

#[test]
fn a_file_of_the_sessions_folder_wins_over_the_configurations() {
    let fixture = Fixture::new(&["SOUL.md"]);
    fs::write(fixture.folder.path().join("SOUL.md"), "from the configuration\n").unwrap();
    fs::write(fixture.folder.path().join("MEMORY.md"), "remembered").unwrap();
    let layers = fixture.layers();
    assert_eq!(layers.instructions, "Be kind.\n\nfrom the configuration");
    assert_eq!((layers.memory.as_str(), layers.tool_notes.as_str()), ("remembered", ""));
    assert_eq!(layers.bootstrap, "Here.");
    fs::write(fixture.workspace.path().join("SOUL.md"), "from the workspace").unwrap();
    assert_eq!(fixture.layers().instructions, "Be kind.\n\nfrom the workspace");
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("SOUL.md"), "from elsewhere").unwrap();
    let cwd = other.path().to_str().unwrap();
    let layers = fixture.reader.layers(Some(cwd)).unwrap();
    assert_eq!((layers.instructions.as_str(), layers.memory.as_str()), ("Be kind.\n\nfrom elsewhere", "remembered"));
    assert!(layers.runtime_policy.ends_with(cwd), "{layers:?}");
    assert_eq!(fixture.layers().instructions, "Be kind.\n\nfrom the workspace", "each session has its own");
}

#[test]
fn files_are_read_again_when_they_changed_and_only_then() {
    let fixture = Fixture::new(&[]);
    let memory = fixture.workspace.path().join("MEMORY.md");
    fs::write(&memory, "one").unwrap();
    let first = fixture.layers();
    assert!(Arc::ptr_eq(&first, &fixture.layers()), "nothing changed, nothing is read");
    rewrite(&memory, "two");
    assert_eq!(fixture.layers().memory, "two", "of the same length, too");
    fs::remove_file(&memory).unwrap();
    assert_eq!(fixture.layers().memory, "");
}

#[test]
fn a_named_file_that_is_nowhere_is_named_with_the_places() {
    let fixture = Fixture::new(&["SOUL.md"]);
    let refusal = fixture.refusal();
    let places =
        [fixture.workspace.path(), fixture.folder.path()].map(|path| path.join("SOUL.md").display().to_string());
    assert!(places.iter().all(|place| refusal.contains(place)), "{refusal}");
}

#[test]
fn nothing_outside_of_the_two_folders_is_read() {
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("key"), "canary").unwrap();
    let key = secret.path().join("key");
    let fixture = Fixture::new(&[]);
    symlink(&key, fixture.workspace.path().join("MEMORY.md")).unwrap();
    let refusal = fixture.refusal();
    assert!(refusal.contains("leads outside") && !refusal.contains("canary"), "{refusal}");
    for name in [key.to_str().unwrap(), "../key", "sub/../../key"] {
        let fixture = Fixture::new(&[name]);
        fs::create_dir(fixture.workspace.path().join("sub")).unwrap();
        assert!(fixture.refusal().contains("outside"), "{name}: {}", fixture.refusal());
    }
    // A folder that is a link out is no way out either.
    let fixture = Fixture::new(&["sub/key"]);
    symlink(secret.path(), fixture.workspace.path().join("sub")).unwrap();
    assert!(fixture.refusal().contains("outside"), "{}", fixture.refusal());
}

#[test]
fn a_link_and_a_full_name_inside_are_files_like_others() {
    let fixture = Fixture::new(&["notes.md"]);
    fs::write(fixture.workspace.path().join("real.md"), "kept").unwrap();
    symlink("real.md", fixture.workspace.path().join("notes.md")).unwrap();
    assert_eq!(fixture.layers().instructions, "Be kind.\n\nkept");
    let folder = fixture.workspace.path().canonicalize().unwrap();
    let files = PromptFiles {
        named: vec![folder.join("real.md").display().to_string()],
        workspace: folder,
        ..PromptFiles::default()
    };
    assert_eq!(PromptReader::new(files).layers(None).unwrap().instructions, "kept");
}

#[test]
fn what_is_no_text_file_of_a_sane_size_is_refused_by_name() {
    let fixture = Fixture::new(&[]);
    let memory = fixture.workspace.path().join("MEMORY.md");
    fs::write(&memory, b"caf\xe9").unwrap();
    assert!(
        fixture.refusal().contains("prompt.memory") && fixture.refusal().contains("UTF-8"),
        "{}",
        fixture.refusal()
    );
    fs::write(&memory, "x".repeat((1 << 20) + 1)).unwrap();
    assert!(fixture.refusal().contains("larger than"), "{}", fixture.refusal());
    fs::write(&memory, "x".repeat(1 << 20)).unwrap();
    assert_eq!(fixture.layers().memory.len(), 1 << 20);
    fs::remove_file(&memory).unwrap();
    fs::create_dir(&memory).unwrap();
    assert!(fixture.refusal().contains("not a regular file"), "{}", fixture.refusal());
    fs::remove_dir(&memory).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&memory).status().unwrap();
    assert!(made.success());
    assert!(fixture.refusal().contains("not a regular file"), "a pipe does not block the read: {}", fixture.refusal());
}

#[test]
fn a_folder_that_is_gone_has_no_files() {
    let fixture = Fixture::new(&[]);
    fs::write(fixture.folder.path().join("MEMORY.md"), "remembered").unwrap();
    let layers = fixture.reader.layers(Some("/nowhere/at/all")).unwrap();
    assert_eq!(layers.memory, "remembered");
}

#[test]
fn what_is_remembered_is_bounded() {
    let fixture = Fixture::new(&[]);
    let large = "x".repeat(1 << 20);
    for number in 0..20 {
        let cwd = fixture.workspace.path().join(number.to_string());
        fs::create_dir(&cwd).unwrap();
        fs::write(cwd.join("MEMORY.md"), &large).unwrap();
        fixture.reader.layers(cwd.to_str()).unwrap();
    }
    let state = fixture.reader.0.as_ref().unwrap().state();
    let bytes: usize = state.seen.values().map(|seen| seen.bytes).sum();
    assert!(!state.seen.is_empty() && bytes <= REMEMBERED_BYTES, "{bytes} bytes of {} folders", state.seen.len());
}

/// Reads as a turn does, and waits for what is told.
async fn told(fixture: &Fixture, cwd: Option<&str>) -> Arc<PromptLayers> {
    let (tell, told) = tokio::sync::oneshot::channel();
    fixture.reader.read(cwd.map(str::to_owned), move |result| drop(tell.send(result)));
    told.await.expect("it is told").expect("layers")
}

#[tokio::test(start_paused = true)]
async fn many_turns_share_one_look_and_a_session_with_a_folder_looks_itself() {
    let fixture = Fixture::new(&[]);
    let memory = fixture.workspace.path().join("MEMORY.md");
    fs::write(&memory, "one").unwrap();
    assert_eq!(told(&fixture, None).await.memory, "one");
    rewrite(&memory, "two");
    let (tell, at_once) = mpsc::channel();
    fixture.reader.read(None, move |result| tell.send(result).unwrap());
    assert_eq!(at_once.try_recv().expect("told at once").unwrap().memory, "one", "it was just read");
    let cwd = fixture.workspace.path().to_str().unwrap().to_owned();
    assert_eq!(told(&fixture, Some(&cwd)).await.memory, "two");
    tokio::time::advance(FRESH_FOR).await;
    assert_eq!(told(&fixture, None).await.memory, "two", "what changed is seen");
}

#[tokio::test]
async fn a_runtime_without_files_answers_at_once() {
    let (tell, at_once) = mpsc::channel();
    PromptReader::default().read(Some("/nowhere".into()), move |result| tell.send(result).unwrap());
    assert_eq!(at_once.try_recv().expect("told at once"), Ok(Arc::default()));
}

/// A repository with a folder in it, and a reader that tells the project's instructions.
fn repository() -> (TempDir, PromptReader) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("outside/repository/.git")).unwrap();
    fs::create_dir_all(root.path().join("outside/repository/a/b")).unwrap();
    let texts = PromptLayers { instructions: "Be kind.".into(), ..PromptLayers::default() };
    let workspace = root.path().join("outside/repository/a/b");
    let files = PromptFiles { texts, workspace, reads_project: true, ..PromptFiles::default() };
    (root, PromptReader::new(files))
}

fn instructions(reader: &PromptReader) -> String {
    reader.layers(None).unwrap_or_else(|error| panic!("{error}")).instructions.clone()
}

#[test]
fn the_projects_instructions_are_read_up_to_its_root_the_nearest_last() {
    let (root, reader) = repository();
    let write = |name: &str, text: &str| fs::write(root.path().join("outside").join(name), text).unwrap();
    assert_eq!(instructions(&reader), "Be kind.", "there are none");
    write("AGENTS.md", "of another project");
    write("repository/CLAUDE.md", "of all");
    write("repository/a/AGENTS.md", "of a");
    write("repository/a/CLAUDE.md", "not read beside AGENTS.md");
    write("repository/a/b/AGENTS.md", "of b\n\n");
    let text = instructions(&reader);
    let said: Vec<&str> = text.split("\n\n").collect();
    assert_eq!((said.len(), said[0]), (7, "Be kind."), "{text}");
    assert!(said[1].starts_with("Instructions of the project, from ") && said[1].ends_with("repository/CLAUDE.md:"));
    assert_eq!([said[2], said[4], said[6]], ["of all", "of a", "of b"]);
    rewrite(&root.path().join("outside/repository/a/AGENTS.md"), "of A");
    assert!(instructions(&reader).contains("of A"), "it is read again");
    fs::remove_dir(root.path().join("outside/repository/.git")).unwrap();
    let text = instructions(&reader);
    assert!(text.contains("of b") && !text.contains("of A"), "outside of a repository only the folder's own: {text}");
}

#[test]
fn the_projects_instructions_are_bounded_and_what_cannot_be_read_is_left_out() {
    let (root, reader) = repository();
    let repository = root.path().join("outside/repository");
    fs::write(repository.join("AGENTS.md"), "x".repeat(20_000)).unwrap();
    fs::write(repository.join("a/AGENTS.md"), b"caf\xe9").unwrap();
    fs::write(repository.join("a/b/AGENTS.md"), "y".repeat(20_000)).unwrap();
    let text = instructions(&reader);
    let count = |letter: char| text.chars().filter(|c| *c == letter).count();
    assert!(count('y') >= 20_000, "the nearest is whole");
    assert!((4_576..5_000).contains(&count('x')) && text.contains("[… the rest is not shown …]"), "{}", count('x'));
    assert!(!text.contains("caf"), "it is no text");
    fs::remove_file(repository.join("a/b/AGENTS.md")).unwrap();
    symlink("/etc/hostname", repository.join("a/b/AGENTS.md")).unwrap();
    assert!(!instructions(&reader).contains("a/b/AGENTS.md"), "a link that leads out is not followed");
}

/// A link in a repository is as good as a name in a configuration.
#[test]
fn a_file_of_secrets_is_in_no_prompt_under_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at(".env"), "KEY=swordfish").unwrap();
    fs::write(at("MEMORY.md"), "remembered").unwrap();
    fs::write(at("CLAUDE.md"), "be brief").unwrap();
    let read = |named: &[&str], memory: &str| {
        let files = PromptFiles {
            named: named.iter().map(|&name| name.to_owned()).collect(),
            memory: memory.to_owned(),
            workspace: folder.path().to_owned(),
            folder: folder.path().to_owned(),
            reads_project: true,
            ..PromptFiles::default()
        };
        PromptReader::new(files).layers(None)
    };
    symlink(".env", at("AGENTS.md")).unwrap();
    symlink(".env", at("NOTES.md")).unwrap();
    let layers = read(&[], "MEMORY.md").unwrap();
    assert!(layers.instructions.contains("be brief"), "the next name counts: {}", layers.instructions);
    assert_eq!(layers.memory, "remembered");
    for (named, memory) in [(&[".env"][..], ""), (&["NOTES.md"], ""), (&[], ".env"), (&[], "NOTES.md")] {
        let refused = read(named, memory).expect_err("a refusal").to_string();
        assert!(refused.contains("file of secrets") && !refused.contains("swordfish"), "{refused}");
    }
}
