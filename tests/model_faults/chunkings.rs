//! Every recorded stream in chunks of any size: an equal answer, or an error with a retry, never another answer.

use crate::model_faults::recordings::{Player, RECORDINGS, whole};
use crate::support::reply::Reply;
use bob_messages::llm::LlmErrorKind;
use std::time::{Duration, Instant};

/// How long the random chunkings may take altogether.
const BUDGET: Duration = Duration::from_secs(6);

/// How many chunkings are played between two looks at the clock.
const BATCH: usize = 100;

/// The bytes in pieces. The number chooses where they are cut: mostly at a few places, which is quick, and now and then
/// every few bytes.
fn chopped(bytes: &[u8], number: usize) -> Vec<Vec<u8>> {
    let mut chance = fastrand::Rng::with_seed(number as u64);
    let many = if number.is_multiple_of(100) { bytes.len() / 8 } else { chance.usize(1..=8) };
    let mut places: Vec<usize> = std::iter::repeat_with(|| chance.usize(1..bytes.len())).take(many).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.dedup();
    places.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect()
}

fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap().replace("\r\n", "\n").replace('\n', "\r\n");
    text.into_bytes()
}

#[tokio::test]
async fn l9_a_stream_in_any_pieces_is_the_same_answer() {
    let began = Instant::now();
    let mut chunkings = 0;
    let mut players = Vec::new();
    for recording in RECORDINGS {
        let player = Player::new(recording.kind, move |number| Reply::Pieces(chopped(recording.bytes, number)));
        players.push((recording, whole(recording).await, player));
    }
    'budget: loop {
        for (recording, whole, player) in &players {
            if chunkings >= RECORDINGS.len() * BATCH && began.elapsed() > BUDGET {
                break 'budget;
            }
            let numbers = chunkings..chunkings + BATCH;
            player
                .play_all(numbers, |number, end| match end {
                    Ok(answer) => assert_eq!(answer, *whole, "{} chopped by {number}", recording.name),
                    Err(error) => panic!("{} chopped by {number}: {error}", recording.name),
                })
                .await;
            chunkings += BATCH;
        }
    }
    println!("L9: {chunkings} chunkings in {:?}, all the same", began.elapsed());
    assert!(chunkings >= 8 * BATCH, "every recording had its turn");
}

/// genai cannot handle CR and LF of one line end in two reads. No text may be lost because of that.
#[tokio::test]
async fn l9_line_ends_of_two_bytes_are_read_alike_or_not_at_all() {
    let (mut alike, mut failed) = (0, 0);
    for recording in RECORDINGS {
        let whole = whole(recording).await;
        let bytes = with_crlf(recording.bytes);
        let ends = bytes.len();
        let player = Player::new(recording.kind, move |at| {
            let (one, other) = bytes.split_at(at);
            Reply::Pieces([one, other].into_iter().filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect())
        });
        player
            .play_all(0..ends, |at, end| match end {
                Ok(answer) => {
                    assert_eq!(answer, whole, "{} parted at {at}", recording.name);
                    alike += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind, LlmErrorKind::Unavailable, "{} parted at {at}: {error}", recording.name);
                    assert!(error.is_retryable());
                    failed += 1;
                }
            })
            .await;
    }
    println!("L9: with CR LF, {alike} partings read alike, {failed} failed and may be tried again");
    assert!(failed * 50 < alike, "only those within a line end fail");
}
