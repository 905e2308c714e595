//! The write-ahead log as a file, as far as is needed to see whose it is.
//!
//! SQLite takes any log that lies beside a database for its own: nothing in the format binds the two. So each transaction of
//! this program writes the row with the identity of the database, whose page is thereby in each log. A log without it
//! came from elsewhere.
//!
//! What counts is what SQLite would read: the frames up to the first whose salt or sum is wrong
//! (<https://www.sqlite.org/fileformat2.html#the_write_ahead_log>).

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The last bit of the first word says in which order the words of the sums are.
const MAGIC: u32 = 0x377f_0682;

/// Whether a log has no transaction, or one with these bytes in it. One that is not there has none.
pub(super) fn has_none_or(log: &Path, wanted: &[u8]) -> io::Result<bool> {
    match File::open(log) {
        Ok(file) => read(BufReader::new(file), wanted),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn read(mut log: impl Read, wanted: &[u8]) -> io::Result<bool> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(true);
    }
    let is_big_endian = match word(&header, 0) ^ MAGIC {
        0 => false,
        1 => true,
        _ => return Ok(true),
    };
    let page = word(&header, 2) as usize;
    let mut sum = Sum { is_big_endian, words: (0, 0) };
    sum.add(&header[..HEADER - 8]);
    if !page.is_power_of_two() || !(512..=65_536).contains(&page) || !sum.is(&header[HEADER - 8..]) {
        return Ok(true);
    }
    let salts = (word(&header, 4), word(&header, 5));
    let (mut frame, mut content) = ([0; FRAME_HEADER], vec![0; page]);
    let (mut is_there, mut is_committed) = (false, false);
    while fill(&mut log, &mut frame)? && fill(&mut log, &mut content)? {
        sum.add(&frame[..8]);
        sum.add(&content);
        let is_valid = word(&frame, 0) != 0 && (word(&frame, 2), word(&frame, 3)) == salts && sum.is(&frame[16..]);
        if !is_valid {
            break;
        }
        is_there |= content.windows(wanted.len()).any(|bytes| bytes == wanted);
        // The last frame of a transaction has the size of the database.
        if word(&frame, 1) != 0 {
            is_committed = true;
            if is_there {
                return Ok(true);
            }
        }
    }
    Ok(!is_committed)
}

/// Whether there were as many bytes.
fn fill(log: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], nth: usize) -> u32 {
    bytes.chunks_exact(4).nth(nth).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The sum of a log from its beginning on.
struct Sum {
    is_big_endian: bool,
    words: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks_exact(8) {
            let (first, second) = (word(pair, 0), word(pair, 1));
            let (first, second) =
                if self.is_big_endian { (first, second) } else { (first.swap_bytes(), second.swap_bytes()) };
            self.words.0 = self.words.0.wrapping_add(first).wrapping_add(self.words.1);
            self.words.1 = self.words.1.wrapping_add(second).wrapping_add(self.words.0);
        }
    }

    fn is(&self, written: &[u8]) -> bool {
        self.words == (word(written, 0), word(written, 1))
    }
}
