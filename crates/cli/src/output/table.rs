//! Aligned tables that fit the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::clean;

/// Between two columns.
const GAP: &str = "  ";
/// No column is cut below this.
const COLUMN_WIDTH_MIN: usize = 8;

/// To which side a column's cells keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows below a header. Cells may hold what others wrote: it is shown cleaned.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let header = columns.iter().map(|(name, _)| name.to_uppercase()).collect();
        Self { columns: columns.iter().map(|(_, align)| *align).collect(), rows: vec![header] }
    }

    /// A table without a header.
    pub fn headless(columns: &[Align]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Whether there is nothing but the header.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Adds a row; one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<_> = cells.into_iter().map(|cell| clean(&cell).into_owned()).collect();
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// The table in at most `width` columns, or as wide as it is. A narrow terminal cuts the widest columns first.
    pub fn render(&self, width: Option<usize>) -> String {
        let widths = self.widths(width);
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn widths(&self, available: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|at| self.rows.iter().map(|row| row[at].width()).max().unwrap_or(0))
            .collect();
        let Some(available) = available else { return widths };
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > available {
            let Some(widest) = widths.iter_mut().max().filter(|width| **width > COLUMN_WIDTH_MIN) else {
                break;
            };
            *widest -= 1;
        }
        widths
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(&self.columns).zip(widths);
        let cells: Vec<_> =
            cells.map(|((cell, align), width)| padded(&cut(cell, *width), *align, *width)).collect();
        format!("{}\n", cells.join(GAP).trim_end())
    }
}

fn padded(cell: &str, align: Align, width: usize) -> String {
    let space = " ".repeat(width.saturating_sub(cell.width()));
    match align {
        Align::Left => format!("{cell}{space}"),
        Align::Right => format!("{space}{cell}"),
    }
}

/// The cell in at most `width` columns of the terminal.
fn cut(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let fits = c.width().unwrap_or(0) <= left;
        left = left.saturating_sub(c.width().unwrap_or(0));
        fits
    };
    cell.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn sample() -> Table {
        let mut table =
            Table::new(&[("id", Align::Left), ("count", Align::Right), ("description", Align::Left)]);
        table.row(["web".into(), "2".into(), "serves pages to everyone who asks for them politely".into()]);
        table.row(["batch-\u{1b}[1m".into(), "12000".into(), "日本語".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        expect![[r#"
            ID          COUNT  DESCRIPTION
            web             2  serves pages to everyone who asks for them politely
            batch-�[1m  12000  日本語
        "#]]
        .assert_eq(&sample().render(None));
    }

    #[test]
    fn a_narrow_terminal_cuts_the_widest_column() {
        expect![[r#"
            ID          COUNT  DESCRIPTION
            web             2  serves pages to ever…
            batch-�[1m  12000  日本語
        "#]]
        .assert_eq(&sample().render(Some(40)));
    }
}
