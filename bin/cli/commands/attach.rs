//! `--attach`: files of a message. Images and sounds are sent as such, texts as documents.
//!
//! The type is detected from the first bytes, and otherwise from the name, so a text with an image's name is not sent
//! as an image.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bob::model::ContentPart;

use crate::exit::Failure;

/// The largest file that is taken, bytes.
const MAX_FILE_BYTES: usize = 10 << 20;

/// The largest text that is taken, bytes: it goes with the message.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// One part for each file; errors name it behind `how` it was given.
pub(crate) fn parts(files: &[impl AsRef<Path>], how: &str) -> Result<Vec<ContentPart>, Failure> {
    files.iter().map(|file| part(file.as_ref(), how)).collect()
}

fn part(path: &Path, how: &str) -> Result<ContentPart, Failure> {
    let refuse = |why: &str| Failure::usage(format!("{how}{}: {why}", path.display()));
    // Checked before it is opened, since opening a pipe waits for a writer.
    let kind_of_file = std::fs::metadata(path).map_err(|error| refuse(&error.to_string()))?;
    if !kind_of_file.is_file() {
        return Err(refuse("it is not a regular file"));
    }
    let file = File::open(path).map_err(|error| refuse(&error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| refuse(&error.to_string()))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(refuse(&format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    if let Some((mime_type, is_image)) = kind(&bytes) {
        let (mime_type, data) = (mime_type.to_owned(), base64(&bytes));
        return Ok(match is_image {
            true => ContentPart::Image { mime_type, data },
            false => ContentPart::Audio { mime_type, data },
        });
    }
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(refuse(&format!("a text has at most {MAX_TEXT_BYTES} bytes")));
    }
    let neither = |_| refuse("it is neither a PNG, JPEG, GIF or WebP image, nor a WAV or MP3 sound, nor UTF-8 text");
    let text = String::from_utf8(bytes).map_err(neither)?;
    let real = path.canonicalize().unwrap_or_else(|_gone| path.to_owned());
    let uri = format!("file://{}", real.display());
    let mime_type = Some(text_type(path).to_owned());
    Ok(ContentPart::Resource { uri, mime_type, text: Some(text), blob: None })
}

/// Detects the media type and whether it is an image, from the first bytes.
fn kind(bytes: &[u8]) -> Option<(&'static str, bool)> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(("image/png", true)),
        [0xff, 0xd8, 0xff, ..] => Some(("image/jpeg", true)),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(("image/gif", true)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(("image/webp", true)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(("audio/wav", false)),
        [b'I', b'D', b'3', ..] | [0xff, 0xfb | 0xf3 | 0xf2, ..] => Some(("audio/mpeg", false)),
        _ => None,
    }
}

fn text_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => "text/markdown",
        Some("json") => "application/json",
        Some("html") => "text/html",
        Some("csv") => "text/csv",
        Some(_) | None => "text/plain",
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let is_there = digit <= three.len();
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if is_there { char::from(DIGITS[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let refused = parts(&[&pipe], "--attach ").unwrap_err();
        assert!(refused.message.ends_with("it is not a regular file"), "{refused}");
    }

    #[test]
    fn base64_is_as_everybody_writes_it() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd, 0xfb]), "//79+w==");
    }

    #[test]
    fn what_a_file_is_its_first_bytes_say() {
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n..."), Some(("image/png", true)));
        assert_eq!(kind(b"RIFF\0\0\0\0WAVEfmt "), Some(("audio/wav", false)));
        assert_eq!(kind(b"%PDF-1.7"), None);
        assert_eq!(kind(b""), None);
    }
}
