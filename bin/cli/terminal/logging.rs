//! Log records on stderr: filter and format.
//!
//! A record is queued without waiting: the caller may be an actor, and the reader of stderr may have stopped reading.
//! Records may quote text of models, tools and servers, so each is sanitised as a whole before it is written.

use std::io::{self, Write};

use bob_config::{Log, LogFormat, sanitise};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Starts logging for this process. A second call changes nothing.
pub(crate) fn start(log: &Log) {
    let layer = fmt::layer().with_ansi(false).with_writer(CleanStderr);
    let layer = match log.format {
        LogFormat::Text => layer.with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let _started_before = tracing_subscriber::registry().with(layer.with_filter(targets(log))).try_init();
}

/// Whether the log includes turns, which requires the tracing event sink.
pub(crate) fn includes_turns(log: &Log) -> bool {
    targets(log).would_enable("bob::turn", &Level::INFO)
}

/// Libraries only log warnings: other records are internal and may quote payloads. The provider library is disabled,
/// since it logs bodies.
///
/// In text form, guards are shown in the outcome and tool servers by the front end, so the default level omits these
/// warnings. Spans are for exporters and for the most verbose level; turns are logged as flat records.
fn targets(log: &Log) -> Targets {
    let are_shown = log.format == LogFormat::Text && log.level == LevelFilter::WARN;
    let level = log.level;
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("bob", level)
        .with_target("bob::trace", if level == LevelFilter::TRACE { level } else { LevelFilter::OFF })
        .with_target("bob::guard", if are_shown { LevelFilter::ERROR } else { level })
        .with_target("bob::server", if are_shown { LevelFilter::OFF } else { level })
        .with_target("cli_agent", level)
        .with_target("genai", LevelFilter::OFF)
        // An error of rmcp is reported by the tool server that ends because of it.
        .with_target("rmcp", LevelFilter::OFF)
}

struct CleanStderr;

/// Collects one record and writes it when it is complete.
struct Record(Vec<u8>);

impl<'a> MakeWriter<'a> for CleanStderr {
    type Writer = Record;

    fn make_writer(&'a self) -> Record {
        Record(Vec::new())
    }
}

impl Write for Record {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            crate::terminal::print::pass(sanitise::clean(&String::from_utf8_lossy(&self.0)).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(level: LevelFilter) -> Log {
        Log { level, ..Log::default() }
    }

    #[test]
    fn a_guard_is_a_warning_for_whoever_reads_records() {
        let json = Log { format: LogFormat::Json, ..at(LevelFilter::WARN) };
        assert!(targets(&json).would_enable("bob::guard", &Level::WARN));
        assert!(targets(&at(LevelFilter::INFO)).would_enable("bob::guard", &Level::WARN));
        assert!(!targets(&at(LevelFilter::WARN)).would_enable("bob::guard", &Level::WARN), "the outcome says it");
    }

    #[test]
    fn turns_are_told_from_info_on_and_their_spans_at_trace() {
        let levels = [
            LevelFilter::OFF,
            LevelFilter::ERROR,
            LevelFilter::WARN,
            LevelFilter::INFO,
            LevelFilter::DEBUG,
            LevelFilter::TRACE,
        ];
        assert_eq!(levels.map(|level| includes_turns(&at(level))), [false, false, false, true, true, true]);
        let spans = levels.map(|level| targets(&at(level)).would_enable("bob::trace", &Level::INFO));
        assert_eq!(spans, [false, false, false, false, false, true]);
    }

    #[test]
    fn libraries_are_never_louder_than_warnings() {
        let targets = targets(&at(LevelFilter::TRACE));
        for ours in ["bob::facade", "bob_actors::llm", "bob_supervisors::children", module_path!()] {
            assert!(targets.would_enable(ours, &Level::TRACE), "{ours}");
        }
        for library in ["ractor::actor", "hyper_util::client", "h2::codec", "reqwest::connect", "rustls::client"] {
            assert!(targets.would_enable(library, &Level::WARN), "{library}");
            assert!(!targets.would_enable(library, &Level::INFO), "{library}");
        }
        assert!(!targets.would_enable("genai", &Level::ERROR));
        assert!(!targets.would_enable("rmcp", &Level::ERROR));
    }

    #[test]
    fn a_quiet_configuration_quiets_libraries_too() {
        assert!(!targets(&at(LevelFilter::OFF)).would_enable("ractor", &Level::ERROR));
    }
}
