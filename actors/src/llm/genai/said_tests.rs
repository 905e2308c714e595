//! What is shown of a body, and what never is.

use super::*;
use bob_messages::llm::LlmErrorKind;

fn shown(body: &str) -> Option<String> {
    of(body, &[SecretString::from("house-key"), SecretString::from("")])
}

#[test]
fn l10_the_message_and_the_code_of_a_body_are_shown() {
    let rows = [
        (r#"{"error":{"message":"upstream exploded"}}"#, Some("upstream exploded")),
        (r#"{"error":{"message":"no","code":"insufficient_quota"}}"#, Some("no (insufficient_quota)")),
        (r#"{"error":{"message":"no","code":null,"type":"requests"}}"#, Some("no (requests)")),
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#, Some("busy (overloaded_error)")),
        (r#"{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}"#, Some("slow (RESOURCE_EXHAUSTED)")),
        (r#"[{"error":{"message":"in a list"}}]"#, Some("in a list")),
        (r#"{"error":"just words"}"#, Some("just words")),
        (r#"{"message":"at the top"}"#, Some("at the top")),
        (r#"{"detail":"extra fields"}"#, Some("extra fields")),
        (r#"{"error":{"type":"exceed_context_size_error"}}"#, Some("exceed_context_size_error")),
        ("upstream exploded\n", Some("upstream exploded")),
        ("two\r\nlines\u{1b}[31m\u{202e}", Some("two lines [31m")),
        (r#"{"prompt":"all that was said"}"#, None),
        (r#"{"error":{}}"#, None),
        (r#"{"error":{"message":7}}"#, None),
        ("{\"error\":{\"message\":\"cut", None),
        ("<html>a page</html>", None),
        ("", None),
    ];
    for (body, said) in rows {
        assert_eq!(shown(body).as_deref(), said, "{body}");
    }
    assert_eq!(shown(&"a ".repeat(300)), None, "a long text that is no JSON");
}

#[test]
fn l10_what_looks_like_a_key_is_hidden() {
    let rows = [
        "Incorrect API key provided: sk-proj-abcd1234. You can find it at https://platform.example.com/account/api-keys",
        "Incorrect API key provided: sk-pr***************cdef",
        "header Authorization: Bearer abcdefghijkl was refused",
        "authorization=Bearer%20abc sk_live_0123456789",
        "key=house-key, and again house-key",
        "api_key=0123456789abcdef is not known",
        "https://example.com/v1?key=AIzaSyA-0123456789abcdefghijklmnopqrstu",
        "token: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "Access denied for 0123456789abcdef0123456789abcdef here",
        "gsk_0123456789",
        "your key abcd12345678 is over",
    ];
    let secrets = [
        "abcd1234",
        "sk-pr",
        "cdef",
        "abcdefghijkl",
        "0123456789",
        "house-key",
        "AIzaSy",
        "eyJ",
        "c2lnbmF0",
        "12345678",
    ];
    for row in rows {
        let said = shown(&serde_json::json!({"error": {"message": row}}).to_string()).unwrap();
        assert!(said.contains(HIDDEN), "{row}: {said}");
        for secret in secrets {
            assert!(!said.contains(secret), "{row}: {said}");
        }
    }
    let innocent = "model claude-3-5-sonnet-20241022 of project 550e8400-e29b-41d4-a716-446655440000 is over its limit \
                    of 10000 tokens per min; the key word is important, the token count is 123456789012";
    assert_eq!(shown(innocent).as_deref(), Some(innocent));
}

#[test]
fn a_key_of_a_few_letters_hides_no_letters() {
    let keys = ["l", "abc"].map(SecretString::from);
    let said = of("all is well, abc", &keys);
    assert_eq!(said.as_deref(), Some("all is well, abc"));
}

#[test]
fn l10_at_most_500_characters_are_shown() {
    let words = "überlang ".repeat(10_000);
    let said = shown(&serde_json::json!({"error": {"message": words}}).to_string()).unwrap();
    assert_eq!(said.chars().count(), MOST_CHARS);
    let error = with(LlmError::new(LlmErrorKind::Rejected, "HTTP 400"), r#"{"error":"why"}"#, &[]);
    assert_eq!(error.message, "HTTP 400; it said: why");
}
