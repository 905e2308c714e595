//! What readers are told of a burst: the first, the last, and nothing behind the end of the call.

use super::*;
use crate::feed::Subscription;
use crate::tools::contract::call;
use crate::tools::local::fixture::Workspace;
use futures_util::FutureExt;
use serde_json::json;

fn told(reader: &mut Subscription) -> Vec<f64> {
    let all = std::iter::from_fn(|| reader.next().now_or_never()?.ok());
    let done = all.map(|told| match &told.event {
        AgentEvent::ToolCalled { progress: Some(progress), state: CallState::Progress, .. } => progress.done,
        _ => panic!("no progress: {told:?}"),
    });
    done.collect()
}

/// Behind all that waits.
const LATER: Duration = APART.saturating_add(Duration::from_millis(1));

#[tokio::test(start_paused = true)]
async fn the_last_of_a_burst_is_told_when_its_time_has_come() {
    let (feed, context) = (Feed::new(Vec::new()), Workspace::nowhere());
    let mut reader = feed.subscribe(&context.session);
    let sink = ProgressRoom::of(Some(feed)).sink(&call("local/a", json!({})), &Arc::new(context));
    for done in [1.0, 2.0, 3.0] {
        sink.tell(done, None, None);
    }
    assert_eq!(told(&mut reader), [1.0]);
    tokio::time::sleep(LATER).await;
    assert_eq!(told(&mut reader), [3.0]);
    tokio::time::sleep(LATER).await;
    sink.tell(4.0, None, None);
    assert_eq!(told(&mut reader), [4.0], "it has not come too soon");
    sink.tell(5.0, None, None);
    let clone = sink.clone();
    drop(sink);
    tokio::time::sleep(LATER).await;
    assert_eq!(told(&mut reader), [5.0], "the call goes on");
    clone.tell(6.0, None, None);
    drop(clone);
    tokio::time::sleep(LATER).await;
    assert_eq!(told(&mut reader), [0.0; 0], "the call has ended");
}
