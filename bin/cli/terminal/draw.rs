//! Stderr as a terminal with status lines below all other output. Drawings go through the stderr queue, so a terminal
//! stopped with Ctrl-S blocks no writer.
//!
//! The library pads a bar to the width of the terminal. The terminal echoes Ctrl-C as two characters, which would
//! wrap after a full line, and the bar above could not be erased. So a few columns stay free.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use indicatif::TermLike;

use crate::terminal::stderr;

/// Free columns at the end of a bar, for the terminal's echo.
pub(crate) const FREE: u16 = 8;

/// The size of a terminal that does not tell.
const USUAL: (u16, u16) = (80, 24);

/// Stderr, which is a terminal.
#[derive(Debug)]
pub(crate) struct Screen {
    /// How many of its columns are not used.
    free: u16,
    /// The width at which what is on the screen was drawn; 0 where nothing is.
    drawn_at: AtomicU16,
    /// Whether something was written since the last drawing.
    is_written: AtomicBool,
}

/// What erases a drawing of so many full rows after the terminal has another width, and goes to where it began: its rows
/// are one long line, which the terminal has wrapped anew. Row by row: a terminal that is told to erase its whole screen may
/// keep what was there for scrolling back.
fn reflowed(rows: usize, drawn_at: u16, width: u16) -> String {
    let cells = rows * usize::from(drawn_at);
    let now = cells.div_ceil(usize::from(width.max(1)));
    let up = if now > 1 { format!("\x1b[{}A", now - 1) } else { String::new() };
    // The library goes down and up again by the rows that it knows: there must be room for them.
    let room = if rows > 1 { format!("{}\x1b[{}A", "\n".repeat(rows - 1), rows - 1) } else { String::new() };
    let erased = format!("\x1b7{}\x1b[2K\x1b8", "\x1b[2K\x1b[B".repeat(now.saturating_sub(1)));
    format!("{up}\r{erased}{room}")
}

/// Whether the terminal wraps its lines anew when its width changes, as nearly all do.
fn reflows() -> bool {
    let is_console = std::env::var_os("TERM").is_some_and(|term| term == "linux");
    !is_console && std::env::var_os("XTERM_VERSION").is_none()
}

impl Screen {
    /// A terminal of which so many columns are not used.
    pub(crate) fn new(free: u16) -> Self {
        Self { free, drawn_at: AtomicU16::new(0), is_written: false.into() }
    }

    fn size() -> (u16, u16) {
        match rustix::termios::tcgetwinsize(io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
            Ok(_) | Err(_) => USUAL,
        }
    }

    fn write(text: &str) -> io::Result<()> {
        stderr::draw(text.to_owned());
        Ok(())
    }

    /// Moves the cursor by a number of rows or columns; by none, terminals would move it by one.
    fn go(by: usize, direction: char) -> io::Result<()> {
        if by == 0 { Ok(()) } else { Self::write(&format!("\x1b[{by}{direction}")) }
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        Self::size().0.saturating_sub(self.free).max(1)
    }

    fn height(&self) -> u16 {
        Self::size().1
    }

    fn move_cursor_up(&self, rows: usize) -> io::Result<()> {
        // Only the first movement of a drawing begins at what the last one left.
        let drawn_at = self.drawn_at.swap(0, Ordering::Relaxed);
        let width = self.width();
        if drawn_at != 0 && drawn_at != width && reflows() {
            return Self::write(&reflowed(rows + 1, drawn_at, width));
        }
        Self::go(rows, 'A')
    }

    fn move_cursor_down(&self, rows: usize) -> io::Result<()> {
        Self::go(rows, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        Self::go(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        Self::go(columns, 'D')
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        Self::write(&format!("{line}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        // A return alone draws nothing.
        if text != "\r" && !text.is_empty() {
            self.is_written.store(true, Ordering::Relaxed);
        }
        Self::write(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        Self::write("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let is_written = self.is_written.swap(false, Ordering::Relaxed);
        self.drawn_at.store(if is_written { self.width() } else { 0 }, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_found_after_the_terminal_has_wrapped_it_anew() {
        let erased = |rows: usize| format!("\r\x1b7{}\x1b[2K\x1b8", "\x1b[2K\x1b[B".repeat(rows - 1));
        assert_eq!(reflowed(1, 100, 100), erased(1));
        // Six rows of 100 columns are twelve of 50, and three of 200.
        assert_eq!(reflowed(6, 100, 50), format!("\x1b[11A{}\n\n\n\n\n\x1b[5A", erased(12)));
        assert_eq!(reflowed(6, 100, 200), format!("\x1b[2A{}\n\n\n\n\n\x1b[5A", erased(3)));
        assert_eq!(reflowed(1, 100, 40), format!("\x1b[2A{}", erased(3)));
    }
}
