//! A fake provider's response to one request, as declared in a test's script.
//!
//! A `Reply` is independent of wire formats; `plan` converts it.

use std::time::Duration;

/// A native tool call: id, tool name, and the arguments as the model wrote them (not necessarily valid JSON).
pub(crate) type Call = (String, String, String);

/// One answer of the script.
///
/// Wrappers hold another reply and change how it is sent; they nest. "Chunks" are pieces of the body: for a streamed
/// answer one server-sent event each, for a plain answer the whole body is one chunk.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Text; streamed in up to four deltas (of at most 512 characters each).
    Text(String),
    /// Native tool calls; the arguments are streamed in pieces like text.
    Calls(Vec<Call>),
    /// Text, then tool calls, in one message.
    TextAndCalls(String, Vec<Call>),
    /// Reasoning before text and calls: `reasoning_content` for OpenAI, a signed `thinking` block for Anthropic.
    Reasoning { thought: String, text: String, calls: Vec<Call> },
    /// Text that ends because the limit of output tokens was reached.
    MaxTokens(String),
    /// A refusal: the `refusal` field for OpenAI, the stop reason `refusal` for Anthropic.
    Refusal(String),
    /// Text ended by a content filter. Anthropic has no such reason and sends `refusal`.
    ContentFilter(String),
    /// A well-formed answer that holds no choice (OpenAI) or no content block (Anthropic).
    EmptyChoices,
    /// Status 200, but the body is an error; for a streamed request it is an error event inside the stream.
    ErrorBody200,
    /// Any status with any body. Without a body the wire's own error body for that status is sent. The content type is
    /// `application/json` unless the headers name one, so 200 with `text/event-stream` and a broken body is possible.
    Status { code: u16, headers: Vec<(String, String)>, body: Option<String> },
    /// A stream of exactly these pieces, well-formed as HTTP, with arbitrary content.
    Pieces(Vec<Vec<u8>>),
    /// A response with these pieces, the last one repeated; a client that disconnects ends it.
    Flood { code: u16, headers: Vec<(String, String)>, pieces: Vec<Vec<u8>>, repeat: usize },
    /// These bytes instead of an HTTP answer, then the connection closes. No bytes: it just closes.
    Raw(Vec<u8>),
    /// Nothing at all; the connection stays open until the client leaves.
    Silence,
    /// Other token counts than [`INPUT_TOKENS`] and [`OUTPUT_TOKENS`].
    WithUsage { reply: Box<Reply>, input: u64, output: u64 },
    /// Nothing for this long, then the reply.
    Delayed(Duration, Box<Reply>),
    /// A pause of this length before every chunk but the first.
    Paced(Duration, Box<Reply>),
    /// The connection closes after this many bytes of the body; at or past its end the framing stays incomplete.
    CutAfter { reply: Box<Reply>, bytes: usize },
    /// A stream that ends properly as HTTP, without its last event (`[DONE]`, `message_stop`). Plain answers are whole.
    EndWithoutDone(Box<Reply>),
    /// A stream that ends properly as HTTP after this many events. Plain answers are whole.
    EndAfter { reply: Box<Reply>, chunks: usize },
    /// The head and this many chunks, then silence until the client leaves.
    StallAfter { reply: Box<Reply>, chunks: usize },
    /// The body in writes of this many bytes, so that lines and letters are split anywhere.
    Splintered { reply: Box<Reply>, bytes: usize },
}

/// Default of reported input tokens.
pub(crate) const INPUT_TOKENS: u64 = 11;
/// Default of reported output tokens.
pub(crate) const OUTPUT_TOKENS: u64 = 7;

impl Reply {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Self {
        Self::Calls(vec![(id.to_owned(), name.to_owned(), arguments.to_owned())])
    }

    pub(crate) fn status(code: u16) -> Self {
        Self::Status { code, headers: Vec::new(), body: None }
    }

    /// Status 429; `retry_after` is sent as it is given, because it may be seconds, a date or nonsense.
    pub(crate) fn too_many_requests(retry_after: &str) -> Self {
        Self::Status { code: 429, headers: vec![("retry-after".into(), retry_after.into())], body: None }
    }

    pub(crate) fn with_usage(self, input: u64, output: u64) -> Self {
        Self::WithUsage { reply: Box::new(self), input, output }
    }

    pub(crate) fn delayed(self, by: Duration) -> Self {
        Self::Delayed(by, Box::new(self))
    }

    pub(crate) fn paced(self, pause: Duration) -> Self {
        Self::Paced(pause, Box::new(self))
    }

    pub(crate) fn cut_after(self, bytes: usize) -> Self {
        Self::CutAfter { reply: Box::new(self), bytes }
    }

    pub(crate) fn end_without_done(self) -> Self {
        Self::EndWithoutDone(Box::new(self))
    }

    pub(crate) fn end_after(self, chunks: usize) -> Self {
        Self::EndAfter { reply: Box::new(self), chunks }
    }

    pub(crate) fn stall_after(self, chunks: usize) -> Self {
        Self::StallAfter { reply: Box::new(self), chunks }
    }

    pub(crate) fn splintered(self, bytes: usize) -> Self {
        Self::Splintered { reply: Box::new(self), bytes }
    }
}
