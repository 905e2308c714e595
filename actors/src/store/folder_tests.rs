//! Names on file systems that cannot rename without replacing.

use super::*;
use tempfile::TempDir;

#[test]
fn a_rename_that_the_file_system_refuses_is_done_in_two_steps_and_never_over_another_file() {
    let there = TempDir::new().unwrap();
    let dir = File::open(there.path()).unwrap();
    let (from, to) = (there.path().join("from"), there.path().join("to"));
    let give = |renamed| moved(dir.as_fd(), Path::new("from"), Path::new("to"), renamed);
    for refused in [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP] {
        std::fs::write(&from, "new").unwrap();
        assert!(give(Err(refused)).unwrap(), "{refused}");
        assert_eq!((std::fs::read_to_string(&to).unwrap(), from.exists()), ("new".to_owned(), false));
        std::fs::write(&from, "newer").unwrap();
        assert!(!give(Err(refused)).unwrap(), "{refused}: the name is taken");
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(&from).unwrap(), "newer");
        std::fs::remove_file(&to).unwrap();
    }
    let other = give(Err(Errno::ACCESS)).unwrap_err();
    assert_eq!((other.raw_os_error(), to.exists()), (Some(Errno::ACCESS.raw_os_error()), false), "it is told");
}
