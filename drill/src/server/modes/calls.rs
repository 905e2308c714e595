//! Modes of calls.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Moment, Step};
use crate::server::protocol;
use crate::server::requests::Server;

/// A large text is written in pieces of this size, bytes, so that it need not be held.
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];

pub(super) fn silent_call(_server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    match moment.called() {
        Some(_) => Step::Dealt,
        None => Step::Healthy,
    }
}

pub(super) fn late_reply(_server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    match moment {
        Moment::Told("notifications/cancelled") => Step::Dealt,
        _ => Step::Healthy,
    }
}

pub(super) fn flood(server: &Arc<Server>, ms: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.called().cloned() else { return Step::Healthy };
    server.beside(move |server| {
        // Without a token there is nothing to report on; the flooding mode makes one up.
        let token = match &request.params["_meta"]["progressToken"] {
            Value::Null => request.id,
            token => token.clone(),
        };
        let mut progress = 0_u64;
        let mut tell = || {
            progress += 1;
            let params = json!({ "progressToken": token, "progress": progress, "message": "nearly there" });
            server.say(&protocol::notification("notifications/progress", &params))
        };
        while tell() {
            thread::sleep(Duration::from_millis(ms));
        }
    });
    Step::Dealt
}

pub(super) fn bigline(server: &Arc<Server>, bytes: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.called() else { return Step::Healthy };
    let frame = protocol::result(&request.id, &protocol::text("|").to_string());
    let (before, after) = frame.rsplit_once('|').unwrap_or((&frame, ""));
    let filling = pieces(bytes);
    let line = std::iter::once(before.as_bytes()).chain(filling).chain([after.as_bytes(), b"\n"]);
    let _reader_is_gone = server.write(line);
    Step::Dealt
}

pub(super) fn stderr(_server: &Arc<Server>, bytes: u64, moment: &Moment<'_>) -> Step {
    if moment.called().is_some() {
        let mut stderr = io::stderr().lock();
        for piece in pieces(bytes) {
            if stderr.write_all(piece).is_err() {
                break;
            }
        }
    }
    Step::Healthy
}

pub(super) fn trickle(server: &Arc<Server>, ms: u64, moment: &Moment<'_>) -> Step {
    if let Moment::Started = moment {
        server.slow_down(ms);
    }
    Step::Healthy
}

pub(super) fn spin(_server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    if moment.called().is_some() {
        loop {
            std::hint::spin_loop();
        }
    }
    Step::Healthy
}

pub(super) fn crash_on(server: &Arc<Server>, number: u64, moment: &Moment<'_>) -> Step {
    match moment.called() {
        Some(_) if server.calls() == number => server.exit(101),
        _ => Step::Healthy,
    }
}

/// This many bytes.
fn pieces<'a>(bytes: u64) -> impl Iterator<Item = &'a [u8]> {
    let size = PIECE.len() as u64;
    let rest = usize::try_from(bytes % size).unwrap_or(0);
    (0..bytes / size).map(|_| &PIECE[..]).chain(PIECE.get(..rest))
}
