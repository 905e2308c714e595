//! What is refused of a request before anything is done for it: what would not fit the journal or could not be found again.

use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::RequestId;
use std::collections::BTreeMap;

/// The largest input of one request, in bytes.
const MAX_INPUT_BYTES: usize = 1024 * 1024;

/// The most bytes of images and sounds in one request, in Base64: 10 MiB of them. Journaled once.
const MAX_ATTACHED_BYTES: usize = 10 * 1024 * 1024 / 3 * 4 + 4;

/// The largest name of a request, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 1024;

/// The most bytes of the labels of one request, names and values.
const MAX_LABELS_BYTES: usize = 64 * 1024;

/// Whether a part is an image, a sound or a file; these have a separate limit.
pub(super) fn is_attached(part: &ContentPart) -> bool {
    match part {
        ContentPart::Image { .. } | ContentPart::Audio { .. } => true,
        ContentPart::Resource { blob, .. } => blob.is_some(),
        ContentPart::Artifact(artifact) => !artifact.is_text(),
        ContentPart::Text { .. } | ContentPart::ResourceLink { .. } => false,
    }
}

pub(super) fn refuse_attached(bytes: usize) -> Result<(), AgentError> {
    if bytes > MAX_ATTACHED_BYTES {
        let text = format!("what is attached has {bytes} bytes in Base64; at most {MAX_ATTACHED_BYTES} are taken");
        return Err(AgentError::Invalid(text));
    }
    Ok(())
}

/// Refuses a name by which no request is found again, and more than the journal keeps with each of them.
pub(super) fn refuse_unusable(
    request_id: Option<&RequestId>,
    labels: &BTreeMap<String, String>,
) -> Result<(), AgentError> {
    request_id.map_or(Ok(()), refuse_request_id)?;
    let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_LABELS_BYTES {
        let text = format!("the labels have {bytes} bytes; at most {MAX_LABELS_BYTES} are taken");
        return Err(AgentError::Invalid(text));
    }
    Ok(())
}

/// Requests with an empty name would all be one.
pub(crate) fn refuse_request_id(id: &RequestId) -> Result<(), AgentError> {
    match id.as_str().len() {
        0 => Err(AgentError::Invalid("the request id is empty: leave it out for none".to_owned())),
        bytes if bytes > MAX_REQUEST_ID_BYTES => {
            let text = format!("the request id has {bytes} bytes; at most {MAX_REQUEST_ID_BYTES} are taken");
            Err(AgentError::Invalid(text))
        }
        _usable => Ok(()),
    }
}

pub(super) fn refuse_oversized(bytes: usize) -> Result<(), AgentError> {
    if bytes > MAX_INPUT_BYTES {
        let text = format!("the input has {bytes} bytes; at most {MAX_INPUT_BYTES} are taken");
        return Err(AgentError::Invalid(text));
    }
    Ok(())
}
