//! Whatever a provider writes there is either understood or ignored.

use super::*;

const NOW: u64 = 784_111_777;

#[test]
fn l2_seconds_fractions_and_dates_are_understood() {
    for (text, ms) in [
        ("0", 0),
        ("7", 7_000),
        ("1.5", 1_500),
        ("1382400", 1_382_400_000),
        ("Sun, 06 Nov 1994 08:49:47 GMT", 10_000),
        ("Sun, 06 Nov 1994 08:49:27 GMT", 0),
        ("Tue, 29 Feb 2000 00:00:00 GMT", 167_670_623_000),
    ] {
        assert_eq!(parse(text, NOW), Some(ms), "{text}");
    }
}

#[test]
fn l2_nonsense_is_ignored() {
    for text in ["", "-3", "soon", "NaN", "inf", "1 2", "Sun, 06 Nov 1994", "Sun, 99 Foo 1994 08:49:37 GMT", "🦀"] {
        assert_eq!(parse(text, NOW), None, "{text}");
    }
}

#[test]
fn milliseconds_go_before_seconds() {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, "2".parse().unwrap());
    assert_eq!(read(&headers), Some(2_000));
    headers.insert("retry-after-ms", "350".parse().unwrap());
    assert_eq!(read(&headers), Some(350));
    assert_eq!(read(&HeaderMap::new()), None);
}
