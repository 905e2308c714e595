//! A text with its escapes resolved: those of JSON, HTML and URLs.

/// One reading of a text.
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    /// Where in the text each byte begins; the last one is the end of the text.
    pub(super) from: Vec<usize>,
}

impl View {
    pub(super) fn of(text: &str) -> Self {
        Self { bytes: text.into(), from: (0..=text.len()).collect() }
    }

    /// The reading with its escapes resolved; `None` when it has none.
    pub(super) fn unescaped(&self) -> Option<Self> {
        let (mut bytes, mut from) = (Vec::with_capacity(self.bytes.len()), Vec::with_capacity(self.from.len()));
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            let length = match escape(&self.bytes[at..]) {
                Some((resolved, length)) => {
                    bytes.extend(resolved);
                    length
                }
                None => {
                    bytes.push(*byte);
                    1
                }
            };
            from.resize(bytes.len(), self.from[at]);
            at += length;
        }
        from.push(self.from[at]);
        // Every escape is longer than its character.
        (bytes.len() < self.bytes.len()).then_some(Self { bytes, from })
    }
}

/// Decodes an escape at the beginning, and returns its length.
fn escape(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let hex = |from: usize, to: usize| number(rest.get(from..to)?, 16);
    let character = |code: u32, length: usize| Some((char::from_u32(code)?.to_string().into_bytes(), length));
    match rest {
        // A byte, where the others stand for a character.
        [b'%', ..] => Some((vec![u8::try_from(hex(1, 3)?).ok()?], 3)),
        [b'\\', b'u', ..] => character(hex(2, 6)?, 6),
        [b'\\', b'x', ..] => character(hex(2, 4)?, 4),
        [b'\\', mark @ (b'"' | b'\\' | b'/' | b'\''), ..] => Some((vec![*mark], 2)),
        [b'&', ..] => {
            let end = rest.iter().take(10).position(|byte| *byte == b';')?;
            let code = match &rest[1..end] {
                b"quot" => u32::from(b'"'),
                b"amp" => u32::from(b'&'),
                b"lt" => u32::from(b'<'),
                b"gt" => u32::from(b'>'),
                b"apos" => u32::from(b'\''),
                [b'#', b'x' | b'X', digits @ ..] => number(digits, 16)?,
                [b'#', digits @ ..] => number(digits, 10)?,
                _ => return None,
            };
            character(code, end + 1)
        }
        _ => None,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u32::from_str_radix(digits, radix).ok()
}
