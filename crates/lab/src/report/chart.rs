//! One chart as SVG: lines or layered areas over two axes from zero.

use plotters::{coord::Shift, prelude::*};

use crate::record::number;

/// Pixels, before the page scales it.
const SIZE: (u32, u32) = (600, 280);
const FONT_PIXELS: u32 = 15;
/// Replaced by the page's own colour of text, so that a chart can be read on light and on dark.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_HEX: &str = "#010203";
/// Legible on light and on dark.
const PALETTE: [RGBColor; 7] = [
    RGBColor(59, 130, 246),
    RGBColor(245, 158, 11),
    RGBColor(16, 185, 129),
    RGBColor(239, 68, 68),
    RGBColor(139, 92, 246),
    RGBColor(20, 184, 166),
    RGBColor(120, 134, 156),
];

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
    /// Name and points of each line; of areas the largest first, as each covers a part of those before it.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
    /// Fill what is below the lines.
    pub filled: bool,
}

impl Chart {
    /// The colours of the lines, as CSS writes them.
    pub fn colors(&self) -> impl Iterator<Item = (String, &str)> {
        let colors = PALETTE.iter().cycle().map(|RGBColor(r, g, b)| format!("#{r:02x}{g:02x}{b:02x}"));
        colors.zip(self.lines.iter().map(|(name, _)| name.as_str()))
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
        let (x_max, y_max) = self.limits();
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..x_max, 0.0..y_max)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.15))
            .axis_style(INK.mix(0.5))
            .label_style(("sans-serif", FONT_PIXELS, &INK))
            .axis_desc_style(("sans-serif", FONT_PIXELS, &INK))
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&|value| label(*value))
            .y_label_formatter(&|value| label(*value))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .draw()?;
        for ((_, points), color) in self.lines.iter().zip(PALETTE.iter().cycle()) {
            let points = points.iter().copied();
            if self.filled {
                chart.draw_series(AreaSeries::new(points, 0.0, color))?;
            } else {
                chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
            }
        }
        Ok(())
    }

    /// The ends of the axes: never 0, so that nothing is divided by it.
    fn limits(&self) -> (f64, f64) {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let x = points().map(|(x, _)| *x).fold(0.0, f64::max);
        let y = points().map(|(_, y)| *y).fold(0.0, f64::max) * 1.05;
        (if x > 0.0 { x } else { 1.0 }, if y > 0.0 { y } else { 1.0 })
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
            lines: vec![("one".to_owned(), points)],
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
    fn labels_are_short() {
        assert_eq!([0.0, 0.25, 1.0, 12.5, 30_000.0].map(label), ["0", "0.25", "1", "12.5", "30000"]);
    }
}
