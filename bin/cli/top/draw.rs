//! Draws the model. A large screen has panels beside the tree.

use bob::health::{LatencyFigures, MetricsSnapshot, NodeStatus};
use bob::sessions::FinishReason;
use bob::tools::CallStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table, TableState, Wrap};

use super::figures::{bold, coloured, micros, recent_rate};
use super::model::{Mode, Model};
use super::rows::{Kind, Row};
use super::{boxes, panels};
use crate::commands::ps::table::{duration, size};

/// Minimum columns and lines of a screen with panels.
const LARGE: (u16, u16) = (120, 30);

/// How wide the panels are.
const PANELS: u16 = 56;

/// A narrower tree has no columns for restarts and queues; the selected actor's last error is below it anyway.
const NARROW: u16 = 60;

/// The least lines above the tree.
const HEAD: u16 = 6;

/// Draws everything.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    let is_large = area.width >= LARGE.0 && area.height >= LARGE.1;
    let lines = head_lines(model);
    // On a narrow screen the lines are wrapped, as far as half of it is left for the tree.
    let is_narrow = area.width < NARROW;
    let head_rows = match is_narrow {
        true => lines.iter().map(|line| wrapped_rows(line, area.width)).sum::<usize>(),
        false => usize::from(HEAD) + usize::from(model.seen.line.is_some()),
    };
    let head_rows = u16::try_from(head_rows).unwrap_or(u16::MAX).clamp(HEAD, (area.height / 2).max(HEAD));
    let [head, middle, why, foot] = Layout::vertical([
        Constraint::Length(head_rows),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let lines = Paragraph::new(lines);
    frame.render_widget(if is_narrow { lines.wrap(Wrap { trim: false }) } else { lines }, head);
    let tree_area = if is_large {
        let [tree, beside] = Layout::horizontal([Constraint::Min(40), Constraint::Length(PANELS)]).areas(middle);
        panels::draw(model, frame, beside);
        tree
    } else {
        middle
    };
    tree(model, frame, tree_area);
    frame.render_widget(Paragraph::new(why_line(model)), why);
    frame.render_widget(Paragraph::new(foot_line(model)), foot);
    boxes::draw(model, frame, area);
}

/// How many rows a line has on a screen of this width.
fn wrapped_rows(line: &Line<'_>, columns: u16) -> usize {
    textwrap::wrap(&line.to_string(), usize::from(columns.max(1))).len().max(1)
}

fn head_lines(model: &Model) -> Vec<Line<'static>> {
    let Some(look) = &model.look else { return vec![Line::raw(" no data yet")] };
    let metrics = &look.metrics;
    let process = &look.process;
    let state = match (model.is_gone, look.is_draining) {
        (true, _) => "  HAS ENDED",
        (false, true) => "  draining",
        (false, false) => "",
    };
    let figures = [
        process.rss_bytes.map(size),
        process.files.map(|files| format!("{files} files")),
        process.threads.map(|threads| format!("{threads} threads")),
        Some(format!("{} children", process.children.len())),
    ];
    let figures = figures.into_iter().flatten().collect::<Vec<_>>().join("  ");
    let title = format!("{} {}", model.hello.command, model.hello.pid);
    let mut lines = vec![
        Line::from(vec![
            Span::raw(" "),
            Span::styled(title, bold()),
            Span::raw(format!("  up {}  {figures}", duration(metrics.uptime_ms))),
            Span::styled(state, coloured(model, Color::Red).add_modifier(Modifier::BOLD)),
        ]),
        labelled("turns", now(model, metrics)),
        labelled("", ends(metrics)),
        labelled("latency", latency(metrics)),
        labelled("totals", totals(metrics)),
        restarts(model, metrics),
    ];
    lines.extend(model.seen.line.clone().map(|line| labelled("store", line)));
    lines
}

fn labelled(label: &'static str, text: String) -> Line<'static> {
    Line::from(vec![Span::styled(format!(" {label:<9}"), bold()), Span::raw(text)])
}

fn now(model: &Model, metrics: &MetricsSnapshot) -> String {
    let (sessions, ended) = (metrics.sessions, metrics.turns.ended());
    let rate = recent_rate(model);
    format!(
        "{} running  {} waiting  {} sessions live   {rate:.1}/s   {ended} ended",
        sessions.running, sessions.waiting, sessions.live
    )
}

fn ends(metrics: &MetricsSnapshot) -> String {
    let turns = metrics.turns;
    let ends = [
        ("final", turns.ends[FinishReason::Final]),
        ("at a limit", turns.ends[FinishReason::GuardExceeded]),
        ("cancelled", turns.ends[FinishReason::Cancelled]),
        ("suspended", turns.ends[FinishReason::Suspended]),
        ("error", turns.ends[FinishReason::Error]),
        ("refused", turns.refused),
        ("unsaved", turns.unsaved),
    ];
    // Omits ends that never occurred, except the ordinary one.
    let shown = ends.iter().filter(|(name, count)| *count > 0 || *name == "final");
    shown.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join("  ")
}

fn latency(metrics: &MetricsSnapshot) -> String {
    let shown = |figures: &LatencyFigures| {
        if figures.recent.count > 0 { (figures.recent, "") } else { (figures.all, "*") }
    };
    let (turn, turn_mark) = shown(&metrics.turn_latency);
    let (cancel, cancel_mark) = shown(&metrics.cancel_latency);
    let (queue, queue_mark) = shown(&metrics.queue_wait);
    format!(
        "turn{turn_mark} p50 {} p99 {}   cancel{cancel_mark} p99 {}   queue{queue_mark} p99 {}",
        micros(turn.p50_us),
        micros(turn.p99_us),
        micros(cancel.p99_us),
        micros(queue.p99_us)
    )
}

fn totals(metrics: &MetricsSnapshot) -> String {
    let (calls, tokens) = (metrics.tool_calls, metrics.tokens);
    let all = calls.values().sum::<u64>();
    let bad = all - calls[CallStatus::Ok];
    let bad = if bad == 0 { String::new() } else { format!(" ({bad} not ok)") };
    format!("{} steps  {all} calls{bad}  tokens {} in {} out", metrics.steps, short(tokens.input), short(tokens.output),)
}

fn restarts(model: &Model, metrics: &MetricsSnapshot) -> Line<'static> {
    let restarts = metrics.restarts;
    let mut line = labelled("restarts", format!("{} of sessions  {} of others", restarts.sessions, restarts.children));
    if restarts.gave_up > 0 {
        let text = format!("  {} gave up", restarts.gave_up);
        line.push_span(Span::styled(text, coloured(model, Color::Red)));
    }
    line.push_span(Span::raw("   "));
    for provider in &metrics.providers {
        let name = super::rows::clean(&provider.provider, 24);
        match &provider.down {
            None => line.push_span(Span::raw(format!("{name} ok  "))),
            Some(down) => {
                let text = format!("{name} DOWN {}  ", duration(down.for_ms));
                line.push_span(Span::styled(text, coloured(model, Color::Red)));
            }
        }
    }
    line
}

fn tree(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let is_wide = area.width >= 100;
    let is_narrow = area.width < NARROW;
    let mut widths =
        vec![Constraint::Min(if is_narrow { 16 } else { 20 }), Constraint::Length(10), Constraint::Length(8)];
    let mut names = vec![Cell::from(" actor"), Cell::from("state"), right("age")];
    if !is_narrow {
        widths.extend([Constraint::Length(8), Constraint::Length(6)]);
        names.extend([right("restarts"), right("queue")]);
    }
    if is_wide {
        widths[0] = Constraint::Percentage(36);
        widths.push(Constraint::Fill(1));
        names.push(Cell::from("last error"));
    }
    let rows = model.rows.iter().map(|row| {
        let mut cells = vec![
            Cell::from(format!(" {}{}", "  ".repeat(row.depth), row.name)),
            Cell::from(Span::styled(row.state, state_style(model, row))),
            right(duration(row.age_ms)),
        ];
        if !is_narrow {
            cells.push(right(if row.restarts == 0 { String::new() } else { row.restarts.to_string() }));
            cells.push(right(row.queued.map(|queued| queued.to_string()).unwrap_or_default()));
        }
        if is_wide {
            cells.push(Cell::from(row.error.clone().unwrap_or_default()));
        }
        let is_idle = row.status == NodeStatus::Idle;
        Cells::new(cells).style(if is_idle { Style::new().add_modifier(Modifier::DIM) } else { Style::new() })
    });
    let table = Table::new(rows, widths)
        .header(Cells::new(names).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected((!model.rows.is_empty()).then(|| model.at()));
    frame.render_stateful_widget(table, area, &mut state);
}

fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Line::from(text.into()).right_aligned())
}

fn state_style(model: &Model, row: &Row) -> Style {
    match row.status {
        NodeStatus::Running | NodeStatus::Idle => Style::new(),
        NodeStatus::Waiting | NodeStatus::Stopping => coloured(model, Color::Yellow),
        NodeStatus::Restarting => coloured(model, Color::Magenta),
        NodeStatus::GaveUp | NodeStatus::Stopped => coloured(model, Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// Why the selected actor was down, or the result of the last action.
fn why_line(model: &Model) -> Line<'static> {
    if !model.note.is_empty() {
        return Line::styled(format!(" {}", model.note), bold());
    }
    let Some(error) = model.selected().and_then(|row| row.error.clone()) else { return Line::raw("") };
    Line::raw(format!(" last error: {error}"))
}

fn foot_line(model: &Model) -> Line<'static> {
    if model.mode == Mode::Filter {
        return Line::raw(format!(" filter: {}▏  Enter keeps it, Esc drops it", super::rows::clean(&model.filter, 40)));
    }
    let act = match model.selected().map(|row| &row.kind) {
        Some(Kind::Session(_)) => "c cancel  e events  ",
        Some(Kind::Server(_)) => "r restart  ",
        Some(Kind::Other) | None => "",
    };
    let filter = match model.filter.is_empty() {
        true => "/ filter".to_owned(),
        false => format!("/ filter: {} (Esc drops it)", super::rows::clean(&model.filter, 40)),
    };
    Line::styled(format!(" ↑↓ select  {act}{filter}  ? help  q quit"), Style::new().add_modifier(Modifier::DIM))
}

/// A count in at most six characters.
fn short(count: u64) -> String {
    match count {
        0..=99_999 => count.to_string(),
        100_000..=99_999_999 => format!("{}k", count / 1_000),
        _ => format!("{}M", count / 1_000_000),
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
