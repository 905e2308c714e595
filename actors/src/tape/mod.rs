//! Tapes: the responses of models and tools in one readable file, for replay without them.
//!
//! A [`Recorder`] wraps the ports of a runtime and writes their traffic; a [`Tape`] replaces them. Both are below the
//! actors: admission, retries, policy, guards and clocks are the runtime's own, so a replay is a whole turn with only
//! the outside world replaced. Nothing here depends on a provider or a server, and no secret that is known at
//! recording time gets onto a tape ([`Redactor`]).
//!
//! | file | contents |
//! |---|---|
//! | `entry` | the lines of a tape |
//! | `recorder`, `redact` | writes a tape, without secrets |
//! | `replay`, `matter` | finds the entry of a request, or the difference |
//! | `llm`, `tools`, `side` | the two ports, for recording and replay, and their common part |

mod entry;
mod llm;
mod matter;
mod recorder;
mod redact;
mod replay;
mod side;
mod tools;

pub use entry::{Header, TAPE_FORMAT, TapeError};
pub use llm::TapeLlm;
pub use recorder::Recorder;
pub use redact::{MARK, Redactor};
pub use replay::Tape;
pub use tools::TapeTools;
