//! Short texts of numbers, without the formatting machinery.

/// A short text that is written from its end. Ids are made for every record and
/// call, and formatting them would cost more than storing them.
pub(crate) struct Tail {
    bytes: [u8; 44],
    start: usize,
}

impl Default for Tail {
    fn default() -> Self {
        Self { bytes: [0; 44], start: 44 }
    }
}

impl Tail {
    pub(crate) fn of(number: u64) -> Self {
        let mut text = Self::default();
        text.number(number, 1);
        text
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    /// A number of at least so many digits; two of twenty fit beside a letter.
    pub(crate) fn number(&mut self, mut number: u64, least: usize) {
        let end = self.start;
        while number > 0 || end - self.start < least {
            self.push(b'0' + (number % 10) as u8);
            number /= 10;
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        // Only ASCII was written.
        std::str::from_utf8(&self.bytes[self.start..]).unwrap_or_default()
    }
}
