//! What a model is sent whole comes back into its request: pictures, sounds, and what a person wrote.
//!
//! Done in the task of the model call, for one call at a time; nothing of it is kept.

use super::Artifacts;
use super::spill::inline;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bob_messages::artifact::Artifact;
use bob_messages::chat::{ContentPart, Message, ToolResult};
use bob_messages::ids::SessionId;
use bob_messages::llm::LlmRequest;
use std::sync::Arc;

impl Artifacts {
    /// The request with the content of what is sent whole. What is no longer stored is named in its place.
    pub(crate) async fn whole(&self, request: &Arc<LlmRequest>) -> Arc<LlmRequest> {
        if !request.messages.iter().any(|message| message.parts().iter().any(is_sent_whole)) {
            return Arc::clone(request);
        }
        let mut whole = LlmRequest::clone(request);
        for message in &mut whole.messages {
            if message.parts().iter().any(is_sent_whole) {
                *message = Arc::new(self.whole_message(&request.session, message).await);
            }
        }
        Arc::new(whole)
    }

    async fn whole_message(&self, session: &SessionId, message: &Message) -> Message {
        let mut whole = Vec::new();
        for part in message.parts() {
            whole.push(match part.artifact().filter(|artifact| artifact.is_whole) {
                Some(artifact) => self.inlined(session, artifact).await,
                None => part.clone(),
            });
        }
        match message {
            Message::Tool { result } => {
                let mut result = ToolResult::clone(result);
                result.output.parts = whole;
                Message::Tool { result: Arc::new(result) }
            }
            Message::User { .. } => Message::User { parts: whole },
            Message::Assistant { .. } => message.clone(),
        }
    }

    async fn inlined(&self, session: &SessionId, artifact: &Artifact) -> ContentPart {
        let content = match self.port() {
            Some(port) => port.get(session, &artifact.id, 0..u64::MAX).await.ok().flatten(),
            None => None,
        };
        let (content, is_text) = (content.filter(|content| content.len() as u64 == artifact.bytes), artifact.is_text());
        let text = match content {
            Some(content) if is_text => String::from_utf8(content).ok(),
            Some(content) => tokio::task::spawn_blocking(move || STANDARD.encode(content)).await.ok(),
            None => None,
        };
        match text {
            Some(text) => inline(artifact, text),
            None => {
                let (bytes, id) = (artifact.bytes, artifact.id.short());
                ContentPart::text(format!("{} ({bytes} bytes, artifact {id}) is no longer stored", artifact.as_text()))
            }
        }
    }
}

fn is_sent_whole(part: &ContentPart) -> bool {
    part.artifact().is_some_and(|artifact| artifact.is_whole)
}
