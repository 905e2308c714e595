//! The source of a configuration, for reading it again while the program runs.

use bob_config::{Config, Environment, Files, Overrides};

use crate::exit::Failure;
use crate::runtime::trust;

#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) files: Files,
    pub(crate) overrides: Overrides,
}

impl Origin {
    pub(crate) fn read(&self) -> Result<Config, Failure> {
        let config = self.load()?;
        trust::check(&config)?;
        Ok(config)
    }

    /// Reads the configuration where trust cannot be asked for.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only tool servers are read again"))]
    pub(crate) fn read_quietly(&self) -> Result<Config, Failure> {
        let config = self.load()?;
        trust::check_quietly(&config)?;
        Ok(config)
    }

    fn load(&self) -> Result<Config, Failure> {
        Ok(bob_config::load_all(&self.files, &Environment::of_process(), &self.overrides)?)
    }
}
