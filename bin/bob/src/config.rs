//! The configuration of a runtime: limits, prompts, files before a conversation, processes, and the clock.
//!
//! [`RuntimeBuilder`](crate::RuntimeBuilder) takes these types.

pub use crate::facade::AgentBootstrap;
pub use bob_actors::child::{ChildSpec, OnLine, Stdin, Stdout, Watcher, reap_orphans};
pub use bob_actors::clock;
#[cfg(feature = "local-tools")]
pub use bob_actors::prompt_files::{PROJECT_FILES, PromptFiles, PromptReader};
pub use bob_actors::watchdog::{ActorPath, Hook, Kill};
pub use bob_messages::Millis;
pub use bob_messages::limits::{Left, Limits};
pub use bob_messages::turn_config::{CondenseRules, OnRestart, PromptLayers, TurnConfig};
pub use bob_supervisors::StartError;
pub use secrecy::SecretString;
