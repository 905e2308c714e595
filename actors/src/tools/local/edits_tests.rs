use super::*;
use proptest::prelude::*;

fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.to_owned(), new: new.to_owned(), replace_all: false }
}

fn everywhere(old: &str, new: &str) -> Edit {
    Edit { replace_all: true, ..edit(old, new) }
}

fn text(before: &str, edits: &[Edit]) -> String {
    apply(before, edits).expect("they can be made").text
}

fn error(before: &str, edits: &[Edit]) -> String {
    apply(before, edits).expect_err("they cannot be made")
}

#[test]
fn edits_are_made_in_order_and_their_lines_told() {
    let edited = apply("a\nb\nc\nb\n", &[edit("c", "C\nD"), everywhere("b", "x"), edit("a\n", "")]).expect("edited");
    assert_eq!((edited.text.as_str(), edited.count), ("x\nC\nD\nx\n", 4));
    assert_eq!(edited.lines, [1, 2, 4]);
    assert_eq!(text("one", &[edit("one", "two"), edit("two", "three")]), "three", "each sees the one before");
    assert_eq!(text("aaaa", &[everywhere("aa", "a")]), "aa");
    let many = apply(&"x\n".repeat(100), &[everywhere("x", "y")]).expect("edited");
    assert_eq!((many.count, many.lines.len()), (100, MAX_TOLD));
}

#[test]
fn one_that_cannot_be_made_is_told_with_what_to_do() {
    for (old, expected) in [
        ("z", "the text in `old` is not there; read the file again; nothing was changed"),
        ("", "`old` is empty; give the text to replace, or write the whole file; nothing was changed"),
        ("y", "`old` and `new` are the same; nothing was changed"),
        (
            "b",
            "the text in `old` is there 3 times, at lines 1, 1, 2; add lines around it until it is there once, or set \
             `replace_all`; nothing was changed",
        ),
        (
            "1\tbb\n2\t  b y",
            "the text in `old` has the line numbers that read_file shows; leave them out; nothing was changed",
        ),
        (
            "bb\nb y",
            "the text in `old` is not there, but with other white space at line 1; copy it; nothing was changed",
        ),
        (
            "bb\nc",
            "the text in `old` is not there; its first line is line 1, and what follows is different; read it again; \
             nothing was changed",
        ),
    ] {
        assert_eq!(error("bb\n  b y\n", &[edit(old, "y")]), expected, "{old:?}");
    }
    assert_eq!(
        error("a b", &[edit("a", "c"), edit("a", "d")]),
        "edit 2 of 2: an edit before it changed the text in `old`; nothing was changed"
    );
    assert!(error("aaa é é", &[edit("aa", "b")]).contains("2 times"), "places may overlap");
    assert!(error("aaa é é", &[edit("é", "b")]).contains("2 times"));
    assert!(error(&"b\n".repeat(20), &[edit("b", "c")]).contains("lines 1, 2, 3, 4, 5, 6, 7, 8 and more"));
}

#[test]
fn line_endings_are_kept_whatever_the_edit_is_written_with() {
    let windows = "\u{feff}one\r\ntwo\r\nthree\r\n";
    for old in ["one\ntwo", "one\r\ntwo"] {
        for new in ["1\n2\n3", "1\r\n2\r\n3"] {
            assert_eq!(text(windows, &[edit(old, new)]), "\u{feff}1\r\n2\r\n3\r\nthree\r\n", "{old:?} {new:?}");
        }
    }
    assert_eq!(text(windows, &[edit("two", "a\nb")]), "\u{feff}one\r\na\r\nb\r\nthree\r\n", "as most lines");
    assert_eq!(text(windows, &[edit("\nthree", "")]), "\u{feff}one\r\ntwo\r\n");
    assert_eq!(text(windows, &[edit("three\n", "")]), "\u{feff}one\r\ntwo\r\n");
    assert_eq!(text("one\ntwo\n", &[edit("one\r\n", "1\r\n")]), "1\ntwo\n");
    // Both in one file: each place keeps its own.
    let mixed = "a\nb\nc\r\nd\ne\r\n";
    assert_eq!(text(mixed, &[edit("c\nd", "C\nD")]), "a\nb\nC\r\nD\ne\r\n");
    assert_eq!(text(mixed, &[edit("a\nb", "A\nB")]), "A\nB\nc\r\nd\ne\r\n");
    assert_eq!(text(mixed, &[edit("b", "b\nb")]), "a\nb\nb\nc\r\nd\ne\r\n", "as most lines");
    assert_eq!(text("old\rmac", &[edit("old\r", "new\r")]), "new\rmac");
    assert_eq!(text("one line", &[edit("one", "1\r\n2")]), "1\r\n2 line", "there is no ending to keep");
}

proptest! {
    /// What an edit of a text with other line endings makes is the edited text with those endings.
    #[test]
    fn an_edit_with_one_kind_of_ending_is_that_of_the_other(
        before in "[ab\n]{0,40}\n", old in "[ab\n]{1,4}", new in "[ab\n]{0,4}", replace_all: bool,
    ) {
        let edits = [Edit { old, new, replace_all }];
        let unix = apply(&before, &edits);
        let windows = apply(&before.replace('\n', "\r\n"), &edits);
        prop_assert_eq!(
            unix.map(|edited| (edited.text.replace('\n', "\r\n"), edited.lines)),
            windows.map(|edited| (edited.text, edited.lines))
        );
    }

    /// It is what `str::replace` makes, where both may run.
    #[test]
    fn all_places_are_replaced_as_by_the_library(before in "[abc]{0,40}", old in "[ab]{1,3}", new in "[abc]{0,3}") {
        prop_assume!(old != new && before.contains(&old));
        let edited = apply(&before, &[Edit { old: old.clone(), new: new.clone(), replace_all: true }]).unwrap();
        prop_assert_eq!(edited.text, before.replace(&old, &new));
        prop_assert_eq!(edited.count, before.matches(&old).count());
    }
}
