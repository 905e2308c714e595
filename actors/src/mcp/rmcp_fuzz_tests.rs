//! Arbitrary output of a server before its handshake response does not prevent the handshake.
//!
//! `__fuzz__` has output of real servers.

use super::*;
use crate::mcp::testing::FarEnd;
use bob_messages::ids::ServerId;
use tokio::io::AsyncWriteExt;

/// Fragments of lines that random bytes would not form.
const WORDS: [&str; 16] = [
    "{\"jsonrpc\":\"2.0\",",
    "}",
    "\n",
    "\"id\":",
    "null,",
    "999,",
    "\"a\",",
    "\"result\":{}",
    "\"error\":{\"code\":-1,\"message\":\"x\"}",
    "\"method\":\"ping\"",
    "\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}",
    "[",
    "]",
    ",",
    "\u{feff}",
    "\"id\":-0.5,",
];

/// Whether an independent parser takes one of these lines for the response.
fn answers(lines: &[u8]) -> bool {
    lines.split(|byte| *byte == b'\n').any(|line| match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(top)) => {
            let is_reply = top.contains_key("result") || top.contains_key("error");
            // The handshake is the first question of a connection.
            is_reply && top.get("id").is_some_and(|id| matches!(id.to_string().trim_matches('"'), "0" | "1"))
        }
        _ => false,
    })
}

async fn shakes_hands_behind(lines: &[u8]) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(near);
    let handler = Handler::new(ServerId::new("far"), Arc::from([]), None, Arc::default());
    let opening = tokio::spawn(Connection::open(read, write, handler, None));
    let (far_read, mut far_write) = tokio::io::split(far);
    far_write.write_all(lines).await.expect("somebody reads");
    far_write.write_all(b"\n").await.expect("somebody reads");
    let mut far = FarEnd::new(far_read.unsplit(far_write));
    far.shake_hands().await;
    let opened = tokio::time::timeout(Duration::from_secs(30), opening).await;
    let opened = opened.unwrap_or_else(|_late| panic!("no handshake behind {:?}", String::from_utf8_lossy(lines)));
    if let Err(misfit) = opened.expect("it ends") {
        panic!("{misfit:?} behind {:?}", String::from_utf8_lossy(lines));
    }
}

#[test]
fn fuzz_lines_before_the_handshake_do_not_stop_a_server() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    bolero::check!(name = "before_the_handshake").with_iterations(300).with_max_len(512).for_each(|bytes: &[u8]| {
        let woven: String = bytes.iter().map(|byte| WORDS[usize::from(*byte) % WORDS.len()]).collect();
        for lines in [bytes, woven.as_bytes()] {
            if !answers(lines) {
                runtime.block_on(shakes_hands_behind(lines));
            }
        }
    });
}
