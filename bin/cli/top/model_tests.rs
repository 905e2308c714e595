use super::*;
use bob::health::{MetricsSnapshot, NodeState, NodeStatus, TurnCounts};
use bob::sessions::FinishReason;
use bob::tools::servers::{ServerId, ServerState, ServerStatus};

fn hello() -> Hello {
    let word = |text: &str| text.to_owned();
    Hello { version: word("1"), pid: 1, command: word("batch"), config: word("c"), store: word("s") }
}

fn node(name: &str, state: NodeStatus, children: Vec<NodeState>) -> NodeState {
    NodeState { name: name.into(), state, age_ms: 0, restarts: 0, last_error: None, queued: None, children }
}

fn look(sessions: &[(&str, NodeStatus)], uptime_ms: u64, ended: u64) -> Look {
    let sessions = sessions.iter().map(|(name, state)| node(name, *state, Vec::new())).collect();
    let mut turns = TurnCounts::default();
    turns.ends[FinishReason::Final] = ended;
    let metrics = MetricsSnapshot {
        uptime_ms,
        turns,
        servers: vec![ServerStatus {
            id: ServerId::new("files"),
            transport: "stdio".into(),
            state: ServerState::Ready,
            tools: 1,
            restarts: 0,
            pid: None,
            server: None,
            protocol: None,
            last_error: None,
            required: false,
            owner: None,
            node: None,
        }],
        ..MetricsSnapshot::default()
    };
    let tree = vec![
        node("tools", NodeStatus::Running, vec![node("files", NodeStatus::Running, Vec::new())]),
        node("sessions", NodeStatus::Running, sessions),
    ];
    Look { tree, metrics, process: Default::default(), is_draining: false }
}

fn model() -> Model {
    let mut model = Model::new(hello(), true);
    model.take(look(&[("idle", NodeStatus::Idle), ("works", NodeStatus::Running)], 1_000, 0));
    model
}

fn press(model: &mut Model, key: KeyCode) -> Option<UserAction> {
    model.key(KeyEvent::from(key))
}

fn paths(model: &Model) -> Vec<&str> {
    model.rows.iter().map(|row| row.path.as_str()).collect()
}

#[test]
fn sessions_that_work_stand_before_those_that_rest() {
    assert_eq!(paths(&model()), ["tools", "tools/files", "sessions", "sessions/works", "sessions/idle"]);
}

#[test]
fn sessions_of_sub_agents_stand_below_those_that_they_work_for() {
    let mut model = model();
    let (child, below) = ("works.c1-0123456789ab", "works.c1-0123456789ab.c2-ba9876543210");
    let (idle, running) = (NodeStatus::Idle, NodeStatus::Running);
    model.take(look(&[(below, running), ("idle", idle), (child, idle), ("works", running)], 2_000, 0));
    let rows: Vec<_> = model.rows.iter().skip(3).map(|row| (row.name.as_str(), row.depth)).collect();
    let named = ["works", "\u{2026}.c1-0123456789ab", "\u{2026}.c2-ba9876543210", "idle"];
    assert_eq!(rows, [(named[0], 1), (named[1], 2), (named[2], 3), (named[3], 1)]);
    (0..4).for_each(|_| drop(press(&mut model, KeyCode::Down)));
    assert_eq!(model.selected().unwrap().kind, Kind::Session(child.to_owned()));
    model.take(look(&[(child, running), ("idle", idle)], 3_000, 0));
    assert_eq!(model.selected().unwrap().kind, Kind::Session(child.to_owned()), "it stays selected");
}

#[test]
fn what_is_serious_is_asked_about_first() {
    let mut model = model();
    assert_eq!(press(&mut model, KeyCode::Char('c')), None);
    assert_eq!(model.note, "select a session for that");
    (0..3).for_each(|_| drop(press(&mut model, KeyCode::Down)));
    assert_eq!(press(&mut model, KeyCode::Char('c')), None);
    assert_eq!(press(&mut model, KeyCode::Char('x')), None, "anything but yes is no");
    assert_eq!(press(&mut model, KeyCode::Char('y')), None, "the question is gone");
    press(&mut model, KeyCode::Char('c'));
    let cancel = Request::Cancel { session: "works".into() };
    assert_eq!(press(&mut model, KeyCode::Char('y')), Some(UserAction::Request(cancel)));
    press(&mut model, KeyCode::Home);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Char('r'));
    let restart = Request::RestartServer { server: "files".into() };
    assert_eq!(press(&mut model, KeyCode::Char('y')), Some(UserAction::Request(restart)));
    assert_eq!(press(&mut model, KeyCode::Char('q')), Some(UserAction::Leave));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.key(ctrl_c), Some(UserAction::Leave));
}

#[test]
fn a_selected_line_stays_selected_when_others_come_and_go() {
    let mut model = model();
    press(&mut model, KeyCode::End);
    assert_eq!(model.selected().unwrap().path, "sessions/idle");
    model.take(look(
        &[("idle", NodeStatus::Idle), ("more", NodeStatus::Running), ("works", NodeStatus::Idle)],
        2_000,
        0,
    ));
    assert_eq!(model.selected().unwrap().path, "sessions/idle");
    model.take(look(&[("more", NodeStatus::Running)], 3_000, 0));
    assert_eq!(model.selected().unwrap().path, "tools", "it is gone");
    (0..100).for_each(|_| drop(press(&mut model, KeyCode::Down)));
    assert_eq!(model.selected().unwrap().path, "sessions/more");
}

#[test]
fn a_filter_looks_at_names_and_states() {
    let mut model = model();
    press(&mut model, KeyCode::Char('/'));
    "IDLE".chars().for_each(|typed| drop(press(&mut model, KeyCode::Char(typed))));
    assert_eq!(paths(&model), ["sessions/idle"]);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.mode, Mode::Tree);
    model.take(look(&[("other", NodeStatus::Running)], 2_000, 0));
    assert!(model.rows.is_empty() && model.selected().is_none());
    assert_eq!(press(&mut model, KeyCode::Char('c')), None);
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.rows.len(), 4);
}

#[test]
fn a_rate_is_what_ended_between_two_looks() {
    let mut model = model();
    model.take(look(&[], 3_000, 10));
    model.take(look(&[], 3_000, 10));
    let rates: Vec<f64> = model.past.iter().map(|sample| sample.turns_per_s).collect();
    assert_eq!(rates, [0.0, 5.0], "the same look twice is one");
    for second in 4..400 {
        model.take(look(&[], second * 1_000, 10));
    }
    assert_eq!(model.past.len(), REMEMBERED);
}

#[test]
fn a_process_that_ends_leaves_its_last_picture() {
    let mut model = model();
    model.told(Err(Failure::gone("process 1 has ended")));
    assert!(model.is_gone && model.note == "process 1 has ended" && model.rows.len() == 5);
    model.told(Err(Failure::usage("no")));
    assert!(model.is_gone);
}

#[test]
fn records_are_scrolled_and_left() {
    let mut model = model();
    model.last_first_line = 4;
    press(&mut model, KeyCode::End);
    let Some(UserAction::Request(Request::Records { session, .. })) = press(&mut model, KeyCode::Char('e')) else {
        panic!()
    };
    assert_eq!(session, "idle");
    let entry = |number: i64| JournalEntry { at: number, kind: "input".into(), text: "\u{1b}[2Jx".into() };
    model.told(Ok(Response::Records { records: (0..5).map(entry).collect() }));
    (0..9).for_each(|_| drop(press(&mut model, KeyCode::Up)));
    let Mode::Events { records: Some(records), scrolled, .. } = &model.mode else { panic!() };
    assert_eq!((*scrolled, records[0].text.as_str()), (4, "x"));
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.mode, Mode::Tree);
}
