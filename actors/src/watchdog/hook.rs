//! Points at which the code of a test can act on an actor. Without a [`Hook`], which is the rule, nothing happens there.

use super::ActorPath;
use std::error::Error;
use std::fmt;

/// Called at fixed points in the life of every actor of a runtime, for fault injection in tests.
///
/// It runs on the actor's own thread: when a method blocks, panics or fails, so does the actor at that point. With
/// the error [`Kill`] the actor is killed.
pub trait Hook: fmt::Debug + Send + Sync {
    /// A message of this kind is about to be handled. The kind is the name of the message's variant; every actor has
    /// `Starting`, `Stopping` and `SupervisionEvent` besides.
    ///
    /// # Errors
    /// With which the actor fails instead.
    fn before(&self, path: &ActorPath, kind: &'static str) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// A message of this kind was handled without an error.
    ///
    /// # Errors
    /// With which the actor fails nevertheless.
    fn after(&self, path: &ActorPath, kind: &'static str) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// The actor of a session has applied a message of this kind, has performed this many of its effects, and is about
    /// to perform the next one.
    ///
    /// # Errors
    /// With which the actor fails instead.
    fn effect(&self, path: &ActorPath, of: &'static str, performed: usize) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// The error by which a [`Hook`] has the actor killed. While an actor starts, stops or handles a supervision event it
/// is an error as any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill;

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("killed by the hook of a test")
    }
}

impl Error for Kill {}
