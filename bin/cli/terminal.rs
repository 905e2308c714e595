//! What a person sees, on a terminal or a pipe.
//!
//! - `print`, `stderr`: the one way out, and the queue in front of stderr; `logging`: log records
//! - `show`, `advice`: turns and errors in words; `approval`: a call that waits for a person
//! - `screen`, `draw`: the answer while it grows, and what is drawn below everything else
//! - `spending`, `progress`, `warnings`: tokens and money, local model servers, tool servers
//! - `settings`: the terminal as it was found

pub(crate) mod advice;
pub(crate) mod approval;
pub(crate) mod draw;
pub(crate) mod logging;
pub(crate) mod print;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod settings;
pub(crate) mod show;
pub(crate) mod spending;
pub(crate) mod stderr;
pub(crate) mod warnings;
