//! Every recorded stream, cut at every byte, in both ways a stream can end early.

use crate::model_faults::recordings::{Player, RECORDINGS, whole};
use crate::support::reply::Reply;
use bob_messages::llm::LlmErrorKind;
use std::time::Instant;

/// A cut stream is never an answer, unless nothing of the answer was cut away: a few bytes at the very end are only
/// the frame of the end marker.
#[tokio::test]
async fn l5_a_stream_cut_at_any_byte_is_never_an_answer() {
    let began = Instant::now();
    let (mut cuts, mut harmless) = (0, 0);
    for recording in RECORDINGS {
        let whole = whole(recording).await;
        let bytes = recording.bytes;
        // Even numbers end properly as HTTP, odd ones by the end of the connection.
        let player = Player::new(recording.kind, move |number| {
            let pieces = Reply::Pieces(vec![bytes[..number / 2].to_vec()]);
            if number % 2 == 0 { pieces } else { pieces.cut_after(number / 2) }
        });
        player
            .play_all(0..2 * bytes.len(), |number, end| {
                cuts += 1;
                let place = format!("{} cut at {} of {}", recording.name, number / 2, bytes.len());
                match end {
                    Ok(answer) => {
                        assert_eq!(answer, whole, "{place}");
                        assert!(number / 2 + 32 > bytes.len(), "{place}: more than the end was cut");
                        harmless += 1;
                    }
                    Err(error) => assert_eq!(error.kind, LlmErrorKind::Unavailable, "{place}: {error}"),
                }
            })
            .await;
    }
    println!("L5: {cuts} cuts in {:?}, {harmless} of them behind the last word", began.elapsed());
    assert!(cuts >= 20_000);
}
