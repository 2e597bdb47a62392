//! Columns: `=` below `=`, and comment below comment, in lines that follow each other.

use super::line::Line;

/// Puts the `=` and the comments of neighbouring lines into columns.
pub(super) fn align(lines: &mut [Line<'_>]) {
    for run in lines
        .chunk_by_mut(|a, b| are_neighbours(a, b, |line| !line.has_lines() && line.equals_at().is_some()))
    {
        let column = run.iter().filter_map(Line::equals_at).max().unwrap_or(0);
        for line in run {
            line.before_equals = line.equals_at().map_or(0, |at| column - at);
        }
    }
    for run in lines.chunk_by_mut(|a, b| are_neighbours(a, b, |line| line.comment_at().is_some())) {
        let column = run.iter().filter_map(Line::comment_at).max().unwrap_or(0);
        for line in run {
            line.before_comment = line.comment_at().map_or(0, |at| column - at);
        }
    }
}

fn are_neighbours(a: &Line<'_>, b: &Line<'_>, belongs: impl Fn(&Line<'_>) -> bool) -> bool {
    a.level == b.level && belongs(a) && belongs(b)
}
