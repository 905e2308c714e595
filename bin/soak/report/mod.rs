//! The report.

use super::checker::Evidence;
use super::plan::Plan;
use super::verdict::Verdict;

/// The page.
pub(crate) fn page(_plan: &Plan, _evidence: &Evidence, _verdict: &Verdict) -> String {
    String::new()
}
