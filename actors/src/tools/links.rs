//! Where the path of a call leads. Looks at the disk.

use super::call_rules::{Subject, clean, subject};
use bob_messages::chat::ToolCall;
use bob_messages::tools::{CallContext, ToolDescriptor};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The call with the path that its path leads to; `None` where that is the path itself. Looks at the disk.
pub(crate) fn led(tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> Option<ToolCall> {
    let Subject::Path(path) = subject(tool, call) else { return None };
    let folder = Path::new(context.roots.first().map_or("", |root| root));
    let written = folder.join(path);
    let real = real(&written);
    // The folder itself may be below a link.
    let real_folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let real = real.strip_prefix(&real_folder).map(|rest| folder.join(rest)).unwrap_or(real);
    if real == clean(&written) {
        return None;
    }
    let mut arguments = Value::clone(&call.arguments);
    *arguments.get_mut("path")? = Value::String(real.to_string_lossy().into_owned());
    Some(ToolCall { arguments: Arc::new(arguments), ..call.clone() })
}

/// A path with the links in it followed as far as it is there; of a link that leads nowhere, where it points.
fn real(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                real.push(part);
                if let Ok(to) = real.read_link() {
                    let pointed = || real.parent().unwrap_or(Path::new("/")).join(to);
                    real = real.canonicalize().unwrap_or_else(|_leads_nowhere| pointed());
                }
            }
        }
    }
    real
}
