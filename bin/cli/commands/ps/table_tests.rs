use super::*;
use bob::health::SessionsLoad;
use bob::model::{Down, ProviderState};
use bob::tools::servers::{ServerId, ServerState};
use expect_test::expect;

fn node(name: &str, state: NodeStatus, children: Vec<NodeState>) -> NodeState {
    NodeState { name: name.into(), state, age_ms: 61_000, restarts: 0, last_error: None, queued: None, children }
}

fn session(name: &str, state: NodeStatus, queued: usize) -> NodeState {
    NodeState { queued: Some(queued), age_ms: 1_234, ..node(name, state, Vec::new()) }
}

fn provider(name: &str, down: Option<Down>) -> ProviderState {
    let last_error = Some(format!("provider {name} cannot be reached"));
    ProviderState { provider: name.to_owned(), down, last_error }
}

#[test]
fn a_tree_reads_well_in_eighty_columns() {
    let files = NodeState {
        restarts: 3,
        last_error: Some(format!("\u{1b}[31mthe child\nexited with status 1; stderr: {}", "no such folder ".repeat(8))),
        ..node("files", NodeStatus::Restarting, Vec::new())
    };
    let sessions = vec![
        session("alpha", NodeStatus::Running, 2),
        session("beta", NodeStatus::Idle, 0),
        session(&"long-".repeat(20), NodeStatus::Waiting, 1),
    ];
    let tree = vec![
        NodeState { queued: Some(0), ..node("store", NodeStatus::Running, Vec::new()) },
        node("tools", NodeStatus::Running, vec![node("local", NodeStatus::Running, Vec::new()), files]),
        node("sessions", NodeStatus::Running, sessions),
    ];
    let server = ServerStatus {
        id: ServerId::new("files"),
        transport: "stdio".into(),
        state: ServerState::GaveUp,
        tools: 0,
        restarts: 3,
        pid: None,
        server: None,
        protocol: None,
        last_error: None,
        required: false,
        owner: None,
        node: None,
    };
    let mut turns = bob::health::TurnCounts { submitted: 10, ..Default::default() };
    turns.ends[bob::sessions::FinishReason::Final] = 7;
    turns.ends[bob::sessions::FinishReason::Error] = 1;
    let metrics = MetricsSnapshot {
        uptime_ms: 3_725_000,
        sessions: SessionsLoad { live: 5, running: 1, waiting: 1 },
        turns,
        servers: vec![server],
        providers: vec![
            provider("well", None),
            provider("gone", Some(Down { for_ms: 8_657, next_try_in_ms: Some(3_482) })),
        ],
        ..MetricsSnapshot::default()
    };
    let hello = Hello {
        version: "0.1.0".into(),
        pid: 4_242,
        command: "batch".into(),
        config: "/home/me/agent.toml".into(),
        store: "/home/me/.bob/sessions.db".into(),
    };
    let look = Look { tree, metrics, process: Default::default(), is_draining: true };
    let text = report(&hello, &look, false);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    expect![[r#"
        batch (process 4242), up 62 min, draining
        store /home/me/.bob/sessions.db
        turns: 1 running, 1 waiting, 8 ended (7 final, 1 error)
        provider gone: down for 8.6 s, next try in 3.4 s
            provider gone cannot be reached

        actor                                     state           age restarts  queue
        store                                     running        61 s               0
        tools                                     running        61 s
        ├─ local                                  running        61 s
        └─ files                                  gave up        61 s        3
            the child exited with status 1; stderr: no such folder no such folder
            no such folder no such folder no such folder no such folder no such folder
            no such folder
        sessions                                  running        61 s
        ├─ alpha                                  running       1.2 s               2
        ├─ long-long-long-long-long-long-long-l…  waiting       1.2 s               1
        └─ … 1 idle
           … 2 more sessions
    "#]]
    .assert_eq(&bob_config::sanitise::clean(&text));
    assert!(report(&hello, &look, true).contains("├─ beta"));
}

#[test]
fn sessions_of_sub_agents_are_below_those_that_they_work_for() {
    let below = |caller: &str, call: &str| format!("{caller}.{call}-0123456789ab");
    let (one, two) = (below("alpha", "c1"), below(&below("alpha", "c1"), "c2"));
    let sessions = vec![
        session("alpha", NodeStatus::Idle, 0),
        // The id of a person's own.
        session("alpha.b", NodeStatus::Running, 0),
        session(&one, NodeStatus::Idle, 0),
        session(&two, NodeStatus::Running, 0),
        session(&below("alpha", "c3"), NodeStatus::Idle, 0),
        session("beta", NodeStatus::Idle, 0),
        session(&below("beta", "c1"), NodeStatus::Idle, 0),
        session(&below("gone", "c1"), NodeStatus::Running, 0),
    ];
    let metrics = MetricsSnapshot {
        sessions: SessionsLoad { live: sessions.len(), running: 3, waiting: 0 },
        ..MetricsSnapshot::default()
    };
    let tree = [node("sessions", NodeStatus::Running, sessions)];
    expect![[r#"
        actor                                     state           age restarts  queue
        sessions                                  running        61 s
        ├─ alpha                                  idle          1.2 s               0
        │  ├─ ….c1-0123456789ab                   idle          1.2 s               0
        │  │  └─ ….c2-0123456789ab                running       1.2 s               0
        │  └─ … 1 idle
        ├─ alpha.b                                running       1.2 s               0
        ├─ gone.c1-0123456789ab                   running       1.2 s               0
        └─ … 2 idle
    "#]]
    .assert_eq(&super::tree(&tree, &metrics, false));
}

#[test]
fn times_and_sizes_are_short() {
    let times = [0, 999, 1_000, 9_999, 10_000, 99_999, 100_000, 5_999_999, 6_000_000, 360_000_000];
    let texts: Vec<_> = times.into_iter().map(duration).collect();
    assert_eq!(texts, ["0 ms", "999 ms", "1.0 s", "9.9 s", "10 s", "99 s", "1 min", "99 min", "1 h", "4 d"]);
    assert_eq!([512, 2_048, 48 << 20, 20 << 30].map(size), ["512 B", "2 KiB", "48 MiB", "20 GiB"]);
}
