//! A table of attacks with what must be left of each, and the properties that hold for any text.

use std::borrow::Cow;

use proptest::prelude::*;

use super::{Sanitiser, clean, is_shown, one_line};

/// (what it is, the text, what is shown of it)
const ATTACKS: &[(&str, &str, &str)] = &[
    ("colour", "a\x1b[31mred\x1b[0mb", "aredb"),
    ("256 colours with colons", "\x1b[38:5:196mx", "x"),
    ("clear the screen", "\x1b[2J\x1b[Hgone", "gone"),
    ("cursor up and erase the line", "ok\n\x1b[1A\x1b[2Kfake", "ok\nfake"),
    ("cursor save and restore", "\x1b7a\x1b8b", "ab"),
    ("full reset", "\x1bcx", "x"),
    ("alternate screen", "\x1b[?1049hx\x1b[?1049l", "x"),
    ("hide the cursor", "\x1b[?25lx", "x"),
    ("mouse reports", "\x1b[?1000;1006hx", "x"),
    ("bracketed paste", "\x1b[200~rm -rf ~\x1b[201~", "rm -rf ~"),
    ("device status question", "\x1b[6nx", "x"),
    ("device attributes question", "\x1b[cx\x1b[>cy", "xy"),
    ("window title, bell", "\x1b]0;pwned\x07x", "x"),
    ("window title, string terminator", "\x1b]2;pwned\x1b\\x", "x"),
    ("clipboard", "\x1b]52;c;cm0gLXJmIH4=\x07x", "x"),
    ("hyperlink keeps its text", "\x1b]8;;http://evil/\x1b\\bank\x1b]8;;\x1b\\", "bank"),
    ("notification", "\x1b]9;hello\x07x", "x"),
    ("change a palette colour", "\x1b]4;1;rgb:ff/00/00\x1b\\x", "x"),
    ("inline file of a terminal", "\x1b]1337;File=inline=1:AAAA\x07x", "x"),
    ("unterminated title ends with its line", "a\x1b]0;t never closed\nb", "a\nb"),
    ("unterminated clipboard at the end", "a\x1b]52;c;AAAA", "a"),
    ("sixel picture", "\x1bPq#0;2;0;0;0~~\x1b\\x", "x"),
    ("request for a setting", "\x1bP$q\"p\x1b\\x", "x"),
    ("unterminated device string ends with its line", "\x1bP1$r0m\nb", "\nb"),
    ("application command", "\x1b_Gf=100;AAAA\x1b\\x", "x"),
    ("privacy message", "\x1b^hidden\x1b\\x", "x"),
    ("start of string", "\x1bXhidden\x1b\\x", "x"),
    ("unterminated application command", "\x1b_hidden\nb", "\nb"),
    ("C1 control sequence introducer as UTF-8", "\u{9b}31mx", "31mx"),
    ("C1 operating system command as UTF-8", "\u{9d}0;t\u{9c}x", "0;tx"),
    ("C1 device control as UTF-8", "\u{90}q\u{9c}x", "qx"),
    ("C1 next line", "a\u{85}b", "ab"),
    ("carriage return overwrites", "safe command\rrm -rf ~", "safe commandrm -rf ~"),
    ("carriage return before a newline", "a\r\nb", "a\nb"),
    ("backspaces overwrite", "good\x08\x08\x08\x08evil", "goodevil"),
    ("delete", "a\x7fb", "ab"),
    ("bell", "a\x07b", "ab"),
    ("vertical tab and form feed", "a\x0bb\x0cc", "abc"),
    ("shift out to the drawing set", "\x0elqk\x0f", "lqk"),
    ("character set designation", "\x1b(0lqk\x1b(B", "lqk"),
    ("enquiry", "\x05x", "x"),
    ("NUL", "a\0b", "ab"),
    ("cancel inside a sequence", "\x1b[31\x18x", "x"),
    ("substitute inside a sequence", "\x1b]0;t\x1ax", "x"),
    ("escape inside a sequence", "\x1b[\x1b[31mx", "x"),
    ("escape at the end", "x\x1b", "x"),
    ("escape before a newline", "x\x1b\n[31my", "x\n[31my"),
    ("newline inside a control sequence ends it", "x\x1b[3\n1my", "x\n1my"),
    ("right-to-left override", "file\u{202e}txt.exe", "filetxt.exe"),
    ("isolates", "\u{2066}a\u{2069}\u{2067}b\u{2068}", "ab"),
    ("marks and embeddings", "\u{200e}a\u{200f}\u{202a}b\u{202b}c\u{202c}\u{061c}", "abc"),
    ("tag characters", "hi\u{e0001}\u{e0041}\u{e0042}\u{e007f}", "hi"),
    ("zero width space, word joiner, byte order mark", "a\u{200b}b\u{2060}c\u{feff}d", "abcd"),
    ("soft hyphen", "pass\u{ad}word", "password"),
    ("interlinear annotation", "\u{fff9}a\u{fffa}b\u{fffb}", "ab"),
    ("line and paragraph separators", "a\u{2028}b\u{2029}c", "abc"),
    ("private use", "a\u{e000}\u{f8ff}\u{100000}b", "ab"),
    ("non-character", "a\u{ffff}\u{fdd0}b", "ab"),
    ("clipboard question", "\x1b]52;c;?\x1b\\x", "x"),
    ("title question", "\x1b[21tx", "x"),
    ("icon name", "\x1b]1;icon\x07x", "x"),
    ("scroll region", "\x1b[1;2rx", "x"),
    ("repeat a character", "a\x1b[9999bx", "ax"),
    ("insert and delete lines", "\x1b[5Lx\x1b[5My", "xy"),
    ("soft reset", "\x1b[!px", "x"),
    ("key modes", "\x1b[>4;2m\x1b[>1ux", "x"),
    ("application keypad", "\x1b=x\x1b>y", "xy"),
    ("screen alignment test", "\x1b#8x", "x"),
    ("shell integration mark", "\x1b]133;A\x07x", "x"),
    ("title inside a device string", "\x1bP\x1b]0;t\x07\x1b\\x", "x"),
    ("C1 string terminator alone", "a\u{9c}b", "ab"),
    ("C1 application command, unterminated", "\u{9f}hidden\nx", "hidden\nx"),
    (
        "a thousand parameters",
        "\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1Hx",
        "x",
    ),
    ("invisible operators", "f\u{2061}(x)\u{2062}", "f(x)"),
];

/// Texts that must pass untouched.
const HARMLESS: &[&str] = &[
    "",
    "plain text, 1 + 1 = 2\n",
    "\tindented\n\n",
    "Grüße, naïve café, e\u{301}",
    "漢字 かな 한글",
    "שלום עולם, مرحبا",
    "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f} 🏳\u{fe0f}\u{200d}🌈",
    "می\u{200c}خواهم",
    "x\u{fffd}y",
    "[31m is text without its escape",
    "— “quotes” … €",
];

fn in_pieces(text: &str, sizes: &[usize]) -> String {
    let mut sanitiser = Sanitiser::new();
    let mut shown = String::new();
    let mut piece = String::new();
    let mut sizes = sizes.iter().copied().cycle();
    let mut left = sizes.next().unwrap_or(1);
    for character in text.chars() {
        piece.push(character);
        left = left.saturating_sub(1);
        if left == 0 {
            shown += &sanitiser.push(&piece);
            piece.clear();
            left = sizes.next().unwrap_or(1);
        }
    }
    shown + &sanitiser.push(&piece)
}

#[test]
fn g5_every_attack_leaves_only_its_text() {
    assert!(ATTACKS.len() >= 60, "{}", ATTACKS.len());
    for (name, text, expected) in ATTACKS {
        assert_eq!(clean(text), *expected, "{name}, whole");
        assert_eq!(in_pieces(text, &[1]), *expected, "{name}, one character at a time");
        assert_eq!(in_pieces(text, &[2, 3]), *expected, "{name}, in twos and threes");
    }
}

#[test]
fn g5_harmless_text_is_borrowed_unchanged() {
    for text in HARMLESS {
        assert!(matches!(clean(text), Cow::Borrowed(same) if same == *text), "{text:?}");
        assert_eq!(in_pieces(text, &[1]), *text);
    }
}

#[test]
fn g5_an_attack_in_front_does_not_harm_the_next_line() {
    for (name, text, expected) in ATTACKS {
        let shown = clean(&format!("{text}\nnext line")).into_owned();
        assert_eq!(shown, format!("{expected}\nnext line"), "{name}");
    }
}

/// Text made of ordinary characters, attacks and single dangerous characters.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => ".{0,8}",
        2 => any::<char>().prop_map(String::from),
        3 => (0..ATTACKS.len()).prop_map(|index| ATTACKS[index].1.to_owned()),
        2 => (0u8..0x20).prop_map(|byte| char::from(byte).to_string()),
        1 => (0x80u8..0xa0).prop_map(|byte| char::from(byte).to_string()),
        1 => "[\\x1b\\[\\]P_^X;0-9m\\\\\\x07\\n]{0,12}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn g5_nothing_dangerous_is_left(text in hostile()) {
        for character in clean(&text).chars() {
            prop_assert!(!character.is_control() || matches!(character, '\n' | '\t'), "control {:?}", character);
            prop_assert!(!matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}' | '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{ad}'
                | '\u{2028}' | '\u{2029}'), "invisible {:?}", character);
        }
    }

    #[test]
    fn g5_cleaning_twice_changes_nothing(text in hostile()) {
        let once = clean(&text).into_owned();
        prop_assert_eq!(clean(&once).into_owned(), once);
    }

    #[test]
    fn g5_the_cuts_of_a_stream_change_nothing(text in hostile(), sizes in prop::collection::vec(1usize..9, 1..6)) {
        prop_assert_eq!(in_pieces(&text, &sizes), clean(&text).into_owned());
    }

    #[test]
    fn g5_lines_are_kept(text in hostile()) {
        prop_assert_eq!(clean(&text).matches('\n').count(), text.matches('\n').count());
    }

    #[test]
    fn g5_printable_text_is_kept(text in any::<String>()) {
        let printable: String = text.chars().filter(|&character| is_shown(character)).collect();
        prop_assert_eq!(clean(&printable), printable.as_str());
    }
}

#[test]
fn a_text_within_a_line_begins_no_line_of_its_own() {
    let shown = one_line("a\n\tb\r\u{1b}[2K\u{202e}c\u{2028}d");
    assert_eq!(shown, "a\\u{a}\\u{9}b\\u{d}\\u{1b}[2K\\u{202e}c\\u{2028}d");
    assert_eq!(one_line("to:          x"), "to:          x");
    assert!(!one_line(&format!("a{}b", " ".repeat(80))).contains(&" ".repeat(20)));
    let (one, other) = (one_line(&format!("{}1", "x".repeat(5_000))), one_line(&format!("{}2", "x".repeat(5_000))));
    assert!(one != other && one.chars().count() < 4_100 && one.contains("1001 more characters"), "{one}");
}
