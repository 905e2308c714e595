//! The question about an edit, as a difference instead of its arguments.
//!
//! Nothing of the arguments is left out: a call with anything else in it is shown as JSON.

use bob::tools::ToolCall;
use serde_json::{Map, Value};
use similar::ChangeTag;

use crate::terminal::diff::difference;

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
