//! `--mode`, the permission mode of a command's turns.

use bob::approvals::PermissionMode;
use clap::{Args, ValueEnum};

use crate::exit::Failure;

/// A permission mode on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Tools that only read run, all others are denied
    Plan,
    /// Whatever changes something asks
    Ask,
    /// File tools of cli-agent may change files in the workspace, the rest asks
    Edits,
    /// Everything the policy allows runs
    Auto,
}

/// The option of commands that run turns.
#[derive(Debug, Default, Args)]
pub(crate) struct ModeArgs {
    /// What may run without asking; without a person to ask, the rest is denied [default: policy.mode, else ask]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeArg>,
    #[arg(long, hide = true, value_name = "LEVEL", num_args = 0..=1)]
    approve: Option<Option<String>>,
}

impl ModeArgs {
    /// The mode, if one is named.
    /// Errors: for `--approve`, which is no option any more.
    pub(crate) fn chosen(&self) -> Result<Option<PermissionMode>, Failure> {
        if self.approve.is_some() {
            return Err(Failure::usage("--approve is replaced by --mode plan|ask|edits|auto"));
        }
        Ok(self.mode.map(PermissionMode::from))
    }
}

impl From<ModeArg> for PermissionMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Plan => Self::Plan,
            ModeArg::Ask => Self::Ask,
            ModeArg::Edits => Self::Edits,
            ModeArg::Auto => Self::Auto,
        }
    }
}
