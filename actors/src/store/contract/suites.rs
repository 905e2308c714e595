//! The rules of a store as two suites, which need no macro of a test harness.

use super::owners::Open;
use crate::contract::Suite;
use crate::store::SessionStore;
use futures_util::future::BoxFuture;
use std::path::PathBuf;
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
/// rule has an empty folder of its own. The rules of processes that are killed and paused are not among these; they are in
/// [`store_owners_contract!`](crate::store_owners_contract).
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
