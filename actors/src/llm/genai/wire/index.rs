//! The number of a call, a block or a choice, however it is spelled.

use super::json::Json;

/// The longest index that is no number, in bytes; a longer one counts as missing.
const MOST_BYTES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Index {
    /// A whole number, whether it came as one, as `1.0` or as `"1"`.
    Number(i128),
    /// Anything else.
    Word(String),
}

impl Index {
    /// `None` for what says nothing: absent, null, a list.
    pub(super) fn read(value: Option<&Json<'_>>) -> Option<Self> {
        match value? {
            Json::Number(number) => match number.as_i128() {
                Some(whole) => Some(Self::Number(whole)),
                None => Self::parse(&number.to_string()),
            },
            Json::Text(text) => Self::parse(text.trim()),
            Json::Null | Json::Bool(_) | Json::List(_) | Json::Object(_) => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return Some(Self::Number(number));
        }
        // Beyond this a float has no whole numbers of its own.
        let whole = text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
        if let Some(number) = whole.and_then(|number| format!("{number:.0}").parse().ok()) {
            return Some(Self::Number(number));
        }
        (text.len() <= MOST_BYTES).then(|| Self::Word(text.to_owned()))
    }
}
