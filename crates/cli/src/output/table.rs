//! Aligned tables that fit the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{layout::Layout, style::Tone, text::clean};

const GAP: &str = "  ";
/// No column is cut below this, as long as others can be left out.
const COLUMN_WIDTH_MIN: usize = 8;
/// No column is cut below this at all.
const COLUMN_WIDTH_LEAST: usize = 4;

/// What a column holds; decides to which side its cells keep, and whether they may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    /// What people pass to the next command: never cut.
    Id,
    /// Words: cut where a line would not fit.
    Text,
    /// Names whose end distinguishes them: cut in the middle where a line would not fit.
    Name,
    /// Numbers: never cut, and right-aligned.
    Number,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    name: &'static str,
    kind: ColumnKind,
    wide: bool,
    spare: bool,
    extra: bool,
}

impl Column {
    /// What people pass to the next command: never cut.
    pub const fn id(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Id, wide: false, spare: false, extra: false }
    }

    /// Words: cut where a line would not fit.
    pub const fn text(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Text, wide: false, spare: false, extra: false }
    }

    /// Names whose end distinguishes them: cut in the middle where a line would not fit.
    pub const fn name(name: &'static str) -> Self {
        Self { kind: ColumnKind::Name, ..Self::text(name) }
    }

    /// Numbers: never cut.
    pub const fn number(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Number, wide: false, spare: false, extra: false }
    }

    /// Shown only where everything is.
    pub const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    /// Left out where a line would not fit even with its words cut: ids can be longer than a terminal is wide.
    pub const fn spare(self) -> Self {
        Self { spare: true, ..self }
    }

    /// Shown only where some row has it and nothing is cut for it, or where everything is shown.
    pub const fn extra(self) -> Self {
        Self { extra: true, ..self }
    }
}

/// One cell. It may hold what others wrote: it is shown cleaned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// The word for a status, in its tone.
    pub fn status(status: impl AsRef<str>) -> Self {
        let status = status.as_ref();
        Self { tone: Tone::of_status(status), ..status.into() }
    }

    /// A count of something.
    pub fn number(number: impl Into<u64>) -> Self {
        Self { text: number.into().to_string(), tone: Tone::Plain }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: clean(text).into_owned(), tone: Tone::Plain }
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

/// Rows below a header.
#[derive(Debug, Clone)]
pub struct Table {
    layout: Layout,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns; those for a wide layout are left out of others.
    pub fn new(layout: Layout, columns: &[Column]) -> Self {
        let columns = columns.to_vec();
        let header =
            columns.iter().map(|column| Cell { text: column.name.to_uppercase(), tone: Tone::Strong });
        Self { layout, rows: vec![header.collect()], columns }
    }

    /// A table without a header.
    pub fn headless(layout: Layout, columns: &[Column]) -> Self {
        Self { layout, columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Whether there is nothing but the header.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Adds a row; one cell for each column, also for those that are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// The table as wide as its layout allows. What is extra is shown where there is room for it. A narrow terminal cuts the widest
    /// columns of words first, then leaves out what can be spared, the last first. Where ids are still too long, each has a line of
    /// its own above its row.
    pub fn render(&self) -> String {
        let mut visible: Vec<usize> =
            (0..self.columns.len()).filter(|at| self.layout.wide || !self.columns[*at].wide).collect();
        self.leave_out_extra(&mut visible);
        let fit = self.fit(&visible, None).or_else(|| self.fit(&visible, Some(self.folded_over(&visible)?)));
        let fit = fit.unwrap_or_else(|| self.cut_most(visible));
        self.rows.iter().map(|row| self.line(row, &fit)).collect()
    }

    /// Columns and widths that fit the terminal; none where there are none that do not cut words too far.
    fn fit(&self, visible: &[usize], folded_over: Option<usize>) -> Option<Fit> {
        let mut visible = visible.to_vec();
        loop {
            let widths = self.widths(&visible, COLUMN_WIDTH_MIN, folded_over);
            if self.fits(&widths) {
                return Some(Fit { visible, widths, folded_over });
            }
            let spare = visible.iter().rposition(|at| self.columns[*at].spare)?;
            visible.remove(spare);
        }
    }

    /// As little as can be shown, though it may be too wide.
    fn cut_most(&self, mut visible: Vec<usize>) -> Fit {
        let folded_over = self.folded_over(&visible);
        visible.retain(|at| !self.columns[*at].spare);
        let widths = self.widths(&visible, COLUMN_WIDTH_LEAST, folded_over);
        Fit { visible, widths, folded_over }
    }

    /// The width that ids may have beside other columns, half of the terminal; none where the first column has none that is wider.
    fn folded_over(&self, visible: &[usize]) -> Option<usize> {
        let (first, half) = (*visible.first()?, self.layout.columns? / 2);
        let is_id = self.columns[first].kind == ColumnKind::Id;
        (is_id && visible.len() > 1 && self.widest(first) > half).then_some(half)
    }

    /// Whether lines of columns of these widths fit the terminal.
    fn fits(&self, widths: &[usize]) -> bool {
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        self.layout.columns.is_none_or(|available| widths.iter().sum::<usize>() + gaps <= available)
    }

    /// Leaves out the extra columns that say nothing or for which something would be cut, the last first.
    fn leave_out_extra(&self, visible: &mut Vec<usize>) {
        if self.layout.wide {
            return;
        }
        for at in (0..self.columns.len()).rev().filter(|at| self.columns[*at].extra) {
            let says = self.rows.iter().skip(1).any(|row| !row[at].text.is_empty());
            let uncut: Vec<usize> = visible.iter().map(|at| self.widest(*at)).collect();
            if !says || !self.fits(&uncut) {
                visible.retain(|other| *other != at);
            }
        }
    }

    /// The width of the widest cell of a column.
    fn widest(&self, at: usize) -> usize {
        self.rows.iter().map(|row| row[at].text.width()).max().unwrap_or(0)
    }

    /// As wide as the cells are, or as narrow as a terminal needs and `least` allows. Ids that are folded take no room.
    fn widths(&self, visible: &[usize], least: usize, folded_over: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = visible.iter().map(|at| self.widest(*at)).collect();
        if let (Some(most), Some(first)) = (folded_over, visible.first()) {
            let beside = self.rows.iter().map(|row| row[*first].text.width()).filter(|width| *width <= most);
            widths[0] = beside.max().unwrap_or(0);
        }
        while !self.fits(&widths) {
            let may_be_cut = |(at, width): &(usize, &mut usize)| {
                matches!(self.columns[visible[*at]].kind, ColumnKind::Text | ColumnKind::Name)
                    && **width > least
            };
            let Some((_, widest)) =
                widths.iter_mut().enumerate().filter(may_be_cut).max_by_key(|(_, width)| **width)
            else {
                break;
            };
            *widest -= 1;
        }
        widths
    }

    fn line(&self, row: &[Cell], fit: &Fit) -> String {
        let mut line = String::new();
        let mut space = 0;
        for (position, (&at, &width)) in fit.visible.iter().zip(&fit.widths).enumerate() {
            if position == 0 && fit.folded_over.is_some_and(|most| row[at].text.width() > most) {
                line.push_str(&self.layout.palette.paint(&row[at].text, row[at].tone));
                line.push('\n');
                space = width + GAP.len();
                continue;
            }
            let text = match self.columns[at].kind {
                ColumnKind::Name => cut_middle(&row[at].text, width),
                ColumnKind::Id | ColumnKind::Text | ColumnKind::Number => cut(&row[at].text, width),
            };
            let missing = width.saturating_sub(text.width());
            let right = self.columns[at].kind == ColumnKind::Number;
            if right {
                space += missing;
            }
            // Space is written only before something, so that no line ends with it.
            if !text.is_empty() {
                line.push_str(&" ".repeat(space));
                line.push_str(&self.layout.palette.paint(&text, row[at].tone));
                space = 0;
            }
            space += GAP.len() + if right { 0 } else { missing };
        }
        line.push('\n');
        line
    }
}

/// What of a table is shown on a terminal.
struct Fit {
    /// The positions of columns.
    visible: Vec<usize>,
    /// The width of each of them, in columns of the terminal.
    widths: Vec<usize>,
    /// Ids of the first column that are wider have a line of their own.
    folded_over: Option<usize>,
}

/// The text in at most `width` columns of the terminal, of which its end has half.
fn cut_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width / 2;
    let fits = |c: &char| {
        let fits = c.width().unwrap_or(0) <= left;
        left = left.saturating_sub(c.width().unwrap_or(0));
        fits
    };
    let end: Vec<char> = text.chars().rev().take_while(fits).collect();
    let begin = cut(text, width - end.iter().map(|c| c.width().unwrap_or(0)).sum::<usize>());
    begin.chars().chain(end.into_iter().rev()).collect()
}

/// The text in at most `width` columns of the terminal.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let fits = c.width().unwrap_or(0) <= left;
        left = left.saturating_sub(c.width().unwrap_or(0));
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::output::style::Palette;

    const COLUMNS: &[Column] = &[
        Column::id("id"),
        Column::number("count"),
        Column::text("description"),
        Column::text("owner").wide(),
    ];

    fn check(layout: Layout, expected: &Expect) {
        let mut table = Table::new(layout, COLUMNS);
        let about = "serves pages to everyone who asks for them politely";
        table.row(["web".into(), Cell::number(2_u32), about.into(), "ops".into()]);
        table.row(["batch-\u{1b}[1m".into(), Cell::number(12_000_u32), "日本語".into(), "".into()]);
        expected.assert_eq(&table.render());
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(cut_middle("web.front[2]", 12), "web.front[2]");
        assert_eq!(cut_middle("a-long-name.front[2]", 13), "a-long…ont[2]");
        assert_eq!(cut_middle("a-long-name.front[2]", 12), "a-lon…ont[2]");
        assert_eq!(cut_middle("名前の長いもの[12]", 9).width(), 9);
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        check(
            Layout::PLAIN,
            &expect![[r#"
            ID          COUNT  DESCRIPTION
            web             2  serves pages to everyone who asks for them politely
            batch-�[1m  12000  日本語
        "#]],
        );
    }

    #[test]
    fn what_is_extra_is_shown_where_it_says_something_and_nothing_is_cut_for_it() {
        let columns =
            [Column::id("id"), Column::text("name"), Column::text("ports").extra(), Column::text("age")];
        let shown = |ports: &str, layout: Layout| {
            let mut table = Table::new(layout, &columns);
            table.row(["1".into(), "web".into(), ports.into(), "3s".into()]);
            table.render().contains("PORTS")
        };
        // `ID  NAME  http:8080  AGE` are 24 columns.
        let at = |columns| Layout { columns: Some(columns), ..Layout::PLAIN };
        assert!(shown("http:8080", Layout::PLAIN) && shown("http:8080", at(24)));
        assert!(!shown("http:8080", at(23)));
        assert!(!shown("", Layout::PLAIN));
        assert!(shown("", Layout { wide: true, ..Layout::PLAIN }));
    }

    #[test]
    fn a_narrow_terminal_cuts_words_and_neither_ids_nor_numbers() {
        check(
            Layout { columns: Some(40), ..Layout::PLAIN },
            &expect![[r#"
            ID          COUNT  DESCRIPTION
            web             2  serves pages to ever…
            batch-�[1m  12000  日本語
        "#]],
        );
        check(
            Layout { columns: Some(10), ..Layout::PLAIN },
            &expect![[r#"
                ID   COUNT  DES…
                web      2  ser…
                batch-�[1m
                     12000  日…
            "#]],
        );
    }

    #[test]
    fn a_wide_layout_shows_all_columns() {
        check(
            Layout { wide: true, ..Layout::PLAIN },
            &expect![[r#"
            ID          COUNT  DESCRIPTION                                          OWNER
            web             2  serves pages to everyone who asks for them politely  ops
            batch-�[1m  12000  日本語
        "#]],
        );
    }

    #[test]
    fn columns_that_can_be_spared_make_room_for_ids() {
        let of = |columns| {
            let layout = Layout { columns: Some(columns), ..Layout::PLAIN };
            let named = [
                Column::id("id"),
                Column::number("priority").spare(),
                Column::text("status"),
                Column::text("registered").spare(),
            ];
            let mut table = Table::new(layout, &named);
            table.row([
                "nightly/periodic-1795712896".into(),
                Cell::number(50_u32),
                "running".into(),
                "2s ago".into(),
            ]);
            table.render()
        };
        expect![[r#"
            ID                           PRIORITY  STATUS   REGISTERED
            nightly/periodic-1795712896        50  running  2s ago
        "#]]
        .assert_eq(&of(80));
        expect![[r#"
            ID                           PRIORITY  STATUS
            nightly/periodic-1795712896        50  running
        "#]]
        .assert_eq(&of(50));
        expect![[r#"
            ID                           STATUS
            nightly/periodic-1795712896  running
        "#]]
        .assert_eq(&of(36));
        expect![[r#"
            ID  PRIORITY  STATUS   REGISTERED
            nightly/periodic-1795712896
                      50  running  2s ago
        "#]]
        .assert_eq(&of(34));
        expect![[r#"
            ID  STATUS
            nightly/periodic-1795712896
                runni…
        "#]]
        .assert_eq(&of(10));
    }

    #[test]
    fn ids_that_are_too_long_stand_above_their_rows_and_are_whole() {
        let layout = Layout { columns: Some(40), ..Layout::PLAIN };
        let columns = [
            Column::id("id"),
            Column::text("type"),
            Column::text("status"),
            Column::number("running"),
            Column::text("registered").spare(),
        ];
        let mut table = Table::new(layout, &columns);
        let status = |status: &str| Cell::from(status);
        table.row(["web".into(), "service".into(), status("running"), Cell::number(2_u32), "2s ago".into()]);
        let long = "resize-pictures/dispatch-1795881474-02c990b4";
        table.row([long.into(), "batch".into(), status("complete"), Cell::number(0_u32), "12s ago".into()]);
        expect![[r#"
            ID   TYPE     STATUS    RUNNING
            web  service  running         2
            resize-pictures/dispatch-1795881474-02c990b4
                 batch    complete        0
        "#]]
        .assert_eq(&table.render());
    }

    #[test]
    fn colours_take_no_room() {
        let mut table = Table::headless(
            Layout { palette: Palette::Ansi, ..Layout::PLAIN },
            &[Column::text(""), Column::id("")],
        );
        table.row([Cell::status("down"), "a".into()]);
        table.row([Cell::status("ready"), "b".into()]);
        assert_eq!(table.render(), "\u{1b}[31mdown\u{1b}[0m   a\n\u{1b}[32mready\u{1b}[0m  b\n");
    }
}
