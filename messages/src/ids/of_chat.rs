//! Session ids made of the ids of other systems.

use super::SessionId;
use std::fmt::Write;

/// How much of an encoding that is too long is kept in front of its hash, bytes.
const KEPT: usize = 60;

impl SessionId {
    /// The session of a chat in a channel: `of_chat("whatsapp", "49170@s.whatsapp.net")` is
    /// `whatsapp_49170-40s.whatsapp.net`.
    ///
    /// Accepts any two texts. Different pairs have different ids, also on case-insensitive file systems: lower-case
    /// ASCII letters, digits and `.` are kept, every other byte becomes `-` and two hexadecimal digits, and `_`
    /// separates the two. An id that would begin with another character is prefixed with `x-x`. An id longer than
    /// [`MAX_BYTES`](Self::MAX_BYTES) is truncated and followed by `-z` and a BLAKE3 hash of the whole.
    pub fn of_chat(channel: &str, chat: &str) -> Self {
        let mut id = String::with_capacity(channel.len() + chat.len() + 8);
        escape(channel, &mut id);
        id.push('_');
        escape(chat, &mut id);
        // Behind a `-` of the encoding stand two hexadecimal digits: neither `-x` nor `-z` comes about in another way.
        if !id.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            id.insert_str(0, "x-x");
        }
        if id.len() > Self::MAX_BYTES {
            let hash = blake3::hash(id.as_bytes()).to_hex();
            id.truncate(KEPT);
            id.push_str("-z");
            id.push_str(&hash);
        }
        Self(id.into())
    }
}

fn escape(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' => into.push(char::from(byte)),
            _ => {
                let _writing_to_a_string_cannot_fail = write!(into, "-{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_of_well_known_chats() {
        let cases = [
            ("whatsapp", "49170@s.whatsapp.net", "whatsapp_49170-40s.whatsapp.net"),
            ("slack", "C024:169.2", "slack_-43024-3a169.2"),
            ("telegram", "-100123", "telegram_-2d100123"),
            ("", "", "x-x_"),
            ("..", "/etc/passwd", "x-x.._-2fetc-2fpasswd"),
            ("x-x", "", "x-2dx_"),
        ];
        for (channel, chat, id) in cases {
            assert_eq!(SessionId::of_chat(channel, chat).as_str(), id);
        }
    }

    #[test]
    fn an_id_that_is_too_long_is_hashed_and_stays_apart_from_its_like() {
        let long = "é".repeat(1_000);
        let ids = [(&*long, "a"), (&*long, "b"), ("a", &*long), ("b", &*long)].map(|(a, b)| SessionId::of_chat(a, b));
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), 4);
        assert!(ids.iter().all(|id| id.as_str().len() == 126 && SessionId::parse(id.as_str()).is_ok()), "{ids:?}");
        // An id of this form, used as a channel, yields another id.
        assert_ne!(SessionId::of_chat(ids[2].as_str().split_once('_').unwrap().1, ""), ids[2]);
    }

    /// The pair an id was made of, if it is whole in it.
    fn decoded(id: &str) -> Option<(String, String)> {
        let text = id.strip_prefix("x-x").unwrap_or(id);
        let (channel, chat) = text.split_once('_')?;
        let part = |part: &str| {
            let (mut bytes, mut rest) = (Vec::new(), part);
            while let Some(first) = rest.bytes().next() {
                let length = if first == b'-' { 3 } else { 1 };
                let (piece, behind) = rest.split_at_checked(length)?;
                bytes.push(if first == b'-' { u8::from_str_radix(&piece[1..], 16).ok()? } else { first });
                rest = behind;
            }
            String::from_utf8(bytes).ok()
        };
        Some((part(channel)?, part(chat)?))
    }

    proptest! {
        #[test]
        fn every_chat_has_an_id_of_its_own_whatever_the_file_system_folds(
            channel in "\\PC{0,12}|[a-zA-Z._-]{0,6}",
            chat in "\\PC{0,12}|[-_.xXzZ0-9@:/]{0,20}",
        ) {
            let id = SessionId::of_chat(&channel, &chat);
            prop_assert_eq!(&SessionId::parse(id.as_str()).unwrap(), &id);
            prop_assert_eq!(id.as_str().to_lowercase(), id.as_str(), "nothing to fold");
            if !id.as_str().contains("-z") {
                prop_assert_eq!(decoded(id.as_str()), Some((channel, chat)), "it can be read back, so no two are one");
            }
        }
    }
}
