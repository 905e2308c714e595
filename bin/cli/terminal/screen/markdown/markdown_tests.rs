//! Markdown as a terminal shows it.

use super::*;
use bob_config::sanitise;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn check(columns: usize, text: &str, expected: Expect) {
    expected.assert_eq(&print(text, Look { columns, colour: false }).replace('\u{1b}', "^"));
}

#[test]
fn blocks_stand_apart_and_lists_do_not_fall_apart() {
    check(
        40,
        "# Title\nWords of a paragraph that is longer than one line of this terminal.\nA line of its own.\n\n- one\n- two\n  1. inner\n  2. *more* of it that goes over the end of the line\n- three\n\nEnd.\n***\n> said\n>\n> - by `whom`\n",
        expect![[r#"
            ^[1m^[4mTitle^[0m

            Words of a paragraph that is longer than
            one line of this terminal.
            A line of its own.

            • one
            • two
              1. inner
              2. ^[3mmore^[0m of it that goes over the end
                 of the line
            • three

            End.

            ────────────────────────────────────────

            │ said
            │
            │ • by `whom`
        "#]],
    );
}

#[test]
fn code_is_left_alone() {
    check(
        20,
        "```rust\nfn main() {\n\tlet a_rather_long_name = 1;\n\n}\n```\nafter",
        expect![[r#"
          fn main() {
              let a_rather_long_name = 1;

          }

        after
    "#]],
    );
}

#[test]
fn a_table_that_does_not_fit_is_shown_cell_by_cell() {
    let text = "| Name | What it does |\n|---|---:|\n| 漢字 | wide **letters** |\n| b | y |\n";
    check(
        40,
        text,
        expect![[r#"
        ^[1mName^[0m │ ^[1mWhat it does^[0m
        ─────┼─────────────
        漢字 │ wide ^[1mletters^[0m
        b    │ y
    "#]],
    );
    check(
        18,
        text,
        expect![[r#"
            ^[1mName^[0m: 漢字
            ^[1mWhat it does^[0m: wide
            ^[1mletters^[0m

            ^[1mName^[0m: b
            ^[1mWhat it does^[0m: y
        "#]],
    );
}

#[test]
fn a_link_says_where_it_leads() {
    check(
        80,
        "[click](http://a.example/x) <http://b.example> ![a picture](p.png)",
        expect![[r#"
            ^[4mclick^[0m (http://a.example/x) ^[4mhttp://b.example^[0m [image] ^[4ma picture^[0m (p.png)
        "#]],
    );
}

#[test]
fn colours_and_styles_end_on_their_line() {
    let shown = print("**bold words that go over the end** `code`", Look { columns: 16, colour: true });
    expect![[r#"
        ^[1mbold words that^[0m
        ^[1mgo over the end^[0m
        ^[32mcode^[0m
    "#]]
    .assert_eq(&shown.replace('\u{1b}', "^"));
}

#[test]
fn deep_nesting_leaves_room_for_words() {
    let text = format!("{} deep words", "> ".repeat(200));
    let shown = print(&text, Look { columns: 40, colour: false });
    assert!(shown.contains("deep words") && shown.len() < 200, "{shown}");
}

/// The columns of a line, without the styles.
fn columns(line: &str) -> usize {
    textwrap::core::display_width(line)
}

#[test]
fn g5_a_character_that_is_spelled_as_a_number_steers_nothing() {
    let text = "a&#27;[31mb&#x9b;2Jc&#x202e;d&#7;e&#x200B;f\n\n# g&#27;]0;h&#7;\n\n| i&#27;c |\n|---|\n| [j](http://k/&#27;[2J) |\n\n\
                `&#27;` &amp; &lt;\n";
    let shown = print(text, Look { columns: 80, colour: false });
    let words: String =
        shown.split('\u{1b}').map(|piece| piece.split_once('m').map_or(piece, |(_, rest)| rest)).collect();
    for kept in ["2Jcdef", "g]0;h", "`&#27;` & <"] {
        assert!(words.contains(kept), "{kept:?} in {words:?}");
    }
    let styles = shown.split('\u{1b}').skip(1).all(|after| {
        let style = after.split_once('m').map_or("", |(style, _)| style);
        ["[0", "[1", "[3", "[4"].contains(&style)
    });
    assert!(styles && shown.chars().all(|c| c == '\u{1b}' || sanitise::is_shown(c)), "{shown:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn g5_whatever_comes_no_line_is_too_wide_and_no_style_is_left_open(
        text in "([a-z漢é#>*_`|\\-1.~\\[\\]()! \t\n]|\n\n|- |> |1\\. |\\*\\*|```|\\| a \\|\n\\|---\\|\n){0,80}",
        width in 16_usize..100,
        colour: bool,
    ) {
        let shown = print(&text, Look { columns: width, colour });
        let is_code = text.contains("```") || text.contains("~~~") || text.contains("    ") || text.contains('\t');
        for line in shown.lines() {
            prop_assert!(is_code || columns(line) <= width.max(MOST_DEPTH * 4 + LEAST_COLUMNS), "{line:?}");
            let last = line.rsplit_once('\u{1b}').map_or("[0m", |(_, last)| last);
            prop_assert!(last.starts_with("[0m"), "{line:?}");
        }
        let steers = shown.chars().any(|c| !matches!(c, '\n' | '\u{1b}') && c.is_control());
        prop_assert!(!steers, "{shown:?}");
    }

    #[test]
    fn no_word_is_lost(words in prop::collection::vec("[a-z]{1,12}", 0..30), width in 16_usize..60) {
        let shown = print(&words.join(" "), Look { columns: width, colour: false });
        prop_assert_eq!(shown.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), words);
    }
}
