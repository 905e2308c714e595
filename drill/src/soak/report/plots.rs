//! The plots of the report, as SVG text. Colours of lines and fonts come from the page's style sheet, so that a plot reads
//! on a light and on a dark page alike: the backend writes fixed colours, and each of them is replaced by a variable.

use std::error::Error;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// Width and height of a plot, in the units of its view box.
const SIZE: (u32, u32) = (880, 260);

/// Points of a line at most; more are thinned out.
const MOST_POINTS: usize = 600;

/// The colours that stand for variables of the style sheet.
pub(crate) const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
pub(crate) const FIRST: RGBColor = RGBColor(3, 3, 3);
pub(crate) const SECOND: RGBColor = RGBColor(4, 4, 4);
pub(crate) const THIRD: RGBColor = RGBColor(5, 5, 5);

/// The CSS color of each series.
const VARIABLES: [(&str, &str); 5] = [
    ("#010101", "var(--ink)"),
    ("#020202", "var(--grid)"),
    ("#030303", "var(--first)"),
    ("#040404", "var(--second)"),
    ("#050505", "var(--third)"),
];

pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) colour: RGBColor,
    /// Seconds of the run, and the value there.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines over the time of the run. `marks` are instants that are drawn as upright lines.
pub(crate) fn lines(unit: &str, lines: &[Line], marks: &[f64]) -> String {
    svg(|area| {
        let points = || lines.iter().flat_map(|line| &line.points);
        let most_x = points().map(|point| point.0).chain(marks.iter().copied()).fold(1.0, f64::max);
        let most_y = points().map(|point| point.1).fold(0.0, f64::max).max(1e-9) * 1.25;
        let mut chart = chart(&area, 0.0..most_x, 0.0..most_y, "seconds of the run", unit)?;
        for mark in marks {
            chart.draw_series(LineSeries::new([(*mark, 0.0), (*mark, most_y)], THIRD.mix(0.7).stroke_width(1)))?;
        }
        for line in lines {
            let style = line.colour.stroke_width(2);
            let drawn = chart.draw_series(LineSeries::new(thinned(&line.points), style))?;
            let colour = line.colour;
            drawn
                .label(line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font(("sans-serif", 13).into_font().color(&INK))
            .background_style(TRANSPARENT)
            .draw()?;
        Ok(())
    })
}

/// How many of something there are: bars with their names below them.
pub(crate) fn bars(unit: &str, bars: &[(String, u64)]) -> String {
    svg(|area| {
        let most = bars.iter().map(|bar| bar.1).max().unwrap_or(0).max(1) as f64 * 1.1;
        let count = bars.len().max(1) as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..count, 0.0..most)?;
        let name = |x: &f64| bars.get(*x as usize).map(|bar| bar.0.clone()).unwrap_or_default();
        mesh(&mut chart, "", unit, bars.len() + 1, Some(&name))?;
        for (bar, at) in bars.iter().zip(0..) {
            let (from, to) = (f64::from(at) + 0.12, f64::from(at) + 0.88);
            chart.draw_series([Rectangle::new([(from, 0.0), (to, bar.1 as f64)], FIRST.filled())])?;
        }
        Ok(())
    })
}

pub(crate) fn instants(rows: &[(String, Vec<f64>)], most_x: f64) -> String {
    svg(|area| {
        let count = rows.len().max(1) as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(110)
            .build_cartesian_2d(0.0..most_x.max(1.0), 0.0..count)?;
        let name = |y: &f64| rows.get(*y as usize).map(|row| row.0.clone()).unwrap_or_default();
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .x_desc("seconds of the run")
            .x_label_formatter(&plain)
            .y_labels(rows.len() + 1)
            .y_label_formatter(&name)
            .y_label_offset(-6)
            .label_style(("sans-serif", 12).into_font().color(&INK))
            .axis_desc_style(("sans-serif", 13).into_font().color(&INK))
            .draw()?;
        for ((_, times), at) in rows.iter().zip(0..) {
            let y = f64::from(at) + 0.5;
            let every = times.len().div_ceil(MOST_POINTS).max(1);
            let marks = times.iter().step_by(every).map(|x| Circle::new((*x, y), 2, FIRST.mix(0.7).filled()));
            chart.draw_series(marks)?;
        }
        Ok(())
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn chart<'a, 'b>(
    area: &'b Area<'a>,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    x_name: &str,
    y_name: &str,
) -> Result<Chart<'a, 'b>, Box<dyn Error>> {
    let mut chart =
        ChartBuilder::on(area).margin(8).x_label_area_size(34).y_label_area_size(56).build_cartesian_2d(x, y)?;
    mesh(&mut chart, x_name, y_name, 10, None)?;
    Ok(chart)
}

/// Axes and grid in the page's colours.
fn mesh(
    chart: &mut Chart<'_, '_>,
    x_name: &str,
    y_name: &str,
    x_labels: usize,
    name: Option<&dyn Fn(&f64) -> String>,
) -> Result<(), Box<dyn Error>> {
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .x_labels(x_labels)
        .y_labels(6)
        .x_desc(x_name)
        .y_desc(y_name)
        .x_label_formatter(&plain)
        .y_label_formatter(&plain)
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 13).into_font().color(&INK));
    if let Some(name) = name {
        mesh.x_label_formatter(name).disable_x_mesh().x_label_offset(24);
    }
    mesh.draw()?;
    Ok(())
}

/// A number with the digits worth reading.
fn plain(value: &f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    format!("{rounded}")
}

/// Renders SVG; on an error the picture is empty, and the table has the same data.
fn svg(draw: impl FnOnce(Area<'_>) -> Result<(), Box<dyn Error>>) -> String {
    let mut text = String::new();
    let drawn = draw(SVGBackend::with_string(&mut text, SIZE).into_drawing_area());
    if let Err(error) = drawn {
        tracing::warn!("a plot of the report could not be drawn: {error}");
        return String::new();
    }
    let scaled = format!("viewBox=\"0 0 {} {}\" role=\"img\"", SIZE.0, SIZE.1);
    // The page gives the width; the view box keeps the shape.
    let fixed = format!("width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\"", SIZE.0, SIZE.1, SIZE.0, SIZE.1);
    let text = text.replacen(&fixed, &scaled, 1);
    VARIABLES
        .iter()
        .fold(text, |text, (colour, variable)| text.replace(&format!("\"{colour}\""), &format!("\"{variable}\"")))
}

fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let every = points.len().div_ceil(MOST_POINTS).max(1);
    points.iter().step_by(every).copied()
}
