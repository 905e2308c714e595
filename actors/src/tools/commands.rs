//! Which commands a shell line names.
//!
//! Pure, and a seat belt, not a sandbox: it sees what is written in the line, after quotes are taken off, in every
//! place where a shell looks for a command. It does not see what a variable, an alias, a script or another program
//! turns into a command. When in doubt it names a word too many. Allowances are read by
//! [`shell_line`](super::shell_line) instead, which refuses what it does not understand.

mod attached;

use super::shell_line::{self, NotUnderstood, Word};

/// How deep lines within lines are read (`sh -c "sh -c …"`).
const MAX_DEPTH: usize = 4;

/// How many lines within options of a command are read together with the words behind them.
const MOST_JOINS: u32 = 4;

/// Programs and words of the shell after which the next words may be a command.
const WRAPPERS: [&str; 61] = [
    "env",
    "exec",
    "command",
    "builtin",
    "eval",
    "nohup",
    "setsid",
    "nice",
    "ionice",
    "time",
    "timeout",
    "stdbuf",
    "xargs",
    "find",
    "watch",
    "sudo",
    "doas",
    "su",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "ash",
    "busybox",
    "parallel",
    "chroot",
    "strace",
    "script",
    "trap",
    "function",
    "taskset",
    "flock",
    "chrt",
    "setpriv",
    "prlimit",
    "unshare",
    "setarch",
    "linux32",
    "linux64",
    "i386",
    "x86_64",
    "nsenter",
    "systemd-run",
    "ltrace",
    "fakeroot",
    "valgrind",
    "dbus-run-session",
    "rbash",
    "mksh",
    "csh",
    "tcsh",
    "fish",
    "toybox",
    "firejail",
    "bwrap",
    "runcon",
    "chpst",
    "numactl",
    "unbuffer",
    "xvfb-run",
];

/// Tests of `find` behind which a name stands, and no command, in front of what it executes.
const NAMES_OF_FIND: [&str; 8] =
    ["-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"];

/// Options of `find` behind which a command stands, up to a `;`: a word of it may look like a test.
const EXECUTES_OF_FIND: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Words of the shell itself that a command may follow.
const KEYWORDS: [&str; 10] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc"];

/// A word as far as it can be read without running anything.
#[derive(Debug, Clone, Default)]
pub(super) struct LooseWord {
    pub(super) text: String,
    /// Whether the shell may make something else of it.
    is_open: bool,
}

/// The commands a line names, without their folders, in the order they are written.
pub(crate) fn named_in(line: &str) -> Vec<String> {
    let mut named = Vec::new();
    read_line(line, MAX_DEPTH, &mut |words| named.push(words[0].command().to_owned()));
    named
}

/// Whether a command of the line may be one that begins with words for which these tests hold, one each.
pub(super) fn may_begin(line: &str, tests: &[impl Fn(&str) -> bool], goes_on: bool) -> bool {
    let mut may = false;
    let mut take = |words: &[LooseWord]| may |= may_be(words, tests, goes_on);
    match shell_line::commands(line) {
        Ok(commands) => commands.into_iter().for_each(|words| {
            let words: Vec<_> = words.into_iter().map(LooseWord::from).collect();
            read_command(&words, MAX_DEPTH, &mut take);
        }),
        Err(NotUnderstood) => read_line(line, MAX_DEPTH, &mut take),
    }
    may
}

fn may_be(words: &[LooseWord], tests: &[impl Fn(&str) -> bool], goes_on: bool) -> bool {
    for (at, test) in tests.iter().enumerate() {
        match words.get(at) {
            None => return false,
            Some(word) if word.is_open => return true,
            Some(word) if test(&word.text) || at == 0 && test(word.command()) => {}
            Some(_) => return false,
        }
    }
    goes_on || words.len() == tests.len() || words[tests.len()..].iter().any(|word| word.is_open)
}

impl From<Word> for LooseWord {
    fn from(word: Word) -> Self {
        match word {
            Word::Literal(text) => Self { text, is_open: false },
            Word::Expanded(begins) => Self { text: begins, is_open: true },
        }
    }
}

impl LooseWord {
    fn command(&self) -> &str {
        base_name(&self.text)
    }
}

/// Hands out the words from each place in the line on at which a command may begin.
fn read_line(line: &str, depth: usize, take: &mut dyn FnMut(&[LooseWord])) {
    simple_commands(line).iter().for_each(|words| read_command(words, depth, take));
    if line.contains("<<") && depth == MAX_DEPTH {
        // A text within the line may hold any quotes; read each line of it by itself,
        // so that none of them hides what follows the text.
        for line in line.lines() {
            simple_commands(line).iter().for_each(|words| read_command(words, depth, take));
        }
    }
}

fn read_command(words: &[LooseWord], depth: usize, take: &mut dyn FnMut(&[LooseWord])) {
    let first = words.iter().position(|word| !is_before_a_command(&word.text));
    let Some(words) = first.map(|first| &words[first..]) else { return };
    take(words);
    let is_git = words[0].command() == "git";
    if !is_wrapper(words[0].command()) && !is_git {
        return;
    }
    if words[0].command() == "command" && words.get(1).is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")) {
        // It only says what the name means.
        return;
    }
    let mut programs = attached::Programs::default();
    let mut joins = MOST_JOINS;
    let (is_find, mut executes) = (words[0].command() == "find", false);
    // What a wrapper runs stands somewhere among its words, or is a line in one.
    for (at, word) in words.iter().enumerate().skip(1) {
        let before = &words[at - 1];
        executes = EXECUTES_OF_FIND.contains(&word.text.as_str()) || executes && word.text != ";";
        if is_find && !executes && !before.is_open && NAMES_OF_FIND.contains(&before.text.as_str()) {
            continue;
        }
        programs.note(before.command());
        for line in programs.lines(&before.text, &word.text).filter(|_| depth > 0) {
            // `env` splits at `\_`, too, and the words behind it are arguments of what it runs.
            let line = line.replace("\\_", " ");
            read_line(&line, depth - 1, take);
            if joins > 0 {
                joins -= 1;
                let more = words[at + 1..].iter().cloned();
                let joined: Vec<_> = simple_commands(&line).pop().into_iter().flatten().chain(more).collect();
                (0..joined.len()).for_each(|at| take(&joined[at..]));
            }
        }
        if is_git {
            continue;
        }
        take(&words[at..]);
        if depth > 0 && word.text.contains(|c: char| !is_plain(c)) {
            read_line(&word.text, depth - 1, take);
        }
    }
}

/// Whether this program, without its folder, runs what its other words say.
pub(super) fn is_wrapper(command: &str) -> bool {
    WRAPPERS.contains(&command)
}

fn is_before_a_command(word: &str) -> bool {
    is_assignment(word) || KEYWORDS.contains(&word)
}

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+'))
    })
}

pub(super) fn base_name(word: &str) -> &str {
    word.trim_end_matches('/').rsplit('/').next().unwrap_or(word)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ',' | ':' | '+' | '@' | '%')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

/// The words of each simple command of a line, without quotes and redirections.
fn simple_commands(line: &str) -> Vec<Vec<LooseWord>> {
    let mut reader = Reader::default();
    let mut quotes = Quotes::None;
    // The quotes around each command within a command, and what ends it.
    let mut around: Vec<(Quotes, char)> = Vec::new();
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (quotes, c) {
            (Quotes::Single, '\'') | (Quotes::Double, '"') => quotes = Quotes::None,
            (Quotes::Single, other) => reader.push(other),
            (Quotes::None | Quotes::Double, '\\') => match characters.next() {
                // A line that goes on in the next one.
                Some('\n') | None => {}
                Some(escaped) => reader.push(escaped),
            },
            (Quotes::None, '\'') => quotes = reader.open(Quotes::Single),
            (Quotes::None, '"') => quotes = reader.open(Quotes::Double),
            (Quotes::None | Quotes::Double, '`') => {
                if around.last().is_none_or(|(_, end)| *end != '`') {
                    reader.open_word();
                }
                reader.end_command();
                let ends = around.pop_if(|(_, end)| *end == '`').map(|(outer, _)| outer);
                quotes = ends.unwrap_or_else(|| {
                    around.push((quotes, '`'));
                    Quotes::None
                });
            }
            (Quotes::None | Quotes::Double, '$') => match characters.peek() {
                Some('(') => {
                    characters.next();
                    reader.open_word();
                    reader.end_command();
                    around.push((quotes, ')'));
                    quotes = Quotes::None;
                }
                // `$'rm'` is another way to quote, in which a backslash begins more than one character.
                Some('\'' | '"') if quotes == Quotes::None => {
                    if characters.clone().skip(1).take_while(|c| *c != '\'').any(|c| c == '\\') {
                        reader.open_word();
                    }
                }
                Some(_) | None => {
                    reader.open_word();
                    reader.push('$');
                }
            },
            (Quotes::Double, other) => reader.push(other),
            (Quotes::None, '(') => {
                reader.end_command();
                around.push((Quotes::None, ')'));
            }
            (Quotes::None, ')') => {
                reader.end_command();
                quotes = around.pop_if(|(_, end)| *end == ')').map_or(Quotes::None, |(outer, _)| outer);
            }
            (Quotes::None, '<' | '>') => {
                reader.redirect();
                while characters.next_if(|next| matches!(next, '<' | '>' | '&' | '|')).is_some() {}
            }
            (Quotes::None, ';' | '|' | '&' | '\n') => reader.end_command(),
            (Quotes::None, '#') if reader.word.is_none() => while characters.next_if(|next| *next != '\n').is_some() {},
            (Quotes::None, space) if space.is_whitespace() => reader.end_word(),
            (Quotes::None, wild @ ('*' | '?' | '[' | '{' | '~')) => {
                // A lone bracket or brace is a command of its own.
                let is_lone = reader.word.is_none() && characters.peek().is_none_or(|next| next.is_whitespace());
                if !(is_lone && matches!(wild, '[' | '{')) {
                    reader.open_word();
                }
                reader.push(wild);
            }
            (Quotes::None, other) => reader.push(other),
        }
    }
    reader.end_command();
    reader.commands
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<LooseWord>>,
    words: Vec<LooseWord>,
    word: Option<LooseWord>,
    /// The next word is where a redirection goes, not a part of the command.
    to_file: bool,
}

impl Reader {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().text.push(c);
    }

    /// The shell puts something into the word.
    fn open_word(&mut self) {
        self.word.get_or_insert_default().is_open = true;
    }

    /// Quotes make a word even when there is nothing in them.
    fn open(&mut self, quotes: Quotes) -> Quotes {
        self.word.get_or_insert_default();
        quotes
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.to_file)
        {
            self.words.push(word);
        }
    }

    fn redirect(&mut self) {
        // In `2>file` the digits belong to the redirection.
        if self.word.as_ref().is_some_and(|word| word.text.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        self.to_file = true;
    }

    fn end_command(&mut self) {
        self.end_word();
        self.to_file = false;
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.commands.push(words);
        }
    }
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;
