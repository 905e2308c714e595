//! The panels of a large screen: charts of two minutes, latencies, tool servers, children.

use bob::health::LatencyFigures;
use bob::tools::servers::ServerState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Color;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};

use super::figures::{bold, coloured, micros, recent_rate};
use super::model::{Model, Sample};
use super::rows::clean;
use crate::commands::mcp;
use crate::commands::ps::table::size;
use crate::control::wire::ChildFigures;

/// How high a curve is, with its title.
const CURVE: u16 = 7;

/// Turns a second are drawn in hundredths, since a sparkline takes integers.
const FINE: f64 = 100.0;

/// Draws the panels, from the top down, as many as there is room for.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(look) = &model.look else { return };
    let metrics = &look.metrics;
    let servers = u16::try_from(metrics.servers.len().min(10)).unwrap_or(10) + 1;
    let [turns, memory, times, tools, children] = Layout::vertical([
        Constraint::Length(CURVE),
        Constraint::Length(CURVE),
        Constraint::Length(6),
        Constraint::Length(servers + 1),
        Constraint::Min(0),
    ])
    .areas(area);
    let highest = model.past.iter().map(|sample| sample.turns_per_s).fold(0.0, f64::max);
    let title = format!(" turns/s: {:.1}, at most {highest:.1} in two minutes ", recent_rate(model));
    curve(model, frame, turns, title, |sample| (sample.turns_per_s * FINE) as u64);
    let most = model.past.iter().map(|sample| sample.rss_bytes).max().unwrap_or(0);
    let title =
        format!(" memory: {}, at most {} ", size(model.past.back().map_or(0, |last| last.rss_bytes)), size(most));
    curve(model, frame, memory, title, |sample| sample.rss_bytes);

    let mut lines = vec![row(["", "count", "p50", "p90", "p99", "max"])];
    for (name, figures) in
        [("turn", &metrics.turn_latency), ("cancel", &metrics.cancel_latency), ("queue", &metrics.queue_wait)]
    {
        lines.push(latency(name, figures));
    }
    frame.render_widget(Paragraph::new(lines).block(block(" since the beginning ".to_owned())), times);

    let lines: Vec<Line<'_>> = metrics
        .servers
        .iter()
        .map(|server| {
            let state = match server.state {
                ServerState::Ready | ServerState::Asleep => Span::raw(mcp::word(server.state)),
                ServerState::Starting | ServerState::Restarting => {
                    Span::styled(mcp::word(server.state), coloured(model, Color::Magenta))
                }
                ServerState::GaveUp | ServerState::Stopped => {
                    Span::styled(mcp::word(server.state), coloured(model, Color::Red))
                }
            };
            let pid = server.pid.map(|pid| format!("  pid {pid}")).unwrap_or_default();
            let rest = format!("  {} tools  {} restarts{pid}", server.tools, server.restarts);
            Line::from(vec![Span::raw(format!(" {:<16} ", clean(server.node(), 16))), state, Span::raw(rest)])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block(format!(" {} tool servers ", metrics.servers.len()))), tools);

    let own = &look.process.children;
    let zombies = own.iter().filter(|child| child.state == 'Z').count();
    let dead = if zombies == 0 { String::new() } else { format!(", {zombies} zombies") };
    let lines: Vec<Line<'_>> = own.iter().map(child).collect();
    frame.render_widget(Paragraph::new(lines).block(block(format!(" {} children{dead} ", own.len()))), children);
}

fn block(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP | Borders::LEFT).title(Span::styled(title, bold()))
}

fn curve(model: &Model, frame: &mut Frame<'_>, area: Rect, title: String, value: impl Fn(&Sample) -> u64) {
    let block = block(title);
    let room = usize::from(block.inner(area).width);
    let values: Vec<u64> = model.past.iter().skip(model.past.len().saturating_sub(room)).map(value).collect();
    frame.render_widget(Sparkline::default().block(block).data(values).style(coloured(model, Color::Cyan)), area);
}

fn row(cells: [&str; 6]) -> Line<'static> {
    let [name, rest @ ..] = cells;
    Line::raw(format!(" {name:<8}{}", rest.map(|cell| format!("{cell:>9}")).concat()))
}

fn latency(name: &str, figures: &LatencyFigures) -> Line<'static> {
    let all = figures.all;
    let times = [all.p50_us, all.p90_us, all.p99_us, all.max_us].map(micros);
    let [p50, p90, p99, max] = &times;
    row([name, &all.count.to_string(), p50, p90, p99, max])
}

fn child(child: &ChildFigures) -> Line<'static> {
    let name = clean(&child.name, 20);
    Line::raw(format!(" {:>8}  {name:<20} {}  {:>9}", child.pid, child.state, size(child.rss_bytes)))
}
