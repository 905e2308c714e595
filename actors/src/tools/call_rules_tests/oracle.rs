//! Thousands of generated lines against an oracle that knows what is in them since it wrote them, and lines of dice
//! against a real shell.

use super::*;
use crate::child::testing::write_program;
use fastrand::Rng;
use std::fs;
use std::process::{Command, Stdio};

/// How many lines; the night sets `BOB_SEEDS`.
fn lines() -> u64 {
    std::env::var("BOB_SEEDS").map_or(10_000, |lines| lines.parse().unwrap())
}

/// Rules, and what they mean: the words a command begins with, and whether more may follow.
const RULES: [&[(&str, &[&str], bool)]; 5] = [
    &[("git *", &["git"], true)],
    &[("git status", &["git", "status"], false), ("echo *", &["echo"], true)],
    &[("cargo test *", &["cargo", "test"], true), ("git *", &["git"], true), ("wc", &["wc"], false)],
    &[("echo x", &["echo", "x"], false), ("A=1 git *", &["A=1", "git"], true)],
    &[("git *", &["git"], true), ("echo *", &["echo"], true), ("cargo *", &["cargo"], true), ("wc *", &["wc"], true)],
];

/// A word of a generated command; `None` is one that the shell makes.
type Part = Vec<Option<String>>;

/// Writes lines, and knows their parts.
struct Writer {
    dice: Rng,
    parts: Vec<Part>,
    /// Nothing in the line is beyond what is allowed at all.
    is_simple: bool,
}

impl Writer {
    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.dice.usize(..all.len())]
    }

    /// A part that no rule covers.
    fn uncovered(&mut self) {
        self.is_simple = false;
        self.parts.push(vec![None]);
    }

    /// The word in some quotes.
    fn quoted(&mut self, word: &str) -> String {
        let is_plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-./=_".contains(&b));
        match self.dice.u8(..8) {
            0..=4 if is_plain => word.to_owned(),
            5 => format!("'{}'", word.replace('\'', "'\\''")),
            6 if is_plain => format!("{}\"{}\"", &word[..1], &word[1..]),
            7 if is_plain => format!("\\{word}"),
            _ => format!(
                "\"{}\"",
                word.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`")
            ),
        }
    }

    fn line(&mut self, depth: usize) -> String {
        let mut line = self.command(depth);
        for _ in 0..self.dice.usize(..3) {
            let between = self.pick(&[
                "; ",
                ";",
                " && ",
                "&&",
                " || ",
                " | ",
                "|",
                " & ",
                "\n",
                "\n\n",
                " &&\n",
                " # it's; rm\n",
            ]);
            line.push_str(between);
            line.push_str(&self.command(depth));
        }
        line
    }

    fn command(&mut self, depth: usize) -> String {
        match self.dice.u8(..40) {
            0 | 1 if depth > 0 => format!("({})", self.line(depth - 1)),
            2 if depth > 0 => {
                self.is_simple = false;
                format!("{{ {}; }}", self.line(depth - 1))
            }
            3 if depth > 0 => {
                self.is_simple = false;
                format!("if {}; then {}; fi", self.line(depth - 1), self.line(depth - 1))
            }
            4 if depth > 0 => {
                self.uncovered();
                let line = self.line(0);
                format!("sh -c '{}'", line.replace('\'', "'\\''"))
            }
            5 => {
                // The text is for the command, and what is substituted in it runs; the command is not simple.
                let command = self.simple(0);
                self.uncovered();
                let inner = self.simple(0);
                format!("{command} <<EOF\nit's $({inner})\nEOF\n{}", self.simple(0))
            }
            6 => {
                self.uncovered();
                format!("{} {} out.txt", self.simple(0), self.pick(&[">", ">>", "<", "2>", ">|", "&>"]))
            }
            7 => {
                self.uncovered();
                format!("git() {{ {}; }}", self.simple(0))
            }
            8 => {
                self.uncovered();
                format!("{} {}", self.pick(&["env", "xargs", "nohup", "eval", "command", "exec"]), self.simple(0))
            }
            _ => self.simple(depth),
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        let (mut words, mut part): (Vec<String>, Part) = (Vec::new(), Vec::new());
        if self.dice.u8(..10) == 0 {
            let value = self.pick(&["A=1", "PATH=/x", "LD_PRELOAD=x"]);
            words.push(value.to_owned());
            part.push(Some(value.to_owned()));
        }
        let program =
            self.pick(&["git", "git", "git", "echo", "echo", "cargo", "cargo", "wc", "rm", "curl", "/bin/git", "gitk"]);
        words.push(self.quoted(program));
        part.push(Some(program.to_owned()));
        for _ in 0..self.dice.usize(..4) {
            let (word, is): (String, Option<String>) = match self.dice.u8(..16) {
                0 => (self.pick(&["*", "*.rs", "a?", "[ab]", "{a,b}", "~", "x*"]).to_owned(), None),
                1 => (self.pick(&["$X", "${X}", "\"$X\"", "\"a $1 b\"", "a$X"]).to_owned(), None),
                2 if depth > 0 => (format!("$( {})", self.line(depth - 1)), None),
                3 if depth > 0 => (format!("\"a $( {}) b\"", self.line(depth - 1)), None),
                4 if depth > 0 => {
                    self.is_simple = false;
                    (format!("`{}`", self.simple(0)), None)
                }
                5 if depth > 0 => {
                    self.is_simple = false;
                    (format!("<({})", self.simple(0)), None)
                }
                6 if depth > 0 => {
                    self.is_simple = false;
                    (format!("${{X:-$({})}}", self.simple(0)), None)
                }
                _ => {
                    let word = self.pick(&[
                        "status", "test", "x", "-a", "", "a b", "; rm x", "$(rm x)", "`rm`", "it's", "a\"b", "\\",
                        "| rm", "#", "a\nrm",
                    ]);
                    (self.quoted(word), Some(word.to_owned()))
                }
            };
            words.push(word);
            part.push(is);
        }
        if self.dice.u8(..8) == 0 {
            words.push(self.pick(&[">/dev/null", "2>&1", "2> /dev/null", "</dev/null"]).to_owned());
        }
        // What the shell makes of a word may be an option that starts a program, and so may an option of git itself.
        let arguments = part.iter().skip_while(|word| word.as_deref() != Some(program)).skip(1);
        let begins_open =
            arguments.clone().next().is_some_and(|word| word.as_deref().is_some_and(|w| w.starts_with('-')));
        let takes_options = matches!(program, "git" | "cargo");
        if takes_options && arguments.clone().any(Option::is_none) || program == "git" && begins_open {
            self.is_simple = false;
        }
        self.parts.push(part);
        words.join(self.pick(&[" ", "  ", "\t", " \\\n "]))
    }
}

fn covers(rules: &[(&str, &[&str], bool)], part: &Part) -> bool {
    rules.iter().any(|(_, begins, goes_on)| {
        let same = begins.iter().zip(part).all(|(a, b)| b.as_deref() == Some(*a));
        same && part.len() >= begins.len() && (*goes_on || part.len() == begins.len())
    })
}

fn written(rules: &[(&str, &[&str], bool)]) -> CallRules {
    let texts: Vec<String> = rules.iter().map(|(text, ..)| format!("local/shell_exec({text})")).collect();
    super::rules(&texts.iter().map(String::as_str).collect::<Vec<_>>(), &[], &[])
}

#[test]
fn no_generated_line_runs_under_rules_that_do_not_cover_each_of_its_parts() {
    let all = RULES.map(written);
    let (lines, mut allowed, mut parts) = (lines(), 0, 0);
    for seed in 0..lines {
        let mut writer = Writer { dice: Rng::with_seed(seed), parts: Vec::new(), is_simple: true };
        let text = writer.line(2);
        let which = writer.dice.usize(..RULES.len());
        let is_covered = writer.parts.iter().all(|part| covers(RULES[which], part));
        let is_allowed = super::line(&all[which], &text) == CallRuling::Allowed;
        assert!(is_covered || !is_allowed, "seed {seed}: {text:?} runs under {:?}: {:?}", RULES[which], writer.parts);
        assert!(
            is_allowed || !(is_covered && writer.is_simple),
            "seed {seed}: {text:?} does not run under {:?}",
            RULES[which]
        );
        allowed += u64::from(is_allowed);
        parts += writer.parts.len();
    }
    println!("figure: {lines} lines with {parts} parts, {allowed} allowed");
    assert!(allowed > lines / 24, "{allowed}");
}

/// What is allowed is run by a real shell, in which everything but `git` leaves a mark.
#[test]
fn a_real_shell_runs_nothing_else_in_a_line_that_is_allowed() {
    const PIECES: [&str; 30] = [
        "git",
        "git ",
        " x ",
        "rm",
        " rm x",
        ";",
        "&",
        "|",
        "\n",
        "(",
        ")",
        "$(",
        "`",
        "'",
        "\"",
        "\\",
        "\\\n",
        "#",
        " #",
        "<<E\n",
        "\nE\n",
        ">/dev/null",
        "2>&1",
        "<",
        ">",
        "{",
        "}",
        "$X",
        "*",
        "A=1 ",
    ];
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let mark = folder.path().join("mark");
    for (name, script) in [("git", "#!/bin/sh\n".to_owned()), ("rm", format!("#!/bin/sh\n: > '{}'\n", mark.display()))]
    {
        write_program(&bin.join(name), script.as_bytes());
    }
    let shell = |line: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).env_clear().env("PATH", &bin).current_dir(folder.path());
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    };
    shell("git x; rm x");
    assert!(mark.exists(), "the mark is left where something else runs");
    fs::remove_file(&mark).unwrap();

    let git = super::rules(&["local/shell_exec(git *)"], &[], &[]);
    let mut dice = Rng::with_seed(7);
    let (mut ran, mut drawn) = (Vec::new(), 0);
    while ran.len() < lines() as usize / 500 {
        drawn += 1;
        let line: String = (0..dice.usize(2..12)).map(|_| PIECES[dice.usize(..PIECES.len())]).collect();
        if line.contains("rm") && !ran.contains(&line) && super::line(&git, &line) == CallRuling::Allowed {
            shell(&line);
            assert!(!mark.exists(), "{line:?} runs something else");
            ran.push(line);
        }
    }
    println!("figure: {} of {drawn} lines of dice are allowed, and run by a shell", ran.len());
}
