use std::collections::BTreeSet;

/// How much of a request is considered, in bytes.
const MOST_BYTES: usize = 64 * 1024;

/// Stop words.
const EMPTY_WORDS: &str = "a about after all also and any are before but can does each else for from has have how \
    into its just like make more most need not only other our out please should some such than that the their \
    them then there these they this those use used user uses using want was were what when where which who will \
    with would you your";

/// A request as far as skills are concerned.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The text's words without punctuation, in lower case.
    spoken: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl Heard {
    pub(super) fn of(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(MOST_BYTES)];
        let is_around = |letter: char| !letter.is_alphanumeric() && !matches!(letter, '$' | '/' | '-');
        let spoken = text.split_whitespace().map(|token| {
            let token = token.trim_matches(is_around).trim_end_matches(['-', '/']);
            token.to_lowercase()
        });
        Self { spoken: spoken.collect(), words: words(text) }
    }

    /// Whether a skill is called by its name: `$name`, `/name`, or the plain name where
    /// a hyphen in it makes sure that nothing else is meant.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let called = |sign: char| self.spoken.contains(&format!("{sign}{name}"));
        called('$') || called('/') || (name.contains('-') && self.spoken.contains(name))
    }

    /// Counts how many of these words the text contains, or one beside it.
    pub(super) fn count_with(&self, beside: Option<&Self>, words: &[String]) -> usize {
        let is_beside = |word: &String| beside.is_some_and(|beside| beside.words.contains(word));
        words.iter().filter(|word| self.words.contains(*word) || is_beside(word)).count()
    }
}

/// The keywords of a text: lower case, without stop words, without a plural `s`.
pub(super) fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.chars().count() > 2).filter(|word| !is_empty(word)).map(singular).collect()
}

fn is_empty(word: &str) -> bool {
    EMPTY_WORDS.split(' ').any(|empty| empty == word)
}

fn singular(word: String) -> String {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem.to_owned(),
        Some(_) | None => word,
    }
}
