//! The screen at two sizes, as text.

use super::*;
use crate::control::wire::{ChildFigures, Hello, Look, ProcessFigures};
use bob::health::{LatencyQuantiles, MetricsSnapshot, NodeState, SessionsLoad};
use bob::model::{Down, ProviderState};
use bob::sessions::FinishReason;
use bob::tools::CallStatus;
use bob::tools::servers::{ServerId, ServerState, ServerStatus};
use expect_test::expect_file;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

fn node(name: &str, state: NodeStatus, children: Vec<NodeState>) -> NodeState {
    NodeState { name: name.into(), state, age_ms: 61_000, restarts: 0, last_error: None, queued: None, children }
}

fn server(id: &str, state: ServerState, restarts: u32, pid: Option<i32>) -> ServerStatus {
    let id = ServerId::new(id);
    let tools = if state == ServerState::Ready { 4 } else { 0 };
    ServerStatus {
        id,
        transport: "stdio".into(),
        state,
        tools,
        restarts,
        pid,
        server: None,
        protocol: None,
        last_error: None,
        required: false,
        owner: None,
        node: None,
    }
}

fn latency(p50_us: u64) -> LatencyFigures {
    let all = LatencyQuantiles {
        count: 812,
        p50_us,
        p90_us: p50_us * 2,
        p99_us: p50_us * 3,
        p999_us: p50_us * 4,
        max_us: p50_us * 5,
    };
    LatencyFigures { all, recent: all, ..LatencyFigures::default() }
}

fn look(uptime_ms: u64) -> Look {
    let session = |number: usize| {
        let state = match number {
            0..=11 => NodeStatus::Running,
            12..=14 => NodeStatus::Waiting,
            _ => NodeStatus::Idle,
        };
        let name = format!("customer-{number:04}");
        NodeState { queued: Some(usize::from(number < 15)), age_ms: 1_400, ..node(&name, state, Vec::new()) }
    };
    let hostile = NodeState {
        restarts: 2,
        last_error: Some("\u{1b}]0;owned\u{7}the child exited with status 1\n\u{1b}[31mstderr: no such folder".into()),
        ..node("files", NodeStatus::Restarting, Vec::new())
    };
    let tools =
        vec![node("local", NodeStatus::Running, Vec::new()), hostile, node("clock", NodeStatus::Running, Vec::new())];
    let mut turns = bob::health::TurnCounts::default();
    turns.ends[FinishReason::Final] = 805 + uptime_ms / 500;
    turns.ends[FinishReason::GuardExceeded] = 2;
    turns.ends[FinishReason::Cancelled] = 5;
    let MetricsSnapshot { mut tool_calls, .. } = MetricsSnapshot::default();
    tool_calls[CallStatus::Ok] = 830;
    tool_calls[CallStatus::Error] = 4;
    tool_calls[CallStatus::Unknown] = 1;
    let metrics = MetricsSnapshot {
        uptime_ms,
        sessions: SessionsLoad { live: 40, running: 12, waiting: 3 },
        turns,
        steps: 1_650,
        tool_calls,
        tokens: bob::health::TokenCounts { input: 1_234_567, output: 45_678, total: 0, cached_input: 0 },
        restarts: bob::health::RestartCounts { sessions: 1, children: 3, gave_up: 1 },
        turn_latency: latency(1_234_000),
        cancel_latency: latency(2_345),
        providers: vec![
            ProviderState { provider: "demo".into(), down: None, last_error: None },
            ProviderState {
                provider: "openai".into(),
                down: Some(Down { for_ms: 12_000, next_try_in_ms: Some(3_000) }),
                last_error: None,
            },
        ],
        servers: vec![
            server("files", ServerState::Restarting, 2, None),
            server("clock", ServerState::Ready, 0, Some(4_250)),
        ],
        ..MetricsSnapshot::default()
    };
    let children = vec![
        ChildFigures { pid: 4_243, name: "sh".into(), state: 'S', rss_bytes: 900 << 10 },
        ChildFigures { pid: 4_250, name: "clock-server".into(), state: 'S', rss_bytes: 21 << 20 },
    ];
    Look {
        tree: vec![
            NodeState { queued: Some(3), ..node("store", NodeStatus::Running, Vec::new()) },
            node("llm", NodeStatus::Running, Vec::new()),
            node("tools", NodeStatus::Running, tools),
            node("sessions", NodeStatus::Running, (0..40).rev().map(session).collect()),
        ],
        metrics,
        process: ProcessFigures { rss_bytes: Some(48 << 20), threads: Some(9), files: Some(43), children },
        is_draining: false,
    }
}

fn model() -> Model {
    let hello = Hello {
        version: "0.1.0".into(),
        pid: 4_242,
        command: "batch".into(),
        config: "/home/me/agent.toml".into(),
        store: "/home/me/.bob/sessions.db".into(),
    };
    let mut model = Model::new(hello, true);
    for second in 0..60 {
        let mut look = look(180_000 + second * 1_000);
        look.metrics.turns.ends[FinishReason::Final] += second * second / 10;
        look.process.rss_bytes = Some((40 << 20) + second * (150 << 10));
        model.take(look);
    }
    model
}

fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells = |line: u16| (0..width).map(move |column| buffer[(column, line)].symbol()).collect::<String>();
    (0..height).map(|line| format!("{}\n", cells(line).trim_end())).collect()
}

fn press(model: &mut Model, keys: impl IntoIterator<Item = KeyCode>) {
    for key in keys {
        model.last_first_line = boxes::last_first_line(model);
        drop(model.key(KeyEvent::from(key)));
    }
}

#[test]
fn it_reads_well_on_a_small_screen_and_uses_a_large_one() {
    let mut model = model();
    expect_file!["snapshots/small.txt"].assert_eq(&screen(&model, 80, 24));
    expect_file!["snapshots/large.txt"].assert_eq(&screen(&model, 200, 50));
    press(&mut model, [KeyCode::Down; 4]);
    let small = screen(&model, 80, 24);
    assert!(small.contains("last error: the child exited with status 1 stderr: no such folder"), "{small}");
    assert!(small.contains("r restart"), "{small}");
    assert!(small.chars().chain(screen(&model, 200, 50).chars()).all(bob_config::sanitise::is_shown));
}

#[test]
fn what_the_store_knows_has_a_line() {
    let mut model = model();
    assert!(!screen(&model, 80, 24).contains("inbox"));
    press(&mut model, [KeyCode::Char('n')]);
    assert!(screen(&model, 80, 24).contains("the store knows of no other processes"));
    model.seen.line = Some("2 nodes alive  3 sessions owned  1 running   inbox: nothing waits".to_owned());
    model.seen.nodes = vec!["node    state  renewed".to_owned(), "2       alive   400 ms".to_owned()];
    let shown = screen(&model, 80, 24);
    assert!(shown.contains(" store    2 nodes alive  3 sessions owned  1 running   inbox: nothing waits\n"), "{shown}");
    assert!(shown.contains("actor"), "the tree is below it: {shown}");
    press(&mut model, [KeyCode::Char('n')]);
    let shown = screen(&model, 80, 24);
    assert!(shown.contains("all processes of the store") && shown.contains("│ 2       alive   400 ms"), "{shown}");
    press(&mut model, [KeyCode::Char('x')]);
    assert!(!screen(&model, 80, 24).contains("all processes of the store"));
}

#[test]
fn a_box_with_more_lines_than_the_screen_scrolls_to_its_last_one_and_back() {
    let mut model = model();
    model.size = (80, 24);
    model.seen.nodes = (0..40).map(|node| format!("process {node:02}")).collect();
    let shown = |model: &Model| {
        let screen = screen(model, 80, 24);
        let found: Vec<_> =
            screen.match_indices("process ").map(|(at, _)| screen[at + 8..at + 10].to_owned()).collect();
        (found.first().cloned().unwrap_or_default(), found.last().cloned().unwrap_or_default(), screen)
    };
    let is = |model: &Model, first: &str, last: &str, says: &str| {
        let (from, to, screen) = shown(model);
        assert_eq!((from.as_str(), to.as_str()), (first, last), "{screen}");
        assert!(screen.contains(says), "{screen}");
    };
    press(&mut model, [KeyCode::Char('n')]);
    is(&model, "00", "19", " 20 more below ");
    press(&mut model, [KeyCode::Down, KeyCode::Char('j')]);
    is(&model, "02", "21", " 2 more above, 18 below ");
    press(&mut model, [KeyCode::PageDown; 9]);
    is(&model, "20", "39", " 20 more above ");
    press(&mut model, [KeyCode::Up]);
    is(&model, "19", "38", " 19 more above, 1 below ");
    press(&mut model, [KeyCode::Home]);
    is(&model, "00", "19", " 20 more below ");
    press(&mut model, [KeyCode::End]);
    is(&model, "20", "39", " 20 more above ");
    model.seen.nodes.truncate(10);
    is(&model, "00", "09", "all processes of the store");
    press(&mut model, [KeyCode::Esc]);
    assert_eq!(model.mode, Mode::Tree);

    // The help of a narrow screen, too.
    model.size = (40, 16);
    press(&mut model, [KeyCode::Char('?')]);
    assert!(screen(&model, 40, 16).contains(" more below "));
    press(&mut model, [KeyCode::End]);
    assert!(screen(&model, 40, 16).contains("outcome."), "{}", screen(&model, 40, 16));
}

#[test]
fn on_a_narrow_screen_nothing_is_cut_in_the_middle() {
    let narrow = screen(&model(), 40, 40);
    let head = narrow.lines().find(|line| line.contains("actor")).unwrap_or_default();
    assert_eq!(head.split_whitespace().collect::<Vec<_>>(), ["actor", "state", "age"], "{narrow}");
    for word in ["12 running", "cancelled", "p99", "restarts", "restarting"] {
        assert!(narrow.split_whitespace().collect::<Vec<_>>().join(" ").contains(word), "{word}: {narrow}");
    }
}

#[test]
fn boxes_lie_over_the_picture() {
    let mut model = model();
    press(&mut model, [KeyCode::Char('?')]);
    expect_file!["snapshots/help.txt"].assert_eq(&screen(&model, 80, 24));
    press(&mut model, [KeyCode::Char('x'), KeyCode::Char('/')]);
    press(&mut model, "0007".chars().map(KeyCode::Char).chain([KeyCode::Enter, KeyCode::Char('c')]));
    let asked = screen(&model, 80, 24);
    assert!(asked.contains("cancel what runs in customer-0007?"), "{asked}");
    press(&mut model, [KeyCode::Char('n'), KeyCode::Char('e')]);
    let records = (0..40).map(|number| crate::control::wire::JournalEntry {
        at: 1_700_000_000_000 + number * 1_000,
        kind: "answered".into(),
        text: format!("\u{1b}[2Jnumber {number} {}", "and more ".repeat(20)),
    });
    model.told(Ok(crate::control::wire::Response::Records { records: records.collect() }));
    expect_file!["snapshots/events.txt"].assert_eq(&screen(&model, 80, 24));
}

#[test]
fn no_size_is_too_small() {
    let mut model = model();
    for (width, height) in [(1, 1), (10, 3), (40, 10), (120, 30), (300, 100)] {
        drop(screen(&model, width, height));
    }
    press(&mut model, [KeyCode::Char('?')]);
    for (width, height) in [(1, 1), (10, 3)] {
        drop(screen(&model, width, height));
    }
}
