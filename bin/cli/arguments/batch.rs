//! The arguments of `batch`.

use clap::Args;

use super::{ApprovalsArg, ModeArgs, TapeArg};

/// `batch`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each line of FILE is one turn: {\"session\": ID, \"prompt\": TEXT}. Optional keys are \"model\", \"request_id\",
\"labels\" (names with texts) and \"output_schema\" (a JSON schema that the answer must fit); other keys are ignored, and so
are blank lines. A line has at most 1048576 bytes.
Each turn is one line on stdout as soon as it has ended: the object of run --output json, and the number of its line as
\"line\". Lines of one session run in their order, one at a time; different sessions run beside each other. A line that
cannot be read is a result with an error of kind \"invalid\", and the rest goes on.

With --finish, the n-th line of a session and prompt is the n-th such turn of that session in the store: what has an
outcome there, whatever it is, is printed again; what a crash interrupted is finished; what is not there is run.

Progress and a summary go to stderr. Ctrl-C once starts no new lines and lets running turns end; twice cancels them;
three times ends at once. The exit code is 0 when every line has its final answer; else that of the worst line, the
worst being 70, then 7, 6, 5, 2, 75, 130, 4, 3.

Examples:
  cli-agent batch questions.jsonl > answers.jsonl
  cli-agent batch --concurrency 8 - < questions.jsonl
  cli-agent batch --finish questions.jsonl       after a crash")]
pub(crate) struct BatchArgs {
    /// The lines; - reads stdin
    #[arg(value_name = "FILE|-")]
    pub(crate) file: String,
    /// The maximum number of concurrent turns [default: runtime.max_concurrent_turns, up to 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) concurrency: Option<u32>,
    /// Continue an interrupted batch: nothing that has an outcome runs again
    #[arg(long)]
    pub(crate) finish: bool,
    /// The model of lines that name none, as provider:model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// What may run without asking
    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    /// How to handle a call that needs an approval: end the turn, to be resumed later, or deny the call
    #[arg(long, value_enum, default_value_t = ApprovalsArg::Deny, value_name = "HOW")]
    pub(crate) approvals: ApprovalsArg,
    /// record:FILE records the replies of model and tools (overwrite:FILE replaces FILE), replay:FILE plays them back
    #[arg(long, value_name = "HOW:FILE")]
    pub(crate) tape: Option<TapeArg>,
    /// No progress and no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
