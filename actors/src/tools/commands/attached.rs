//! Lines within a word of an option, as `-cLINE` and `--command=LINE` have them.

struct Attached {
    program: &'static str,
    short: char,
    /// Without `--`; any shortening of it counts.
    long: &'static [&'static str],
}

const ATTACHED: [Attached; 6] = [
    Attached { program: "env", short: 'S', long: &["split-string"] },
    Attached { program: "su", short: 'c', long: &["command", "session-command"] },
    Attached { program: "runuser", short: 'c', long: &["command", "session-command"] },
    Attached { program: "script", short: 'c', long: &["command"] },
    Attached { program: "flock", short: 'c', long: &["command"] },
    Attached { program: "fish", short: 'c', long: &["command", "init-command"] },
];

/// The programs in front of a word that may read it.
#[derive(Default)]
pub(super) struct Programs {
    options: Vec<&'static Attached>,
    has_git: bool,
}

impl Programs {
    /// Notes a word, without its folder, that may be a program.
    pub(super) fn note(&mut self, program: &str) {
        let is_new = |option: &&Attached| self.options.iter().all(|known| known.program != option.program);
        let option = ATTACHED.iter().find(|option| option.program == program).filter(is_new);
        self.options.extend(option);
        self.has_git |= program == "git";
    }

    /// The lines that may be in a word; `before` is the word in front of it.
    pub(super) fn lines<'a>(&self, before: &str, word: &'a str) -> impl Iterator<Item = &'a str> {
        // An alias in the configuration that git is given is a line of the shell behind its `!`.
        let alias = word.split_once("=!").filter(|_| self.has_git && before == "-c").map(|(_, line)| line);
        self.options.iter().filter_map(move |option| option.line(word)).chain(alias)
    }
}

impl Attached {
    fn line<'a>(&self, word: &'a str) -> Option<&'a str> {
        if let Some(long) = word.strip_prefix("--") {
            let named = long.split_once('=').filter(|(name, _)| self.long.iter().any(|own| own.starts_with(name)));
            return named.map(|(_, line)| line);
        }
        // The letters in front are options without a value; otherwise all behind them is one.
        let letters = word.strip_prefix('-').unwrap_or_default();
        letters.split_once(self.short).map(|(_, line)| line)
    }
}
