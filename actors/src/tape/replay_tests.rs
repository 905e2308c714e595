use super::Tape;
use crate::tape::Redactor;
use std::error::Error;
use std::io;

#[test]
fn an_error_of_a_tape_has_that_of_the_system_or_of_the_json_as_its_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.tape");
    let missing = Tape::load(&path, Redactor::default()).expect_err("there is no file");
    let source = missing.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound), "{missing}");
    std::fs::write(&path, "no JSON\n").expect("a file");
    let wrong = Tape::load(&path, Redactor::default()).expect_err("it is no tape");
    assert!(wrong.source().is_some_and(|source| source.is::<serde_json::Error>()), "{wrong}");
}
