//! The rules of a store as two suites, which need no macro of a test harness.

use super::kills::{
    s1_what_was_acknowledged_survives_a_kill_at_any_time,
    s3_a_file_that_may_not_grow_costs_nothing_that_was_acknowledged,
};
use super::owners::Open;
use super::processes::a_paused_owner_is_busy_and_fenced_when_it_goes_on;
use crate::contract::Suite;
use crate::store::SessionStore;
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Rule = Box<dyn Fn(Arc<dyn SessionStore>) -> BoxFuture<'static, ()>>;

type OwnersRule = Box<dyn Fn(PathBuf, Open) -> BoxFuture<'static, ()>>;

/// Checks a store against the rules of all stores. Each rule has an empty store of its own, which `make` returns and which
/// shares nothing with the others.
#[expect(clippy::vec_init_then_push, reason = "the list of rules is a macro's, one push each")]
pub async fn store(make: impl Fn() -> Arc<dyn SessionStore>) -> Suite {
    let mut rules: Vec<(&'static str, Rule)> = Vec::new();
    crate::store_contract!(@each rules rules);
    let mut suite = Suite::new("store");
    for (name, rule) in rules {
        let store = make();
        let check = async {
            rule(store).await;
            Ok(())
        };
        suite.rule(name, check).await;
    }
    suite
}

/// Checks a store that has an inbox against the rules of all inboxes, as [`store`] does.
#[expect(clippy::vec_init_then_push, reason = "the list of rules is a macro's, one push each")]
pub async fn inbox_suite(make: impl Fn() -> Arc<dyn SessionStore>) -> Suite {
    let mut rules: Vec<(&'static str, Rule)> = Vec::new();
    crate::store_inbox_contract!(@each rules rules);
    let mut suite = Suite::new("inbox");
    for (name, rule) in rules {
        let store = make();
        let check = async {
            rule(store).await;
            Ok(())
        };
        suite.rule(name, check).await;
    }
    suite
}

/// Checks a store that several processes may have open against the rules of owners. `open` opens a store in a folder; each
/// rule has an empty folder of its own. The rules of processes that are killed and paused are not among these: [`killed`],
/// [`paused`] and [`full_disk`] are each for a test of its own.
pub async fn owners(open: Open) -> Suite {
    let mut rules: Vec<(&'static str, OwnersRule)> = Vec::new();
    crate::store_owners_contract!(@each rules rules);
    let mut suite = Suite::new("store");
    for (name, rule) in rules {
        let folder = tempfile::TempDir::new();
        let check = async {
            let folder = folder.as_ref().map_err(|error| format!("no folder for the test: {error}"))?;
            rule(folder.path().to_owned(), open).await;
            Ok(())
        };
        suite.rule(name, check).await;
    }
    suite
}

/// What was acknowledged survives a kill, whenever that is: the test of this path runs itself again, and is killed. `examine`
/// panics when a folder is not as it must be after that.
pub async fn killed(test: &str, open: Open, examine: fn(&Path)) {
    s1_what_was_acknowledged_survives_a_kill_at_any_time(test, empty().path(), open, examine).await;
}

/// An owner that is paused lives, and is fenced when its session was taken over meanwhile: the test of this path runs itself
/// again, and is paused.
pub async fn paused(test: &str, open: Open) {
    a_paused_owner_is_busy_and_fenced_when_it_goes_on(test, empty().path(), open).await;
}

/// A file that may not grow costs nothing that was acknowledged: the test of this path runs itself again, with a limit.
pub async fn full_disk(test: &str, open: Open) {
    s3_a_file_that_may_not_grow_costs_nothing_that_was_acknowledged(test, empty().path(), open).await;
}

fn empty() -> tempfile::TempDir {
    tempfile::TempDir::new().expect("a folder for the test")
}
