//! Job files in their usual layout: two blanks a level, `=` and comments in columns, one blank line at most. What a file
//! says does not change, and comments stay where they are.

mod align;
mod line;

use crate::{
    diagnostic::Diagnostics,
    report::Report,
    source,
    syntax::{self, Token, TokenKind, tokens},
};

use line::Line;

/// The job file in its usual layout. `file` is the name that messages give.
///
/// # Errors
/// When the syntax is not correct: then nobody knows what belongs where.
pub fn format(source: &str, file: &str) -> Result<String, Diagnostics> {
    let text = source::checked(source.as_bytes(), file)?;
    let report = Report::new(file, text);
    drop(syntax::parse(text, &report));
    let report = report.checked()?;
    let tokens = tokens(text, &report);
    report.checked()?;
    let mut lines = lines(&tokens);
    indent(&mut lines);
    align::align(&mut lines);
    Ok(lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect())
}

/// The lines, never two blank ones behind one another, and none at either end.
fn lines<'t>(tokens: &'t [Token<'t>]) -> Vec<Line<'t>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for tokens in tokens.split(|token| token.kind == TokenKind::LineEnd) {
        let after_blank = lines.last().is_none_or(Line::is_blank);
        if !(tokens.is_empty() && after_blank) {
            lines.push(Line::new(tokens));
        }
    }
    while lines.last().is_some_and(Line::is_blank) {
        lines.pop();
    }
    lines
}

/// One level for each line that leaves something open, however much it opens.
fn indent(lines: &mut [Line<'_>]) {
    let mut open: Vec<usize> = Vec::new();
    for line in lines {
        let (closed_first, opened) = line.brackets();
        let closed_behind = usize::try_from(-opened).unwrap_or(0);
        // A line that begins by closing stands where all that it closes began.
        let (before, behind) =
            if closed_first > 0 { (closed_first + closed_behind, 0) } else { (0, closed_behind) };
        close(&mut open, before);
        line.level = open.len();
        close(&mut open, behind);
        open.extend(usize::try_from(opened).ok().filter(|opened| *opened > 0));
    }
}

fn close(open: &mut Vec<usize>, mut brackets: usize) {
    while brackets > 0 {
        let Some(last) = open.pop() else { return };
        if last > brackets {
            open.push(last - brackets);
        }
        brackets = brackets.saturating_sub(last);
    }
}
