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
    let newer = message().to_text().unwrap().replace("\"format\":1", "\"format\":9");
    assert_eq!(InboxMessage::parse(&newer), Err(StoreError::TooNew { found: 9, known: INBOX_FORMAT }));
    assert!(matches!(InboxMessage::parse("{\"format\":1}"), Err(StoreError::Corrupt(_))));
    assert!(matches!(InboxMessage::parse("nothing"), Err(StoreError::Corrupt(_))));
}

#[test]
fn a_message_has_the_format_that_first_had_its_kind() {
    let shown = |request| {
        let made = InboxMessage::new(message().session, RequestId::new("r1"), 7, request);
        let text = made.to_text().unwrap();
        assert_eq!(InboxMessage::parse(&text), Ok(made));
        text.split_once("\"request\":").unwrap().1.to_owned() + &format!(" {}", &text[..11])
    };
    let token = ResumeToken::new("one~secret");
    let resume = InboxRequest::Resume { token, reply: ResumeReply::Answer("blue".to_owned()) };
    assert!(resume.runs_a_turn());
    assert_eq!(shown(resume), r#"{"type":"resume","token":"one~secret","reply":{"answer":"blue"}}} {"format":2"#);
    let title = crate::options::Change::Set("Blue".into());
    let configure = InboxRequest::Configure { patch: Box::new(OptionsPatch { title, ..OptionsPatch::default() }) };
    assert!(!configure.runs_a_turn());
    let text = shown(configure);
    assert!(text.starts_with(r#"{"type":"configure","patch":{"#) && text.ends_with(r#"{"format":2"#), "{text}");
    let notice = Some("a file was put back".into());
    let configure = InboxRequest::Configure { patch: Box::new(OptionsPatch { notice, ..OptionsPatch::default() }) };
    let text = shown(configure);
    assert!(text.ends_with(r#"{"format":3"#), "an older program would lose what the model is told: {text}");
    let cancel = InboxRequest::Cancel { of: RequestId::new("r") };
    assert_eq!(shown(cancel), r#"{"type":"cancel","of":"r"}} {"format":1"#);
}
