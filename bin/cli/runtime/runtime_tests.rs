//! The end of a command, on a clock that stands still until it is waited for.

use super::*;
use std::cell::Cell;
use std::future::pending;
use tokio::time::{Instant, sleep};

const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn x1_the_tree_begins_to_end_at_once_and_a_disk_that_hangs_costs_no_more_than_the_limit() {
    let (began, began_to_end) = (Instant::now(), Cell::new(None));
    let shutdown = async {
        began_to_end.set(Some(began.elapsed()));
        sleep(Duration::from_secs(2)).await;
    };
    let caught = end_within(LIMIT, shutdown, pending(), pending::<()>()).await;
    assert_eq!((caught, began_to_end.get()), (None, Some(Duration::ZERO)));
    assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn x1_what_is_to_be_kept_is_written_behind_the_end_and_nothing_is_waited_for_after_that() {
    let (began, written) = (Instant::now(), Cell::new(None));
    let writes = async { written.set(Some(began.elapsed().as_secs())) };
    end_within(LIMIT, sleep(Duration::from_secs(2)), writes, pending::<()>()).await;
    assert_eq!((written.get(), began.elapsed().as_secs()), (Some(2), 2));
}

#[test]
fn the_time_for_the_end_counts_from_its_beginning_and_what_is_left_to_write_has_some() {
    for (begun_s, left_ms) in [(None, 5_000), (Some(0), 5_000), (Some(3), 2_000), (Some(4), 1_500), (Some(60), 1_500)] {
        assert_eq!(left_of(LIMIT, begun_s.map(Duration::from_secs)), Duration::from_millis(left_ms), "{begun_s:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn x1_a_tree_that_does_not_end_is_left_and_a_signal_ends_the_wait() {
    let began = Instant::now();
    assert_eq!(end_within(LIMIT, pending(), async {}, pending::<()>()).await, None);
    assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
    let signal = async {
        sleep(Duration::from_secs(1)).await;
        "SIGTERM"
    };
    assert_eq!(end_within(LIMIT, pending(), async {}, signal).await, Some("SIGTERM"));
    assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs() + 1);
}
