//! M12 and M17: many results, and large ones.

use std::time::Instant;

use bob_messages::chat::{CallStatus, ContentPart};
use bob_messages::tools::MODEL_RESULT_BYTES;
use serde_json::json;

use crate::house::{House, percentile};
use crate::process::soon;

/// Goal: every call gets its own answer, whole and once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m12_large_answers_to_many_calls_find_their_callers() {
    // Without optimization each byte costs thirty times as much.
    const CALLS: usize = if cfg!(debug_assertions) { 200 } else { 1_000 };
    const BYTES: usize = if cfg!(debug_assertions) { 128 << 10 } else { 1 << 20 };
    let house = House::new();
    let server = house.ready("mine", &[]).await;
    let began = Instant::now();
    let calls = (0..CALLS).map(|number| {
        let house = &house;
        async move {
            let bytes = BYTES + number;
            let begun = house.begin("mine/big", json!({ "bytes": bytes }), 300_000).await.unwrap();
            let returned = soon(begun).await.unwrap();
            assert_eq!((returned.status, returned.output.plain().len()), (CallStatus::Ok, bytes));
            began.elapsed()
        }
    });
    let times = futures_util::future::join_all(calls).await;
    println!("figure: M12 {CALLS} answers of {BYTES} bytes in {:?}, p99 {:?}", began.elapsed(), percentile(times, 99));
    // A second answer to one of them would be an answer to nobody: each was asked once.
    assert_eq!(server.events("call").len(), CALLS);
    house.is_well("mine").await;
}

/// Goal: what a model is shown is never more than its budget; the journal has it whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m17_results_are_kept_whole_and_cut_for_the_model() {
    let house = House::new();
    let _server = house.ready("mine", &[]).await;
    let text = house.perform("mine/big", json!({ "bytes": 5_000_000 }), 60_000).await.output;
    assert_eq!(text.plain().len(), 5_000_000);
    let shown = text.for_model();
    assert!(shown.len() <= MODEL_RESULT_BYTES && shown.starts_with("line 1\n"), "{}", shown.len());
    assert!(shown.contains("of 5000000 bytes are not shown"));

    let blocks = house.perform("mine/blocks", json!({ "n": 10_000 }), 60_000).await.output;
    assert_eq!(blocks.parts.len(), 10_000);
    let shown = blocks.for_model();
    assert!(shown.len() <= MODEL_RESULT_BYTES && shown.ends_with("block 10000"), "{}", shown.len());

    let image = house.perform("mine/image", json!({}), 60_000).await.output;
    assert!(matches!(&image.parts[..], [ContentPart::Image { mime_type, .. }] if mime_type == "image/png"));
    assert!(image.for_model().len() <= MODEL_RESULT_BYTES);
}
