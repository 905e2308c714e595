//! Enumerated options of `run` and `sessions rewind`.

use bob::approvals::ApprovalsMode;
use clap::ValueEnum;

/// Output format of `run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// The answer
    #[default]
    Text,
    /// One line of JSON
    Json,
    /// One event a line, as JSON
    StreamJson,
}

/// `--approvals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalsArg {
    /// The turn ends, to be resumed
    Suspend,
    /// The call is denied
    Deny,
}

impl ApprovalsArg {
    /// The value in a request.
    pub(crate) fn mode(self) -> ApprovalsMode {
        match self {
            Self::Suspend => ApprovalsMode::Suspend,
            Self::Deny => ApprovalsMode::Deny,
        }
    }
}

/// What goes back, if not both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The files that the file tools changed
    Files,
    /// The conversation, as a new session
    Conversation,
}

impl Part {
    /// The part of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "files" => Some(Self::Files),
            "conversation" => Some(Self::Conversation),
            _another => None,
        }
    }
}

/// The output format these arguments select, read without parsing the rest: with `--output json` there is one line of
/// JSON even when the other arguments are invalid.
pub(crate) fn output_form(args: &[String]) -> OutputForm {
    if !args.iter().any(|arg| matches!(arg.as_str(), "run" | "resume")) {
        return OutputForm::Text;
    }
    let mut form = OutputForm::Text;
    for (at, arg) in args.iter().enumerate() {
        if arg == "--" {
            break;
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), args.get(at + 1).map(String::as_str)),
        };
        if matches!(name, "--output" | "--output-format") {
            form = value.and_then(|value| OutputForm::from_str(value, false).ok()).unwrap_or(form);
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_noticed_among_nonsense() {
        let form = |line: &str| output_form(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(form("cli-agent run --nonsense --output json"), OutputForm::Json);
        assert_eq!(form("cli-agent --config x run --output-format=stream-json"), OutputForm::StreamJson);
        assert_eq!(form("cli-agent run --output"), OutputForm::Text);
        assert_eq!(form("cli-agent run -- --output json"), OutputForm::Text);
        assert_eq!(form("cli-agent tools --output json"), OutputForm::Text);
    }
}
