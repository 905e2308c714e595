//! What goes into the store, what stands for it, and what a model is sent of it.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bob_messages::artifact::{ArtifactId, ArtifactKind, LARGE_PART_BYTES};
use bob_messages::chat::{ContentPart, FileChange, MODEL_RESULT_BYTES, ToolOutput};
use bob_messages::ids::SessionId;
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt, ready};
use serde_json::json;
use std::ops::Range;

fn own() -> SessionId {
    SessionId::parse("own").unwrap()
}

fn kept() -> (Arc<MemoryArtifacts>, Artifacts) {
    let port = MemoryArtifacts::new();
    (Arc::clone(&port), Artifacts::of(port))
}

async fn content(port: &MemoryArtifacts, id: &ArtifactId) -> Vec<u8> {
    port.get(&own(), id, 0..u64::MAX).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_large_text_goes_out_at_exactly_the_bound_and_is_shown_by_head_and_tail() {
    let (port, artifacts) = kept();
    for bytes in [0, LARGE_PART_BYTES] {
        let small = ToolOutput::text("x".repeat(bytes));
        assert!(!artifacts.would_spill(&small), "{bytes}");
    }
    let text = format!("begin{}end", "x".repeat(LARGE_PART_BYTES));
    let output = artifacts.spill(&own(), ToolOutput::text(text.clone())).await;
    let artifact = output.parts[0].artifact().unwrap();
    assert_eq!((artifact.kind, artifact.bytes, artifact.is_whole), (ArtifactKind::Text, text.len() as u64, false));
    assert_eq!(content(&port, &artifact.id).await, text.as_bytes());
    let seen = output.for_model();
    assert!(seen.starts_with("begin") && seen.ends_with("end") && seen.contains(artifact.id.short()));
    assert!(seen.len() <= MODEL_RESULT_BYTES && seen.len() > MODEL_RESULT_BYTES - 1_024, "{}", seen.len());
    assert_eq!(output.as_seen(), None, "a live session keeps it as it is");
    assert!(output.bytes() < LARGE_PART_BYTES);
}

#[tokio::test]
async fn several_large_texts_share_what_a_model_is_shown() {
    let (_port, artifacts) = kept();
    let text = |n: usize| ContentPart::text(format!("{n}").repeat(LARGE_PART_BYTES + 1));
    let parts = vec![text(1), ContentPart::text("between"), text(2), text(3)];
    let output = artifacts.spill(&own(), ToolOutput { parts, ..ToolOutput::default() }).await;
    let seen = output.for_model();
    assert!(seen.len() <= MODEL_RESULT_BYTES, "{}", seen.len());
    for part in [&output.parts[0], &output.parts[2], &output.parts[3]] {
        assert!(seen.contains(part.artifact().unwrap().id.short()), "each can be read on");
    }
    assert!(seen.contains("between"));
}

#[tokio::test]
async fn media_are_kept_as_bytes_and_sent_as_they_came() {
    let (port, artifacts) = kept();
    let bytes: Vec<u8> = (0..LARGE_PART_BYTES).map(|n| (n * 7) as u8).collect();
    let data = STANDARD.encode(&bytes);
    let image = ContentPart::Image { mime_type: "image/png".into(), data: data.clone() };
    let weight = image.weight();
    let mut parts = vec![image.clone(), ContentPart::Audio { mime_type: "audio/wav".into(), data: data.clone() }];
    artifacts.spill_input(&own(), &mut parts).await;
    let artifact = parts[0].artifact().unwrap();
    assert_eq!((artifact.kind, artifact.bytes, artifact.is_whole), (ArtifactKind::Image, bytes.len() as u64, true));
    assert_eq!(content(&port, &artifact.id).await, bytes, "it can be exported as a file");
    assert_eq!(
        (parts[0].kind(), parts[0].weight(), parts[0].as_text().as_str()),
        ("image", weight, "[image image/png]")
    );
    assert_eq!(parts[1].weight(), data.len() / 16);
}

#[tokio::test]
async fn what_is_no_base64_stays_where_it_is() {
    let (_port, artifacts) = kept();
    let odd = ContentPart::Image { mime_type: "image/png".into(), data: "%".repeat(LARGE_PART_BYTES + 1) };
    let mut parts = vec![odd.clone()];
    artifacts.spill_input(&own(), &mut parts).await;
    assert!(parts == [odd]);
}

#[tokio::test]
async fn structured_content_goes_out_and_is_shown_where_there_is_nothing_else() {
    let (port, artifacts) = kept();
    let value = json!({"rows": vec!["a row of some text"; 20_000]});
    let alone = ToolOutput { structured: Some(value.clone()), ..ToolOutput::default() };
    let output = artifacts.spill(&own(), alone).await;
    let artifact = output.parts[0].artifact().unwrap();
    assert_eq!((output.structured, artifact.kind), (None, ArtifactKind::Json));
    assert_eq!(content(&port, &artifact.id).await, value.to_string().into_bytes());
    let beside = ToolOutput { structured: Some(value), ..ToolOutput::text("20,000 rows") };
    let output = artifacts.spill(&own(), beside).await;
    assert_eq!((output.plain().as_str(), &output.structured), ("20,000 rows", &None));
    assert_eq!(output.structured_artifact.unwrap().head, "", "a model does not see it");
}

/// A store whose disk is full.
struct Full;

impl ArtifactStorePort for Full {
    fn put<'a>(&'a self, _: &'a SessionId, _: Arc<Vec<u8>>) -> BoxFuture<'a, Result<ArtifactId, StoreError>> {
        ready(Err(StoreError::Unavailable("the disk is full".to_owned()))).boxed()
    }

    fn get<'a>(
        &'a self,
        _: &'a SessionId,
        _: &'a ArtifactId,
        _: Range<u64>,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        ready(Ok(None)).boxed()
    }

    fn list<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<Vec<StoredArtifact>, StoreError>> {
        ready(Ok(Vec::new())).boxed()
    }

    fn share<'a>(
        &'a self,
        _: &'a SessionId,
        _: &'a SessionId,
        _: &'a [ArtifactId],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }

    fn recorded<'a>(&'a self, _: &'a SessionId, _: &'a [ArtifactId]) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }

    fn unrecorded(&self, _: usize) -> BoxFuture<'_, Result<Vec<(SessionId, Vec<ArtifactId>)>, StoreError>> {
        ready(Ok(Vec::new())).boxed()
    }

    fn delete<'a>(&'a self, _: &'a SessionId, _: &'a [ArtifactId]) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }

    fn delete_all<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<usize, StoreError>> {
        ready(Ok(0)).boxed()
    }
}

#[tokio::test]
async fn what_the_store_does_not_take_stays_in_the_record() {
    let artifacts = Artifacts::of(Arc::new(Full));
    let text = "x".repeat(LARGE_PART_BYTES + 1);
    let image = ContentPart::Image { mime_type: "image/png".into(), data: STANDARD.encode(&text) };
    let before = ToolOutput {
        parts: vec![ContentPart::text(text.clone()), image],
        structured: Some(json!([text])),
        ..ToolOutput::default()
    };
    assert!(artifacts.spill(&own(), before.clone()).await == before);
}

#[tokio::test]
async fn what_a_file_held_goes_out_whatever_its_size_and_is_in_no_record() {
    let changed = || {
        let change = FileChange { path: "a.bin".into(), found: Some(Arc::new(vec![0xff])), ..FileChange::default() };
        ToolOutput { changes: vec![change], ..ToolOutput::text("written") }
    };
    let (port, artifacts) = kept();
    assert!(artifacts.would_spill(&changed()));
    let output = artifacts.spill(&own(), changed()).await;
    let original = output.changes[0].original.as_deref().unwrap();
    assert_eq!((original.kind, original.bytes, original.uri.as_deref()), (ArtifactKind::Blob, 1, Some("a.bin")));
    assert_eq!(content(&port, &original.id).await, [0xff]);
    for artifacts in [artifacts, Artifacts::default()] {
        let output = artifacts.spill(&own(), changed()).await;
        assert_eq!(output.changes[0].found, None, "it is not held in memory with the result");
    }
}
