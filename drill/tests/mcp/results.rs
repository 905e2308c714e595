//! M12 and M17: many results, and large ones.

use std::time::Instant;

use bob_messages::chat::{CallStatus, ContentPart};
use bob_messages::tools::MODEL_RESULT_BYTES;
use serde_json::json;

use crate::fixture::{Fixture, percentile};
use crate::process::soon;

/// Goal: every call gets its own response, complete and once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m12_large_answers_to_many_calls_find_their_callers() {
    // Without optimization each byte costs thirty times as much.
    const CALLS: usize = if cfg!(debug_assertions) { 200 } else { 1_000 };
    const BYTES: usize = if cfg!(debug_assertions) { 128 << 10 } else { 1 << 20 };
    let fixture = Fixture::new();
    let server = fixture.ready("mine", &[]).await;
    let began = Instant::now();
    let calls = (0..CALLS).map(|number| {
        let fixture = &fixture;
        async move {
            let bytes = BYTES + number;
            let begun = fixture.begin("mine/big", json!({ "bytes": bytes }), 300_000).await.unwrap();
            let returned = soon(begun).await.unwrap();
            assert_eq!((returned.status, returned.output.plain().len()), (CallStatus::Ok, bytes));
            began.elapsed()
        }
    });
    let times = futures_util::future::join_all(calls).await;
    println!("figure: M12 {CALLS} answers of {BYTES} bytes in {:?}, p99 {:?}", began.elapsed(), percentile(times, 99));
    // No call was sent twice.
    assert_eq!(server.events("call").len(), CALLS);
    fixture.is_well("mine").await;
}

/// Goal: a model sees no more than its budget; the journal has everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m17_results_are_kept_whole_and_cut_for_the_model() {
    let fixture = Fixture::new();
    let _server = fixture.ready("mine", &[]).await;
    let text = fixture.perform("mine/big", json!({ "bytes": 5_000_000 }), 60_000).await.output;
    assert_eq!(text.plain().len(), 5_000_000);
    let shown = text.for_model();
    assert!(shown.len() <= MODEL_RESULT_BYTES && shown.starts_with("line 1\n"), "{}", shown.len());
    assert!(shown.contains("of 5000000 bytes are not shown"));

    let blocks = fixture.perform("mine/blocks", json!({ "n": 10_000 }), 60_000).await.output;
    assert_eq!(blocks.parts.len(), 10_000);
    let shown = blocks.for_model();
    assert!(shown.len() <= MODEL_RESULT_BYTES && shown.ends_with("block 10000"), "{}", shown.len());

    let image = fixture.perform("mine/image", json!({}), 60_000).await.output;
    assert!(matches!(&image.parts[..], [ContentPart::Image { mime_type, .. }] if mime_type == "image/png"));
    assert!(image.for_model().len() <= MODEL_RESULT_BYTES);
}
