//! The message that asks a model again after a reply that could not be used.

use super::{ContentPart, Message};

/// How every message begins and ends that asks the model again after a malformed reply.
const COMPLAINT: (&str, &str) = ("Your reply could not be used: ", ". Answer again.");

pub(crate) fn complain(complaint: &str) -> String {
    let (begin, end) = COMPLAINT;
    format!("{begin}{complaint}{end}")
}

/// Extracts the complaint from a message of [`complain`].
pub(crate) fn complaint(message: &Message) -> Option<&str> {
    let Message::User { parts } = message else { return None };
    let [ContentPart::Text { text }] = parts.as_slice() else { return None };
    text.strip_prefix(COMPLAINT.0)?.strip_suffix(COMPLAINT.1)
}
