//! Output for people, on a terminal or a pipe.
//!
//! - `print`, `stderr`: all output, and the queue in front of stderr; `logging`: log records
//! - `show`, `brief`, `advice`: turns, calls and errors as text; `question`, `approval`: questions about calls
//! - `screen`, `draw`: the growing answer, and the status lines below all other output
//! - `diff`: changes of files
//! - `spending`, `progress`, `warnings`: tokens and money, local model servers, tool servers
//! - `notify`: calls a person who looked away; `settings`: restores terminal settings; `stops`: Ctrl-Z

pub(crate) mod advice;
pub(crate) mod approval;
pub(crate) mod brief;
pub(crate) mod diff;
pub(crate) mod draw;
pub(crate) mod logging;
pub(crate) mod notify;
pub(crate) mod print;
pub(crate) mod progress;
pub(crate) mod question;
pub(crate) mod screen;
pub(crate) mod settings;
pub(crate) mod show;
pub(crate) mod spending;
pub(crate) mod stderr;
pub(crate) mod stops;
pub(crate) mod warnings;
