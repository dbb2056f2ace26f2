//! Columns without lines around them, as `kubectl` and `ps` print them.

use comfy_table::presets::NOTHING;

use super::Paint;

/// A table that is filled row by row.
pub struct Table {
    table: comfy_table::Table,
    paint: Paint,
}

impl Table {
    /// With these headings.
    #[must_use]
    pub fn new(headings: &[&str], paint: Paint) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).force_no_tty();
        if paint.is_on() {
            table.enforce_styling();
        }
        if !headings.is_empty() {
            table.set_header(headings.iter().map(comfy_table::Cell::new));
        }
        Self { table, paint }
    }

    /// Adds a row. A cell that is one of the six words gets its colour.
    pub fn row(&mut self, cells: Vec<String>) {
        let cells = cells.into_iter().map(|text| {
            let color = color(&text).filter(|_| self.paint.is_on());
            let cell = comfy_table::Cell::new(text);
            match color {
                Some(color) => cell.fg(color),
                None => cell,
            }
        });
        self.table.add_row(cells);
    }

    /// The lines, without blanks at their ends.
    #[must_use]
    pub fn text(&self) -> String {
        let lines: Vec<String> = self
            .table
            .lines()
            .map(|line| line.trim_end().trim_start_matches(' ').to_owned())
            .collect();
        lines.join("\n")
    }
}

fn color(word: &str) -> Option<comfy_table::Color> {
    use comfy_table::Color;
    match word {
        "running" => Some(Color::Blue),
        "waiting" => Some(Color::Cyan),
        "backing-off" => Some(Color::Yellow),
        "error" => Some(Color::Magenta),
        "succeeded" => Some(Color::Green),
        "failed" => Some(Color::Red),
        _ => None,
    }
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
    fn sub_states_are_coloured_when_wanted() {
        let mut table = Table::new(&[], Paint::new(true));
        table.row(vec!["failed".into()]);
        assert!(table.text().contains("\u{1b}["));
    }
}
