//! Identifiers: sessions, turns, calls, tools, models.
//!
//! Identifiers are cheap to clone (a shared string) and validated once, on construction from outside.

mod of_chat;
mod pool_name;
mod record;
mod tail;

pub use pool_name::PoolName;
pub use record::RecordId;
pub(crate) use tail::Tail;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// An invalid identifier; the text names it and the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidId(pub String);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a valid name.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

id! {
    /// One user message until its outcome; a UUID of version 7 when Bob makes it.
    TurnId
}
id! {
    /// One call of a tool by the model, unique in its session.
    CallId
}
id! {
    /// The caller's own name for a request; repeating it returns the first outcome.
    RequestId
}
id! {
    /// One question to a person about one call.
    ApprovalId
}
id! {
    /// Token that resumes a suspended turn: opaque and unguessable.
    ResumeToken
}
id! {
    /// A tool server, as the configuration names it.
    ServerId
}

id! {
    /// An organisation that shares a runtime with others, as the embedding program names it.
    TenantId
}
id! {
    /// A user or a service of an embedding program, in its own words.
    PrincipalId
}

impl From<&str> for TenantId {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<&str> for PrincipalId {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl CallId {
    /// The id of a session's call of this number: a letter and at least eight digits, which every provider accepts.
    pub fn numbered(number: u64) -> Self {
        let mut text = Tail::default();
        text.number(number, 8);
        text.push(b'c');
        Self(text.as_str().into())
    }
}

impl ResumeToken {
    /// The token of a suspended turn: it contains the session and an unguessable part.
    pub fn of(session: &SessionId, secret: &str) -> Self {
        Self::new(format!("{session}~{secret}"))
    }

    /// The session it names; `None` when it names none.
    pub fn session(&self) -> Option<SessionId> {
        let (session, _secret) = self.0.split_once('~')?;
        SessionId::parse(session).ok()
    }
}

/// A conversation. Matches `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// The most bytes an id may have.
    pub const MAX_BYTES: usize = 128;

    /// Validates an id.
    ///
    /// # Errors
    /// Returns an error if the text does not match the form above; the message repeats at most a few characters of it.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let expected = "expected a letter or digit followed by up to 127 letters, digits, `.`, `_` or `-`";
        let Some(first) = text.chars().next() else {
            return Err(InvalidId(format!("the session id is empty: {expected}")));
        };
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidId(format!("the session id is {} bytes long: {expected}", text.len())));
        }
        if !first.is_ascii_alphanumeric() {
            return Err(InvalidId(format!("the session id starts with {first:?}: {expected}")));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            Some(bad) => Err(InvalidId(format!("the session id contains {bad:?}: {expected}"))),
            None => Ok(Self(text.into())),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// What stands before the colon in the name of a selector.
const SELECT: &str = "select";

/// A model in the form `provider:model`, for example `openai:gpt-4o-mini`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelName(Arc<str>);

impl ModelName {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// When either side of the first colon is missing.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        match text.split_once(':') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(Self(text.into())),
            _ => Err(InvalidId(format!(
                "the model {text:?} is not of the form provider:model, for example openai:gpt-4o-mini"
            ))),
        }
    }

    /// The name of a selector with these conditions; see [`crate::models`].
    pub(crate) fn selecting(conditions: &str) -> Self {
        Self(format!("{SELECT}:{conditions}").into())
    }

    /// Whether it names a selector instead of a model: `select:` and an alias or conditions.
    pub fn is_selector(&self) -> bool {
        self.provider() == SELECT
    }

    /// The part before the first colon.
    pub fn provider(&self) -> &str {
        self.colon().map_or("", |at| &self.0[..at])
    }

    /// The part after the first colon: the provider's name of the model.
    pub fn model(&self) -> &str {
        self.colon().map_or(&*self.0, |at| &self.0[at + 1..])
    }

    /// Names are short, and each call of a model asks: a search for texts would take longer.
    fn colon(&self) -> Option<usize> {
        self.0.bytes().position(|byte| byte == b':')
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A tool: `local/<tool>`, `mcp/<server>/<tool>` or `agent/<id>`.
///
/// A model may invent a name; it is kept unchanged, so that the reply can repeat it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// The pseudo tool by which a model asks its user.
    pub const ASK_USER: &'static str = "ask_user";

    /// The tool that reads artifacts of the session.
    pub const READ_ARTIFACT: &'static str = "local/read_artifact";

    /// The tool by which a model asks for a skill.
    pub const USE_SKILL: &'static str = "local/use_skill";

    /// Wraps a name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last slash.
    pub fn own_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// Whether this is the question to the user.
    pub fn is_ask_user(&self) -> bool {
        &*self.0 == Self::ASK_USER
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// Names one question, so that its answer is recognised and a late one is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_ids_read_as_their_numbers() {
        for number in [0, 1, 9, 10, 99_999_999, 100_000_000, u64::MAX] {
            assert_eq!(CallId::numbered(number).as_str(), format!("c{number:08}"));
        }
    }

    #[test]
    fn b3_what_is_no_session_id_is_refused_in_a_few_words() {
        let (long, endless) = ("a".repeat(129), "a".repeat(1 << 20));
        let refused = [
            "",
            ".",
            "..",
            "...",
            "/",
            "a/b",
            "../a",
            "a/..",
            "/etc/passwd",
            "a\\b",
            "\0",
            "a\0",
            "a\0b",
            "-rf",
            "--help",
            "_a",
            ".a",
            ".bob",
            "a b",
            " a",
            "a ",
            "a\n",
            "\ta",
            "a\u{2215}b",
            "a\u{ff0f}b",
            "\u{ff0e}\u{ff0e}",
            "ä",
            "a\u{308}",
            "é",
            "e\u{301}",
            "ａ",
            "аbc",
            "a\u{202e}b",
            "a\u{200b}",
            "a\u{1b}[2J",
            "a:b",
            "a*",
            "a?",
            "~a",
            "$HOME",
            "a%2fb",
            "a+1",
            "a@b",
            "\u{feff}a",
            &long,
            &endless,
        ];
        for text in refused {
            let error = SessionId::parse(text).expect_err("no id").to_string();
            assert!(error.starts_with("the session id ") && error.len() < 200, "{error}");
            assert!(!error.contains(|c: char| c.is_control() || c == '\u{202e}'), "{error:?}");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<SessionId>(&json).is_err(), "the same rule for what is stored: {text:?}");
        }
        for text in ["0", "a", "CON", "nul.txt", "A-_.9", "a..", "a.-", &long[1..]] {
            assert_eq!(SessionId::parse(text).unwrap().as_str(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn b3_an_id_is_what_the_form_says(text in "[A-Za-z0-9._/\\\\ \u{0}é\u{301}-]{0,140}") {
            let mut bytes = text.bytes();
            let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric());
            let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            proptest::prop_assert_eq!(SessionId::parse(&text).is_ok(), first && rest && text.len() <= 128);
        }
    }
}
