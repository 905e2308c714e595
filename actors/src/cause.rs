//! What an error of the network comes from.

use std::error::Error;
use std::{fmt, io};

/// How many errors below one another are copied.
const MOST_COPIED: usize = 16;

/// The innermost of an error's causes; the outer ones repeat the whole URL.
pub(crate) fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

/// One error of a chain, as its text.
#[derive(Debug)]
struct Copied {
    text: String,
    below: Option<Box<dyn Error + Send + Sync>>,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Copied {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.below.as_ref()?)
    }
}

/// A copy of an error and of those below it, as the texts that `shown` makes of theirs: it holds no type of another crate, and
/// nothing that a text does not show. An error of the system is one again, and ends it.
pub(crate) fn copied(error: &(dyn Error + 'static), shown: &dyn Fn(&str) -> String) -> Box<dyn Error + Send + Sync> {
    copied_down(error, shown, MOST_COPIED)
}

fn copied_down(
    error: &(dyn Error + 'static),
    shown: &dyn Fn(&str) -> String,
    left: usize,
) -> Box<dyn Error + Send + Sync> {
    if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
        return Box::new(io::Error::from_raw_os_error(code));
    }
    let below = error.source().filter(|_| left > 1);
    let below = below.map(|below| copied_down(below, shown, left - 1));
    Box::new(Copied { text: shown(&error.to_string()), below })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: Box<dyn Error>,
    }

    fn chain(error: &dyn Error) -> Vec<String> {
        let mut texts = vec![error.to_string()];
        let mut below = error.source();
        while let Some(error) = below {
            texts.push(error.to_string());
            below = error.source();
        }
        texts
    }

    #[test]
    fn a_copy_has_each_text_as_it_is_shown_and_the_error_of_the_system_at_its_end() {
        let refused = io::Error::from_raw_os_error(Errno::CONNREFUSED.raw_os_error());
        let text = refused.to_string();
        let inner = Outer { text: "tcp connect error", source: refused.into() };
        let outer = Outer { text: "sent sk-secret", source: inner.into() };
        let copy = copied(&outer, &|text| text.replace("sk-secret", "[hidden]"));
        assert_eq!(chain(&*copy), ["sent [hidden]", "tcp connect error", &text]);
        assert!(!format!("{copy:?}").contains("sk-secret"), "{copy:?}");
        let last = root_cause(&*copy).downcast_ref::<io::Error>();
        assert_eq!(last.map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn a_chain_without_an_end_is_cut() {
        let mut error: Box<dyn Error> = "the innermost".into();
        for _ in 0..40 {
            error = Outer { text: "one more", source: error }.into();
        }
        assert_eq!(chain(&*copied(&*error, &str::to_owned)).len(), MOST_COPIED);
    }
}
