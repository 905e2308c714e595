//! The tools that run in this process, and the policy over every call of them.
//!
//! Owns the [`ToolsActor`], the port an embedding program brings its tools through ([`ToolPort`]), the gate at which
//! each call is judged once, and the tools that come with Bob ([`local`]). Turns talk to the actor in
//! [`ToolsMessage`](bob_messages::tools::ToolsMessage). Nothing here asks the configuration who may do what: the policy
//! comes in as data, and whatever a call needs to know comes with the call.
//!
//! | file | what is in it |
//! |---|---|
//! | [`actor`] | the mailbox of this process's own tools |
//! | `host` | what every actor that hosts tools does: one task per call |
//! | `gate` | the one place where a call is judged |
//! | [`policy`] | the rules, as data, and their reading |
//! | `catalogue` | which tools there are, and what arguments they take |
//! | `schema` | whether arguments fit, in bounded time for any schema |
//! | [`output`] | whether a final answer fits the schema it was asked for with |
//! | `concern` | calls that need a person's yes whatever their tool's risk |
//! | `grant` | permission bound to exactly one call |
//! | `standing` | what people decided about a tool before |
//! | `call_rules`, `patterns` | rules over a tool and its arguments |
//! | `leading`, `links` | where the path of a call leads, and these rules over that |
//! | `call_patterns` | patterns of calls that hooks are asked about |
//! | `caught` | a port whose panics are caught |
//! | `hook`, `hooked` | the port that has a say in calls, and the way of a call through it |
//! | `commands` | which commands a shell line may name, for denials |
//! | `shell_line` | which commands a shell line runs, for allowances |
//! | `starting` | arguments that start other programs, which no `*` covers |
//! | [`registry`] | all hosts of tools in a runtime, as turns see them |
//! | [`port`], [`function`] | how a tool is made |
//! | [`agents`] | sub-agents: a call is a session of its own |
//! | [`progress`] | what a running call says of how far it is |
//! | `contract` | the contract suite of the port (feature `testing`) |
//! | `read_artifact` | the rest of a result that was shown in part |
//! | `use_skill` | a skill that a model asks for |
//! | [`local`] | files, search and the shell |
//! | [`web`] | pages of the web |

pub mod actor;
pub mod agents;
#[cfg(test)]
mod approvals_tests;
pub(crate) mod call_patterns;
mod call_rules;
pub(crate) mod catalogue;
mod caught;
mod clip;
mod commands;
mod concern;
mod concerned;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
pub mod function;
pub(crate) mod gate;
pub(crate) mod grant;
pub mod hook;
mod hooked;
pub(crate) mod host;
mod leading;
mod like;
mod links;
#[cfg(any(test, feature = "local-tools"))]
pub mod local;
pub mod output;
mod patterns;
pub mod policy;
pub mod port;
pub mod progress;
mod read_artifact;
pub mod registry;
pub mod runtime_handle;
mod schema;
mod shell_line;
mod standing;
mod starting;
mod use_skill;
#[cfg(feature = "web")]
pub mod web;

pub use actor::{LastLists, ToolsActor, ToolsArguments};
pub use catalogue::CatalogueError;
pub use caught::caught;
pub use function::{FnTool, schema_of, tool};
pub use gate::{Gate, GateError};
pub use grant::KeyPlace;
pub use hook::{HookedCall, ToolHook};
pub use hooked::ToolHooks;
pub use policy::{Policy, PolicyError, ToolOverride};
pub use port::{Concern, Invocation, ToolError, ToolPort};
pub use progress::{ProgressRoom, ProgressSink};
pub use read_artifact::read_artifact;
pub use registry::{HostAddress, Publisher, ToolRegistry};
pub use runtime_handle::RuntimeHandle;
pub use use_skill::use_skill;
