//! Which commands a shell line names.
//!
//! Pure, and a seat belt, not a sandbox: it sees what is written in the line, after
//! quotes are taken off, in every place where a shell looks for a command. It does
//! not see what a variable, an alias, a script or another program turns into a
//! command. When in doubt it names a word too many.

/// How deep lines within lines are read (`sh -c "sh -c …"`).
const MAX_DEPTH: usize = 4;

/// Programs and words of the shell after which the next words may be a command.
const WRAPPERS: [&str; 31] = [
    "env", "exec", "command", "builtin", "eval", "nohup", "setsid", "nice", "ionice", "time", "timeout", "stdbuf",
    "xargs", "find", "watch", "sudo", "doas", "su", "sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "parallel",
    "chroot", "strace", "script", "trap", "function",
];

/// Words of the shell itself that a command may follow.
const KEYWORDS: [&str; 10] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc"];

/// The commands a line names, without their folders, in the order they are written.
pub(crate) fn named_in(line: &str) -> Vec<String> {
    let mut named = Vec::new();
    read_line(line, MAX_DEPTH, &mut named);
    if line.contains("<<") {
        // A text within the line may hold any quotes; read each line of it by itself,
        // so that none of them hides what follows the text.
        line.lines().for_each(|line| read_line(line, MAX_DEPTH, &mut named));
    }
    named
}

fn read_line(line: &str, depth: usize, named: &mut Vec<String>) {
    for words in simple_commands(line) {
        let mut words = words.iter().map(String::as_str).skip_while(|word| is_before_a_command(word));
        let Some(first) = words.next() else { continue };
        let command = base_name(first);
        named.push(command.to_owned());
        if !WRAPPERS.contains(&command) {
            continue;
        }
        // What a wrapper runs stands somewhere among its words, or is a line in one.
        for word in words {
            named.push(base_name(word).to_owned());
            if depth > 0 && word.contains(|c: char| !is_plain(c)) {
                read_line(word, depth - 1, named);
            }
        }
    }
}

fn is_before_a_command(word: &str) -> bool {
    let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+'))
    });
    is_assignment || KEYWORDS.contains(&word)
}

fn base_name(word: &str) -> &str {
    word.trim_end_matches('/').rsplit('/').next().unwrap_or(word)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ',' | ':' | '+' | '@' | '%')
}

/// What is around the character being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

/// The words of each simple command of a line, without quotes and redirections.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
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
                    reader.end_command();
                    around.push((quotes, ')'));
                    quotes = Quotes::None;
                }
                // `$'rm'` is another way to quote.
                Some('\'' | '"') if quotes == Quotes::None => {}
                Some(_) | None => reader.push('$'),
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
            (Quotes::None, other) => reader.push(other),
        }
    }
    reader.end_command();
    reader.commands
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// The next word is where a redirection goes, not a part of the command.
    to_file: bool,
}

impl Reader {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
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
        if self.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
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
