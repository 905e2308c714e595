//! What an error of the network comes from.

use std::error::Error;

/// The innermost of an error's causes; the outer ones repeat the whole URL.
pub(crate) fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}
