//! The bytes and pauses of a [`Reply`] to one request.
//!
//! `openai`, `anthropic` and `gemini` create bodies; this module applies the faults (cut, stall, delay) to them. It
//! never touches a socket: `connection` executes a plan.

use std::time::Duration;

use super::reply::{Call, Reply};
use super::{anthropic, gemini, openai};

/// The formats of a fake provider, selected by the path of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    OpenAi,
    Anthropic,
    Gemini,
}

/// The parts of a request that determine its response.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) wire: Wire,
    /// Counts the requests of one provider from 1; it is part of the response id.
    pub(crate) number: usize,
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) usage: (u64, u64),
}

/// One assistant message, before it has a wire format.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) thought: String,
    pub(crate) text: String,
    pub(crate) refusal: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) finish: Finish,
    /// No choice at all, as opposed to an empty one.
    pub(crate) nothing: bool,
}

/// The finish reason. `Natural` means "stop" or "tool calls", depending on the message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Finish {
    #[default]
    Natural,
    MaxTokens,
    Refusal,
    ContentFilter,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: Framing,
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The answer is complete and the connection stays usable.
    Whole,
    /// The connection closes.
    Close,
    /// Nothing happens until the client leaves.
    Hold,
}

/// One answer as bytes and pauses.
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) pause: Duration,
    /// `None` sends the pieces bare.
    pub(crate) head: Option<Head>,
    pub(crate) pieces: Vec<Vec<u8>>,
    /// How many more times the last piece is sent.
    pub(crate) repeat: usize,
    pub(crate) ending: Ending,
}

impl Plan {
    pub(crate) fn of(reply: Reply, asked: &Asked) -> Self {
        let said = |said: Said| Self::said(&said, asked);
        match reply {
            Reply::Text(text) => said(Said { text, ..Said::default() }),
            Reply::Calls(calls) => said(Said { calls, ..Said::default() }),
            Reply::TextAndCalls(text, calls) => said(Said { text, calls, ..Said::default() }),
            Reply::Reasoning { thought, text, calls } => said(Said { thought, text, calls, ..Said::default() }),
            Reply::MaxTokens(text) => said(Said { text, finish: Finish::MaxTokens, ..Said::default() }),
            Reply::Refusal(refusal) => said(Said { refusal, finish: Finish::Refusal, ..Said::default() }),
            Reply::ContentFilter(text) => said(Said { text, finish: Finish::ContentFilter, ..Said::default() }),
            Reply::EmptyChoices => said(Said { nothing: true, ..Said::default() }),
            Reply::ErrorBody200 if asked.stream => Self::stream(match asked.wire {
                Wire::OpenAi => openai::error_events(),
                Wire::Anthropic => anthropic::error_events(),
                Wire::Gemini => gemini::error_events(),
            }),
            Reply::ErrorBody200 => Self::plain(200, Vec::new(), Self::error_body(500, asked)),
            Reply::Status { code, headers, body } => {
                Self::plain(code, headers, body.unwrap_or_else(|| Self::error_body(code, asked)))
            }
            Reply::Pieces(pieces) => Self::stream(pieces),
            Reply::Flood { code, headers, pieces, repeat } => {
                let head = Some(Head { code, headers, framing: Framing::Chunked });
                Self { head, repeat, ..Self::stream(pieces) }
            }
            Reply::Raw(bytes) => Self { head: None, ending: Ending::Close, ..Self::stream(vec![bytes]) },
            Reply::Silence => Self { head: None, ending: Ending::Hold, ..Self::stream(Vec::new()) },
            Reply::WithUsage { reply, input, output } => {
                Self::of(*reply, &Asked { usage: (input, output), ..asked.clone() })
            }
            Reply::Delayed(by, reply) => {
                let plan = Self::of(*reply, asked);
                Self { delay: plan.delay + by, ..plan }
            }
            Reply::Paced(pause, reply) => Self { pause, ..Self::of(*reply, asked) },
            Reply::CutAfter { reply, bytes } => Self::of(*reply, asked).cut(bytes),
            Reply::EndWithoutDone(reply) => {
                let plan = Self::of(*reply, asked);
                let chunks = plan.pieces.len().saturating_sub(1);
                plan.end_after(chunks)
            }
            Reply::EndAfter { reply, chunks } => Self::of(*reply, asked).end_after(chunks),
            Reply::StallAfter { reply, chunks } => {
                let mut plan = Self::of(*reply, asked);
                plan.pieces.truncate(chunks);
                plan.never_complete(Ending::Hold)
            }
            Reply::Splintered { reply, bytes } => {
                let plan = Self::of(*reply, asked);
                let pieces = plan.pieces.concat().chunks(bytes.max(1)).map(<[u8]>::to_vec).collect();
                Self { pieces, ..plan }
            }
        }
    }

    /// An error answer outside any script.
    pub(crate) fn error(code: u16, message: &str, wire: Wire) -> Self {
        let body = match wire {
            Wire::OpenAi => openai::error_body(code, message),
            Wire::Anthropic => anthropic::error_body(code, message),
            Wire::Gemini => gemini::error_body(code, message),
        };
        Self::plain(code, Vec::new(), body)
    }

    pub(crate) fn plain(code: u16, mut headers: Vec<(String, String)>, body: String) -> Self {
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            headers.push(("content-type".into(), "application/json".into()));
        }
        let head = Some(Head { code, headers, framing: Framing::Length(body.len()) });
        Self { head, ..Self::stream(vec![body.into_bytes()]) }
    }

    fn stream(pieces: Vec<Vec<u8>>) -> Self {
        let headers = vec![
            ("content-type".into(), "text/event-stream; charset=utf-8".into()),
            ("cache-control".into(), "no-cache".into()),
        ];
        let head = Some(Head { code: 200, headers, framing: Framing::Chunked });
        Self { delay: Duration::ZERO, pause: Duration::ZERO, head, pieces, repeat: 0, ending: Ending::Whole }
    }

    fn said(said: &Said, asked: &Asked) -> Self {
        match (asked.wire, asked.stream) {
            (Wire::OpenAi, true) => Self::stream(openai::events(said, asked)),
            (Wire::OpenAi, false) => Self::plain(200, Vec::new(), openai::body(said, asked)),
            (Wire::Anthropic, true) => Self::stream(anthropic::events(said, asked)),
            (Wire::Anthropic, false) => Self::plain(200, Vec::new(), anthropic::body(said, asked)),
            (Wire::Gemini, true) => Self::stream(gemini::events(said, asked)),
            (Wire::Gemini, false) => Self::plain(200, Vec::new(), gemini::body(said, asked)),
        }
    }

    fn error_body(code: u16, asked: &Asked) -> String {
        match asked.wire {
            Wire::OpenAi => openai::error_body(code, "the fake provider was told to fail"),
            Wire::Anthropic => anthropic::error_body(code, "the fake provider was told to fail"),
            Wire::Gemini => gemini::error_body(code, "the fake provider was told to fail"),
        }
    }

    pub(crate) fn chunked(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.framing == Framing::Chunked)
    }

    fn end_after(mut self, chunks: usize) -> Self {
        if self.chunked() {
            self.pieces.truncate(chunks);
        }
        self
    }

    fn cut(mut self, bytes: usize) -> Self {
        let mut left = bytes;
        for piece in &mut self.pieces {
            piece.truncate(left);
            left -= piece.len();
        }
        self.pieces.retain(|piece| !piece.is_empty());
        self.never_complete(Ending::Close)
    }

    /// A body whose announced length was already sent would look complete, so one more byte is announced.
    fn never_complete(mut self, ending: Ending) -> Self {
        let sent = self.pieces.iter().map(Vec::len).sum::<usize>();
        if let Some(Head { framing: Framing::Length(length), .. }) = &mut self.head {
            *length = (*length).max(sent + 1);
        }
        self.ending = ending;
        self
    }
}

/// Splits text into up to four pieces of nearly equal length, more only to keep each within 512 characters.
pub(crate) fn deltas(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let size = letters.len().div_ceil(4).clamp(1, 512);
    letters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
