//! Tapes: what models and tools said, in one readable file, to be said again without them.
//!
//! A [`Recorder`] stands in front of the ports of a runtime and writes what goes through them; a [`Tape`] was read and
//! takes their place. Both stand below the actors: admission, retries, policy, guards and clocks are the runtime's own,
//! so a replay is a whole turn with nothing but the outside world on paper. Nothing here knows a provider or a server,
//! and no secret that is known when a tape is made gets onto it ([`Redactor`]).
//!
//! | file | what it holds |
//! |---|---|
//! | `entry` | the lines of a tape |
//! | `recorder`, `redact` | writing it, and what is taken out |
//! | `replay`, `matter` | finding what is asked, exactly, and what differs |
//! | `llm`, `tools` | the two ports, each of both sides |

mod entry;
mod llm;
mod matter;
mod recorder;
mod redact;
mod replay;
mod tools;

pub use entry::{FORMAT, Header, TapeError};
pub use llm::TapeLlm;
pub use recorder::Recorder;
pub use redact::{MARK, Redactor};
pub use replay::Tape;
pub use tools::TapeTools;
