//! Files as they were before the changes of a turn. Asked for by a person, never by a model.
//!
//! A file is put back only where it is still as the changes left it: what was changed meanwhile by another program, or by a
//! later turn, is left alone unless the caller says otherwise. Paths stay inside the folders they were changed in.

use super::super::port::ToolError;
use super::MAX_FILE_BYTES;
use super::confine::{Place, place};
use super::write::Target;
use bob_messages::artifact::ArtifactId;
use bob_messages::file_changes::together;
use bob_messages::tools::FileChange;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read};

/// Files larger than this are not compared, unless the original is: no change that is kept leaves one.
const MOST_COMPARED: u64 = 4 * MAX_FILE_BYTES;

/// The originals of changes that the journal has no exact text of, by their names in the artifact store.
pub type Originals = HashMap<ArtifactId, Vec<u8>>;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was before.
    Restored,
    /// It was not there before, and is gone again.
    Removed,
    /// It is as it was before already.
    Already,
    /// It was left as it is, since it was changed meanwhile.
    Changed,
    /// It was left as it is, since what it held was not kept (more than 64 MiB, or a store without artifacts), or is no longer
    /// stored.
    NotKept,
    /// It could not be done, for this reason.
    Failed(String),
}

impl Undone {
    /// Whether a file is in the way that only the word of a person overcomes.
    fn is_in_the_way(&self) -> bool {
        matches!(self, Self::Changed | Self::NotKept | Self::Failed(_))
    }
}

/// Takes these changes back, as one: when a file was changed meanwhile, or cannot be put back, nothing is, and the answer
/// says which. With `overwrite` each file that can be put back is, also one that was changed meanwhile.
///
/// Blocks on the disk. `roots` are the folders the paths are in, the first one for relative paths. The files are answered
/// in the order in which they were first changed. A change with an original that is not among `originals` is not undone.
pub fn undo(roots: &[String], changes: &[FileChange], originals: &Originals, overwrite: bool) -> Vec<(String, Undone)> {
    let files = together(changes);
    let looked: Vec<_> = files.iter().map(|file| (file.path.clone(), look(roots, file, changes, originals))).collect();
    if !overwrite && looked.iter().any(|(_, found)| found.is_in_the_way()) {
        return looked;
    }
    let done = |(path, found): (String, Undone), file: &FileChange| match found {
        Undone::Already | Undone::NotKept | Undone::Failed(_) => (path, found),
        Undone::Restored | Undone::Removed | Undone::Changed => (path, put_back(roots, file, originals)),
    };
    looked.into_iter().zip(&files).map(|(looked, file)| done(looked, file)).collect()
}

/// What would become of a file. What one of the changes found or left is known, so nothing is lost with it: a part of them may have
/// been undone before.
fn look(roots: &[String], file: &FileChange, changes: &[FileChange], originals: &Originals) -> Undone {
    if file.is_rough && file.original.is_none() {
        return Undone::NotKept;
    }
    let most = MOST_COMPARED.max(file.original.as_ref().map_or(0, |original| original.bytes + 1));
    let now = match place(roots, &file.path).and_then(|place| now(&place, most)) {
        Ok(now) => now,
        Err(why) => return Undone::Failed(why.to_string()),
    };
    let is = |content: Result<Option<Cow<'_, [u8]>>, char>| {
        content.is_ok_and(|content| now.as_deref() == content.as_deref())
    };
    // The name of an original is that of its content, which need not have been read for this.
    let is_before = match (&file.original, &now) {
        (Some(original), Some(now)) => now.len() as u64 == original.bytes && ArtifactId::of(now) == original.id,
        (Some(_), None) => false,
        (None, _) => is(file.content_before()),
    };
    if is_before {
        return Undone::Already;
    }
    let Some(before) = before(file, originals) else { return Undone::NotKept };
    match before {
        _ if !changes.iter().any(|change| change.path == file.path && is(change.content_after())) => Undone::Changed,
        Some(_) => Undone::Restored,
        None => Undone::Removed,
    }
}

/// What the file held before the change, or that it was not there; `None` when that is not known.
fn before<'f>(file: &'f FileChange, originals: &'f Originals) -> Option<Option<Cow<'f, [u8]>>> {
    match (&file.original, file.is_rough) {
        (Some(original), _) => originals.get(&original.id).map(|bytes| Some(bytes.into())),
        (None, true) => None,
        (None, false) => file.content_before().ok(),
    }
}

fn put_back(roots: &[String], file: &FileChange, originals: &Originals) -> Undone {
    let Some(before) = before(file, originals) else { return Undone::NotKept };
    let done = place(roots, &file.path).map_err(|error| error.to_string()).and_then(|place| match before {
        Some(before) => {
            let target = Target::find(&place).map_err(|error| error.to_string())?;
            target.replace(&before).map_err(|error| place.explain(&error).to_string())?;
            Ok(Undone::Restored)
        }
        None => {
            place.root.remove_file(&place.relative).map_err(|error| place.explain(&error).to_string())?;
            Ok(Undone::Removed)
        }
    });
    done.unwrap_or_else(Undone::Failed)
}

/// What a file holds, up to `most` bytes of it; `None` when there is none.
fn now(place: &Place, most: u64) -> Result<Option<Vec<u8>>, ToolError> {
    match place.root.symlink_metadata(&place.relative) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(place.explain(&error)),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = place.open_file()?;
    file.take(most).read_to_end(&mut bytes).map_err(|error| place.explain(&error))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Workspace;
    use super::*;
    use bob_messages::tools::TextEncoding;

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> FileChange {
        let text = |text: Option<&str>| text.map(str::to_owned);
        FileChange { path: path.to_owned(), before: text(before), after: text(after), ..FileChange::default() }
    }

    fn told(done: &[(String, Undone)]) -> Vec<(&str, &Undone)> {
        done.iter().map(|(path, how)| (path.as_str(), how)).collect()
    }

    #[test]
    fn files_are_as_they_were_and_new_ones_are_gone() {
        let workspace = Workspace::new();
        workspace.put("a.txt", "three");
        workspace.put("new/b.txt", "b");
        workspace.put("same.txt", "as before");
        let changes = [
            change("a.txt", Some("one\r\n"), Some("two")),
            change("new/b.txt", None, Some("b")),
            change("a.txt", Some("two"), Some("three")),
            change("same.txt", Some("as before"), Some("changed")),
        ];
        let done = undo(workspace.roots(), &changes, &Originals::new(), false);
        let expected = [("a.txt", &Undone::Restored), ("new/b.txt", &Undone::Removed), ("same.txt", &Undone::Already)];
        assert_eq!(told(&done), expected);
        assert_eq!(workspace.get("a.txt"), "one\r\n");
        assert!(!workspace.path("new/b.txt").exists());
        let again = undo(workspace.roots(), &changes, &Originals::new(), false);
        assert!(again.iter().all(|(_, how)| *how == Undone::Already), "{again:?}");
    }

    #[test]
    fn nothing_is_undone_over_what_somebody_else_changed_unless_it_is_meant() {
        let workspace = Workspace::new();
        workspace.put("a.txt", "after");
        workspace.put("b.txt", "of another program");
        let mut rough = change("c.bin", Some("?"), Some("text"));
        rough.is_rough = true;
        workspace.put("c.bin", "text");
        let changes =
            [change("a.txt", Some("before"), Some("after")), change("b.txt", Some("b"), Some("after")), rough];
        let looked = undo(workspace.roots(), &changes, &Originals::new(), false);
        let expected = [("a.txt", &Undone::Restored), ("b.txt", &Undone::Changed), ("c.bin", &Undone::NotKept)];
        assert_eq!(told(&looked), expected);
        assert_eq!((workspace.get("a.txt"), workspace.get("b.txt")), ("after".into(), "of another program".into()));
        let done = undo(workspace.roots(), &changes, &Originals::new(), true);
        let expected = [("a.txt", &Undone::Restored), ("b.txt", &Undone::Restored), ("c.bin", &Undone::NotKept)];
        assert_eq!(told(&done), expected);
        assert_eq!((workspace.get("a.txt"), workspace.get("b.txt")), ("before".into(), "b".into()));
        assert_eq!(workspace.get("c.bin"), "text");
    }

    #[test]
    fn a_file_of_another_encoding_is_restored_byte_by_byte() {
        let workspace = Workspace::new();
        let bytes = |text: &str| TextEncoding::Utf16Be.encode(text).expect("it has all").into_owned();
        workspace.put("a.txt", bytes("after"));
        let (encoding_before, encoding_after) = (TextEncoding::Utf16Be, TextEncoding::Utf16Be);
        let change = FileChange { encoding_before, encoding_after, ..change("a.txt", Some("before"), Some("after")) };
        let done = undo(workspace.roots(), std::slice::from_ref(&change), &Originals::new(), false);
        assert_eq!(told(&done), [("a.txt", &Undone::Restored)]);
        assert_eq!(std::fs::read(workspace.path("a.txt")).expect("there"), bytes("before"));
        let again = undo(workspace.roots(), &[change], &Originals::new(), false);
        assert_eq!(told(&again), [("a.txt", &Undone::Already)]);
    }

    #[test]
    fn no_path_leads_out_of_the_folders() {
        let workspace = Workspace::new();
        let outside = workspace.outside("secret.txt");
        std::os::unix::fs::symlink(&outside, workspace.path("link")).expect("a link");
        for path in ["../secret.txt", outside.to_str().expect("a path"), "link"] {
            let kept = std::fs::read_to_string(&outside).expect("a secret");
            let done = undo(workspace.roots(), &[change(path, Some("gone"), Some(&kept))], &Originals::new(), true);
            assert!(matches!(done[0].1, Undone::Failed(_)), "{done:?}");
            assert_eq!(std::fs::read_to_string(&outside).expect("a secret"), kept);
        }
    }
}
