//! The chat commands: names, arguments and help.

/// The kind of argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// The id of a session.
    Session,
    Model,
    /// Something to do with tool servers.
    Action,
}

/// A command.
pub(super) struct Command {
    /// As it is typed.
    pub(super) name: &'static str,
    /// Its argument.
    pub(super) takes: Takes,
    /// The help as displayed text.
    pub(super) form: &'static str,
    does: &'static str,
}

const fn command(name: &'static str, takes: Takes, form: &'static str, does: &'static str) -> Command {
    Command { name, takes, form, does }
}

/// Every command, in the order of the help.
pub(super) const COMMANDS: [Command; 11] = [
    command("/help", Takes::Nothing, "", "this list"),
    command("/tools", Takes::Nothing, "", "the tools the model may use"),
    command(
        "/mcp",
        Takes::Action,
        "",
        "the tool servers; /mcp restart ID restarts one, /mcp reload reads the configuration again",
    ),
    command("/ps", Takes::Nothing, "", "the state of every actor of this process"),
    command("/sessions", Takes::Nothing, "", "the sessions used last"),
    command("/new", Takes::Nothing, "", "begin another session"),
    command("/resume", Takes::Session, "[ID]", "continue a session, and what it waits for; without ID choose one"),
    command("/model", Takes::Model, "[M]", "use another model, as provider:model; without M choose one"),
    command(
        "/cost",
        Takes::Nothing,
        "",
        "tokens of the last turn and of the session, and what they cost where prices are configured",
    ),
    command("/cancel", Takes::Nothing, "", "cancel other work in this session (an answer: Ctrl-C)"),
    command("/quit", Takes::Nothing, "", "leave, as Ctrl-D does"),
];

const KEYS: [(&str, &str); 5] = [
    ("Tab", "completes commands, sessions, models and tool servers"),
    ("Ctrl-C", "cancels the answer; at the prompt it clears the line, and on an empty line leaves"),
    ("\\", "at the end of a line: the message continues; pasted lines stay together anyway"),
    ("\"\"\"", "alone on a line: begins and ends a message of several lines"),
    ("typing", "while an answer is written, a line and Enter are sent into the running turn"),
];

/// The help text, wrapped.
pub(super) fn help(columns: usize) -> String {
    let commands = COMMANDS.iter().map(|command| {
        let space = if command.form.is_empty() { "" } else { " " };
        (format!("{}{space}{}", command.name, command.form), command.does)
    });
    let keys = KEYS.iter().map(|(key, does)| ((*key).to_owned(), *does));
    let mut lines = rows(&commands.collect::<Vec<_>>(), columns);
    lines.push("Everything else is sent to the model.\n".to_owned());
    lines.extend(rows(&keys.collect::<Vec<_>>(), columns));
    lines.concat()
}

fn rows(rows: &[(String, &str)], columns: usize) -> Vec<String> {
    let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let row = |(name, does): &(String, &str)| {
        let (name, rest) = (format!("{name:first$}  "), " ".repeat(first + 2));
        let options = textwrap::Options::new(columns).initial_indent(&name).subsequent_indent(&rest);
        textwrap::fill(does, options) + "\n"
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_command_and_fits() {
        for columns in [40, 80, 120] {
            let help = help(columns);
            assert!(help.lines().all(|line| line.chars().count() <= columns), "{help}");
            assert!(COMMANDS.iter().all(|command| help.contains(command.name)), "{help}");
        }
        assert!(help(80).contains("/resume [ID]  continue a session"), "{}", help(80));
    }
}
