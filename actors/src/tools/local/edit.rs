//! `local/edit_file`.

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use super::confine::place;
use super::edits::{Edit, Edited, apply};
use super::seen::Seen;
use super::write::{Target, changed, in_encoding, read_head};
use super::{MAX_FILE_BYTES, NO_TEXT, blocking};
use bob_messages::tools::{TextEncoding, ToolKind, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditFile {
    /// Path of the file
    path: String,
    /// Text to replace; it must be in the file once
    #[serde(default)]
    #[schemars(with = "String")]
    old: Option<String>,
    /// Text to put there
    #[serde(default)]
    #[schemars(with = "String")]
    new: Option<String>,
    /// Replace it wherever it is
    #[serde(default)]
    replace_all: bool,
    /// Several edits instead of one, made in order
    #[serde(default)]
    edits: Vec<Edit>,
}

const DESCRIPTION: &str = "Replace a text in the file. Give old and new, or several in edits: all are made, or none. Line \
                           endings and the encoding are kept. A file of up to 1 MiB; refused when it changed since you read it";

pub(super) fn edit_file(seen: &Arc<Seen>) -> FnTool {
    let seen = Arc::clone(seen);
    tool("local/edit_file", DESCRIPTION, move |arguments: EditFile, invocation| {
        let seen = Arc::clone(&seen);
        blocking(invocation, move |invocation, _| edit(invocation, arguments, &seen))
    })
    .kind(ToolKind::Edit)
}

impl EditFile {
    fn edits(self) -> Result<Vec<Edit>, ToolError> {
        let Self { path: _, old, new, replace_all, edits } = self;
        match (old, new, edits) {
            (Some(old), Some(new), edits) if edits.is_empty() => Ok(vec![Edit { old, new, replace_all }]),
            (None, None, edits) if !edits.is_empty() && !replace_all => Ok(edits),
            (None, None, edits) if !edits.is_empty() => {
                Err(ToolError::new("`replace_all` beside `edits` has no meaning; set it in those it is for"))
            }
            _ => Err(ToolError::new("give `old` and `new` for one edit, or `edits` for several, and not both")),
        }
    }
}

fn edit(invocation: &Invocation, arguments: EditFile, seen: &Seen) -> Result<ToolOutput, ToolError> {
    let place = place(&invocation.context.roots, &arguments.path)?;
    let (session, edits) = (&invocation.context.session, arguments.edits()?);
    let (shown, full) = (&place.shown, place.full());
    let (bytes, length) = read_head(&place)?;
    if length > MAX_FILE_BYTES {
        return Err(ToolError::new(format!("{shown:?} is {length} bytes; at most {MAX_FILE_BYTES} can be edited")));
    }
    seen.check(session, &full, shown, &bytes)?;
    let (before, encoding) = TextEncoding::decode(&bytes)
        .ok_or_else(|| ToolError::new(format!("{shown:?} is not a text file: {NO_TEXT}")))?;
    let refused = |reason: String| ToolError::new(format!("{shown:?} cannot be edited: {reason}"));
    let Edited { text: after, count, lines } = apply(&before, &edits).map_err(refused)?;
    // What reads differently afterwards would not be what was asked for.
    let unencodable = |character: Option<char>| match character {
        Some(c) => format!(
            "it is {encoding}, which does not have {c:?}; nothing was changed; use other characters, or convert it to UTF-8 first"
        ),
        None => format!("the text would not be {encoding} any more; nothing was changed; convert it to UTF-8 first"),
    };
    let written = encoding.encode_exactly(&after).map_err(|character| refused(unencodable(character)))?;
    Target::find(&place)?.replace(&written).map_err(|error| place.explain(&error))?;
    seen.note(session, &full, &written);
    let line = lines.first().and_then(|line| u32::try_from(*line).ok());
    let told = told(shown, count, &lines) + &in_encoding(encoding);
    let before = before.into_owned();
    let mut output = changed(&place, told, (Some(before), encoding), (after, encoding));
    output.locations = vec![place.location(line)];
    Ok(output)
}

fn told(shown: &str, count: usize, lines: &[usize]) -> String {
    let numbers: Vec<_> = lines.iter().map(usize::to_string).collect();
    let (texts, at) = (if count == 1 { "one text" } else { &format!("{count} texts") }, numbers.join(", "));
    match (lines.len(), count > lines.len()) {
        (1, false) => format!("replaced {texts} in {shown} at line {at}"),
        (1, true) => format!("replaced {texts} in {shown}, all at line {at}"),
        (_, _) => format!("replaced {texts} in {shown} at lines {at}"),
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
