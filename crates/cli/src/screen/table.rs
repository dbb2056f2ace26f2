//! Columns without lines around them, as `kubectl` and `ps` print them.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color};
use stateway_phrases::State;

use super::Paint;
use super::paint::library_color;

/// A table that is filled row by row. Empty columns are left out.
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    paint: Paint,
}

impl Table {
    /// With these headings.
    #[must_use]
    pub fn new(headings: &[&str], paint: Paint) -> Self {
        let headings = headings
            .iter()
            .map(|heading| (*heading).to_owned())
            .collect();
        Self {
            headings,
            rows: Vec::new(),
            paint,
        }
    }

    /// Adds a row. A cell that is a sub-state gets its colour.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds a row with a name and a value, unless the value is empty.
    pub fn line(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.row(vec![name.to_owned(), value]);
        }
    }

    /// The lines, without blanks at their ends.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).force_no_tty();
        if self.paint.is_on() {
            table.enforce_styling();
        }
        if !self.headings.is_empty() {
            table.set_header(self.shown_cells(&self.headings).map(Cell::new));
        }
        for row in &self.rows {
            table.add_row(self.shown_cells(row).map(|text| self.cell(text)));
        }
        let lines: Vec<String> = table.lines().collect();
        // Spaces that all lines begin with are padding; more spaces are an empty first cell.
        let indent = |line: &String| line.len() - line.trim_start().len();
        let padding = lines.iter().map(indent).min().unwrap_or_default();
        let lines: Vec<&str> = lines
            .iter()
            .map(|line| line[padding..].trim_end())
            .collect();
        lines.join("\n")
    }

    /// The cells of the columns that are not empty, or of all columns if there are no rows.
    fn shown_cells<'a>(&'a self, cells: &'a [String]) -> impl Iterator<Item = &'a String> {
        let says =
            |row: &Vec<String>, column: usize| row.get(column).is_some_and(|c| !c.is_empty());
        let columns = cells.iter().enumerate().filter(move |(column, _)| {
            self.rows.is_empty() || self.rows.iter().any(|row| says(row, *column))
        });
        columns.map(|(_, cell)| cell)
    }

    fn cell(&self, text: &str) -> Cell {
        let cell = Cell::new(text);
        match color(text).filter(|_| self.paint.is_on()) {
            Some(color) => cell.fg(color),
            None => cell,
        }
    }
}

fn color(label: &str) -> Option<Color> {
    State::of(label).map(|state| library_color!(Color, state.color))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_end_without_blanks() {
        let mut table = Table::new(&["NAME", "STATE"], Paint::new(false));
        table.row(vec!["a".into(), "running".into()]);
        table.row(vec!["a-long-name".into(), String::new()]);
        assert_eq!(
            table.text(),
            "NAME         STATE\na            running\na-long-name"
        );
    }

    #[test]
    fn an_empty_first_cell_keeps_its_column() {
        let mut table = Table::new(&["", "NAME"], Paint::new(false));
        table.row(vec![String::new(), "prod".into()]);
        table.row(vec!["*".into(), "test".into()]);
        assert_eq!(table.text(), "   NAME\n   prod\n*  test");
    }

    #[test]
    fn a_column_that_says_nothing_is_left_out() {
        let mut table = Table::new(&["NAME", "REASON", "AGE"], Paint::new(false));
        assert_eq!(table.text(), "NAME  REASON  AGE");
        table.row(vec!["a".into(), String::new(), "3 s".into()]);
        assert_eq!(table.text(), "NAME  AGE\na     3 s");
    }

    #[test]
    fn sub_states_are_coloured_when_wanted() {
        let mut table = Table::new(&[], Paint::new(true));
        table.row(vec!["failed".into()]);
        assert!(table.text().contains("\u{1b}["));
    }
}
