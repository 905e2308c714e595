//! Secrets that a child or a server was given, and their removal from its output.
//!
//! A program whose key is refused may repeat the key in its error message. The output of a child or a server goes
//! into errors, logs and prompts; its secrets must not. They are never printed.

use secrecy::{ExposeSecret, SecretString};

/// The shortest part of a secret that is looked for in a server's words; anything shorter
/// stands in many of them by chance.
const SHORTEST: usize = 6;

/// The secrets of one child or server.
pub(crate) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// The words of these values that are long enough to be looked for.
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let words = values.into_iter().flat_map(str::split_whitespace).filter(|word| word.len() >= SHORTEST);
        let mut words: Vec<&str> = words.collect();
        // One may be the beginning of another, whose rest would be left.
        words.sort_unstable_by_key(|word| std::cmp::Reverse(word.len()));
        Self(words.into_iter().map(SecretString::from).collect())
    }

    /// Removes the secrets from a text.
    pub(crate) fn hidden_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose_secret(), "…"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_whole_also_when_it_begins_like_another() {
        let secrets = Secrets::of(["Bearer sk-123", "sk-123-456", "short", ""]);
        assert_eq!(secrets.hidden_in("sk-123-456, sk-123, short and Bearer"), "…, …, short and …");
    }
}
