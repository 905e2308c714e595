use super::*;
use crate::chat::{CallStatus, StopReason, ToolCall, ToolResult};
use crate::ids::{ModelName, RecordId, ResumeToken, ToolName};
use crate::input::TurnInput;
use crate::store::{Answered, FORMAT, StepCost};
use crate::tools::ToolOutput;
use serde_json::json;

fn change(path: &str, before: Option<&str>, after: Option<&str>) -> FileChange {
    let text = |text: Option<&str>| text.map(str::to_owned);
    FileChange { path: path.to_owned(), before: text(before), after: text(after), ..FileChange::default() }
}

#[test]
fn several_changes_of_a_file_are_one_and_those_that_come_to_nothing_none() {
    let changes = [
        change("a", Some("1"), Some("2")),
        change("b", None, Some("x")),
        change("c", Some("same"), Some("other")),
        change("a", Some("2"), Some("3")),
        change("c", Some("other"), Some("same")),
        change("b", Some("x"), None),
    ];
    assert_eq!(together(&changes), [change("a", Some("1"), Some("3"))]);
}

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn record(at: Millis, turn: &str, fact: Fact) -> Arc<Record> {
    let id = RecordId::new(format!("{at}-{turn}"));
    Arc::new(Record {
        format: FORMAT,
        id,
        session: session(),
        version: at.unsigned_abs(),
        epoch: 1,
        turn: Some(TurnId::new(turn)),
        at,
        fact,
    })
}

fn begins(at: Millis, turn: &str) -> [Arc<Record>; 2] {
    let input = TurnInput::bare(TurnId::new(turn), ResumeToken::new("secret"), Vec::new());
    let started = Fact::Started { model: ModelName::parse("scripted:m").unwrap(), selected: None };
    [record(at, turn, Fact::Input(Arc::new(input))), record(at, turn, started)]
}

fn result(at: Millis, turn: &str, name: &str, output: ToolOutput) -> Arc<Record> {
    let call = CallId::new("c1");
    let result = ToolResult { call, name: ToolName::new(name), status: CallStatus::Ok, output, duration_ms: 1 };
    record(at, turn, Fact::Result(Arc::new(result)))
}

fn changes(at: Millis, turn: &str, changes: Vec<FileChange>) -> Arc<Record> {
    result(at, turn, "local/edit_file", ToolOutput { changes, ..ToolOutput::default() })
}

#[test]
fn a_change_in_the_background_is_one_of_the_turn_that_ran_then_and_all_are_in_the_order_of_time() {
    let edit = |before: &str, after: &str| change("a", Some(before), Some(after));
    let mut records = begins(10, "t1").to_vec();
    records.push(changes(12, "t1", vec![edit("0", "1")]));
    records.extend(begins(20, "t2"));
    records.push(changes(24, "t2", vec![edit("2", "3")]));
    records.extend(begins(40, "t3"));
    let below = vec![
        changes(20, "b", vec![edit("1", "2")]),
        changes(26, "b", vec![edit("3", "4")]),
        changes(41, "b", vec![edit("4", "5")]),
    ];
    let child = ChildRecords { turn: TurnId::new("t1"), records: below, in_background: true };
    let turns = with_children(&session(), &records, &[child]);
    let told: Vec<_> = turns.iter().map(|turn| (turn.turn.as_str(), turn.number, turn.at, &turn.changes[..])).collect();
    let expected = [
        ("t1", 1, 12, &[edit("0", "1"), edit("1", "2")][..]),
        ("t2", 1, 24, &[edit("2", "3"), edit("3", "4")]),
        ("t3", 1, 41, &[edit("4", "5")]),
    ];
    assert_eq!(told, expected);
    assert_eq!(together(&in_order(&turns)), [edit("0", "5")]);
    // Without the turns that ran, it is one of its caller's, and in order with the others.
    let child = ChildRecords {
        turn: TurnId::new("t2"),
        records: vec![changes(11, "b", vec![edit("x", "0")])],
        in_background: true,
    };
    let turns = with_children(&session(), &records, &[child]);
    assert_eq!(in_order(&turns), [edit("x", "0"), edit("0", "1"), edit("2", "3")]);
}

#[test]
fn changes_of_one_time_follow_on_each_other() {
    let edit = |before: &str, after: &str| change("a", Some(before), Some(after));
    let mut records = begins(10, "t1").to_vec();
    records.push(changes(12, "t1", vec![edit("1", "2"), edit("3", "1")]));
    let child = ChildRecords {
        turn: TurnId::new("t1"),
        records: vec![changes(12, "b", vec![edit("0", "1"), edit("2", "3")])],
        in_background: false,
    };
    let turns = with_children(&session(), &records, &[child]);
    assert_eq!(turns[0].changes, [edit("0", "1"), edit("1", "2"), edit("2", "3"), edit("3", "1")]);
    assert_eq!(together(&turns[0].changes), [edit("0", "1")]);
}

#[test]
fn a_clock_that_goes_back_changes_no_order() {
    let edit = |before: &str, after: &str| change("a", Some(before), Some(after));
    let mut records = Vec::new();
    for (at, turn, edits) in [(10, "t1", edit("0", "1")), (5, "t2", edit("1", "2")), (11, "t3", edit("2", "3"))] {
        records.extend(begins(at, turn));
        records.push(changes(at, turn, vec![edits]));
    }
    let made = change("k", None, Some("k"));
    let child = ChildRecords {
        turn: TurnId::new("t1"),
        records: vec![changes(12, "b", vec![made.clone()])],
        in_background: false,
    };
    let turns = with_children(&session(), &records, &[child]);
    assert_eq!(together(&in_order(&turns)), [edit("0", "3"), made.clone()]);
    assert!(turns[0].changes.contains(&made), "it is one of the turn that waited for it: {turns:?}");
}

#[test]
fn only_the_called_turn_of_a_sub_agent_counts() {
    let edit = |path: &str| change(path, None, Some("x"));
    let all =
        [begins(1, "mine").to_vec(), vec![changes(2, "mine", vec![edit("a")]), changes(3, "later", vec![edit("b")])]];
    let child = |called: Option<&str>| Child {
        turn: TurnId::new("t1"),
        session: SessionId::parse("c").unwrap(),
        called: called.map(TurnId::new),
        has_result: true,
        in_background: false,
    };
    for called in [None, Some("mine")] {
        let of = ChildRecords::of(&child(called), all.concat());
        assert_eq!(with_children(&session(), &begins(1, "t1"), &[of])[0].changes, [edit("a")], "{called:?}");
    }
}

#[test]
fn a_sub_agent_is_known_by_its_call_before_there_is_a_result() {
    let call = |id: &str, name: &str| {
        let (id, name) = (CallId::new(id), ToolName::new(name));
        Arc::new(ToolCall { id, name, arguments: json!({}).into(), argument_bytes: 2, signatures: Vec::new() })
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
    let calls = vec![call("c1", "agent/worker"), call("c2", "local/read_file")];
    let mut records = begins(1, "t1").to_vec();
    records.push(record(2, "t1", Fact::Answered(Box::new(Answered::bare("", calls, cost)))));
    let (child, called) = child_of(&session(), &TurnId::new("t1"), &CallId::new("c1")).unwrap();
    let known = |has_result| Child {
        turn: TurnId::new("t1"),
        session: child.clone(),
        called: Some(called.clone()),
        has_result,
        in_background: false,
    };
    assert_eq!(children(&session(), &records), [known(false)]);
    let denied = result(3, "t1", "agent/worker", ToolOutput::default());
    assert_eq!(children(&session(), records.iter().chain([&denied])), [known(false)], "a denied call began none");
    let output = ToolOutput { structured: Some(json!({ "session": child.as_str() })), ..ToolOutput::default() };
    let done = result(3, "t1", "agent/worker", output);
    assert_eq!(children(&session(), records.iter().chain([&done])), [known(true)]);
    // In a copy the result names the session of the original.
    let of_copy =
        Child { session: child.clone(), called: None, turn: TurnId::new("t1"), has_result: true, in_background: false };
    assert!(children(&SessionId::parse("copy").unwrap(), records.iter().chain([&done])).contains(&of_copy));
}
