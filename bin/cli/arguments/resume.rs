//! The arguments of `resume`.

use clap::Args;

use super::OutputForm;

/// `resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
A turn that ends with exit code 4 waits for a person and prints a token. Any process that uses the same store can
continue it, once; a token is valid for runtime.suspend_timeout_ms.

The reply to a question is any text. The reply to a call that needs an approval is one of:
  allow                 this call may run
  allow-session         so may calls of this tool in this session
  always                so may calls of this tool from now on, for this configuration
  deny [REASON]         it may not run; the model is told the reason
  deny-always [REASON]  nor may calls of this tool from now on
  edit JSON             it may run with these arguments instead
For a shell, decisions beyond the call apply to exactly this command line.

Without a REPLY, or with -, the reply is all of stdin. The output and the exit codes are those of run;
an invalid token is exit code 2.

Examples:
  cli-agent resume TOKEN allow
  cli-agent resume TOKEN deny \"not in this folder\"
  cli-agent resume TOKEN edit '{\"path\": \"notes.txt\", \"content\": \"hello\"}'
  cli-agent resume --output json TOKEN The blue one.
  cli-agent resume --submit TOKEN allow")]
pub(crate) struct ResumeArgs {
    /// The token that the suspended turn printed
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    /// The reply; - or none: read stdin. Without one, a turn that waits for the task of a tool server asks the server for its
    /// result
    #[arg(value_name = "REPLY")]
    pub(crate) reply: Vec<String>,
    /// The output format
    #[arg(long, alias = "output-format", value_enum, default_value_t = OutputForm::Text, value_name = "FORM")]
    pub(crate) output: OutputForm,
    /// Take over the session if another process holds it; its turn there ends with an error
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Leave the reply in the store, as submit does, for a worker that continues the turn
    #[arg(long, conflicts_with = "take_over")]
    pub(crate) submit: bool,
    /// The name of the reply: a repeated one has the first outcome [default: a new one]
    #[arg(long, value_name = "ID", requires = "submit")]
    pub(crate) request_id: Option<String>,
}
