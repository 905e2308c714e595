//! The question about an edit, as a difference instead of its arguments.
//!
//! Where the file can be read, the difference is that of the whole file, with the lines around; else that of the arguments.
//! A file is not read for that if it is outside the folder, of secrets, of the agent's own or of git, or has other names:
//! the call is not approved yet.
//! Nothing of the arguments is left out: a call with anything else in it is shown as JSON.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use bob::tools::{FileChange, Protection, TextEncoding, ToolCall};
use serde_json::{Map, Value};
use similar::ChangeTag;

use crate::terminal::diff::{difference, raw};

/// Folders of the agent and of git.
const OWN: [&str; 2] = [".bob", ".git"];

/// The largest file whose difference is shown, in bytes.
const MOST_BYTES: u64 = 1024 * 1024;

/// Which files are not shown; a process has one configuration.
static PROTECTION: OnceLock<Protection> = OnceLock::new();

/// Whether the store of this process keeps what a file held that was no text.
static KEEPS_ORIGINALS: OnceLock<bool> = OnceLock::new();

/// Sets whether an edit of a file that is no text can be undone.
pub(crate) fn keep_originals(are_kept: bool) {
    let _a_process_has_one_store = KEEPS_ORIGINALS.set(are_kept);
}

/// Sets the patterns of files of secrets, of which no text is shown before a yes.
pub(crate) fn hide(secret_files: &[String]) {
    let protection = Protection { secret_files: secret_files.to_owned(), ..Protection::default() };
    let _a_process_has_one = PROTECTION.set(protection);
}

/// As [`lines`], for a call whose paths begin in this folder.
pub(super) fn lines_in(folder: &Path, call: &ToolCall) -> Option<Vec<String>> {
    let lines = lines(call)?;
    Some(in_the_file(folder, call).and_then(shown).unwrap_or(lines))
}

/// What an edit would make of its file, whose path begins in this folder: a unified difference; `None` if it cannot be told.
pub(crate) fn difference_in(folder: &Path, call: &ToolCall) -> Option<String> {
    lines(call)?;
    match in_the_file(folder, call)? {
        Would::Change(change) => Some(raw(&change)),
        Would::Replace(_) => None,
    }
}

/// What a call would make of a file.
enum Would {
    Change(FileChange),
    /// A file that is not text is replaced: the lines that say so.
    Replace(Vec<String>),
}

/// What the call would make of the file; `None` if it cannot be told.
fn in_the_file(folder: &Path, call: &ToolCall) -> Option<Would> {
    let fields = call.arguments.as_object()?;
    let path = fields.get("path")?.as_str()?;
    // The tool may mean another file than the system does, and a name of several lines would look like lines of the file.
    if path.chars().any(char::is_control) || Path::new(path).components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let file = readable(folder, path)?;
    let before = match file.metadata() {
        Ok(found) if found.is_file() && found.nlink() > 1 => return None,
        Ok(found) if found.is_file() && found.len() <= MOST_BYTES => {
            let bytes = std::fs::read(&file).ok()?;
            match TextEncoding::decode(&bytes) {
                Some((text, _)) if !text.contains('\0') => Some(text.into_owned()),
                _ if bytes.contains(&0) => {
                    let is_kept = KEEPS_ORIGINALS.get().copied().unwrap_or_default();
                    return binary((path, bytes.len(), is_kept), fields).map(Would::Replace);
                }
                _ => return None,
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        _no_file_that_is_shown => return None,
    };
    let after = match fields.get("content") {
        Some(content) => content.as_str()?.to_owned(),
        None => edited(before.clone()?, fields)?,
    };
    Some(Would::Change(FileChange { path: path.to_owned(), before, after: Some(after), ..FileChange::default() }))
}

/// Where a path leads with its links followed, if its text may be shown before the call is approved.
fn readable(folder: &Path, path: &str) -> Option<PathBuf> {
    let root = folder.canonicalize().ok()?;
    let written = root.join(path);
    let known = written.ancestors().find(|known| known.symlink_metadata().is_ok())?;
    let real = known.canonicalize().ok()?;
    let real = match written.strip_prefix(known).ok()? {
        nothing if nothing.as_os_str().is_empty() => real,
        rest => real.join(rest),
    };
    let protection = PROTECTION.get_or_init(Protection::default);
    let is_own = |part: Component<'_>| OWN.iter().any(|own| part.as_os_str().eq_ignore_ascii_case(own));
    let is_hidden = [&real, &written].into_iter().any(|path| protection.is_secret(path));
    let below = real.strip_prefix(&root).ok()?;
    (!is_hidden && !below.components().any(is_own)).then_some(real)
}

/// As lines; none if nothing would change.
fn shown(would: Would) -> Option<Vec<String>> {
    let change = match would {
        Would::Change(change) => change,
        Would::Replace(lines) => return Some(lines),
    };
    let mut lines: Vec<String> = raw(&change).lines().map(str::to_owned).collect();
    if change.before.is_none() {
        lines.insert(0, "a new file:".to_owned());
    }
    (!lines.is_empty()).then_some(lines)
}

/// A file that is not text, and is replaced; its size, and whether it is kept.
fn binary((path, bytes, is_kept): (&str, usize, bool), fields: &Map<String, Value>) -> Option<Vec<String>> {
    let content = fields.get("content")?.as_str()?;
    let lost = if is_kept { "" } else { ", which cannot be undone" };
    let replaced = format!("a binary file of {bytes} bytes is replaced by this text{lost}:");
    let head = [format!("file: {path}"), replaced];
    Some(head.into_iter().chain(content.lines().map(|line| format!("+ {line}"))).collect())
}

/// The text with the edits of the arguments, if each is as plain as it is written.
fn edited(mut text: String, fields: &Map<String, Value>) -> Option<String> {
    let one = [Value::Object(fields.clone())];
    let edits = fields.get("edits").map_or(Some(&one[..]), |edits| edits.as_array().map(Vec::as_slice))?;
    for edit in edits {
        let (old, new) = (edit.get("old")?.as_str()?, edit.get("new")?.as_str()?);
        let is_everywhere = edit.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
        let found = text.matches(old).count();
        if old.is_empty() || found == 0 || (found > 1 && !is_everywhere) {
            return None;
        }
        text = text.replace(old, new);
    }
    Some(text)
}

/// The lines of a difference, each with its sign; `None` for a call that is no edit of Bob's own tools, or that has more
/// arguments than are shown here.
pub(super) fn lines(call: &ToolCall) -> Option<Vec<String>> {
    let fields = call.arguments.as_object()?;
    let path = fields.get("path")?.as_str()?;
    let mut lines = vec![format!("file: {path}")];
    match call.name.as_str() {
        "local/write_file" => {
            let content = fields.get("content")?.as_str()?;
            has_only(fields, &["path", "content"])?;
            lines.push("the whole new text:".to_owned());
            lines.extend(content.lines().map(|line| format!("+ {line}")));
            if content.is_empty() {
                lines.push("[none: the file will be empty]".to_owned());
            }
        }
        "local/edit_file" if fields.contains_key("edits") => {
            has_only(fields, &["path", "edits"])?;
            for edit in fields.get("edits")?.as_array()? {
                let edit = edit.as_object()?;
                has_only(edit, &["old", "new", "replace_all"])?;
                lines.extend(one(edit)?);
            }
        }
        "local/edit_file" => {
            has_only(fields, &["path", "old", "new", "replace_all"])?;
            lines.extend(one(fields)?);
        }
        _another_tool => return None,
    }
    Some(lines)
}

fn has_only(fields: &Map<String, Value>, names: &[&str]) -> Option<()> {
    fields.keys().all(|name| names.contains(&name.as_str())).then_some(())
}

fn one(edit: &Map<String, Value>) -> Option<Vec<String>> {
    let (old, new) = (edit.get("old")?.as_str()?, edit.get("new")?.as_str()?);
    let is_everywhere = match edit.get("replace_all") {
        None => false,
        Some(value) => value.as_bool()?,
    };
    let head = if is_everywhere { "@@ everywhere in the file" } else { "@@" };
    let diff = difference(old, new);
    let changes = diff.iter_all_changes().map(|change| {
        let sign = match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        format!("{sign} {}", change.value().strip_suffix('\n').unwrap_or(change.value()))
    });
    Some(std::iter::once(head.to_owned()).chain(changes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::tools::{CallId, ToolName};
    use serde_json::json;

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall {
            id: CallId::new("c1"),
            name: ToolName::new(name),
            argument_bytes: 0,
            arguments: arguments.into(),
            signatures: Vec::new(),
        }
    }

    #[test]
    fn an_edit_is_a_difference() {
        let one = call("local/edit_file", json!({ "path": "a.rs", "old": "let a = 1;\nb", "new": "let a = 2;\nb" }));
        let lines = lines(&one).expect("a difference");
        assert_eq!(lines, ["file: a.rs", "@@", "- let a = 1;", "+ let a = 2;", "  b"]);
        let edits = json!([{ "old": "x", "new": "", "replace_all": true }, { "old": "y", "new": "z" }]);
        let several = super::lines(&call("local/edit_file", json!({ "path": "a.rs", "edits": edits })));
        let expected = ["file: a.rs", "@@ everywhere in the file", "- x", "@@", "- y", "+ z"];
        assert_eq!(several.expect("a difference"), expected);
        let write = super::lines(&call("local/write_file", json!({ "path": "b", "content": "one\ntwo\n" })));
        assert_eq!(write.expect("a text"), ["file: b", "the whole new text:", "+ one", "+ two"]);
    }

    #[test]
    fn where_the_file_can_be_read_the_lines_around_a_change_are_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let shown = |call: &ToolCall| lines_in(folder.path(), call).expect("lines").join("\n");
        std::fs::write(folder.path().join("a.txt"), "1\n2\n3\n4\n5\n6\n").expect("a file");
        let edit = call("local/edit_file", json!({ "path": "a.txt", "old": "5", "new": "five" }));
        let around = "--- a/a.txt\n+++ b/a.txt\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6";
        assert_eq!(shown(&edit), around);
        // The arguments, where the edit cannot be made as it is written.
        let other = call("local/edit_file", json!({ "path": "a.txt", "old": "7", "new": "seven" }));
        assert_eq!(shown(&other), "file: a.txt\n@@\n- 7\n+ seven");
        let write = |path: &str| call("local/write_file", json!({ "path": path, "content": "1\n" }));
        assert!(
            shown(&write("a.txt")).ends_with("@@ -1,6 +1 @@\n 1\n-2\n-3\n-4\n-5\n-6"),
            "{}",
            shown(&write("a.txt"))
        );
        assert_eq!(shown(&write("new.txt")), "a new file:\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+1");
        // Shown as the arguments that they are: another file may be meant, and a name is no line of a difference.
        assert_eq!(shown(&write("missing/../a.txt")), "file: missing/../a.txt\nthe whole new text:\n+ 1");
        let forged = lines_in(folder.path(), &write("c\n+++ b/c")).expect("lines");
        assert_eq!(forged[0], "file: c\n+++ b/c", "one line, whose control characters the screen shows as such");
        std::fs::write(folder.path().join("b"), b"\0\x01\x02").expect("a file");
        assert_eq!(
            shown(&write("b")),
            "file: b\na binary file of 3 bytes is replaced by this text, which cannot be undone:\n+ 1"
        );
        let fields = json!({ "content": "1\n" });
        let kept = binary(("b", 3, true), fields.as_object().expect("fields")).expect("lines");
        assert_eq!(kept[1], "a binary file of 3 bytes is replaced by this text:");
    }

    #[test]
    fn no_text_is_shown_of_a_file_that_a_tool_would_not_read_unasked() {
        let outer = tempfile::tempdir().expect("a folder");
        let (folder, outside) = (outer.path().join("work"), outer.path().join("outside.txt"));
        let text = "canary\nold\n";
        for below in ["sub", ".bob", ".git"] {
            std::fs::create_dir_all(folder.join(below)).expect("a folder");
        }
        std::fs::write(&outside, text).expect("a file");
        for file in ["a.txt", ".env", "sub/.ENV.local", "id_rsa", ".bob/chat_history", ".git/config", "twin"] {
            std::fs::write(folder.join(file), text).expect("a file");
        }
        std::fs::hard_link(folder.join("twin"), folder.join("other")).expect("a name");
        for (to, link) in
            [(&*outside, "out"), (outer.path(), "up"), (Path::new(".env"), "plain"), (Path::new("a.txt"), "in")]
        {
            std::os::unix::fs::symlink(to, folder.join(link)).expect("a link");
        }
        let edit = |path: &str| call("local/edit_file", json!({ "path": path, "old": "old", "new": "new" }));
        let absolute = |path: &Path| path.to_str().expect("a text").to_owned();
        let hidden = ["out", "up/outside.txt", "plain", ".env", "sub/.ENV.local", "id_rsa", ".bob/chat_history"];
        let more = [".git/config", "twin", "other"];
        let hidden = hidden.iter().chain(&more).map(|path| (*path).to_owned());
        for path in hidden.chain([absolute(&outside), absolute(&folder.join(".env"))]) {
            assert_eq!(difference_in(&folder, &edit(&path)), None, "{path}");
            let lines = lines_in(&folder, &edit(&path)).expect("lines").join("\n");
            assert_eq!(lines, format!("file: {path}\n@@\n- old\n+ new"));
            let write = call("local/write_file", json!({ "path": path, "content": "x\n" }));
            let lines = lines_in(&folder, &write).expect("lines").join("\n");
            assert!(!lines.contains("canary") && difference_in(&folder, &write).is_none(), "{path}: {lines}");
        }
        for path in ["a.txt".to_owned(), "in".to_owned(), absolute(&folder.join("a.txt"))] {
            let difference = difference_in(&folder, &edit(&path)).expect("a difference");
            assert!(difference.contains(" canary\n-old\n+new"), "{path}: {difference}");
        }
    }

    #[test]
    fn what_has_more_to_it_is_shown_as_it_is() {
        let others = [
            call("local/edit_file", json!({ "path": "a", "old": "x", "new": "y", "more": 1 })),
            call("local/edit_file", json!({ "path": "a", "old": "x", "new": "y", "replace_all": "yes" })),
            call("local/edit_file", json!({ "path": "a", "old": "x", "edits": [] })),
            call("local/write_file", json!({ "path": "a", "content": 7 })),
            call("mcp/files/edit_file", json!({ "path": "a", "old": "x", "new": "y" })),
        ];
        assert!(others.iter().all(|call| lines(call).is_none()));
    }
}
