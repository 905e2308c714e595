//! A table: in columns where they fit, and one cell a line where they do not.

use textwrap::core::display_width;

use super::inline::wrapped;

/// A table that is being collected; its first row is its head. Cells carry their styles.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    row: Vec<String>,
}

impl Table {
    pub(super) fn cell(&mut self, text: &str) {
        self.row.push(text.replace('\n', " "));
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| display_width(cell)).max();
        let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
        let needed = widths.iter().sum::<usize>() + 3 * count.saturating_sub(1);
        if needed <= columns { self.side_by_side(&widths) } else { self.one_below_another(columns) }
    }

    fn side_by_side(&self, widths: &[usize]) -> Vec<String> {
        let line = |row: &Vec<String>| {
            let cells = widths.iter().enumerate().map(|(at, width)| {
                let cell = row.get(at).map_or("", String::as_str);
                format!("{cell}{}", " ".repeat(width - display_width(cell)))
            });
            cells.collect::<Vec<_>>().join(" │ ").trim_end().to_owned()
        };
        let mut lines: Vec<String> = self.rows.iter().map(line).collect();
        if !lines.is_empty() {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            lines.insert(1, rule.join("─┼─"));
        }
        lines
    }

    fn one_below_another(&self, columns: usize) -> Vec<String> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                lines.push(String::new());
            }
            for (at, cell) in row.iter().enumerate() {
                let label = head.get(at).map_or("", String::as_str);
                lines.extend(wrapped(&format!("{label}: {cell}"), columns));
            }
        }
        if rows.is_empty() {
            lines.extend(wrapped(&head.join(", "), columns));
        }
        lines
    }
}
