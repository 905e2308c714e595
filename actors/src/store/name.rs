//! How a session's journal is called.
//!
//! Upper-case letters would fall together with lower-case ones on a file system that folds case, so a name is the id in
//! lower case, followed by `+` and a hexadecimal mask of which letters are upper-case ones: `Abc` is `abc+1`. A name
//! that some systems reserve gets a `+` in front. An id has no `+`, so names never collide, and no name is longer than
//! 1 + 128 + 1 + 32 + 6 bytes.

use bob_messages::ids::SessionId;
use std::fmt::Write as _;

const SUFFIX: &str = ".jsonl";

/// Between a journal's name and the number of a copy that was set aside.
const ASIDE: &str = ".corrupt-";

pub(super) fn of(session: &SessionId) -> String {
    let id = session.as_str();
    let mut name = String::with_capacity(id.len() + SUFFIX.len());
    if is_reserved(id) {
        name.push('+');
    }
    name.push_str(&id.to_ascii_lowercase());
    let mut upper_case = [false; SessionId::MAX_BYTES];
    for (flag, byte) in upper_case.iter_mut().zip(id.bytes()) {
        *flag = byte.is_ascii_uppercase();
    }
    if let Some(last) = upper_case.iter().rposition(|&is_upper_case| is_upper_case) {
        name.push('+');
        for four in upper_case.iter().take(last + 1).collect::<Vec<_>>().chunks(4) {
            let digit = (0..).zip(four).fold(0_u8, |digit, (bit, &&flag)| digit | (u8::from(flag) << bit));
            // Writing to a string cannot fail.
            let _ = write!(name, "{digit:x}");
        }
    }
    name.push_str(SUFFIX);
    name
}

pub(super) fn of_folder(session: &SessionId) -> String {
    let mut name = of(session);
    name.truncate(name.len() - SUFFIX.len());
    name
}

pub(super) fn session_of_folder(name: &str) -> Option<SessionId> {
    session(&format!("{name}{SUFFIX}"))
}

/// The session whose journal is called so; `None` for any other file.
pub(super) fn session(name: &str) -> Option<SessionId> {
    let stem = name.strip_suffix(SUFFIX)?;
    let stem = stem.strip_prefix('+').unwrap_or(stem);
    let (id, mask) = stem.split_once('+').unwrap_or((stem, ""));
    let mut id = id.to_owned().into_bytes();
    for (four, digit) in id.chunks_mut(4).zip(mask.chars()) {
        let digit = digit.to_digit(16)?;
        for (bit, byte) in (0..).zip(four) {
            if digit & (1 << bit) != 0 {
                byte.make_ascii_uppercase();
            }
        }
    }
    let session = SessionId::parse(std::str::from_utf8(&id).ok()?).ok()?;
    (of(&session) == name).then_some(session)
}

/// The name of the n-th copy of a journal that was set aside, from 1.
pub(super) fn aside(journal: &str, number: u32) -> String {
    format!("{journal}{ASIDE}{number}")
}

/// The name under which a journal is made or rewritten, until it takes the journal's own.
pub(super) fn beside(journal: &str) -> String {
    format!("{journal}.new")
}

pub(super) fn session_of_aside(name: &str) -> Option<SessionId> {
    let (journal, number) = name.rsplit_once(ASIDE)?;
    number.parse::<u32>().ok()?;
    session(journal)
}

/// Whether some system opens a device under this name, whatever follows a dot.
fn is_reserved(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or(id).to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        _ => stem
            .strip_prefix("com")
            .or_else(|| stem.strip_prefix("lpt"))
            .is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9'])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str) -> String {
        of(&SessionId::parse(id).unwrap())
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(name("chat_42"), "chat_42.jsonl");
        assert_eq!(name("Abc"), "abc+1.jsonl");
        assert_eq!(name("abcdE"), "abcde+01.jsonl");
        assert_eq!(name("NUL"), "+nul+7.jsonl");
        assert_eq!(name("com1.log"), "+com1.log.jsonl");
        assert_eq!(name("common"), "common.jsonl");
        assert_eq!(name(&"X".repeat(128)).len(), 128 + 1 + 32 + 6);
    }

    #[test]
    fn foreign_files_are_nobodys_journal() {
        for foreign in
            ["", ".jsonl", "a", "a.json", "A.jsonl", "a+0.jsonl", "abc+10.jsonl", "a+g.jsonl", "con.jsonl", "+a.jsonl"]
        {
            assert_eq!(session(foreign), None, "{foreign}");
        }
        assert_eq!(session_of_aside("abc+1.jsonl.corrupt-12"), SessionId::parse("Abc").ok());
        assert_eq!(session_of_aside("abc.jsonl.corrupt-x"), None);
    }

    /// Different names, however they are spelled where case means nothing.
    #[test]
    fn b3_no_two_ids_share_a_file_and_no_file_is_outside_its_folder() {
        let mut chance = fastrand::Rng::with_seed(3);
        let mut sessions = std::collections::HashMap::new();
        let count = std::env::var("BOB_B3_IDS").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
        let special =
            ["con", "nul", "com1", "aux.txt", "lpt9.a.b", "prn-", "a..b", "a.jsonl", "a.jsonl.corrupt-1", "con.", "0"];
        for number in 0..count {
            // Short ids over few letters, so that twins are met.
            let mut id = match number % 4 {
                0 => special[chance.usize(..special.len())].to_owned(),
                _ => (0..chance.usize(1..=6)).map(|_| char::from(b"abAB01._-"[chance.usize(..9)])).collect(),
            };
            if number % 4 == 1 {
                id.extend((0..chance.usize(..123)).map(|_| chance.alphanumeric()));
            }
            let spelled: String = id
                .chars()
                .map(|c| if chance.bool() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
                .collect();
            let Ok(session_id) = SessionId::parse(&spelled) else {
                assert!(spelled.starts_with(['.', '_', '-']), "{spelled}");
                continue;
            };
            let name = of(&session_id);
            let path = std::path::Path::new(&name);
            assert_eq!(
                path.components().collect::<Vec<_>>(),
                [std::path::Component::Normal(name.as_ref())],
                "{spelled}"
            );
            assert!(!name.starts_with('.') && name.len() + ".corrupt-4294967295".len() <= 255, "{name}");
            assert_eq!(name.to_lowercase(), name);
            assert!(session_of_aside(&name).is_none() && session(&name).as_ref() == Some(&session_id), "{name}");
            let other = sessions.insert(name, session_id.clone());
            assert!(other.as_ref().is_none_or(|other| *other == session_id), "{other:?} and {session_id:?}");
        }
        println!("figure: B3 {count} ids, {} different, no file shared", sessions.len());
        assert!(sessions.len() * 10 > count, "{}", sessions.len());
    }
}
