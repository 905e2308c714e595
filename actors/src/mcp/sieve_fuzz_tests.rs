//! Compares the sieve with a second, naive implementation on arbitrary bytes. The first byte of an input says in pieces of
//! how many bytes the others are read; `__fuzz__` has output of servers behind it.

use super::*;

/// A line may be so long here.
const LIMIT: usize = 256;

/// The filtered output of these bytes, read in pieces of this size.
fn sifted(read: &[u8], piece: usize) -> Vec<u8> {
    let (mut line, mut sifted) = (Line::new(LIMIT), Vec::new());
    read.chunks(piece.max(1)).for_each(|piece| line.sift(piece, &mut sifted));
    sifted
}

/// How deep the deepest value of a line lies, counted byte by byte.
fn depth(line: &[u8]) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in line {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn judge(read: &[u8], piece: usize) {
    let whole = sifted(read, read.len());
    assert_eq!(whole, sifted(read, piece), "the pieces it is read in change what passes");
    let lines: Vec<&[u8]> = read.split(|byte| *byte == b'\n').collect();
    if lines.iter().all(|line| line.len() <= LIMIT && depth(line) <= DEEPEST) {
        assert_eq!(whole, read, "what is within the bounds passes byte for byte");
    }
    for line in whole.split(|byte| *byte == b'\n') {
        // The next reader drops it because of one blank more.
        let is_bounded = line.len() <= LIMIT + 1 || serde_json::from_slice::<Value>(line).is_ok();
        assert!(is_bounded && depth(line) <= DEEPEST, "{:?}", String::from_utf8_lossy(line));
    }
    // A dropped line leaves an error and a value that lies too deep leaves `null`.
    assert!(whole.len() <= 4 * read.len() + 4 * LIMIT, "{} bytes of {}", whole.len(), read.len());
}

#[test]
fn fuzz_lines_of_a_tool_server_pass_the_sieve() {
    bolero::check!(name = "sieve").with_iterations(2_000).with_max_len(64).for_each(|input: &[u8]| {
        let Some((piece, bytes)) = input.split_first() else { return };
        judge(bytes, usize::from(*piece));
        // Brackets, strings and line ends, which random bytes rarely contain.
        let words: [&[u8]; 12] = [
            b"{",
            b"[",
            b"}",
            b"]",
            b"\"",
            b"\\",
            b"\n",
            b"\"id\":7,",
            b"\"result\":",
            b"\"error\":{",
            b"0123456789abcdef",
            b",",
        ];
        let woven: Vec<u8> = bytes
            .iter()
            .flat_map(|byte| words[usize::from(*byte) % words.len()].repeat(1 + usize::from(*byte) / 64))
            .collect();
        judge(&woven, usize::from(*piece));
        // And deep.
        judge(&[b"[".repeat(usize::from(*piece)), woven].concat(), 7);
    });
}
