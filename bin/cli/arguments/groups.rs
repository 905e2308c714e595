//! The help of the program: its commands by what one wants to do.

use clap::Command;

/// The groups, each with its commands. Those that this program was built without are left out.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Talk and ask", &["chat", "run", "batch"]),
    ("Come back to a conversation", &["sessions", "artifacts", "resume", "memory"]),
    ("Set up", &["init", "config", "doctor", "trust", "completions"]),
    ("What the agent may use", &["tools", "skills", "models", "mcp", "approvals"]),
    ("Share sessions between processes", &["submit", "work"]),
    ("Running processes", &["ps", "top", "cancel", "drain"]),
    ("Test and develop", &["replay", "soak", "events-schema", "help"]),
];

/// The command line with a help that is grouped.
pub(crate) fn grouped(cli: Command) -> Command {
    let mut cli = cli;
    // Adds `help`, and what it says.
    cli.build();
    let text = text(&cli);
    cli.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    ))
}

fn text(cli: &Command) -> String {
    let width = cli.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let row = |name: &&str| {
        let command = cli.find_subcommand(name)?;
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        Some(format!("  {name:width$}  {about}\n"))
    };
    let group = |(title, names): &(&str, &[&str])| {
        let rows: String = names.iter().filter_map(row).collect();
        format!("{title}:\n{rows}\n")
    };
    GROUPS.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group() {
        let cli = grouped(Cli::command());
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in cli.get_subcommands() {
            let count = grouped.iter().filter(|name| **name == command.get_name()).count();
            assert_eq!(count, 1, "{}", command.get_name());
        }
    }
}
