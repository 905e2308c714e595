//! Commands whose words start other programs, or change what programs start.
//!
//! Pure. A rule with a `*` at its end covers words that its writer did not see. What is listed here is not covered that
//! way, but only by a rule that has the very words. The list is what is known of common programs, and no promise about
//! others: docs/approvals.md has it for people.

use super::commands::{base_name, is_wrapper};
use super::shell_line::Word;

/// Words of the shell that change what later commands of the line are, and programs whose arguments are programs, besides
/// those that a denial looks into.
const SHIFTY: [&str; 41] = [
    ".",
    "source",
    "alias",
    "unalias",
    "hash",
    "export",
    "declare",
    "typeset",
    "readonly",
    "local",
    "set",
    "unset",
    "enable",
    "shopt",
    "read",
    "mapfile",
    "readarray",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "sed",
    "gsed",
    "ssh",
    "scp",
    "sftp",
    "vi",
    "vim",
    "nvim",
    "view",
    "ex",
    "ed",
    "emacs",
    "gdb",
    "lldb",
    "expect",
    "m4",
    "socat",
    "ncat",
    "tmux",
    "screen",
];

struct Starts {
    program: &'static str,
    /// Long options, without `--`; any shortening of them counts.
    long: &'static [&'static str],
    /// Letters of short options, wherever they stand in a word with one `-`.
    short: &'static str,
}

const STARTS: [Starts; 12] = [
    Starts {
        program: "tar",
        long: &[
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "rsh-command",
            "info-script",
            "new-volume-script",
        ],
        short: "IF",
    },
    Starts { program: "rsync", long: &["rsh", "rsync-path"], short: "eM" },
    Starts { program: "sort", long: &["compress-program"], short: "" },
    Starts { program: "split", long: &["filter"], short: "" },
    Starts { program: "man", long: &["pager", "html", "browser", "preprocessor"], short: "PH" },
    Starts { program: "zip", long: &["unzip-command"], short: "T" },
    Starts { program: "rg", long: &["pre", "hostname-bin"], short: "" },
    Starts { program: "fd", long: &["exec", "exec-batch"], short: "xX" },
    Starts { program: "less", long: &["lesskey-src", "lesskey-content", "lesskey-file"], short: "k" },
    Starts { program: "cargo", long: &["config"], short: "" },
    Starts { program: "make", long: &["eval"], short: "" },
    Starts { program: "curl", long: &["config"], short: "K" },
];

/// Options before the subcommand of git that start nothing.
const HARMLESS_GIT: [&str; 8] = [
    "--no-pager",
    "-P",
    "--version",
    "-v",
    "--help",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--icase-pathspecs",
];

/// Subcommands of git that run what they are given, or say what later ones run.
const SHIFTY_GIT: [&str; 18] = [
    "config",
    "bisect",
    "submodule",
    "filter-branch",
    "difftool",
    "mergetool",
    "daemon",
    "instaweb",
    "gui",
    "citool",
    "hook",
    "send-email",
    "p4",
    "cvsimport",
    "cvsserver",
    "svn",
    "maintenance",
    "remote-ext",
];

/// Options of the others that do so, or write a file that git would run.
const LONG_GIT: [&str; 16] = [
    "exec",
    "upload-pack",
    "receive-pack",
    "ext-diff",
    "textconv",
    "open-files-in-pager",
    "extcmd",
    "template",
    "config",
    "config-env",
    "output",
    "output-directory",
    "separate-git-dir",
    "strategy",
    "git-dir",
    "work-tree",
];

/// Whether a program, without its folder, runs what its other words say, or changes what later commands are.
pub(super) fn is_shifty(program: &str) -> bool {
    is_wrapper(program) || SHIFTY.contains(&program)
}

/// Whether a command may start another program by its arguments, of which the first `seen` are in the rule.
pub(super) fn may_start(program: &str, arguments: &[Word], seen: usize) -> bool {
    let program = base_name(program);
    let new = arguments.get(seen..).unwrap_or_default();
    if program == "git" {
        return git_may_start(arguments, new);
    }
    let Some(starts) = STARTS.iter().find(|starts| starts.program == program) else { return false };
    // The first word of tar may be a bundle of letters without a `-`.
    let is_bundle = |word: &str| program == "tar" && !word.starts_with('-') && word.contains(['I', 'F']);
    let first = new.first().filter(|_| seen == 0);
    matches!(first, Some(Word::Literal(word)) if is_bundle(word)) || has_option(new, starts.long, starts.short)
}

fn git_may_start(arguments: &[Word], new: &[Word]) -> bool {
    let is_harmless = |word: &&Word| matches!(word, Word::Literal(word) if HARMLESS_GIT.contains(&word.as_str()));
    let global = arguments.iter().take_while(is_harmless).count();
    let is_seen = |at: usize| at < arguments.len() - new.len();
    let subcommand = match arguments.get(global) {
        None => return false,
        Some(Word::Expanded(_)) => return true,
        // An option before the subcommand that is not known, unless the rule has it.
        Some(Word::Literal(word)) if word.starts_with('-') => {
            return !is_seen(global) || has_option(new, &LONG_GIT, "cOCx");
        }
        Some(Word::Literal(word)) => word.as_str(),
    };
    let short = match subcommand {
        "clone" => "uc",
        "rebase" => "xs",
        "merge" | "pull" | "cherry-pick" | "revert" => "s",
        "grep" => "O",
        "archive" | "format-patch" => "o",
        _ => "",
    };
    let names_transport = |word: &Word| matches!(word, Word::Literal(word) if word.contains("::"));
    let is_shifty = SHIFTY_GIT.contains(&subcommand) && !is_seen(global);
    is_shifty
        || matches!(subcommand, "bisect" | "submodule") && new.iter().any(is_running)
        || new.iter().any(names_transport)
        || has_option(new, &LONG_GIT, short)
}

/// Words behind `bisect` and `submodule` after which a command follows.
fn is_running(word: &Word) -> bool {
    !matches!(word, Word::Literal(word) if word != "run" && word != "foreach")
}

/// Whether one of the words is, or may become, one of these options.
fn has_option(words: &[Word], long: &[&str], short: &str) -> bool {
    for word in words {
        match word {
            Word::Literal(word) if word == "--" => return false,
            Word::Literal(word) => {
                if let Some(name) = word.strip_prefix("--") {
                    let name = name.split('=').next().unwrap_or(name);
                    if !name.is_empty() && long.iter().any(|option| option.starts_with(name)) {
                        return true;
                    }
                } else if word.strip_prefix('-').is_some_and(|letters| letters.contains(|c| short.contains(c))) {
                    return true;
                }
            }
            // A name of a file, or a variable, may be an option, unless it begins with something else.
            Word::Expanded(begins) if begins.is_empty() || begins.starts_with('-') => return true,
            Word::Expanded(_) => {}
        }
    }
    false
}
