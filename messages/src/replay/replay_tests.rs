//! A text that is not a journal is refused, with its line number.

use super::read;

const OPTIONS: &str =
    r#"{"format":1,"id":"1-1","session":"s","version":1,"epoch":1,"turn":null,"at":0,"kind":"options","body":{}}"#;

#[test]
fn lines_are_read_session_by_session() {
    let other = OPTIONS.replace("\"s\"", "\"t\"");
    let journals = read([OPTIONS, "", &other]).unwrap();
    assert_eq!(journals.values().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn what_is_no_journal_is_refused_with_its_line() {
    for (lines, line, wanted) in [
        (vec![], 0, "no record"),
        (vec!["hello"], 1, "it is no record"),
        (vec![OPTIONS, OPTIONS], 2, "it is record 1 of session s, expected was 2"),
        (vec![r#"{"format":9,"what":"ever"}"#], 1, "newer program"),
        (vec![OPTIONS, r#"{"format":2,"kind":"what_ever_comes","body":{}}"#], 2, "newer program"),
    ] {
        let told = read(&lines).unwrap_err();
        assert!(told.line == line && told.why.contains(wanted), "{told} for {lines:?}");
    }
}
