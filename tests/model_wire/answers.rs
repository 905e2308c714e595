//! The content of a complete answer.

use crate::model_wire::client::{ALL, ask, hello, port};
use crate::support::anthropic::SIGNATURE;
use crate::support::gemini::THOUGHT_SIGNATURE;
use crate::support::provider::FakeProvider;
use crate::support::reply::{INPUT_TOKENS, OUTPUT_TOKENS, Reply};
use bob_actors::llm::providers::ProviderKind;
use bob_messages::chat::StopReason;
use bob_messages::llm::LlmAnswer;

async fn answer(reply: Reply, kind: ProviderKind) -> LlmAnswer {
    let provider = FakeProvider::start([reply]);
    ask(&port(&provider, kind, 10_000), hello()).await.unwrap_or_else(|error| panic!("{kind:?}: {error}"))
}

#[tokio::test]
async fn text_comes_whole_with_its_usage_and_its_names() {
    for kind in ALL {
        let said = answer(Reply::text("Hello there, grüße 世界"), kind).await;
        assert_eq!(said.text, "Hello there, grüße 世界");
        assert_eq!(said.stop_reason, StopReason::Stop);
        let usage = said.usage.unwrap();
        let tokens = (usage.input_tokens, usage.output_tokens, usage.total_tokens);
        assert_eq!(tokens, (INPUT_TOKENS, OUTPUT_TOKENS, INPUT_TOKENS + OUTPUT_TOKENS), "{kind:?}");
        assert!(said.response_id.as_deref().is_some_and(|id| id.contains("fake")), "{:?}", said.response_id);
        let dated = matches!(kind, ProviderKind::OpenAi | ProviderKind::Ollama);
        let model = if dated { "fake:m-1-2024-07-18" } else { "fake:m-1" };
        assert_eq!(said.model.as_str(), model, "the model that answered, as the provider names it");
    }
}

#[tokio::test]
async fn several_calls_come_in_order_with_their_arguments_as_text() {
    let calls = || {
        let call = |id: &str, name: &str, arguments: &str| (id.to_owned(), name.to_owned(), arguments.to_owned());
        vec![call("c1", "local__read", r#"{"path":"a.txt"}"#), call("c2", "mcp__files__list", "{}")]
    };
    for kind in ALL {
        for (reply, text) in [(Reply::Calls(calls()), ""), (Reply::TextAndCalls("I look.".into(), calls()), "I look.")]
        {
            let said = answer(reply, kind).await;
            let names: Vec<_> = said.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
            assert_eq!(names, [("local__read", r#"{"path":"a.txt"}"#), ("mcp__files__list", "{}")], "{kind:?}");
            assert_eq!((said.text.as_str(), said.stop_reason), (text, StopReason::ToolCalls));
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_come_as_they_are() {
    // Gemini's arguments are an object by its format.
    for kind in ALL.into_iter().filter(|kind| *kind != ProviderKind::Gemini) {
        let said = answer(Reply::call("c1", "local__read", r#"{"path": "#), kind).await;
        assert_eq!(said.calls[0].arguments, r#"{"path": "#, "{kind:?}");
    }
}

#[tokio::test]
async fn thoughts_are_kept_apart_from_words() {
    let thinks = || Reply::Reasoning {
        thought: "let me see".into(),
        text: "42".into(),
        calls: vec![("c1".into(), "local__read".into(), "{}".into())],
    };
    for kind in ALL {
        let said = answer(thinks(), kind).await;
        assert_eq!((said.text.as_str(), said.reasoning.as_deref()), ("42", Some("let me see")), "{kind:?}");
    }
    let signed = answer(thinks(), ProviderKind::Anthropic).await;
    assert_eq!(signed.calls[0].signatures, [format!("{SIGNATURE}\nlet me see")]);
    let signed = answer(thinks(), ProviderKind::Gemini).await;
    assert_eq!(signed.calls[0].signatures, [THOUGHT_SIGNATURE]);
}

#[tokio::test]
async fn cut_refused_and_filtered_answers_say_so_even_when_they_are_empty() {
    for kind in ALL {
        let rows = [
            (Reply::MaxTokens("half of".into()), "half of", StopReason::MaxTokens),
            (Reply::MaxTokens(String::new()), "", StopReason::MaxTokens),
            (Reply::Refusal("I cannot help.".into()), "I cannot help.", refused(kind)),
        ];
        for (reply, text, reason) in rows {
            let said = answer(reply, kind).await;
            assert_eq!((said.text.as_str(), said.stop_reason), (text, reason), "{kind:?}");
        }
    }
    for kind in ALL {
        let filtered = answer(Reply::ContentFilter(String::new()), kind).await;
        let reason = if kind == ProviderKind::Anthropic { StopReason::Refusal } else { StopReason::ContentFilter };
        assert_eq!(filtered.stop_reason, reason, "{kind:?}");
    }
    let empty_refusal = answer(Reply::Refusal(String::new()), ProviderKind::Anthropic).await;
    assert_eq!(empty_refusal.stop_reason, StopReason::Refusal);
}

/// Gemini calls every refusal a filter.
fn refused(kind: ProviderKind) -> StopReason {
    if kind == ProviderKind::Gemini { StopReason::ContentFilter } else { StopReason::Refusal }
}

#[tokio::test]
async fn a_prompt_that_gemini_blocks_is_an_answer_that_says_so() {
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4}}"#;
    let said = answer(Reply::Pieces(vec![format!("data: {blocked}\r\n\r\n").into_bytes()]), ProviderKind::Gemini).await;
    assert_eq!((said.text.as_str(), said.stop_reason), ("", StopReason::ContentFilter));
}

#[tokio::test]
async fn bytes_may_be_split_anywhere() {
    for kind in ALL {
        for bytes in [1, 2, 3, 7, 64] {
            let said = answer(Reply::text("grüße, 世界 🦀").splintered(bytes), kind).await;
            assert_eq!(said.text, "grüße, 世界 🦀", "{kind:?} in pieces of {bytes}");
        }
    }
}
