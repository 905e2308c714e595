//! stub
mod brief;
mod effect;
mod guard;
mod message;
pub use brief::{Brief, OnRestart, PromptLayers};
pub use effect::Effect;
pub use guard::{Limits, Spent};
pub use message::{Recover, ResumeReply, TurnMessage};
/// stub
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Turn;
