//! One chart as SVG: lines, layered areas or groups of bars.

use plotters::{coord::Shift, prelude::*};

use crate::record::number;

/// Pixels, before the page scales it.
const SIZE: (u32, u32) = (600, 280);
const FONT_PIXELS: u32 = 15;
/// Replaced by the page's own colour of text, so that a chart can be read on light and on dark.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_HEX: &str = "#010203";
/// Legible on light and on dark, and told apart by those who do not tell red from green: no two of them differ in that alone.
const PALETTE: [RGBColor; 6] = [
    RGBColor(59, 130, 246),
    RGBColor(245, 158, 11),
    RGBColor(139, 92, 246),
    RGBColor(20, 184, 166),
    RGBColor(219, 39, 119),
    RGBColor(146, 104, 41),
];
/// Colours of published results, in turn: less prominent than those of measurements.
const PUBLISHED: [RGBColor; 3] = [RGBColor(120, 134, 156), RGBColor(160, 120, 130), RGBColor(110, 150, 140)];
/// Pixels of a dash, and between two.
const DASH: (u32, u32) = (6, 4);
/// The part of a group's width that its bars take.
const BARS_WIDTH: f64 = 0.8;
/// What is less is shown as this on a logarithmic axis, seconds.
const LOG_MIN: f64 = 1e-6;

/// Why a chart cannot be drawn.
pub(super) type DrawError = Box<dyn std::error::Error + Send + Sync>;

/// What a chart shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Chart {
    /// What it is about.
    pub title: String,
    /// What the horizontal axis means, with its unit.
    pub x: String,
    /// What the vertical axis means, with its unit.
    pub y: String,
    /// Its lines; of areas the largest first, as each covers a part of those before it.
    pub lines: Vec<ChartLine>,
    /// How they are drawn.
    pub kind: ChartKind,
}
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ChartLine {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Others published it: it is dashed, and grey.
    pub is_published: bool,
}

impl ChartLine {
    pub fn measured(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), points, is_published: false }
    }
}

/// How lines are drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum ChartKind {
    /// Over two axes from zero.
    #[default]
    Lines,
    /// The same over a horizontal axis of powers of ten.
    LogLines,
    /// Filled down to the axis.
    Areas,
    /// Points are bars beside each other, in groups of these names; what others published lies across.
    Bars(Vec<String>),
}

impl Chart {
    /// The colours of the lines, as CSS writes them.
    pub fn colors(&self) -> impl Iterator<Item = (String, &str)> {
        let hex = |RGBColor(r, g, b)| format!("#{r:02x}{g:02x}{b:02x}");
        self.colored().map(move |(line, color)| (hex(color), line.name.as_str()))
    }

    /// The lines with their colours.
    fn colored(&self) -> impl Iterator<Item = (&ChartLine, RGBColor)> {
        let (mut own, mut published) = (PALETTE.iter().cycle(), PUBLISHED.iter().cycle());
        self.lines.iter().filter_map(move |line| {
            let color = if line.is_published { published.next() } else { own.next() };
            Some((line, *color?))
        })
    }

    /// The chart without its title and its legend, which are the page's.
    pub fn to_svg(&self) -> Result<String, DrawError> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area).map_err(|error| error.to_string())?;
            area.present().map_err(|error| error.to_string())?;
        }
        Ok(svg.replace(INK_HEX, "currentColor"))
    }

    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let ((x_min, x_max), y_max) = self.limits();
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(x_min..x_max, 0.0..y_max)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.15))
            .axis_style(INK.mix(0.5))
            .label_style(("sans-serif", FONT_PIXELS, &INK))
            .axis_desc_style(("sans-serif", FONT_PIXELS, &INK))
            .x_labels(self.x_labels((x_min, x_max)))
            .y_labels(6)
            .x_label_formatter(&|value| self.x_label(*value))
            .y_label_formatter(&|value| label(*value))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .draw()?;
        let of_group = self.lines.iter().filter(|line| !line.is_published).count();
        let mut bar = 0;
        for (line, color) in self.colored() {
            let points = line.points.iter().map(|(x, y)| (self.x_position(*x), *y));
            match &self.kind {
                _ if line.is_published => {
                    let style = color.stroke_width(2);
                    chart.draw_series(DashedLineSeries::new(points, DASH.0, DASH.1, style))?;
                }
                ChartKind::Areas => drop(chart.draw_series(AreaSeries::new(points, 0.0, color))?),
                ChartKind::Bars(_) => {
                    let width = BARS_WIDTH / of_group as f64;
                    let from = (1.0 - BARS_WIDTH) / 2.0 + width * f64::from(bar);
                    let bars = points.map(|(x, y)| {
                        Rectangle::new([(x + from, 0.0), (x + from + width, y)], color.filled())
                    });
                    chart.draw_series(bars)?;
                    bar += 1;
                }
                ChartKind::Lines | ChartKind::LogLines => {
                    chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
                }
            }
        }
        Ok(())
    }

    /// Where a value is on the horizontal axis.
    fn x_position(&self, x: f64) -> f64 {
        if self.kind == ChartKind::LogLines { x.max(LOG_MIN).log10() } else { x }
    }

    /// The ends of the horizontal axis, and of the vertical one, which begins at 0: never alike, so that nothing is divided by 0.
    fn limits(&self) -> ((f64, f64), f64) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let last = points().map(|(x, _)| self.x_position(*x)).fold(f64::MIN, f64::max);
        let y = points().map(|(_, y)| *y).fold(0.0, f64::max) * 1.05;
        let x = match &self.kind {
            ChartKind::Bars(groups) => (0.0, groups.len().max(1) as f64),
            ChartKind::LogLines if points().next().is_some() => {
                let first = points().map(|(x, _)| self.x_position(*x)).fold(f64::MAX, f64::min).floor();
                (first, last.ceil().max(first + 1.0))
            }
            _ => (0.0, if last > 0.0 { last } else { 1.0 }),
        };
        (x, if y > 0.0 { y } else { 1.0 })
    }

    /// About how many labels the horizontal axis has.
    fn x_labels(&self, (from, to): (f64, f64)) -> usize {
        match &self.kind {
            // One at each power, and one in the middle of each group, of which the axis knows halves.
            ChartKind::LogLines => (to - from) as usize + 1,
            ChartKind::Bars(groups) => 2 * groups.len() + 1,
            ChartKind::Lines | ChartKind::Areas => 8,
        }
    }

    fn x_label(&self, value: f64) -> String {
        let is_whole = (value - value.round()).abs() < 1e-6;
        match &self.kind {
            ChartKind::LogLines if is_whole => label(10_f64.powf(value)),
            ChartKind::Bars(groups) if !is_whole => groups.get(value as usize).cloned().unwrap_or_default(),
            ChartKind::LogLines | ChartKind::Bars(_) => String::new(),
            ChartKind::Lines | ChartKind::Areas => label(value),
        }
    }
}

/// As short as can be: `0.25`, `30000`.
fn label(value: f64) -> String {
    let text = number(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            x: "s".to_owned(),
            y: "count".to_owned(),
            lines: vec![ChartLine::measured("one", points)],
            ..Chart::default()
        }
    }

    #[test]
    fn a_chart_takes_the_pages_colour_of_text() {
        let chart = chart(vec![(0.0, 0.0), (2.0, 30_000.0)]);
        let svg = chart.to_svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("currentColor") && !svg.contains(INK_HEX));
        assert!(svg.contains("30000") && svg.contains("#3B82F6"), "{svg}");
        assert_eq!(chart.colors().collect::<Vec<_>>(), [("#3b82f6".to_owned(), "one")]);
    }

    #[test]
    fn a_chart_of_nothing_can_be_drawn() {
        assert!(chart(vec![]).to_svg().is_ok());
        assert!(chart(vec![(0.0, 0.0)]).to_svg().is_ok());
    }

    #[test]
    fn powers_of_ten_are_as_far_from_each_other() {
        let points = vec![(0.002, 1.0), (0.02, 50.0), (3.0, 100.0)];
        let chart = Chart { kind: ChartKind::LogLines, ..chart(points) };
        assert_eq!(chart.limits().0, (-3.0, 1.0));
        assert_eq!([-3.0, -1.0, 0.0, 1.0, 0.5].map(|at| chart.x_label(at)), ["0.001", "0.1", "1", "10", ""]);
        let svg = chart.to_svg().unwrap();
        assert!(["0.001", "0.01", "0.1"].iter().all(|power| svg.contains(power)), "{svg}");
        let nothing = Chart { lines: vec![ChartLine::measured("none", vec![])], ..chart };
        assert!(nothing.to_svg().is_ok());
    }

    #[test]
    fn bars_stand_in_named_groups_and_what_others_published_lies_across() {
        let published =
            ChartLine { is_published: true, ..ChartLine::measured("theirs", vec![(0.0, 4.0), (2.0, 4.0)]) };
        let lines = vec![
            ChartLine::measured("a", vec![(0.0, 1.0), (1.0, 2.0)]),
            published,
            ChartLine::measured("b", vec![(0.0, 3.0), (1.0, 5.0)]),
        ];
        let groups = vec!["empty".to_owned(), "preloaded".to_owned()];
        let chart = Chart { lines, kind: ChartKind::Bars(groups), ..chart(vec![]) };
        let svg = chart.to_svg().unwrap();
        assert_eq!(svg.matches("fill=\"#3B82F6\"").count(), 2, "{svg}");
        assert!(svg.contains("empty") && svg.contains("preloaded") && svg.contains("#78869C"), "{svg}");
        let colors: Vec<_> = chart.colors().map(|(color, _)| color).collect();
        assert_eq!(colors, ["#3b82f6", "#78869c", "#f59e0b"]);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([0.0, 0.25, 1.0, 12.5, 30_000.0].map(label), ["0", "0.25", "1", "12.5", "30000"]);
    }
}
