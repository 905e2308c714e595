//! The commands of a shell line, where all of the line is understood.
//!
//! Pure. An allowance must know every command that a line runs, so this reads a small part of the shell's language and
//! refuses the rest. Parsers of the whole language exist, but each knows one shell, and `sh` is another one on each
//! system: what they accept is no promise about what runs. Understood are
//!
//! - words, quotes, backslashes, comments, `$NAME`, `${NAME}` and patterns of file names;
//! - lists with `;`, `&`, `&&`, `||`, `|` and newlines, `( … )` and `$( … )`, to a depth of 8;
//! - redirections to and from `/dev/null` and between descriptors.
//!
//! Everything else is not: other redirections and here-documents, backticks, arithmetic, functions, keywords of the
//! shell, further forms of `${…}` and of quotes, control characters, and characters beyond ASCII outside of quotes.

use std::iter::Peekable;
use std::str::Chars;

/// How deep commands within commands are read.
const MAX_DEPTH: usize = 8;

/// Words that are no command where one may begin.
const KEYWORDS: [&str; 22] = [
    "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "for", "case", "esac", "in", "{", "}", "!",
    "[[", "]]", "function", "select", "time", "coproc",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// Exactly this.
    Literal(String),
    /// What the shell makes of something behind this: any number of words.
    Expanded(String),
}

/// The line, or a part of it, cannot be understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotUnderstood;

/// All commands that a line runs, those within others included, each with its assignments in front.
/// Errors: [`NotUnderstood`] when any part of the line is not understood.
pub(crate) fn commands(line: &str) -> Result<Vec<Vec<Word>>, NotUnderstood> {
    if line.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n')) {
        return Err(NotUnderstood);
    }
    let mut reader = Reader { rest: line.chars().peekable(), commands: Vec::new() };
    reader.list(None, MAX_DEPTH)?;
    Ok(reader.commands)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Vec<Word>>,
}

type Read<T> = Result<T, NotUnderstood>;

impl Reader<'_> {
    fn take(&mut self, c: char) -> bool {
        self.rest.next_if_eq(&c).is_some()
    }

    fn skip_blanks(&mut self) {
        loop {
            while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
            // A line that goes on in the next one.
            if !self.is_next("\\\n") {
                break;
            }
            self.rest.nth(1);
        }
        if self.rest.peek() == Some(&'#') {
            while self.rest.next_if(|c| *c != '\n').is_some() {}
        }
    }

    fn is_next(&self, text: &str) -> bool {
        let mut ahead = self.rest.clone();
        text.chars().all(|c| ahead.next() == Some(c))
    }

    /// Whether a redirection is next that names its descriptor.
    fn is_descriptor(&self) -> bool {
        let mut ahead = self.rest.clone().skip_while(char::is_ascii_digit);
        self.rest.clone().next().is_some_and(|c| c.is_ascii_digit()) && matches!(ahead.next(), Some('<' | '>'))
    }

    fn skip_lines(&mut self) {
        self.skip_blanks();
        while self.take('\n') {
            self.skip_blanks();
        }
    }

    /// Commands up to the end of the line, or to what closes this list.
    fn list(&mut self, close: Option<char>, depth: usize) -> Read<()> {
        let (mut needs_more, mut is_empty) = (false, close.is_some());
        loop {
            self.skip_lines();
            let next = self.rest.peek().copied();
            if next == close || next.is_none() {
                self.rest.next();
                return if needs_more || is_empty || next != close { Err(NotUnderstood) } else { Ok(()) };
            }
            self.command(depth)?;
            is_empty = false;
            needs_more = match self.rest.peek().copied() {
                Some(';' | '\n') => {
                    self.rest.next();
                    if self.rest.peek() == Some(&';') {
                        return Err(NotUnderstood);
                    }
                    false
                }
                Some('&') => {
                    self.rest.next();
                    if self.rest.peek() == Some(&'>') {
                        return Err(NotUnderstood);
                    }
                    self.take('&')
                }
                Some('|') => {
                    self.rest.next();
                    if self.rest.peek() == Some(&'&') {
                        return Err(NotUnderstood);
                    }
                    self.take('|');
                    true
                }
                // The end, or what closes the list: seen above.
                _ => false,
            };
        }
    }

    /// One command: words with redirections, or a list in parentheses.
    fn command(&mut self, depth: usize) -> Read<()> {
        let mut words = Vec::new();
        let mut is_list = false;
        loop {
            self.skip_blanks();
            match self.rest.peek().copied() {
                None | Some(';' | '&' | '|' | '\n' | ')') => break,
                Some('(') if words.is_empty() && !is_list => {
                    self.rest.next();
                    let inner = depth.checked_sub(1).ok_or(NotUnderstood)?;
                    self.list(Some(')'), inner)?;
                    is_list = true;
                }
                Some('(') => return Err(NotUnderstood),
                Some('<' | '>') => self.redirection()?,
                Some(_) if self.is_descriptor() => {
                    while self.rest.next_if(char::is_ascii_digit).is_some() {}
                    self.redirection()?;
                }
                Some(_) if is_list => return Err(NotUnderstood),
                Some(_) => {
                    let word = self.word(depth)?;
                    if words.is_empty() && is_keyword(&word) {
                        return Err(NotUnderstood);
                    }
                    words.push(word);
                }
            }
        }
        if words.is_empty() && !is_list {
            return Err(NotUnderstood);
        }
        if !words.is_empty() {
            self.commands.push(words);
        }
        Ok(())
    }

    /// A redirection that changes no file and reads none.
    fn redirection(&mut self) -> Read<()> {
        let is_out = self.rest.next() == Some('>');
        let is_copy = if is_out {
            let is_appended = self.take('>');
            !is_appended && self.take('&')
        } else {
            self.take('&')
        };
        if !is_copy {
            while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        }
        let mut target = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-')) {
            target.push(c);
        }
        let is_fine = match is_copy {
            true => target == "-" || matches!(target.as_bytes(), [digit] if digit.is_ascii_digit()),
            false => target == "/dev/null",
        };
        let is_over = matches!(self.rest.peek(), None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | ')'));
        if is_fine && is_over { Ok(()) } else { Err(NotUnderstood) }
    }

    fn word(&mut self, depth: usize) -> Read<Word> {
        let (mut text, mut is_expanded, mut is_pattern) = (String::new(), false, false);
        // How much of it is as it is written.
        let mut begins = None;
        while let Some(c) =
            self.rest.next_if(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>'))
        {
            match c {
                '\'' => loop {
                    match self.rest.next().ok_or(NotUnderstood)? {
                        '\'' => break,
                        other => text.push(other),
                    }
                },
                '"' => {
                    let before = text.len();
                    if self.quoted(&mut text, depth)? {
                        is_expanded = true;
                        begins.get_or_insert(before);
                    }
                }
                '\\' => match self.rest.next().ok_or(NotUnderstood)? {
                    '\n' => {}
                    other if other.is_ascii() => text.push(other),
                    _beyond => return Err(NotUnderstood),
                },
                '$' => match self.rest.peek().copied() {
                    Some('\'' | '"') => return Err(NotUnderstood),
                    _ if self.expansion(depth)? => {
                        is_expanded = true;
                        begins.get_or_insert(text.len());
                    }
                    _ => text.push('$'),
                },
                '`' => return Err(NotUnderstood),
                '*' | '?' | '[' | ']' | '{' | '}' | '~' => {
                    begins.get_or_insert(text.len());
                    text.push(c);
                    is_pattern = true;
                }
                plain if plain.is_ascii() => text.push(plain),
                _beyond => return Err(NotUnderstood),
            }
        }
        // A lone bracket or brace is a word of its own.
        let is_lone = matches!(text.as_str(), "{" | "}" | "[" | "]" | "[[" | "]]");
        if is_expanded || is_pattern && !is_lone {
            text.truncate(begins.unwrap_or_default());
            return Ok(Word::Expanded(text));
        }
        Ok(Word::Literal(text))
    }

    /// The rest of a text in double quotes; whether the shell puts something in.
    fn quoted(&mut self, text: &mut String, depth: usize) -> Read<bool> {
        let mut is_expanded = false;
        loop {
            match self.rest.next().ok_or(NotUnderstood)? {
                '"' => return Ok(is_expanded),
                '\\' => match self.rest.next().ok_or(NotUnderstood)? {
                    '\n' => {}
                    escaped @ ('$' | '`' | '"' | '\\') => text.push(escaped),
                    other => text.extend(['\\', other]),
                },
                '$' if self.expansion(depth)? => is_expanded = true,
                '`' => return Err(NotUnderstood),
                other => text.push(other),
            }
        }
    }

    /// What a dollar begins; `false`: nothing, it is one.
    fn expansion(&mut self, depth: usize) -> Read<bool> {
        let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                if self.rest.peek() == Some(&'(') {
                    return Err(NotUnderstood);
                }
                let inner = depth.checked_sub(1).ok_or(NotUnderstood)?;
                self.list(Some(')'), inner)?;
                Ok(true)
            }
            Some('{') => {
                self.rest.next();
                let mut length = 0;
                while self.rest.next_if(is_name).is_some() {
                    length += 1;
                }
                if length > 0 && self.take('}') { Ok(true) } else { Err(NotUnderstood) }
            }
            // A line that goes on behind the dollar may go on with a parenthesis.
            Some('[' | '\\') => Err(NotUnderstood),
            Some('@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                self.rest.next();
                Ok(true)
            }
            Some(c) if is_name(&c) => {
                while self.rest.next_if(is_name).is_some() {}
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

fn is_keyword(word: &Word) -> bool {
    matches!(word, Word::Literal(word) if KEYWORDS.contains(&word.as_str()))
}

#[cfg(test)]
#[path = "shell_line_tests.rs"]
mod tests;
