//! Stderr as a terminal with status lines below all other output. Drawings go through the stderr queue, so a terminal
//! stopped with Ctrl-S blocks no writer.
//!
//! The library pads a bar to the width of the terminal. The terminal echoes Ctrl-C as two characters, which would
//! wrap after a full line, and the bar above could not be erased. So a few columns stay free.

use std::io;

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
    pub(crate) free: u16,
}

impl Screen {
    /// Columns and rows.
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
        Self::write(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        Self::write("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
