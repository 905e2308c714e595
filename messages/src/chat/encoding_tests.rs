use super::*;
use proptest::prelude::*;

const ALL: [TextEncoding; 4] =
    [TextEncoding::Utf8, TextEncoding::Utf16Le, TextEncoding::Utf16Be, TextEncoding::Windows1252];

#[test]
fn a_text_is_decoded_by_its_mark_and_else_by_its_bytes() {
    for (bytes, text, encoding) in [
        (&b"caf\xc3\xa9"[..], "café", TextEncoding::Utf8),
        (b"\xef\xbb\xbfx", "\u{feff}x", TextEncoding::Utf8),
        (b"\xff\xfeh\0\xe9\0\n\0", "\u{feff}hé\n", TextEncoding::Utf16Le),
        (b"\xfe\xff\0h\xd8\x3d\xde\x00", "\u{feff}h😀", TextEncoding::Utf16Be),
        (b"caf\xe9\r\n", "café\r\n", TextEncoding::Windows1252),
        (b"\x93quoted\x94 costs \x80 5", "“quoted” costs € 5", TextEncoding::Windows1252),
    ] {
        assert_eq!(TextEncoding::decode(bytes), Some((text.into(), encoding)), "{encoding}");
        assert_eq!(encoding.encode(text).as_deref(), Ok(bytes), "{encoding}");
    }
}

#[test]
fn what_is_no_text_is_told_apart() {
    for bytes in [
        &b"\xff"[..],
        // A picture, a number, a byte that Windows-1252 does not have.
        b"\x89PNG\r\n\x1a\n",
        b"plain but for \x01 and \xe9",
        b"plain but for \x81",
        // Half of a unit, half of a pair, and UTF-32.
        b"\xff\xfeh",
        b"\xff\xfeh\0\x3d\xd8",
        b"\xff\xfe\0\0h\0\0\0",
        // UTF-8 with an end that is cut off, and Russian in KOI8-R.
        b"caf\xc3\xa9 and caf\xc3",
        b"\xf0\xd2\xc9\xd7\xc5\xd4",
    ] {
        assert_eq!(TextEncoding::decode(bytes), None, "{bytes:?}");
    }
}

#[test]
fn a_character_that_an_encoding_does_not_have_is_named() {
    assert_eq!(TextEncoding::Windows1252.encode("a € and a ☃ and a ☂"), Err('☃'));
    assert_eq!(TextEncoding::Windows1252.encode("\u{81}"), Err('\u{81}'));
    assert_eq!(TextEncoding::Utf16Le.encode("☃").as_deref(), Ok(&b"\xff\xfe\x03\x26"[..]));
}

#[test]
fn a_text_that_would_be_read_as_another_one_is_not_encoded_exactly() {
    for (encoding, text, expected) in [
        (TextEncoding::Windows1252, "the é", Ok(&b"the \xe9"[..])),
        (TextEncoding::Windows1252, "ascii", Ok(b"ascii")),
        (TextEncoding::Windows1252, "the ☃", Err(Some('☃'))),
        (TextEncoding::Windows1252, "Größe", Err(None)),
        (TextEncoding::Windows1252, "Ã©", Err(None)),
        (TextEncoding::Utf16Le, "é", Ok(b"\xff\xfe\xe9\0")),
        (TextEncoding::Utf16Be, "\u{feff}é", Ok(b"\xfe\xff\0\xe9")),
        (TextEncoding::Utf16Be, "a\0", Err(None)),
        (TextEncoding::Utf8, "a\0Größe", Ok("a\0Größe".as_bytes())),
    ] {
        assert_eq!(encoding.encode_exactly(text).as_deref().map_err(|why| *why), expected, "{encoding}: {text:?}");
    }
}

#[test]
fn windows_1252_has_these_characters() {
    let assigned: Vec<u8> = (0xa0..=0xff).chain((0x80..=0x9f).filter(|byte| char_of(*byte).is_some())).collect();
    let text: String = assigned.iter().filter_map(|byte| char_of(*byte)).collect();
    assert_eq!(TextEncoding::Windows1252.encode(&text).as_deref(), Ok(&assigned[..]));
    assert!(text.starts_with("\u{a0}¡¢£¤¥") && text.ends_with("ÿ€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"), "{text}");
    assert_eq!([0x81, 0x8d, 0x8f, 0x90, 0x9d].map(char_of), [None; 5]);
}

#[test]
fn an_encoding_has_a_name_in_records() {
    for encoding in ALL {
        let name = serde_json::to_value(encoding).unwrap();
        assert_eq!(name, encoding.to_string().to_lowercase());
        assert_eq!(serde_json::from_value::<TextEncoding>(name).unwrap(), encoding);
    }
}

proptest! {
    #[test]
    fn whatever_is_decoded_is_encoded_as_it_was(bytes in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        proptest::collection::vec(prop_oneof![9 => 0x20_u8..0x7f, 1 => 0x80_u8..], 0..64),
        (any::<bool>(), ".{0,32}").prop_map(|(is_little, text)| {
            let encoding = if is_little { TextEncoding::Utf16Le } else { TextEncoding::Utf16Be };
            encoding.encode(&text).unwrap().into_owned()
        }),
    ]) {
        if let Some((text, encoding)) = TextEncoding::decode(&bytes) {
            prop_assert_eq!(&*encoding.encode(&text).unwrap(), &*bytes);
        }
    }
}
