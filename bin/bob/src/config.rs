//! The configuration of a runtime: limits, prompts, files before a conversation, processes, and the clock.
//!
//! [`RuntimeBuilder`](crate::RuntimeBuilder) takes these types.

pub use crate::facade::AgentBootstrap;
pub use bob_actors::child::{ChildSpec, OnLine, Stdin, Stdout, Watcher, reap_orphans};
pub use bob_actors::clock;
#[cfg(feature = "local-tools")]
pub use bob_actors::prompt_files::{PROJECT_FILES, PromptFiles, PromptReader};
/// Called at fixed points of every actor, for [`RuntimeBuilder::hook`](crate::RuntimeBuilder::hook).
///
/// ```
/// use bob::config::{ActorPath, Hook};
/// use std::error::Error;
///
/// /// Lets every append to the store fail.
/// #[derive(Debug)]
/// struct BrokenStore;
///
/// impl Hook for BrokenStore {
///     fn before(&self, path: &ActorPath, kind: &'static str) -> Result<(), Box<dyn Error + Send + Sync>> {
///         match (path.to_string().as_str(), kind) {
///             ("store", "Append") => Err("injected".into()),
///             _ => Ok(()),
///         }
///     }
///
///     fn after(&self, _: &ActorPath, _: &'static str) -> Result<(), Box<dyn Error + Send + Sync>> {
///         Ok(())
///     }
///
///     fn effect(&self, _: &ActorPath, _: &'static str, _: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
///         Ok(())
///     }
/// }
/// ```
pub use bob_actors::watchdog::Hook;
pub use bob_actors::watchdog::{ActorPath, Kill};
pub use bob_messages::Millis;
pub use bob_messages::limits::{Left, Limits};
pub use bob_messages::turn_config::{CondenseRules, OnRestart, PromptLayers, TurnConfig};
pub use bob_supervisors::StartError;
pub use secrecy::SecretString;
