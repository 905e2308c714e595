use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::soak::plan::{Defect, StoreKind};

/// `soak`.
#[derive(Debug, Args)]
#[command(after_help = "\
A worker process runs the sessions against a scripted model and tool servers that this program starts as children.
The command itself stays outside: it writes down what was acknowledged, kills the worker where the chaos says so and
starts it again on the same data, looks at /proc, and judges afterwards by the journals, what was acknowledged, the
side effects and the processes alone. The same seed gives the same schedule.

CHAOS is off, default, or kind=rate,… (behind `default,` to change it): mcp-kill=1/s, overload=12/h, cancel=5%.
--list-chaos names the kinds with their meaning and default.

With --replicas N, N workers share the sessions through a PostgreSQL, and the command submits to them; --list-chaos
marks the chaos that is for them. --store postgres starts a cluster of its own from the installed programs (Debian:
postgresql-15); a URL names a database, in which it makes a schema of its own and removes it.

With --prompts the turns say what stands in FILE, one a line, to the model and the tool servers of your own
configuration, in a store of its own; chaos is off unless asked for, and only what is safe may be.

The verdict is a table on stdout; progress goes to stderr. Exit code: 0 PASS, 1 FAIL, 2 when it could not begin.

Examples:
  cli-agent soak                                       200 sessions of 5 turns with the default chaos
  cli-agent soak --sessions 1000 --turns 20 --seed 1 --report soak.html
  cli-agent soak --sessions 10000 --turns 3 --chaos off
  cli-agent soak --duration 30m --chaos default,process-kill=12/h
  cli-agent soak --replicas 3 --store postgres --sessions 50 --duration 2m
  cli-agent soak --prompts prompts.txt --sessions 4 --turns 2")]
pub struct SoakArgs {
    /// How many sessions there are [default: 200, with --prompts 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) sessions: Option<u32>,
    /// How many turns each session has [default: 5, with --prompts 2]
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) turns: Option<u32>,
    /// Keep starting turns for this long, such as 90s, 30m or 2h
    #[arg(long, value_name = "D", value_parser = read_duration)]
    pub(crate) duration: Option<Duration>,
    /// How long a session waits before a turn, in the mean [default: 2s; 3 ms a session beyond 666]
    #[arg(long, value_name = "D", value_parser = read_duration)]
    pub(crate) think: Option<Duration>,
    /// off, default, or kind=rate,… [default: default, with --prompts off]
    #[arg(long, value_name = "CHAOS")]
    pub(crate) chaos: Option<String>,
    /// Seed of the schedule
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many workers share the sessions of --store postgres [default: 3 there]
    #[arg(long, value_name = "N", conflicts_with = "prompts", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) replicas: Option<u32>,
    /// Where the journals are kept: sqlite, json, postgres, or a database's URL
    #[arg(long, value_name = "KIND", default_value = "sqlite", value_parser = read_store)]
    pub(crate) store: Store,
    /// Write an HTML page with the verdict and its plots
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the verdict and all figures as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Run these prompts, one a line, against your own configuration
    #[arg(long, value_name = "FILE")]
    pub prompts: Option<PathBuf>,
    /// Keep the run's folder also when it passes
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print the kinds of chaos and leave
    #[arg(long)]
    pub list_chaos: bool,
    /// Plant a defect, to see that it is found; only in builds for tests
    #[arg(long, hide = true, value_enum, value_name = "NAME")]
    pub(crate) defect: Option<Defect>,
}

/// A kind of store; of PostgreSQL also which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Store {
    pub(crate) kind: StoreKind,
    pub(crate) url: Option<String>,
}

fn read_store(text: &str) -> Result<Store, String> {
    let (kind, url) = match text {
        "sqlite" => (StoreKind::Sqlite, None),
        "json" => (StoreKind::Json, None),
        "postgres" => (StoreKind::Postgres, None),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            (StoreKind::Postgres, Some(url.to_owned()))
        }
        _ => return Err("say sqlite, json, postgres or postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned()),
    };
    Ok(Store { kind, url })
}

fn read_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit_ms = match text.get(digits.len()..) {
        Some("ms") => 1,
        Some("s") => 1_000,
        Some("m") => 60_000,
        Some("h") => 3_600_000,
        _ => return Err("say a whole number with ms, s, m or h, such as 90s".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "say a whole number with ms, s, m or h, such as 90s".to_owned())?;
    Ok(Duration::from_millis(number.saturating_mul(unit_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_kind_or_a_url() {
        let store = |kind, url: Option<&str>| Ok(Store { kind, url: url.map(str::to_owned) });
        assert_eq!(read_store("json"), store(StoreKind::Json, None));
        assert_eq!(read_store("postgres"), store(StoreKind::Postgres, None));
        assert_eq!(read_store("postgres://a@b/c"), store(StoreKind::Postgres, Some("postgres://a@b/c")));
        for wrong in ["", "memory", "mysql://a@b/c", "Postgres"] {
            assert!(read_store(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(read_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(read_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(read_duration("2h"), Ok(Duration::from_secs(7_200)));
        for wrong in ["90", "s", "", "1.5s", "-1s", "5d"] {
            assert!(read_duration(wrong).is_err(), "{wrong}");
        }
    }
}
