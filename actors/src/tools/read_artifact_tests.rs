//! What a model reads of an artifact: ranges of its text, of its own session.

use super::*;
use crate::store::MemoryArtifacts;
use std::sync::Arc;

fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

async fn kept(content: impl Into<Vec<u8>>) -> (Artifacts, ArtifactId) {
    let port = MemoryArtifacts::new();
    let id = port.put(&session("own"), Arc::new(content.into())).await.unwrap();
    (Artifacts::of(port), id)
}

fn read(id: &str, offset: u64, length: Option<u64>) -> Read {
    Read { id: id.to_owned(), offset, length }
}

#[tokio::test]
async fn ranges_come_to_the_whole_and_no_character_is_lost() {
    let whole: String = (0..2_000).map(|n| ["a", "ä", "€", "😀"][n % 4]).collect();
    let (artifacts, id) = kept(whole.clone()).await;
    for length in [1, 2, 3, 5, 7, 1_000, 1 << 20] {
        let (mut at, mut got) = (0, String::new());
        while at < whole.len() as u64 {
            let answer = answer(&artifacts, &session("own"), &read(id.short(), at, Some(length))).await.unwrap();
            let (head, text) = answer.split_once('\n').unwrap();
            got.push_str(text);
            at = match head.split_once("the next byte is ") {
                Some((_, next)) => next.trim_end_matches(']').parse().unwrap(),
                None => whole.len() as u64,
            };
        }
        assert_eq!(got, whole, "in pieces of {length}");
    }
}

#[tokio::test]
async fn the_answer_says_where_it_is_and_fits_what_a_model_is_shown() {
    let (artifacts, id) = kept("x".repeat(200_000)).await;
    let middle = answer(&artifacts, &session("own"), &read(id.as_str(), 100_000, None)).await.unwrap();
    assert!(
        middle.starts_with("[bytes 100000 to 116384 of 200000; the next byte is 116384]\nxxx"),
        "{}",
        &middle[..80]
    );
    let end = answer(&artifacts, &session("own"), &read(id.as_str(), 199_999, None)).await.unwrap();
    assert_eq!(end, "[bytes 199999 to 200000 of 200000; this is its end]\nx");
    let most = answer(&artifacts, &session("own"), &read(id.as_str(), 0, Some(u64::MAX))).await.unwrap();
    assert!(most.len() <= bob_messages::chat::MODEL_RESULT_BYTES, "{}", most.len());
    let beyond = answer(&artifacts, &session("own"), &read(id.as_str(), u64::MAX, None)).await.unwrap();
    assert!(beyond.starts_with("[bytes 200000 to 200000"), "{beyond}");
}

#[tokio::test]
async fn what_is_no_text_or_not_of_this_session_is_refused() {
    let (artifacts, id) = kept(vec![0xff; 300]).await;
    let refused = |session: SessionId, named: String| {
        let artifacts = artifacts.clone();
        async move { answer(&artifacts, &session, &read(&named, 0, Some(100))).await.unwrap_err().to_string() }
    };
    assert!(refused(session("own"), id.to_string()).await.ends_with("is no text"));
    for named in [id.to_string(), id.short().to_owned()] {
        assert_eq!(refused(session("other"), named.clone()).await, format!("this session has no artifact {named}"));
    }
    assert!(refused(session("own"), id.as_str()[..7].to_owned()).await.starts_with("this session has no artifact"));
}
