//! Redaction of secrets in texts, in any encoding.
//!
//! Output of a child, a tool server, a provider or a model may repeat a key that it was given, and goes into errors,
//! logs, prompts and tapes. A secret is found in any letter case, escaped as in JSON, HTML and URLs (up to twice), as
//! hex, and as base64 at any offset.

mod escapes;

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use escapes::View;
use secrecy::{ExposeSecret, SecretString};
use std::ops::Range;
use std::sync::Arc;

/// The shortest secret that is searched for, in bytes: a shorter one occurs in many texts by chance.
const SHORTEST: usize = 6;

/// Words before a key that are not secret.
const SCHEMES: [&str; 4] = ["bearer", "basic", "digest", "apikey"];

/// A set of secrets to search for. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    words: Arc<[SecretString]>,
    /// `None` without words, or with more of them than an automaton can hold.
    finder: Option<AhoCorasick>,
}

impl Secrets {
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        Self::default().and(values)
    }

    pub(crate) fn and<'a>(&self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let new = values.into_iter().map(str::trim).flat_map(|value| value.split_whitespace().chain([value]));
        let new = new.filter(|word| word.len() >= SHORTEST && !is_scheme(word));
        Self::over(self.words.iter().map(ExposeSecret::expose_secret).chain(new).collect())
    }

    /// Finds these words, of any length.
    pub(crate) fn over(mut words: Vec<&str>) -> Self {
        words.retain(|word| !word.is_empty());
        words.sort_unstable();
        words.dedup();
        let spellings = words.iter().copied().flat_map(spellings);
        let finder = AhoCorasick::builder().ascii_case_insensitive(true).build(spellings).ok();
        Self { finder: finder.filter(|_| !words.is_empty()), words: words.into_iter().map(Into::into).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn hidden_in(&self, text: &str) -> String {
        self.marked_in(text, "…")
    }

    /// The text with `mark` in the place of each secret.
    pub(crate) fn marked_in(&self, text: &str, mark: &str) -> String {
        replaced(text, 0, &self.spans(text), mark)
    }

    pub(crate) fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let finder = match &self.finder {
            Some(finder) => finder,
            // If searching is impossible, everything is redacted.
            None if !self.words.is_empty() => return std::iter::once(0..text.len()).collect(),
            None => return Vec::new(),
        };
        let mut found = Vec::new();
        for view in std::iter::successors(Some(View::of(text)), View::unescaped).take(3) {
            found.extend(
                finder.find_overlapping_iter(&view.bytes).map(|hit| view.from[hit.start()]..view.from[hit.end()]),
            );
        }
        found.sort_unstable_by_key(|span| span.start);
        found.dedup_by(|next, span| {
            let overlaps = next.start <= span.end;
            span.end = if overlaps { span.end.max(next.end) } else { span.end };
            overlaps
        });
        found
    }
}

/// A text that begins at byte `begin` of a longer one, with `mark` in the place of these spans of that one.
pub(crate) fn replaced(text: &str, begin: usize, spans: &[Range<usize>], mark: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans.iter().filter(|span| span.start < begin + text.len() && span.end > begin) {
        let from = text.floor_char_boundary(span.start.saturating_sub(begin));
        kept.push_str(text.get(at..from).unwrap_or_default());
        kept.push_str(mark);
        at = text.ceil_char_boundary((span.end - begin).min(text.len()));
    }
    kept.push_str(&text[at..]);
    kept
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// The spellings of a secret that are no escapes.
fn spellings(word: &str) -> impl Iterator<Item = String> {
    let hex = word.bytes().map(|byte| format!("{byte:02x}")).collect();
    let offsets = (0..3).flat_map(|before| [(before, STANDARD_NO_PAD), (before, URL_SAFE_NO_PAD)]);
    let base64 = offsets.map(|(before, alphabet)| {
        let letters = alphabet.encode([&[0; 2][..before], word.as_bytes()].concat());
        // Without the characters at both ends that depend on adjacent bytes.
        let (first, end) = ((before * 8).div_ceil(6), (before + word.len()) * 8 / 6);
        letters[first..end].to_owned()
    });
    // Of a short one the other spellings occur by chance.
    let most = if word.len() < SHORTEST { 1 } else { usize::MAX };
    [word.to_owned(), hex].into_iter().chain(base64).take(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_whole_also_when_it_begins_like_another() {
        let secrets = Secrets::of(["Bearer sk-123", "sk-123-456", "short", ""]);
        assert_eq!(secrets.hidden_in("sk-123-456, sk-123, short and Bearer"), "…, …, short and Bearer");
        assert_eq!(secrets.hidden_in("Bearer sk-123, SK-123 and sk%2D123"), "…, … and …");
    }

    #[test]
    fn a_key_is_hidden_however_short_and_in_no_spelling_that_occurs_by_chance() {
        let secrets = Secrets::over(vec!["", "k7"]);
        assert_eq!(secrets.marked_in("K7, a%6b7 and 6b37", "[hidden]"), "[hidden], a[hidden] and 6b37");
        assert_eq!(Secrets::default().hidden_in("k7"), "k7");
    }

    proptest::proptest! {
        #[test]
        fn g15_a_canary_is_found_in_any_mixture_of_escapes(
            before in ".{0,12}",
            kinds in proptest::collection::vec(0..6, 15),
            after in ".{0,12}",
        ) {
            const CANARY: &str = "sk-cAnAry\"é/%q&";
            let percent = |letter: char, sign: &str| {
                letter.to_string().bytes().map(|byte| format!("{sign}{byte:02X}")).collect()
            };
            let escaped = CANARY.chars().zip(kinds).map(|(letter, kind)| match kind {
                0 => letter.to_string(),
                1 => percent(letter, "%"),
                2 => percent(letter, "%25"),
                3 => format!("\\u{:04x}", u32::from(letter)),
                4 => format!("\\\\u{:04X}", u32::from(letter)),
                _ => format!("&#{};", u32::from(letter)),
            });
            // A blank separates: adjacent text cannot form an escape with the first or last letter.
            let text = format!("{before} {} {after}", escaped.collect::<String>());
            let hidden = Secrets::of([CANARY]).hidden_in(&text);
            proptest::prop_assert_eq!(hidden, format!("{before} … {after}"));
        }
    }
}
