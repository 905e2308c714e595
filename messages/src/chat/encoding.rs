//! How the text of a file is encoded.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The mark at the beginning of a text in UTF-16, and in some files of UTF-8. It is a character of the decoded text, so that
/// it is there when the text is encoded again.
const BYTE_ORDER_MARK: u16 = 0xfeff;

/// Of a text without a mark that is not UTF-8, at most one byte in so many is outside ASCII. More is a binary file, or a text
/// in an encoding for another script.
const MOST_OUTSIDE_ASCII: usize = 3;

/// An encoding of text files, of which a text is decoded without loss and encoded as it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextEncoding {
    /// UTF-8, also with a byte order mark.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// UTF-16, little-endian, with a byte order mark.
    #[serde(rename = "utf-16le")]
    Utf16Le,
    /// UTF-16, big-endian, with a byte order mark.
    #[serde(rename = "utf-16be")]
    Utf16Be,
    /// Windows-1252, which has all printable characters of Latin-1.
    #[serde(rename = "windows-1252")]
    Windows1252,
}

/// What Windows-1252 has from 0x80 to 0x9f, where Latin-1 has control characters; 0 where it has nothing.
const WINDOWS_1252: [char; 32] = [
    '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0', '‘', '’', '“', '”', '•',
    '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
];

impl TextEncoding {
    /// Whether it is UTF-8.
    pub fn is_utf8(&self) -> bool {
        *self == Self::Utf8
    }

    /// The UTF-16 that begins with this byte order mark.
    pub fn of_mark(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xff, 0xfe, ..] => Some(Self::Utf16Le),
            [0xfe, 0xff, ..] => Some(Self::Utf16Be),
            _ => None,
        }
    }

    /// The text of a file, and its encoding; `None` if it is not text. Encoding the text again gives these bytes.
    ///
    /// What has no mark of UTF-16 and is not UTF-8 is Windows-1252 if it has no control characters, mostly ASCII, and nothing
    /// that looks like UTF-8.
    pub fn decode(bytes: &[u8]) -> Option<(Cow<'_, str>, Self)> {
        if let Some(encoding) = Self::of_mark(bytes) {
            let text = encoding.units(bytes)?;
            return (!text.contains('\0')).then_some((text.into(), encoding));
        }
        if let Ok(text) = str::from_utf8(bytes) {
            return Some((text.into(), Self::Utf8));
        }
        let is_plain = |byte: &u8| !byte.is_ascii_control() || b"\t\n\x0c\r\x1b".contains(byte);
        let outside = bytes.iter().filter(|byte| !byte.is_ascii()).count();
        let is_damaged_utf8 = bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii());
        if outside * MOST_OUTSIDE_ASCII > bytes.len() || is_damaged_utf8 || !bytes.iter().all(is_plain) {
            return None;
        }
        let text: Option<String> = bytes.iter().map(|byte| char_of(*byte)).collect();
        text.map(|text| (text.into(), Self::Windows1252))
    }

    fn units(self, bytes: &[u8]) -> Option<String> {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let unit = |pair: &[u8; 2]| match self {
            Self::Utf16Be => u16::from_be_bytes(*pair),
            Self::Utf16Le | Self::Utf8 | Self::Windows1252 => u16::from_le_bytes(*pair),
        };
        let units = pairs.iter().map(unit);
        rest.is_empty().then(|| char::decode_utf16(units).collect::<Result<String, _>>().ok()).flatten()
    }

    /// The bytes of a text in this encoding. UTF-16 begins with a byte order mark, which is added if the text has none.
    ///
    /// # Errors
    /// The first character that the encoding does not have.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, char> {
        let unit = match self {
            Self::Utf8 => return Ok(text.as_bytes().into()),
            Self::Windows1252 => return windows_1252(text).map(Cow::Owned),
            Self::Utf16Le => u16::to_le_bytes,
            Self::Utf16Be => u16::to_be_bytes,
        };
        let has_mark = text.encode_utf16().next() == Some(BYTE_ORDER_MARK);
        let mark = (!has_mark).then_some(BYTE_ORDER_MARK);
        Ok(mark.into_iter().chain(text.encode_utf16()).flat_map(unit).collect())
    }

    /// The bytes of a text in this encoding, if [`decode`](Self::decode) has this text of them, but for a byte order mark.
    ///
    /// # Errors
    /// The first character that the encoding does not have; `None` where the bytes would be read as another text, or as none.
    pub fn encode_exactly(self, text: &str) -> Result<Cow<'_, [u8]>, Option<char>> {
        fn unmarked(text: &str) -> &str {
            text.strip_prefix('\u{feff}').unwrap_or(text)
        }
        let bytes = self.encode(text).map_err(Some)?;
        let is_read = self.is_utf8() || Self::decode(&bytes).is_some_and(|(read, _)| unmarked(&read) == unmarked(text));
        if is_read { Ok(bytes) } else { Err(None) }
    }
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Windows1252 => "Windows-1252",
        })
    }
}

/// A character of Windows-1252; `None` for the five bytes that have none.
fn char_of(byte: u8) -> Option<char> {
    match byte {
        0x80..=0x9f => Some(WINDOWS_1252[usize::from(byte - 0x80)]).filter(|c| *c != '\0'),
        of_latin_1 => Some(of_latin_1.into()),
    }
}

fn windows_1252(text: &str) -> Result<Vec<u8>, char> {
    let byte = |c: char| match u8::try_from(c) {
        Ok(byte @ (..0x80 | 0xa0..)) => Ok(byte),
        Ok(_) | Err(_) => {
            let found = (0x80..=0x9f).find(|byte| char_of(*byte) == Some(c));
            found.ok_or(c)
        }
    };
    text.chars().map(byte).collect()
}

#[cfg(test)]
#[path = "encoding_tests.rs"]
mod tests;
