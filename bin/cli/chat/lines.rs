//! Lines of a pipe or a file: one message each, undecorated.

use std::io::BufRead;

use tokio::sync::mpsc;

use super::Input;
use crate::commands::prompt;

/// Lines read ahead of the turn they wait for.
const AHEAD: usize = 1;

/// The lines of stdin. They are read on a thread of their own, because reading blocks and cannot be called off.
pub(super) struct Lines {
    lines: mpsc::Receiver<Input>,
}

impl Lines {
    pub(super) fn start() -> Self {
        let (sender, lines) = mpsc::channel(AHEAD);
        std::thread::spawn(move || {
            let mut stdin = std::io::stdin().lock();
            while let Some(line) = read(&mut stdin) {
                if sender.blocking_send(Input::Line(line)).is_err() {
                    break;
                }
            }
        });
        Self { lines }
    }

    pub(super) async fn next(&mut self) -> Input {
        self.lines.recv().await.unwrap_or(Input::End)
    }
}

fn read(source: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    // A read error ends the input.
    prompt::next_line(source, &mut line).ok()?.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<Vec<u8>> {
        let mut source = text;
        std::iter::from_fn(|| read(&mut source)).collect()
    }

    #[test]
    fn every_line_is_one_message() {
        assert_eq!(all(b"one\r\n\ntwo"), [&b"one"[..], b"", b"two"]);
        assert_eq!(all(b"").len(), 0);
    }

    #[test]
    fn a_line_too_long_is_refused_and_the_next_one_is_whole() {
        let mut text = vec![b'a'; 3 * prompt::MAX_BYTES];
        text.extend_from_slice(b"\nnext\n");
        let lines = all(&text);
        assert_eq!(lines.len(), 2);
        assert!(prompt::checked(lines[0].clone()).is_err());
        assert_eq!(lines[1], b"next");
    }

    #[test]
    fn a_line_at_the_limit_is_taken() {
        let mut text = vec![b'a'; prompt::MAX_BYTES];
        text.extend_from_slice(b"\r\nnext");
        let lines = all(&text);
        assert_eq!(lines[0].len(), prompt::MAX_BYTES);
        assert_eq!(lines[1], b"next");
    }
}
