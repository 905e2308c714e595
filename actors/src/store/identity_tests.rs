use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

fn of(folder: &tempfile::TempDir) -> FolderIdentity {
    FolderIdentity::new(folder.path().to_owned(), None)
}

#[test]
fn a_folder_has_one_identity_which_is_told_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(of(&folder).identity(false), Ok(None));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "who only reads writes nothing");
    let made = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| of(&folder).identity(true).unwrap().unwrap())).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
    });
    let identity = of(&folder).identity(false).unwrap().unwrap();
    assert!(made.iter().all(|made| *made == identity), "all processes have the same one");
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 1, "nothing is left beside it");
    assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let secret = String::from_utf8(identity.as_written().to_vec()).unwrap();
    assert!(!format!("{identity:?} {:?}", of(&folder)).contains(&secret));
    assert!(!identity.mark().contains(&secret) && identity.mark().len() == LENGTH);
    let other = tempfile::tempdir().unwrap();
    let other = of(&other).identity(true).unwrap().unwrap();
    assert!(other != identity && other.mark() != identity.mark());
}

#[test]
fn a_mark_is_told_before_its_identity_is_there_and_the_last_one_that_is_told_stays() {
    for _ in 0..16 {
        let folder = tempfile::tempdir().unwrap();
        let (path, told) = (folder.path().to_owned(), Arc::new(Mutex::new(None)));
        let (at, last) = (path.clone(), Arc::clone(&told));
        let marked: Marked = Arc::new(move |mark: &str| {
            let there = FolderIdentity::new(at.clone(), None).identity(false).unwrap();
            assert!(there.is_none_or(|there| there.mark() == mark), "another one is there");
            *last.lock().unwrap() = Some(mark.to_owned());
            Ok(())
        });
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| FolderIdentity::new(path.clone(), Some(Arc::clone(&marked))).identity(true).unwrap());
            }
        });
        let mark = of(&folder).identity(false).unwrap().map(|made| made.mark());
        assert_eq!(*told.lock().unwrap(), mark);
    }
}

#[test]
fn a_folder_gets_no_identity_whose_mark_cannot_be_kept_and_another_one_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let marked = |fails: bool| -> Option<Marked> {
        let told = Arc::clone(&told);
        Some(Arc::new(move |mark: &str| {
            told.lock().unwrap().push(mark.to_owned());
            if fails { Err(io::Error::other("the disk is full")) } else { Ok(()) }
        }))
    };
    let refused = FolderIdentity::new(folder.path().to_owned(), marked(true)).identity(true);
    let is_told = |why: &str| why.contains("the disk is full");
    assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if is_told(why)), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let made = FolderIdentity::new(folder.path().to_owned(), marked(false)).identity(true).unwrap().unwrap();
    let told = told.lock().unwrap();
    assert!(told.len() == 2 && told[0] != told[1] && told[1] == made.mark(), "{told:?}");
}

#[test]
fn a_sum_is_of_one_identity_one_purpose_and_these_parts() {
    let (one, other) = (Identity::new().unwrap(), Identity::new().unwrap());
    let sum = one.sum("a purpose", &[b"ab", b"c"]);
    assert!(one.is_sum("a purpose", &sum, &[b"ab", b"c"]));
    for parts in [&[&b"a"[..], b"bc"][..], &[b"abc"], &[b"ab", b"c", b""], &[b"ab", b"d"]] {
        assert!(!one.is_sum("a purpose", &sum, parts), "{parts:?}");
    }
    assert!(!one.is_sum("another", &sum, &[b"ab", b"c"]));
    assert!(!other.is_sum("a purpose", &sum, &[b"ab", b"c"]));
    for sum in ["", "no sum", &sum[1..]] {
        assert!(!one.is_sum("a purpose", sum, &[b"ab", b"c"]), "{sum:?}");
    }
}

#[test]
fn a_file_that_is_no_identity_is_an_error_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "0123456789abcdef0123456789abcdef";
    for text in ["", "short", &secret.to_uppercase(), &format!("{secret}0"), &format!("{secret}\n\n")] {
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let refused = of(&folder).identity(true);
        assert!(
            matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("identity")),
            "{text:?}: {refused:?}"
        );
        assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
    }
    std::fs::write(folder.path().join(FILE), secret).unwrap();
    assert_eq!(of(&folder).identity(true).unwrap().unwrap().as_written(), secret.as_bytes());
}
