//! The race itself: Bob and its peers in one table.
//!
//! Every contender is a process of its own for every run; in each round all of them run every discipline in turn, so that
//! whatever else the machine does meets all alike. A figure is the median of the rounds, a ratio the median of the rounds'
//! own ratios.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What builds the peers.
const BUILD: &str = "cargo build --release --manifest-path benches/peers/Cargo.toml --target-dir target/peers";

/// A kind of run.
struct Discipline {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Sessions; `None` for a run that has only one.
    sessions: Option<usize>,
    /// Over HTTP, or with a model inside the process.
    http: bool,
    figures: &'static [&'static Figure],
}

struct Figure {
    heading: &'static str,
    key: &'static str,
    /// What the value in the line is divided by.
    unit: f64,
}

const SPEED: Figure = Figure { heading: "turns/s", key: "turns_s", unit: 1.0 };
const CPU: Figure = Figure { heading: "CPU a turn, µs", key: "cpu_us_turn", unit: 1.0 };
const MIDDLE: Figure = Figure { heading: "p50, ms", key: "p50_ms", unit: 1.0 };
const SLOW: Figure = Figure { heading: "p99, ms", key: "p99_ms", unit: 1.0 };
const MEMORY: Figure = Figure { heading: "KB a session", key: "rss_delta_b_session", unit: 1e3 };
const START: Figure = Figure { heading: "CPU to the first answer, ms", key: "start_cpu_ms", unit: 1.0 };
const FIGURES: [&Figure; 6] = [&SPEED, &CPU, &MIDDLE, &SLOW, &MEMORY, &START];

const DISCIPLINES: [Discipline; 6] = [
    Discipline {
        name: "scripted model, 64 at once",
        arguments: &["--mode=load", "--conc=64", "--warmup=200"],
        sessions: Some(10_000),
        http: false,
        figures: &[&SPEED, &CPU],
    },
    Discipline {
        name: "scripted model of 2 s, all in flight",
        arguments: &["--mode=hold", "--latency=2000"],
        sessions: Some(10_000),
        http: false,
        figures: &[&SPEED, &CPU, &MIDDLE, &SLOW, &MEMORY],
    },
    Discipline {
        name: "HTTP, one at a time",
        arguments: &["--mode=load", "--conc=1"],
        sessions: Some(1_000),
        http: true,
        figures: &[&SPEED, &CPU, &MIDDLE, &SLOW],
    },
    Discipline {
        name: "HTTP, 64 at once",
        arguments: &["--mode=load", "--conc=64", "--warmup=200"],
        sessions: Some(4_000),
        http: true,
        figures: &[&SPEED, &CPU, &MIDDLE, &SLOW],
    },
    Discipline {
        name: "HTTP, model of 200 ms, 1,000 in flight",
        arguments: &["--mode=hold", "--latency=200"],
        sessions: Some(1_000),
        http: true,
        figures: &[&SPEED, &CPU, &MIDDLE, &SLOW, &MEMORY],
    },
    Discipline {
        name: "HTTP, the first turn of a process",
        arguments: &["--mode=start", "--n=1"],
        sessions: None,
        http: true,
        figures: &[&START],
    },
];

struct Contender {
    name: &'static str,
    program: PathBuf,
    /// The value of `--backend=` over HTTP and with a model inside the process, which not all have.
    http: &'static str,
    scripted: Option<&'static str>,
}

/// Ends the provider with the race.
struct Provider(Child);

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the race and prints the table. `percent` of the usual sessions take part.
pub(crate) fn race(rounds: usize, percent: usize) {
    let myself = std::env::current_exe().unwrap();
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers/release");
    let all = [
        Contender { name: "plain", program: peers.join("plain"), http: "http", scripted: Some("mock") },
        Contender { name: "client", program: peers.join("client"), http: "stream", scripted: None },
        Contender { name: "bob", program: myself.clone(), http: "stream", scripted: Some("mock") },
    ];
    let (there, absent): (Vec<_>, Vec<_>) = all.into_iter().partition(|contender| contender.program.exists());
    println!("{}; load {} at the start.", machine(), load());
    println!("Medians of {rounds} rounds; in brackets the ratio to plain, the median of the rounds' own.\n");
    let mut provider = Command::new(&myself);
    let mut provider =
        Provider(provider.arg("--mode=provider").stdout(Stdio::piped()).spawn().expect("the provider starts"));
    let mut base = String::new();
    BufReader::new(provider.0.stdout.take().unwrap()).read_line(&mut base).expect("the provider tells its address");

    // By discipline, contender and round.
    let mut lines: Vec<Vec<Vec<Value>>> = vec![vec![Vec::new(); there.len()]; DISCIPLINES.len()];
    for round in 0..rounds {
        for (discipline, lines) in DISCIPLINES.iter().zip(&mut lines) {
            for (contender, lines) in there.iter().zip(lines) {
                eprintln!("round {} of {rounds}: {}: {}", round + 1, discipline.name, contender.name);
                lines.extend(run(contender, discipline, percent, base.trim()));
            }
        }
    }

    print_row("", "", FIGURES.map(|figure| figure.heading.to_owned()));
    println!("|{}", "---|".repeat(FIGURES.len() + 2));
    let plain = there.iter().position(|contender| contender.name == "plain");
    for (discipline, lines) in DISCIPLINES.iter().zip(&lines) {
        for (contender, own) in there.iter().zip(lines).filter(|(_, own)| !own.is_empty()) {
            let beside = plain.filter(|_| contender.name != "plain").map(|at| &lines[at]);
            let cells = FIGURES.map(|figure| match discipline.figures.iter().any(|one| one.key == figure.key) {
                true => cell(figure, own, beside),
                false => String::new(),
            });
            print_row(discipline.name, contender.name, cells);
        }
    }
    println!("\nload {} at the end.", load());
    if !absent.is_empty() {
        let names: Vec<_> = absent.iter().map(|contender| contender.name).collect();
        println!("Absent: {}. `just race` builds and runs all; the peers are built by\n  {BUILD}", names.join(", "));
    }
}

/// The line of one run; `None` if the contender does not take part in this.
fn run(contender: &Contender, discipline: &Discipline, percent: usize, base: &str) -> Option<Value> {
    let backend = if discipline.http { contender.http } else { contender.scripted? };
    let mut command = Command::new(&contender.program);
    command.args(discipline.arguments).arg(format!("--backend={backend}")).arg(format!("--base={base}"));
    if let Some(sessions) = discipline.sessions {
        command.arg(format!("--n={}", (sessions * percent / 100).max(64)));
    }
    let ran = command.stderr(Stdio::inherit()).output().expect("a contender starts");
    assert!(ran.status.success(), "{} failed: {}", contender.name, ran.status);
    Some(serde_json::from_slice(&ran.stdout).expect("a contender prints one line of JSON"))
}

/// The median, and the ratio to the plain loop.
fn cell(figure: &Figure, own: &[Value], beside: Option<&Vec<Value>>) -> String {
    let value = |line: &Value| line[figure.key].as_f64().expect("a figure") / figure.unit;
    let own: Vec<f64> = own.iter().map(value).collect();
    let shown = |value: f64| match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    };
    let ratio = beside.map(|beside| {
        let ratios = own.iter().zip(beside).map(|(own, plain)| own / value(plain)).collect();
        match median(ratios) {
            ratio if ratio < 0.1 => format!(" ({ratio:.3})"),
            ratio => format!(" ({ratio:.2})"),
        }
    });
    shown(median(own)) + &ratio.unwrap_or_default()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print_row(discipline: &str, contender: &str, cells: [String; FIGURES.len()]) {
    println!("| {discipline} | {contender} | {} |", cells.join(" | "));
}

/// The processor.
fn machine() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let model = about.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.map_or("an unnamed processor", |(_, name)| name.trim()))
}

/// How many processes wanted to run, on average over the last minute.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    load.split(' ').next().unwrap().to_owned()
}
