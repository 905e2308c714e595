//! The arguments of `resume`.

use clap::Args;

use super::OutputForm;

/// `resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
A turn that ends with exit code 4 waits for a person and prints a token. Any process that uses the same store goes on
with it, once; a token is good for runtime.suspend_timeout_ms.

The reply to a question is any text. The reply to a call that needs an approval is one of:
  allow                 this call may run
  allow-session         and calls of this tool in this session
  always                and calls of this tool from now on, for this configuration
  deny [REASON]         it may not run; the model is told the reason
  deny-always [REASON]  nor may calls of this tool from now on
  edit JSON             it may run with these arguments instead
Of a shell, what is allowed or denied beyond the call is exactly this command line.

Without a REPLY, or with -, the reply is all of stdin. What is printed is what run prints, with the same exit codes;
a token that is not good is exit code 2.

Examples:
  cli-agent resume TOKEN allow
  cli-agent resume TOKEN deny \"not in this folder\"
  cli-agent resume TOKEN edit '{\"path\": \"notes.txt\", \"content\": \"hello\"}'
  cli-agent resume --output json TOKEN The blue one.")]
pub(crate) struct ResumeArgs {
    /// What the suspended turn printed
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    /// The reply; - or nothing: read stdin
    #[arg(value_name = "REPLY")]
    pub(crate) reply: Vec<String>,
    /// What is printed
    #[arg(long, alias = "output-format", value_enum, default_value_t = OutputForm::Text, value_name = "FORM")]
    pub(crate) output: OutputForm,
    /// Take the session over if another running process has it; its turn there ends with an error
    #[arg(long)]
    pub(crate) take_over: bool,
}
