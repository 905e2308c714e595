//! How a secret may be spelled, and how a text may be read.
//!
//! A text is read as it is and with its escapes resolved, twice at most; each byte knows where in the text it comes
//! from. A secret is looked for in each reading, as it is and in the spellings that are no escapes.

use secrecy::{ExposeSecret, SecretSlice};
use std::ops::Range;

/// One reading of a text.
pub(super) struct View {
    exact: Vec<u8>,
    lowered: Vec<u8>,
    /// Where each byte comes from.
    from: Vec<Range<usize>>,
}

/// The readings of a text that differ from each other.
pub(super) fn views(text: &str) -> Vec<View> {
    let plain: Vec<(u8, Range<usize>)> = text.bytes().enumerate().map(|(at, byte)| (byte, at..at + 1)).collect();
    let once = unescaped(&plain);
    let twice = once.as_ref().and_then(|once| unescaped(once));
    [Some(plain), once, twice].into_iter().flatten().map(View::of).collect()
}

impl View {
    fn of(read: Vec<(u8, Range<usize>)>) -> Self {
        let (exact, from): (Vec<u8>, Vec<_>) = read.into_iter().unzip();
        Self { lowered: exact.to_ascii_lowercase(), exact, from }
    }
}

/// The spellings of one secret.
pub(super) struct Spellings {
    /// In small letters, for those in which case means nothing.
    any_case: Vec<SecretSlice<u8>>,
    /// In which it does.
    exact: Vec<SecretSlice<u8>>,
}

impl Spellings {
    pub(super) fn of(word: &str) -> Self {
        let bytes = word.as_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let any_case = [
            word.to_owned(),
            hex,
            numbers.join(", "),
            numbers.join(","),
            numbers.join(" "),
            word.chars().rev().collect(),
        ];
        let letters = [*b"+/", *b"-_"];
        let base64 = letters.iter().flat_map(|last| (0..3).map(|before| base64(bytes, before, *last)));
        Self {
            any_case: any_case.into_iter().map(|text| kept(text.to_ascii_lowercase().into_bytes())).collect(),
            exact: base64.filter(|letters| letters.len() >= 6).map(kept).collect(),
        }
    }

    /// Whether both are of the same word.
    pub(super) fn is(&self, other: &Self) -> bool {
        let same = |one: &SecretSlice<u8>, other: &SecretSlice<u8>| one.expose_secret() == other.expose_secret();
        // As hex among them, in which small letters are others than large ones.
        self.any_case.len() == other.any_case.len()
            && self.any_case.iter().zip(&other.any_case).all(|(one, other)| same(one, other))
    }

    /// Adds where the secret stands in a reading of a text.
    pub(super) fn find(&self, view: &View, found: &mut Vec<Range<usize>>) {
        let readings = [(&self.any_case, &view.lowered), (&self.exact, &view.exact)];
        for (spellings, text) in readings {
            for spelling in spellings {
                all(text, spelling.expose_secret(), |at, end| {
                    found.push(view.from[at].start..view.from[end - 1].end);
                });
            }
        }
    }
}

fn kept(bytes: Vec<u8>) -> SecretSlice<u8> {
    bytes.into()
}

/// Calls back for each place where `part` stands.
fn all(text: &[u8], part: &[u8], mut tell: impl FnMut(usize, usize)) {
    let Some(first) = part.first() else { return };
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.iter().position(|byte| byte == first)) {
        at += next;
        if text[at..].starts_with(part) {
            tell(at, at + part.len());
        }
        at += 1;
    }
}

/// The letters of base64 that follow from these bytes alone when so many others stand before them.
fn base64(bytes: &[u8], before: usize, last: [u8; 2]) -> Vec<u8> {
    let bit = |at: usize| at.checked_sub(before * 8).and_then(|at| Some(bytes.get(at / 8)? >> (7 - at % 8) & 1));
    let letter = |number: u8| match number {
        0..=25 => b'A' + number,
        26..=51 => b'a' + number - 26,
        52..=61 => b'0' + number - 52,
        _ => last[usize::from(number == 63)],
    };
    let letters = (before + bytes.len()) * 8 / 6;
    let six = |at: usize| (0..6).try_fold(0, |number, next| Some(number << 1 | bit(at * 6 + next)?));
    (0..letters).filter_map(six).map(letter).collect()
}

/// The same with its escapes resolved; `None` when it has none.
fn unescaped(read: &[(u8, Range<usize>)]) -> Option<Vec<(u8, Range<usize>)>> {
    let mut resolved = Vec::with_capacity(read.len());
    let (mut at, mut any) = (0, false);
    while at < read.len() {
        if !matches!(read[at].0, b'%' | b'\\' | b'&') {
            resolved.push(read[at].clone());
            at += 1;
            continue;
        }
        let rest: Vec<u8> = read[at..].iter().take(8).map(|(byte, _)| *byte).collect();
        let (character, length) = escape(&rest).unwrap_or((char::from(0), 1));
        if length == 1 {
            resolved.push(read[at].clone());
        } else {
            any = true;
            let span = read[at].1.start..read[at + length - 1].1.end;
            let mut buffer = [0; 4];
            // A percent sign stands for a byte, the others for a character.
            let bytes = match rest[0] {
                b'%' => &[u32::from(character).to_le_bytes()[0]][..],
                _ => character.encode_utf8(&mut buffer).as_bytes(),
            };
            resolved.extend(bytes.iter().map(|byte| (*byte, span.clone())));
        }
        at += length;
    }
    any.then_some(resolved)
}

/// What the escape at the beginning stands for, and how many bytes it has.
fn escape(rest: &[u8]) -> Option<(char, usize)> {
    let hex = |range: Range<usize>| {
        let digits = std::str::from_utf8(rest.get(range)?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    match rest {
        [b'%', ..] => Some((char::from_u32(hex(1..3)?)?, 3)),
        [b'\\', b'u', ..] => Some((char::from_u32(hex(2..6)?)?, 6)),
        [b'\\', b'x', ..] => Some((char::from_u32(hex(2..4)?)?, 4)),
        [b'\\', mark @ (b'"' | b'\\' | b'/' | b'\''), ..] => Some((char::from(*mark), 2)),
        [b'&', ..] => entity(rest),
        _ => None,
    }
}

fn entity(rest: &[u8]) -> Option<(char, usize)> {
    const NAMED: [(&str, char); 5] = [("&quot;", '"'), ("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&apos;", '\'')];
    if let Some((name, character)) = NAMED.iter().find(|(name, _)| rest.starts_with(name.as_bytes())) {
        return Some((*character, name.len()));
    }
    let end = rest.iter().position(|byte| *byte == b';')?;
    let inner = std::str::from_utf8(rest.get(1..end)?).ok()?.strip_prefix('#')?;
    let number = match inner.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => inner.parse().ok()?,
    };
    Some((char::from_u32(number)?, end + 1))
}
