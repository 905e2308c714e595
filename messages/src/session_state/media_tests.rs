//! Attachments of a live session are bounded by what they weigh.

use super::*;
use crate::chat::{CallStatus, FinishReason, StopReason, ToolCall};
use crate::ids::{CallId, ModelName, RecordId, ResumeToken, SessionId, ToolName, TurnId};
use crate::input::TurnInput;
use crate::store::{Answered, Ended, FORMAT, StepCost};
use crate::tools::ToolOutput;

fn image(bytes: usize) -> ContentPart {
    ContentPart::Image { mime_type: "image/png".into(), data: "A".repeat(bytes) }
}

#[derive(Default)]
struct Journal(Vec<Arc<Record>>);

impl Journal {
    fn write(&mut self, turn: u64, fact: Fact) {
        let version = self.0.len() as u64 + 1;
        let (id, turn) = (RecordId::numbered(1, version), Some(TurnId::new(format!("t{turn}"))));
        let session = SessionId::parse("s").unwrap();
        self.0.push(Arc::new(Record { format: FORMAT, id, session, version, epoch: 1, turn, at: 0, fact }));
    }

    fn begins(&mut self, turn: u64, parts: Vec<ContentPart>) {
        let input = TurnInput::bare(TurnId::new(format!("t{turn}")), ResumeToken::new("secret"), parts);
        self.write(turn, Fact::Input(Arc::new(input)));
        self.write(turn, Fact::Started { model: ModelName::parse("scripted:m").unwrap(), selected: None });
    }

    fn ends(&mut self, turn: u64) {
        let (finish_reason, content) = (FinishReason::Final, "seen".to_owned());
        let ended = Ended { content, duration_ms: Some(1), ..Ended::new(finish_reason) };
        self.write(turn, Fact::Outcome(Box::new(ended)));
    }

    /// A call of the running turn that gives these parts.
    fn calls(&mut self, turn: u64, number: u64, parts: Vec<ContentPart>) {
        let (id, name) = (CallId::numbered(number), ToolName::new("mcp/camera/shoot"));
        let arguments = serde_json::json!({});
        let call = ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.into(),
            argument_bytes: 2,
            signatures: Vec::new(),
        };
        let cost = StepCost {
            usage: None,
            prompt_bytes: 1,
            stop_reason: StopReason::ToolCalls,
            response_id: None,
            model: ModelName::parse("scripted:m").unwrap(),
            latency_ms: 1,
            cost: None,
        };
        self.write(turn, Fact::Answered(Box::new(Answered::bare("", vec![Arc::new(call)], cost))));
        let output = ToolOutput { parts, ..ToolOutput::default() };
        let result = ToolResult { call: id, name, status: CallStatus::Ok, output, duration_ms: 1 };
        self.write(turn, Fact::Result(Arc::new(result)));
    }

    fn live(&self) -> Session {
        Session::fold_keeping(SessionId::parse("s").unwrap(), 50, &self.0)
    }
}

fn media(session: &Session) -> usize {
    session.history.iter().flat_map(|message| message.parts()).map(weight).sum()
}

fn words(session: &Session) -> String {
    session.history.iter().flat_map(|message| message.parts()).map(ContentPart::as_text).collect::<Vec<_>>().join("\n")
}

#[test]
fn exactly_as_much_as_may_be_stays_and_one_byte_more_costs_the_oldest() {
    for (more, left) in [(0, MOST_MEDIA_BYTES), (1, MOST_MEDIA_BYTES / 2 + 1)] {
        let mut journal = Journal::default();
        journal.begins(1, vec![ContentPart::text("the first"), image(MOST_MEDIA_BYTES / 2)]);
        journal.ends(1);
        journal.begins(2, vec![ContentPart::text("the second"), image(MOST_MEDIA_BYTES / 2 + more)]);
        let session = journal.live();
        assert_eq!(media(&session), left, "{more} more");
        let words = words(&session);
        assert_eq!(words.contains("is left out here"), more > 0, "{words}");
        if more > 0 {
            let named = format!("[image image/png] ({} bytes in Base64) is left out here", MOST_MEDIA_BYTES / 2);
            assert!(words.starts_with(&format!("the first\n{named}")), "{words}");
        }
        let whole = Session::fold(SessionId::parse("s").unwrap(), &journal.0);
        assert_eq!(media(&whole), MOST_MEDIA_BYTES + more, "whoever reads the journal sees all");
    }
}

#[test]
fn fifty_large_images_weigh_no_more_than_may_be() {
    let mut journal = Journal::default();
    for turn in 1..=25 {
        journal.begins(turn, vec![image(3 * 1024 * 1024)]);
        journal.ends(turn);
    }
    let session = journal.live();
    assert_eq!(media(&session), 30 * 1024 * 1024, "the newest ten");
    assert_eq!(words(&session).matches("is left out here").count(), 15);
}

#[test]
fn what_the_turn_is_about_stays_and_results_are_bounded_while_it_runs() {
    let mut journal = Journal::default();
    journal.begins(1, vec![image(13 * 1024 * 1024)]);
    for number in 1..=8 {
        journal.calls(1, number, vec![image(4 * 1024 * 1024)]);
        let session = journal.live();
        assert!(media(&session) <= MOST_MEDIA_BYTES, "{}", media(&session));
        assert_eq!(session.history[0].parts().iter().map(weight).sum::<usize>(), 13 * 1024 * 1024);
    }
    let open = journal.live().open.expect("it runs");
    let held: usize = open.closed.iter().flat_map(|(_, result)| &result.output.parts).map(weight).sum();
    assert_eq!(held, 0, "the transcript holds none of them");
    assert_eq!(open.full_transcript()[0].result, "[image image/png]");
    // One that could never be kept costs nobody else theirs.
    journal.calls(1, 9, vec![image(MOST_MEDIA_BYTES + 1), ContentPart::text("too large")]);
    let session = journal.live();
    assert!(media(&session) > 13 * 1024 * 1024 && media(&session) <= MOST_MEDIA_BYTES);
    assert!(words(&session).contains("[image image/png] (33554433 bytes in Base64) is left out here"));
}
