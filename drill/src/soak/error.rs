//! Why a soak did not come to a verdict.

use bob::AgentError;
use bob::sessions::InvalidId;
use bob::store::StoreError;
use bob_config::ConfigError;

/// Why a soak, or a worker of one, could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// The configuration of `--prompts` does not hold.
    #[error("the configuration does not hold")]
    Config(ConfigError),
    /// An error of the runtime or the store.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A fault of the soak or of the machine.
    #[error("{0}")]
    Internal(String),
}

impl SoakError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn of_run(error: std::io::Error) -> Self {
        Self::Internal(format!("cannot oversee the soak: {error}"))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::Internal(message.into())
    }
}

impl From<ConfigError> for SoakError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<StoreError> for SoakError {
    fn from(error: StoreError) -> Self {
        Self::Agent(error.into())
    }
}

impl From<InvalidId> for SoakError {
    fn from(error: InvalidId) -> Self {
        Self::Usage(error.to_string())
    }
}
