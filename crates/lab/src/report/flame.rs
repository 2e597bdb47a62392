//! A profile as an icicle graph: a box for each function, as wide as its share of samples, callees below their callers.

use std::{collections::BTreeMap, fmt::Write};

use crate::random::mix;

/// Pixels, before the page scales it.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
/// Boxes narrower than this are left out.
const WIDTH_MIN: f64 = 1.2;
/// Wide enough for this many letters a pixel.
const LETTERS_PER_PIXEL: f64 = 1.0 / 6.6;
/// Rows that are drawn; stacks may be deeper.
const ROWS_MAX: usize = 60;

/// A function as called from one caller.
#[derive(Default)]
struct Frame<'a> {
    /// Samples in it and in what it calls.
    samples: u64,
    callees: BTreeMap<&'a str, Frame<'a>>,
}

impl<'a> Frame<'a> {
    /// Of stacks as lines of `outer;inner COUNT`; what is no such line is left out.
    fn read(folded: &'a str) -> Self {
        let mut root = Self::default();
        let stacks = folded.lines().filter_map(|line| line.rsplit_once(' '));
        for (stack, count) in stacks.filter_map(|(stack, count)| Some((stack, count.parse::<u64>().ok()?))) {
            root.samples += count;
            let mut frame = &mut root;
            for name in stack.split(';') {
                frame = frame.callees.entry(name).or_default();
                frame.samples += count;
            }
        }
        root
    }
}

/// The graph as SVG; none of a profile without samples.
pub(super) fn graph(folded: &str) -> Option<String> {
    let root = Frame::read(folded);
    if root.samples == 0 {
        return None;
    }
    let mut drawing = Drawing { total: root.samples as f64, boxes: String::new(), rows: 0 };
    drawing.callees(&root, 0.0, 0);
    let (height, boxes) = (ROW * drawing.rows as f64, drawing.boxes);
    Some(format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" font-size="11" font-family="monospace" role="img">{boxes}</svg>"#
    ))
}

struct Drawing {
    total: f64,
    boxes: String,
    rows: usize,
}

impl Drawing {
    fn callees(&mut self, caller: &Frame<'_>, mut x: f64, row: usize) {
        for (name, frame) in &caller.callees {
            let width = WIDTH * frame.samples as f64 / self.total;
            if width >= WIDTH_MIN && row < ROWS_MAX {
                self.rows = self.rows.max(row + 1);
                self.one(name, frame.samples, (x, row as f64 * ROW, width));
                self.callees(frame, x, row + 1);
            }
            x += width;
        }
    }

    fn one(&mut self, name: &str, samples: u64, (x, y, width): (f64, f64, f64)) {
        let percent = 100.0 * samples as f64 / self.total;
        let (height, text_y) = (ROW - 1.0, y + ROW - 5.0);
        let letters = (width * LETTERS_PER_PIXEL) as usize;
        let shown: String = if letters < 3 { String::new() } else { name.chars().take(letters).collect() };
        let (name, shown, hue) = (escaped(name), escaped(&shown), hue(name));
        let _ = write!(
            self.boxes,
            r#"<g><title>{name}: {percent:.1} %</title><rect x="{x:.1}" y="{y}" width="{:.1}" height="{height}" fill="hsl({hue} 65% 62%)"/><text x="{:.1}" y="{text_y}" fill="black">{shown}</text></g>"#,
            width - 0.5,
            x + 3.0,
        );
    }
}

/// Warm, and the same for the same name.
fn hue(name: &str) -> u64 {
    10 + name.bytes().fold(0, |sum, byte| mix(sum, byte.into())) % 45
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_its_share_and_below_its_caller() {
        let svg = graph("main;read 30\nmain;write<T> 10\nidle 60\nno count\n").unwrap();
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(
            svg.contains("<title>main: 40.0 %</title>")
                && svg.contains("<title>write&lt;T&gt;: 10.0 %</title>")
        );
        // The thread that idles comes first, by name; main begins at 60 % of the width, and read lies in the second row.
        assert!(svg.contains(r#"<title>read: 30.0 %</title><rect x="720.0" y="17" width="359.5""#), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(graph(""), None);
    }
}
