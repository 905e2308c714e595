//! The report: one page that needs nothing else, with the verdict, the figures and the plots.

mod plots;
mod series;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::checker::Evidence;
use super::plan::Plan;
use super::verdict::{Check, Verdict};

const STYLE: &str = include_str!("style.css");

pub(crate) fn page(plan: &Plan, evidence: &Evidence, verdict: &Verdict) -> String {
    let title = format!("Soak: {}, seed {}", verdict.word(), plan.seed);
    let kills = series::kills(evidence);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "Soak " span class=(verdict.word().to_ascii_lowercase()) { (verdict.word()) } }
                    p class="what" {
                        (plan.sessions) " sessions" (plan.workers()) ", " (plan.length()) ", seed " (plan.seed) ", chaos "
                        code { (plan.chaos.to_text()) }
                    }
                    (checks(&verdict.checks))
                    (figures(verdict))
                    (plot("Time from a request to its outcome", "Percentiles of stretches of the run. Upright lines: the worker was killed.",
                        &plots::lines("milliseconds", &series::latency(evidence), &kills)))
                    (plot("Memory", "What the worker has in memory, and the least-squares line its growth is read from. It begins anew with each life of the worker.",
                        &plots::lines("MiB", &series::memory(evidence, &verdict.numbers), &kills)))
                    (plot("Sessions", "Sessions in memory, and those of them that run a turn.",
                        &plots::lines("sessions", &series::sessions(evidence), &kills)))
                    (plot("Faults and returns", "What was done on purpose, and when tool servers were back.",
                        &plots::instants(&series::happenings(evidence), verdict.numbers.duration_s)))
                    @if plan.replicas.is_some() {
                        (plot("Sessions that go on", "Time from a kill or the beginning of a pause to another replica's claim, in milliseconds.",
                            &plots::bars("sessions", &series::resumed(evidence))))
                    }
                    @if verdict.numbers.cancel.count > 0 {
                        (plot("Cancels", "Time from a cancel to the outcome of its turn, in milliseconds.",
                            &plots::bars("cancels", &series::cancels(evidence))))
                    }
                    (plot("Descriptors and threads", "Open files and threads of the worker, and processes below it.",
                        &plots::lines("count", &series::handles(evidence), &kills)))
                }
            }
        }
    };
    page.into_string()
}

fn checks(checks: &[Check]) -> Markup {
    html! {
        table {
            thead { tr { th {} th { "check" } th { "found" } th { "limit" } } }
            tbody {
                @for check in checks {
                    tr class=(if check.holds { "holds" } else { "broken" }) {
                        td class="mark" { (if check.holds { "ok" } else { "FAIL" }) }
                        td {
                            (check.name)
                            @if !check.holds {
                                ul { @for example in check.examples.iter().take(10) { li { (example) } } }
                            }
                        }
                        td class="number" { (check.found) }
                        td class="number" { (check.limit) }
                    }
                }
            }
        }
    }
}

fn figures(verdict: &Verdict) -> Markup {
    html! {
        h2 { "Figures" }
        dl {
            @for (name, figure) in verdict.numbers.lines() {
                dt { (name) }
                dd { (figure) }
            }
        }
    }
}

fn plot(title: &str, says: &str, svg: &str) -> Markup {
    html! {
        figure {
            h2 { (title) }
            (PreEscaped(svg))
            figcaption { (says) }
        }
    }
}
