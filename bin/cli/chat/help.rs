//! The chat commands: names, arguments and help.

use crate::terminal::print;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Session,
    Model,
    /// Something that is not completed.
    Text,
    Mode,
    /// Something to do with tool servers.
    Action,
}

pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    pub(super) form: &'static str,
    does: &'static str,
}

const fn command(name: &'static str, takes: Takes, form: &'static str, does: &'static str) -> Command {
    Command { name, takes, form, does }
}

/// Every command, in the order of the help.
pub(super) const COMMANDS: [Command; 24] = [
    command("/help", Takes::Nothing, "", "this list"),
    command("/status", Takes::Nothing, "", "the model, the session, its folder and what it has used"),
    command("/context", Takes::Nothing, "", "how much of the model's context is used, and when it is condensed"),
    command(
        "/cost",
        Takes::Nothing,
        "",
        "tokens of the last turn and of the session, and what they cost where prices are configured",
    ),
    command("/output", Takes::Text, "[N]", "the whole result of the last call, or of the N-th from the end"),
    command(
        "/diff",
        Takes::Text,
        "[N|all]",
        "what the last turn that changed files changed of them, or turn N, or all of the session",
    ),
    command("/tools", Takes::Nothing, "", "the tools the model may use"),
    command(
        "/mcp",
        Takes::Action,
        "",
        "the tool servers; /mcp restart ID restarts one, /mcp reload reads the configuration again",
    ),
    command(
        "/permissions",
        Takes::Nothing,
        "",
        "what may run without asking, what is denied, and what was decided for good",
    ),
    command(
        "/ps",
        Takes::Text,
        "[stop N]",
        "the actors of this process, and the commands in the background; stop N stops one",
    ),
    command("/sessions", Takes::Nothing, "", "the sessions used last"),
    command("/resume", Takes::Session, "[ID]", "continue a session, and what it waits for; without ID choose one"),
    command("/new", Takes::Nothing, "", "begin another session"),
    command("/clear", Takes::Nothing, "", "the same as /new: the session so far can be resumed"),
    command("/compact", Takes::Nothing, "", "replace the history by a summary now, which leaves room in the context"),
    command("/rename", Takes::Text, "TITLE", "give this session another title"),
    command("/model", Takes::Model, "[M]", "use another model, as provider:model; without M choose one"),
    command(
        "/undo",
        Takes::Text,
        "[N|all]",
        "put files back as they were before the last turn, turn N or the session; `force` behind it overwrites later changes",
    ),
    command(
        "/rewind",
        Takes::Text,
        "[N]",
        "back to the end of turn N, files and conversation; `files` or `conversation` behind it: only these; without N list the turns",
    ),
    command("/memory", Takes::Text, "[TEXT]", "add a line to MEMORY.md, which every prompt has; without TEXT show it"),
    command("/mode", Takes::Mode, "[M]", "what may run without asking: plan, ask, edits or auto"),
    command("/cancel", Takes::Nothing, "", "cancel other work in this session (an answer: Esc or Ctrl-C)"),
    command("/exit", Takes::Nothing, "", "leave, as exit and Ctrl-D do"),
    command("/quit", Takes::Nothing, "", "the same as /exit"),
];

/// The groups of the help, each with its first command.
const GROUPS: [(&str, &str); 3] =
    [("Look, also while an answer is written", "/help"), ("Conversation", "/resume"), ("Leave", "/exit")];

const KEYS: [(&str, &str); 13] = [
    ("Tab", "completes commands, sessions, models, tool servers, and files after @"),
    ("Esc", "interrupts the answer, as Ctrl-C does"),
    ("Ctrl-C", "interrupts the answer; at the prompt it clears the line, and twice on an empty line leaves"),
    ("Shift-Tab", "the next mode: ask, edits, auto, plan"),
    ("Esc Esc", "at the prompt: the last message again, to be edited"),
    ("Ctrl-O", "the whole result of the last call, as /output"),
    ("Ctrl-V", "at the prompt: the image on the clipboard goes with the message"),
    ("@FILE", "in a message: the file goes with it; so does an image whose full path is pasted"),
    ("#TEXT", "adds a line to MEMORY.md, as /memory"),
    ("!COMMAND", "runs a command of yours in the folder of the session; the model does not see it"),
    ("\\", "at the end of a line: the message continues; pasted lines stay together anyway"),
    ("\"\"\"", "alone on a line: begins and ends a message of several lines"),
    ("typing", "while an answer is written, a line and Enter are sent into the running turn"),
];

pub(super) fn help(columns: usize, own: &[(String, String)]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let named = |command: &Command| {
        let space = if command.form.is_empty() { "" } else { " " };
        format!("{}{space}{}", command.name, command.form)
    };
    let first = COMMANDS.iter().map(|command| named(command).len()).max().unwrap_or(0);
    for command in &COMMANDS {
        if let Some((group, _)) = GROUPS.iter().find(|(_, begins)| *begins == command.name) {
            lines.push(format!("{}{group}:\n", if lines.is_empty() { "" } else { "\n" }));
        }
        lines.extend(rows(&[(named(command), command.does)], first, columns));
    }
    if !own.is_empty() {
        lines.push("\nOf this project (.bob/commands):\n".to_owned());
        let own: Vec<_> = own.iter().map(|(name, does)| (name.clone(), does.as_str())).collect();
        lines.extend(rows(&own, first, columns));
    }
    lines.push(textwrap::fill("\nKeys and signs; everything else is sent to the model:\n", columns));
    let keys: Vec<_> = KEYS.iter().map(|(key, does)| ((*key).to_owned(), *does)).collect();
    lines.extend(rows(&keys, first, columns));
    lines.concat()
}

/// Why what stands behind a command is refused: it takes nothing.
pub(super) fn takes_nothing(command: &str, argument: &str) -> Option<String> {
    let takes = |known: &&Command| known.name == command && known.takes == Takes::Nothing;
    let refused = COMMANDS.iter().find(takes).filter(|_| !argument.is_empty());
    refused.map(|known| format!("{} takes nothing behind it; /help lists the commands", known.name))
}

/// What is said of a line whose command is none.
pub(super) fn unknown(line: &str) -> String {
    let name = line.trim().split(char::is_whitespace).next().unwrap_or_default();
    let near = COMMANDS.iter().map(|command| (strsim::jaro_winkler(name, command.name), command.name));
    let near = near.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(likeness, _)| *likeness >= 0.85);
    let advice = near.map_or_else(|| "/help lists them".to_owned(), |(_, name)| format!("did you mean {name}?"));
    format!("there is no command {}; {advice}", print::first_line(name, 20))
}

/// Rows of two columns, of which the first has this width.
fn rows(rows: &[(String, &str)], first: usize, columns: usize) -> Vec<String> {
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
    fn the_page_about_the_chat_has_the_help_as_it_is() {
        let page = include_str!("../../../docs/chat.md");
        let begins = page.find("```text\nLook, also").expect("the help on the page") + "```text\n".len();
        let shown = &page[begins..begins + page[begins..].find("```").expect("its end")];
        let help = help(80, &[]);
        let commands = help.split("\nKeys and signs").next().unwrap_or_default();
        assert_eq!(shown, commands);
    }

    #[test]
    fn the_help_names_every_command_and_fits() {
        for columns in [40, 80, 120] {
            let own =
                [("/review".to_owned(), "Review the code, and whatever else there is to be said about it".to_owned())];
            let help = help(columns, &own);
            assert!(help.lines().all(|line| line.chars().count() <= columns), "{help}");
            assert!(COMMANDS.iter().all(|command| help.contains(command.name)), "{help}");
        }
        let help = help(80, &[]);
        assert_eq!(unknown("/sesions now"), "there is no command /sesions; did you mean /sessions?");
        assert_eq!(unknown("/nope"), "there is no command /nope; /help lists them");
        assert!(help.contains("/resume [ID]    continue a session") && !help.contains("Of this project"), "{help}");
    }
}
