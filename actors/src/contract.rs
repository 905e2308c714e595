//! What the contract suites of the ports share: rules that are checked one after the other, and a report of them.
//!
//! A suite is an async function in the room of its port. It needs a tokio runtime with time, and none of tokio's macros.
//! A rule is broken by an error, by a panic, and by no end within a minute; the rules after it are checked as well.

use futures_util::FutureExt;
use futures_util::future::poll_immediate;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

/// A bound against hanging, for one rule.
const LIMIT: Duration = Duration::from_secs(60);

/// Texts that a model, a person or a file may contain, and that programs are seldom tried with.
pub const ODD_TEXTS: [&str; 6] =
    ["", " \n\t ", "\u{0}\u{1b}[31m\u{7}", "\u{202e}\u{200b}\u{feff}", "é😀\u{301}𝄞", "\"}]\\u0000<|im_end|>"];

/// What one rule found: nothing, or what was seen.
pub type Found = Result<(), String>;

/// The rules of one port, as they were checked.
#[derive(Debug)]
#[must_use = "a broken rule is told by `assert`"]
pub struct Suite {
    port: &'static str,
    rules: Vec<(&'static str, Found)>,
}

impl Suite {
    /// A suite for a port of this name, without rules.
    pub fn new(port: &'static str) -> Self {
        Self { port, rules: Vec::new() }
    }

    /// Checks one rule. Its name is the sentence that holds of a port that keeps it.
    pub async fn rule(&mut self, name: &'static str, check: impl Future<Output = Found>) {
        let caught = AssertUnwindSafe(check).catch_unwind();
        let found = match tokio::time::timeout(LIMIT, caught).await {
            Ok(Ok(found)) => found,
            Ok(Err(panic)) => Err(format!("a panic: {}", text_of(&*panic))),
            Err(_elapsed) => Err(format!("no end within {} s", LIMIT.as_secs())),
        };
        self.rules.push((name, found));
    }

    /// The names of the rules, and what was seen of those that are broken.
    pub fn rules(&self) -> &[(&'static str, Found)] {
        &self.rules
    }

    /// Tells what is broken.
    ///
    /// # Panics
    /// When a rule is broken; the message has a sentence for each: the rule, and what was seen.
    pub fn assert(self) {
        assert!(self.rules.iter().all(|(_, found)| found.is_ok()), "{self}");
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broken: Vec<_> =
            self.rules.iter().filter_map(|(name, found)| Some((name, found.as_ref().err()?))).collect();
        write!(f, "the {} breaks {} of {} rules", self.port, broken.len(), self.rules.len())?;
        broken
            .iter()
            .try_for_each(|(name, seen)| write!(f, "\n- The rule is: {}. Seen was: {seen}.", name.replace('_', " ")))
    }
}

/// What was seen, unless this holds.
///
/// # Errors
/// The sentence that `seen` makes.
pub fn holds(is_so: bool, seen: impl FnOnce() -> String) -> Found {
    if is_so { Ok(()) } else { Err(seen()) }
}

/// Drops a future after so many polls. Answers whether it was ready before.
pub async fn dropped_after(polls: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        if poll_immediate(&mut future).await.is_some() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// The text of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}

#[cfg(test)]
pub(crate) mod testing {
    //! Shows that each rule of a suite is broken by some port.

    use super::Suite;
    use std::collections::BTreeSet;

    /// Each of these suites broke the rule that it was made for, and together they broke each rule.
    pub(crate) fn each_rule_is_broken(suites: Vec<(&'static str, Suite)>) {
        let mut seen = BTreeSet::new();
        let mut all = BTreeSet::new();
        for (rule, suite) in suites {
            all.extend(suite.rules().iter().map(|(name, _)| *name));
            let broken: Vec<_> =
                suite.rules().iter().filter(|(_, found)| found.is_err()).map(|(name, _)| *name).collect();
            assert!(broken.contains(&rule), "meant to break `{rule}`, and broke {broken:?}:\n{suite}");
            seen.insert(rule);
        }
        let unbroken: Vec<_> = all.difference(&seen).collect();
        assert!(unbroken.is_empty(), "no port breaks these rules: {unbroken:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_broken_rule_is_told_in_a_sentence_and_the_next_is_checked() {
        let mut suite = Suite::new("port");
        suite.rule("one is one", async { Ok(()) }).await;
        suite.rule("two is two", async { holds(false, || "two was three".to_owned()) }).await;
        suite.rule("it does not panic", async { panic!("out of {}", "range") }).await;
        suite.rule("it ends", std::future::pending()).await;
        let told = AssertUnwindSafe(async { suite.assert() }).catch_unwind().await.unwrap_err();
        assert_eq!(
            text_of(&*told),
            "the port breaks 3 of 4 rules\n- The rule is: two is two. Seen was: two was three.\n- The rule is: it does \
             not panic. Seen was: a panic: out of range.\n- The rule is: it ends. Seen was: no end within 60 s."
        );
    }
}
