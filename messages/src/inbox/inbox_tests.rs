//! Messages as text.

use super::*;

fn message() -> InboxMessage {
    let submit = SubmitRequest { parts: vec![ContentPart::text("hi")], ..SubmitRequest::default() };
    let session = SessionId::parse("one").unwrap();
    InboxMessage::new(session, RequestId::new("r1"), 7, InboxRequest::Submit(Box::new(submit)))
}

#[test]
fn a_message_is_read_as_it_was_written_and_says_only_what_it_has() {
    let text = message().to_text().unwrap();
    let shown = r#"{"format":1,"session":"one","request_id":"r1","at":7,"request":{"type":"submit","parts":[{"type":"text","text":"hi"}]}}"#;
    assert_eq!(text, shown);
    assert_eq!(InboxMessage::parse(&text), Ok(message()));
}

#[test]
fn a_newer_message_is_too_new_and_no_message_is_corrupt() {
    let newer = message().to_text().unwrap().replace("\"format\":1", "\"format\":2");
    assert_eq!(InboxMessage::parse(&newer), Err(StoreError::TooNew { found: 2, known: 1 }));
    assert!(matches!(InboxMessage::parse("{\"format\":1}"), Err(StoreError::Corrupt(_))));
    assert!(matches!(InboxMessage::parse("nothing"), Err(StoreError::Corrupt(_))));
}
