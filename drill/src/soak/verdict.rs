//! The verdict: the checks, their results, and the figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::checker::{Memory, ReplicaNumbers, Times};
use super::parent::{Figures, Sample};
use super::plan::Plan;

/// How many violations each check shows.
const EXAMPLES: usize = 3;

#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) checks: Vec<Check>,
    pub(crate) numbers: Numbers,
}

/// One thing that must hold.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) found: String,
    pub(crate) limit: String,
    pub(crate) holds: bool,
    /// Where it does not hold.
    pub(crate) examples: Vec<String>,
}

impl Check {
    /// Of these there must be none.
    pub(crate) fn none(name: &'static str, examples: Vec<String>) -> Self {
        Self { name, found: examples.len().to_string(), limit: "0".to_owned(), holds: examples.is_empty(), examples }
    }

    /// A check that holds if the count is zero.
    pub(crate) fn count(name: &'static str, count: u64) -> Self {
        Self { name, found: count.to_string(), limit: "0".to_owned(), holds: count == 0, examples: Vec::new() }
    }
}

/// Figures, for information and as input of the checks.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Numbers {
    pub(crate) duration_s: f64,
    pub(crate) answered: usize,
    pub(crate) refused: usize,
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    pub(crate) steps: u64,
    pub(crate) effects: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) kills: usize,
    /// From a request to its outcome.
    pub(crate) turn: Times,
    /// From a cancel to the outcome.
    pub(crate) cancel: Times,
    /// A cancel less the time for which an empty task of the process was late, and that time alone.
    pub(crate) cancel_judged: Times,
    pub(crate) cancel_late: Times,
    /// From a tool server's end to its being there again.
    pub(crate) server_back: Times,
    /// From the start of a process to its being ready, every tool server included.
    pub(crate) process_start: Times,
    /// The longest time until all processes of a worker were gone after its end.
    pub(crate) gone_ms: u64,
    pub(crate) memory: Memory,
    /// The most sessions that were live at a time.
    pub(crate) most_live: usize,
    /// Resident memory a live session took when most of them were live, in KiB.
    pub(crate) session_kib: f64,
    /// Processor time of the worker for a model call with everything around it, in microseconds.
    pub(crate) step_cpu_us: f64,
    /// Turns that no fault hit, those of them that succeeded, and examples of those that did not.
    pub(crate) unhit: usize,
    pub(crate) unhit_answered: usize,
    pub(crate) unhit_failed: Vec<String>,
    /// Of several workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<ReplicaNumbers>,
}

impl Numbers {
    /// Processor time for a session and a step, of a run without kills.
    pub(crate) fn of_processor(&mut self, samples: &[Sample], ready: Option<Figures>) {
        let (Some(ready), Some(last)) = (ready, samples.last()) else { return };
        if self.kills > 0 {
            return;
        }
        let used_ms = last.figures.cpu_ms.saturating_sub(ready.cpu_ms);
        self.step_cpu_us = used_ms as f64 * 1_000.0 / self.steps.max(1) as f64;
        let fullest = samples.iter().max_by_key(|sample| sample.live).filter(|sample| sample.live > 0);
        self.session_kib = fullest
            .map_or(0.0, |sample| sample.figures.rss_kib.saturating_sub(ready.rss_kib) as f64 / sample.live as f64);
    }
}

impl Verdict {
    pub(crate) fn passes(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    pub(crate) fn word(&self) -> &'static str {
        if self.passes() { "PASS" } else { "FAIL" }
    }

    pub(crate) fn table(&self, plan: &Plan) -> String {
        let mut text = String::new();
        for check in &self.checks {
            let mark = if check.holds { "ok  " } else { "FAIL" };
            // Writing to a text cannot fail, here and below.
            let _written = writeln!(text, "{mark}  {:<36} {:<24} {}", check.name, check.found, check.limit);
            for example in check.examples.iter().filter(|_| !check.holds).take(EXAMPLES) {
                let _written = writeln!(text, "        {example}");
            }
        }
        text.push('\n');
        for (name, figure) in self.numbers.lines() {
            let _written = writeln!(text, "{name:<22} {figure}");
        }
        let _written = writeln!(
            text,
            "\n{}: seed {}, {} sessions{}, {}, chaos {}",
            self.word(),
            plan.seed,
            plan.sessions,
            plan.workers(),
            plan.length(),
            plan.chaos.to_text()
        );
        text
    }

    pub(crate) fn json(&self, plan: &Plan) -> serde_json::Value {
        serde_json::json!({
            "verdict": self.word().to_ascii_lowercase(), "seed": plan.seed, "sessions": plan.sessions,
            "turns": plan.turns, "duration_ms": plan.duration_ms, "chaos": plan.chaos.to_text(),
            "store": plan.store, "replicas": plan.replicas.as_ref().map(|replicas| replicas.count), "checks": self.checks, "numbers": self.numbers,
        })
    }
}

impl Numbers {
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let counted = |counts: &BTreeMap<&'static str, u64>| {
            let each = counts.iter().map(|(name, count)| format!("{count} {name}"));
            let all = each.collect::<Vec<_>>().join(", ");
            if all.is_empty() { "none".to_owned() } else { all }
        };
        if let Some(replicas) = &self.replicas {
            let mut lines = vec![
                (
                    "time",
                    format!("{:.0} s, {:.1} turns/s", self.duration_s, self.answered as f64 / self.duration_s.max(1.0)),
                ),
                ("outcomes", format!("{} ({}), {} refused", self.answered, counted(&self.outcomes), self.refused)),
                ("model calls", self.steps.to_string()),
                ("side effects", self.effects.to_string()),
                ("faults", counted(&self.faults)),
            ];
            lines.extend(replicas.lines());
            lines.extend([
                ("turn", self.turn.text()),
                ("process start", self.process_start.text()),
                ("memory of all", format!("peak {:.0} MiB", self.memory.peak_mib)),
                ("open turns", format!("{} at most", self.most_live)),
            ]);
            return lines;
        }
        let memory = &self.memory;
        let mut lines = vec![
            ("time", format!("{:.0} s", self.duration_s)),
            ("outcomes", format!("{} ({}), {} refused", self.answered, counted(&self.outcomes), self.refused)),
            ("model calls", self.steps.to_string()),
            ("side effects", self.effects.to_string()),
            ("faults", counted(&self.faults)),
            ("process kills", format!("{}, all of it gone in {} ms at most", self.kills, self.gone_ms)),
            ("turn", self.turn.text()),
            ("cancel", self.cancel.text()),
            ("empty task late", self.cancel_late.text()),
            ("tool server back", self.server_back.text()),
            ("process start", self.process_start.text()),
            (
                "memory",
                // A minute's slope says nothing about an hour.
                if memory.window_s < 60.0 {
                    format!("peak {:.0} MiB, mean {:.0} MiB", memory.peak_mib, memory.mean_mib)
                } else {
                    format!(
                        "peak {:.0} MiB, mean {:.0} MiB, slope {:.1} MiB/h over {:.0} s",
                        memory.peak_mib, memory.mean_mib, memory.slope_mib_h, memory.window_s
                    )
                },
            ),
            ("live sessions", format!("{} at most", self.most_live)),
        ];
        if self.step_cpu_us > 0.0 {
            lines.push(("memory of a session", format!("{:.1} KiB", self.session_kib)));
            lines.push(("processor for a step", format!("{:.0} µs", self.step_cpu_us)));
        }
        lines
    }
}
