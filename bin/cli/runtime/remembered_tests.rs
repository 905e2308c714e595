//! Decisions for good from one process to the next.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn standing(tool: &str, definition: &str, allowed: bool) -> Arc<Standing> {
    Arc::new(Standing {
        tool: ToolName::new(tool),
        definition: definition.to_owned(),
        text: String::new(),
        arguments: None,
        allowed,
        like: Vec::new(),
        reason: String::new(),
        for_good: true,
        identity: Default::default(),
    })
}

fn here(scratch: &tempfile::TempDir) -> Place {
    Place { file: scratch.path().join("state/bob/approvals.jsonl"), folder: PathBuf::from("/here") }
}

fn recalled(place: &Place, tool: &str) -> Vec<Arc<Standing>> {
    Remembered::at(place.clone()).recall(&ToolName::new(tool), &Identity::default())
}

/// Writes behind what is in the file.
fn write(place: &Place, bytes: &[u8]) {
    OpenOptions::new().append(true).open(&place.file).unwrap().write_all(bytes).unwrap();
}

#[test]
fn what_is_decided_for_good_is_there_in_the_next_process_for_its_folder_and_user() {
    let scratch = tempfile::tempdir().unwrap();
    let place = here(&scratch);
    let first = Remembered::at(place.clone());
    first.keep(standing("a/b", "1", true));
    first.keep(standing("a/c", "1", true));
    first.flush();
    first.keep(standing("a/b", "2", false));
    assert_eq!(
        first.recall(&ToolName::new("a/b"), &Identity::default()),
        [standing("a/b", "2", false)],
        "at once, and the later counts"
    );
    first.flush();
    assert_eq!(recalled(&place, "a/b"), [standing("a/b", "2", false)]);
    assert_eq!(recalled(&place, "a/c"), [standing("a/c", "1", true)]);
    assert!(recalled(&Place { folder: PathBuf::from("/there"), ..place.clone() }, "a/b").is_empty());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place.file), mode(place.file.parent().unwrap())), (0o600, 0o700));
    write(&place, b"{\"folder\": 1}\nnonsense\n\0\n\xff\n");
    assert_eq!(recalled(&place, "a/c").len(), 1, "what is no decision decides nothing");
}

#[test]
fn what_is_taken_back_is_forgotten_until_it_is_decided_again() {
    let scratch = tempfile::tempdir().unwrap();
    let place = here(&scratch);
    let first = Remembered::at(place.clone());
    let (old, new) = (standing("a/b", "1", true), standing("a/b", "2", false));
    first.keep(Arc::clone(&old));
    first.flush();
    first.keep(Arc::clone(&new));
    first.keep(standing("a/c", "1", true));
    first.flush();
    place.take_back(&new).unwrap();
    assert_eq!(first.recall(&ToolName::new("a/b"), &Identity::default()).len(), 1, "who has read the file keeps to it");
    let next = Remembered::at(place.clone());
    assert!(
        next.recall(&ToolName::new("a/b"), &Identity::default()).is_empty(),
        "nor does the older decision come back"
    );
    assert_eq!(next.recall(&ToolName::new("a/c"), &Identity::default()).len(), 1);
    assert!(next.is_taken_back(&new) && next.is_taken_back(&old) && !next.is_taken_back(&standing("a/c", "1", true)));
    next.keep(Arc::clone(&old));
    assert!(!next.is_taken_back(&old));
    next.flush();
    assert_eq!((recalled(&place, "a/b"), Remembered::at(place).is_taken_back(&old)), (vec![old], false));
}

#[test]
fn a_line_that_a_crash_cut_off_takes_no_other_with_it() {
    let scratch = tempfile::tempdir().unwrap();
    let place = here(&scratch);
    let first = Remembered::at(place.clone());
    first.keep(standing("a/b", "1", true));
    first.flush();
    write(&place, b"{\"folder\":\"/here\",\"decis");
    place.take_back(&standing("a/b", "1", true)).unwrap();
    assert!(recalled(&place, "a/b").is_empty());
}

#[test]
fn of_a_file_that_is_too_large_no_part_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let place = here(&scratch);
    let first = Remembered::at(place.clone());
    first.keep(standing("a/b", "1", true));
    first.flush();
    // What was decided last, and would be behind what is read.
    let file = OpenOptions::new().append(true).open(&place.file).unwrap();
    file.set_len(MOST_BYTES).unwrap();
    assert_eq!(recalled(&place, "a/b").len(), 1);
    file.set_len(MOST_BYTES + 1).unwrap();
    assert!(recalled(&place, "a/b").is_empty());
    assert!(place.read().unwrap_err().to_string().contains("larger than 16 MiB"));
}

#[tokio::test]
async fn the_file_keeps_the_rules_of_a_memory_of_approvals() {
    let scratch = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    let make = || {
        number.set(number.get() + 1);
        let file = scratch.path().join(format!("{}/approvals.jsonl", number.get()));
        Remembered::at(Place { file, folder: PathBuf::from("/here") }) as Arc<dyn ApprovalMemory>
    };
    bob::testing::approval_memory(make).await;
}
