//! Draws a chart as SVG with plotters.
//!
//! Its colours are those of a light page; `style.css` has a variable for each, with a value for dark pages. `<title>`
//! elements show the figures under the pointer, without a script.

use std::fmt::Write;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, Color, DrawingArea, ErrorBar, IntoDrawingArea, IntoFont,
    LineSeries, PathElement, RGBColor, Rectangle, SVGBackend, Text, TextStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, LEFT, LEFT_OF_NAMES, RIGHT, WIDTH, rows};
use super::chart::{Chart, ChartBar, ChartLine, HeatMap, LINES_MAX, Marks, Span};
use super::escape::text;

const HEIGHT: u32 = 330;
const BOTTOM: u32 = 53;
const TOP: u32 = 14;
/// Between labels and the edge.
const EDGE: u32 = 7;
/// Height of a row with a name.
const ROW: u32 = 26;
/// Most points with dots.
const DOTS_MAX: usize = 60;
/// Most strips under the pointer.
const STRIPS_MAX: usize = 300;
/// Opacity of the hottest cell: its figure stays readable.
const HOTTEST: f64 = 0.7;

const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
const SOFT: RGBColor = RGBColor(0x57, 0x60, 0x6a);
const GRID: RGBColor = RGBColor(0xd5, 0xda, 0xe0);
const PALETTE: [RGBColor; LINES_MAX] = [
    RGBColor(0x0b, 0x63, 0xb5),
    RGBColor(0xc4, 0x50, 0x0b),
    RGBColor(0x1a, 0x7f, 0x37),
    RGBColor(0xa8, 0x27, 0x7f),
    RGBColor(0x8a, 0x6a, 0x00),
    RGBColor(0x0f, 0x8a, 0x8a),
    RGBColor(0x66, 0x39, 0xba),
    RGBColor(0x5b, 0x64, 0x70),
    RGBColor(0xb4, 0x23, 0x18),
    RGBColor(0x4d, 0x7c, 0x0f),
    RGBColor(0x1e, 0x3a, 0x8a),
    RGBColor(0x92, 0x40, 0x0e),
];

type Point = (f64, f64);
type Svg<'s> = SVGBackend<'s>;
type PlotContext<'c, 's> = ChartContext<'c, Svg<'s>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type DrawingResult = Result<(), Box<dyn std::error::Error>>;

/// Draws a chart; empty without figures.
pub fn draw(chart: &Chart) -> String {
    if !chart.has_figures() {
        return String::new();
    }
    let axes = (Axis::across(chart), Axis::upwards(chart));
    let height = match &axes.1.names {
        Some(names) => TOP + BOTTOM + ROW * u32::try_from(names.len()).unwrap_or(0),
        None => HEIGHT,
    };
    let mut drawn = String::new();
    let mut plot = Plot { chart, x: axes.0, y: axes.1, hints: String::new() };
    let root = SVGBackend::with_string(&mut drawn, (WIDTH, height)).into_drawing_area();
    let is_drawn = plot.draw(&root).is_ok();
    drop(root);
    if !is_drawn {
        return String::new();
    }
    let inside = drawn.split_once('>').map_or("", |(_, inside)| inside);
    let inside = inside.trim_end().trim_end_matches("</svg>");
    let (title, hints) = (text(&chart.title), plot.hints);
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>{inside}{hints}</svg>"
    )
}

/// The names of lines with their colours, for several lines.
pub fn legend(chart: &Chart) -> String {
    let (Marks::Lines(lines) | Marks::Points(lines)) = &chart.marks else { return String::new() };
    if lines.len() < 2 {
        return String::new();
    }
    let mut legend = String::from("<ul class=\"legend\">");
    for (number, line) in lines.iter().enumerate() {
        let RGBColor(red, green, blue) = colour(number);
        let _ = write!(
            legend,
            "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><rect y=\"3\" width=\"26\" height=\"4\" fill=\"#{red:02X}{green:02X}{blue:02X}\"/></svg>{}</li>",
            text(&line.name)
        );
    }
    legend + "</ul>"
}

fn colour(number: usize) -> RGBColor {
    PALETTE[number % PALETTE.len()]
}

struct Plot<'a> {
    chart: &'a Chart,
    x: Axis,
    y: Axis,
    /// Hover elements, above all others.
    hints: String,
}

impl Plot<'_> {
    fn draw(&mut self, root: &DrawingArea<Svg<'_>, Shift>) -> DrawingResult {
        let left = if self.y.names.is_some() { LEFT_OF_NAMES } else { LEFT };
        let mut context = ChartBuilder::on(root)
            .margin_top(TOP)
            .margin_right(RIGHT)
            .margin_bottom(EDGE)
            .margin_left(EDGE)
            .x_label_area_size(BOTTOM - EDGE)
            .y_label_area_size(left - EDGE)
            .build_cartesian_2d(self.x.range.clone(), self.y.range.clone())?;
        self.mesh(&mut context)?;
        let chart = self.chart;
        match &chart.marks {
            Marks::Lines(lines) | Marks::Points(lines) => self.lines(&mut context, lines)?,
            Marks::Bars(bars) => self.bars(&mut context, bars)?,
            Marks::Spans(spans) => self.spans(&mut context, spans)?,
            Marks::Heat(map) => self.heat(&mut context, map)?,
        }
        self.happened(&mut context)
    }

    fn mesh(&self, context: &mut PlotContext<'_, '_>) -> DrawingResult {
        let font = ("sans-serif", 15).into_font();
        context
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(0)
            .bold_line_style(if self.y.names.is_some() { GRID.mix(0.0) } else { GRID.to_rgba() })
            .axis_style(SOFT)
            .label_style(font.clone().color(&SOFT))
            .axis_desc_style(font.color(&INK))
            .x_labels(self.x.ticks(10))
            .y_labels(self.y.ticks(7))
            .x_label_formatter(&|at| self.x.tick(*at))
            .y_label_formatter(&|at| self.y.tick(*at))
            .x_desc(self.x.label.as_str())
            .y_desc(self.y.label.as_str())
            .draw()?;
        Ok(())
    }

    /// Draws events as vertical lines.
    fn happened(&mut self, context: &mut PlotContext<'_, '_>) -> DrawingResult {
        let Range { start, end } = self.y.range.clone();
        for (at, what) in &self.chart.happened {
            let x = self.x.at(*at);
            context.draw_series([PathElement::new([(x, start), (x, end)], PALETTE[1].mix(0.8))])?;
            let margin = (self.x.range.end - self.x.range.start) / 300.0;
            self.hint(context, (x - margin, start), (x + margin, end), what);
        }
        Ok(())
    }

    fn lines(&mut self, context: &mut PlotContext<'_, '_>, lines: &[ChartLine]) -> DrawingResult {
        for (number, line) in lines.iter().enumerate() {
            let colour = colour(number);
            let points: Vec<Point> = line.points.iter().map(|point| (self.x.at(point.x), self.y.at(point.y))).collect();
            for point in &line.points {
                self.spread(context, (self.x.at(point.x), point.y), point.spread, colour)?;
            }
            let is_lines = matches!(self.chart.marks, Marks::Lines(_));
            if !is_lines || points.len() <= DOTS_MAX {
                context.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
            }
            if is_lines {
                context.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            }
        }
        self.strips(context, lines);
        Ok(())
    }

    /// Draws an error bar around a median.
    fn spread(
        &self,
        context: &mut PlotContext<'_, '_>,
        (x, y): Point,
        spread: Option<(f64, f64)>,
        colour: RGBColor,
    ) -> DrawingResult {
        if let Some((low, high)) = spread.filter(|(low, high)| low < high) {
            let style = colour.mix(0.7).filled();
            let bar = ErrorBar::new_vertical(x, self.y.at(low), self.y.at(y), self.y.at(high), style, 8);
            context.draw_series([bar])?;
        }
        Ok(())
    }

    /// Adds vertical strips that show the figures under the pointer.
    fn strips(&mut self, context: &PlotContext<'_, '_>, lines: &[ChartLine]) {
        let table = self.chart.table();
        let mut places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| self.x.at(point.x)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        if places.len() > STRIPS_MAX {
            return;
        }
        let Range { start, end } = self.x.range.clone();
        let border = |at: usize| match (at.checked_sub(1).and_then(|at| places.get(at)), places.get(at)) {
            (Some(before), Some(after)) => f64::midpoint(*before, *after),
            (None, _) => start,
            (_, None) => end,
        };
        for (at, row) in table.rows.iter().enumerate() {
            let mut title = row.first().cloned().unwrap_or_default();
            for (name, figure) in table.columns.iter().zip(row).skip(1).filter(|(_, figure)| !figure.is_empty()) {
                let _ = write!(title, "\n{name}: {figure}");
            }
            let (low, high) = (self.y.range.start, self.y.range.end);
            self.hint(context, (border(at), low), (border(at + 1), high), &title);
        }
    }

    fn bars(&mut self, context: &mut PlotContext<'_, '_>, bars: &[ChartBar]) -> DrawingResult {
        // Limits the width of few bars.
        let half = (0.05 * bars.len() as f64).min(0.3);
        for (number, bar) in bars.iter().enumerate() {
            let middle = number as f64;
            let corners = [(middle - half, 0.0), (middle + half, self.y.at(bar.value))];
            context.draw_series([Rectangle::new(corners, PALETTE[0].filled())])?;
            self.spread(context, (middle, bar.value), bar.spread, INK)?;
            let title = format!("{}: {}", bar.name, self.chart.y.0.shown(bar.value));
            self.hint(context, corners[0], corners[1], &title);
        }
        Ok(())
    }

    fn spans(&mut self, context: &mut PlotContext<'_, '_>, spans: &[Span]) -> DrawingResult {
        let names = rows(spans);
        for span in spans {
            let row = names.iter().position(|name| *name == span.name).unwrap_or(0);
            let middle = (names.len() - 1 - row) as f64;
            let corners = [(self.x.at(span.from), middle - 0.35), (self.x.at(span.to), middle + 0.35)];
            context.draw_series([Rectangle::new(corners, colour(row).filled())])?;
            let time = self.chart.x.0;
            let title = format!("{}: {} to {}", span.name, time.shown(span.from), time.shown(span.to));
            self.hint(context, corners[0], corners[1], &title);
        }
        Ok(())
    }

    fn heat(&mut self, context: &mut PlotContext<'_, '_>, map: &HeatMap) -> DrawingResult {
        let most = map.most();
        let (_, unit) = map.unit();
        let style = TextStyle::from(("sans-serif", 15)).color(&INK).pos(Pos::new(HPos::Center, VPos::Center));
        for (y, (row, figures)) in map.rows.iter().enumerate() {
            for (x, (column, figure)) in map.columns.iter().zip(figures).enumerate() {
                let (Some(figure), x, y) = (figure, x as f64, y as f64) else { continue };
                let corners = [(x - 0.5, y - 0.5), (x + 0.5, y + 0.5)];
                let heat = PALETTE[0].mix(HOTTEST * figure / most);
                context.draw_series([Rectangle::new(corners, heat.filled())])?;
                let shown = format!("{:.*}", usize::from(most / unit < 20.0), figure / unit);
                context.draw_series([Text::new(shown, (x, y), style.clone())])?;
                let title = format!("{row}, {column}: {}", map.quantity.shown(*figure));
                self.hint(context, corners[0], corners[1], &title);
            }
        }
        Ok(())
    }

    fn hint(&mut self, context: &PlotContext<'_, '_>, from: Point, to: Point, title: &str) {
        let ((left, bottom), (right, top)) = (context.backend_coord(&from), context.backend_coord(&to));
        let (width, height) = ((right - left).max(1), (bottom - top).max(1));
        let _ = write!(
            self.hints,
            "<rect class=\"hint\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"><title>{}</title></rect>",
            text(title)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::ChartPoint;
    use super::super::chart::tests::example;
    use super::*;
    use crate::units::Quantity;

    fn count(svg: &str, what: &str) -> usize {
        svg.matches(what).count()
    }

    #[test]
    fn lines_are_drawn_with_axes_units_and_figures() {
        let svg = draw(&example());
        assert_eq!((count(&svg, "stroke-width=\"2\" points="), count(&svg, "<circle")), (2, 5), "{svg}");
        assert!(svg.contains("rate (MB/s)") && svg.contains("time (s)"), "{svg}");
        assert!(svg.contains("<title>2.00 s\nstream 0: 117 MB/s\n&lt;stream&gt; 1: 20.0 MB/s</title>"), "{svg}");
        assert!(svg.contains("<title>a connection was lost</title>") && !svg.contains("<stream>"));
        assert_eq!(count(&svg, "<title>"), count(&svg, "</title>"));
        assert_eq!(count(&svg, "class=\"hint\""), 3 + 1);
        assert_eq!(count(&legend(&example()), "<li>"), 2);
    }

    #[test]
    fn points_are_within_the_chart_and_the_largest_is_highest() {
        let svg = draw(&example());
        let attribute = |name: &str| -> Vec<u32> {
            svg.split(name).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
        };
        let (x, y) = (attribute(" cx=\""), attribute(" cy=\""));
        assert!(x.iter().all(|x| (LEFT..=WIDTH - RIGHT).contains(x)), "{x:?}");
        assert!(y.iter().all(|y| (TOP..=HEIGHT - BOTTOM).contains(y)), "{y:?}");
        assert!(y[1] < y[2] && y[2] < y[0] && y[0] < y[3] && x[0] < x[1], "{x:?} {y:?}");
    }

    #[test]
    fn lines_whose_rates_differ_tenfold_have_a_logarithmic_axis() {
        let line = |name: &str, rate: f64| {
            ChartLine::new(name, vec![ChartPoint::new(1.0, rate), ChartPoint::new(2.0, rate / 2.0)])
        };
        let svg = |rates: [f64; 2]| {
            let lines = vec![line("a", rates[0]), line("b", rates[1])];
            draw(&Chart { marks: Marks::Lines(lines), happened: Vec::new(), ..example() })
        };
        let height = |svg: &str| -> Vec<u32> {
            svg.split(" cy=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
        };
        let far = svg([1e9, 3e6]);
        assert!(
            far.contains("rate (GB/s, logarithmic)") && far.contains("\n0.001\n") && far.contains("\n0.1\n"),
            "{far}"
        );
        let drawn = height(&far);
        let steps = (drawn[1] - drawn[0], drawn[3] - drawn[2]);
        assert!(steps.0 > 10 && steps.0.abs_diff(steps.1) <= 1, "halves are equally far: {drawn:?}");
        let near = svg([1e9, 2e8]);
        assert!(near.contains("rate (GB/s)") && !near.contains("logarithmic"), "{near}");
    }

    #[test]
    fn bars_have_names_and_spreads() {
        let bar = |name: &str, value, spread| ChartBar { name: name.to_owned(), value, spread };
        let long = "a name far too long for its bar, really, since there is room for two of them, and not for this one";
        let bars = vec![bar("aes-256-gcm", 900e6, Some((800e6, 950e6))), bar(long, 1.0, None)];
        let svg = draw(&Chart { marks: Marks::Bars(bars), x: (Quantity::Count, "cipher"), ..example() });
        for title in ["\ncipher\n", "\naes-256-gcm\n", "aes-256-gcm: 900 MB/s", "…"] {
            assert!(svg.contains(title), "{title}: {svg}");
        }
    }

    #[test]
    fn stretches_have_a_row_for_each_name() {
        let span = |name: &str, from, to| Span { name: name.to_owned(), from, to };
        let spans = vec![span("link", 0.0, 2.0), span("target-disk", 2.0, 5.0), span("link", 5.0, 6.0)];
        let svg = draw(&Chart { marks: Marks::Spans(spans), ..example() });
        assert_eq!((count(&svg, "fill=\"#0B63B5\""), count(&svg, "fill=\"#C4500B\"")), (2, 1), "{svg}");
        assert!(svg.contains("\ntarget-disk\n") && svg.contains("target-disk: 2.00 s to 5.00 s"), "{svg}");
    }

    #[test]
    fn a_heat_map_has_a_cell_for_each_pair_and_sizes_are_powers_of_two() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let [small, large] = names(["64k", "1m"]).try_into().unwrap();
        let rows = vec![(small, vec![Some(1e6), Some(20e6)]), (large, vec![Some(40e6), None])];
        let map = HeatMap { quantity: Quantity::Rate, columns: names(["1", "8"]), rows };
        let chart = Chart { marks: Marks::Heat(map), happened: Vec::new(), ..example() };
        let svg = draw(&chart);
        assert_eq!(count(&svg, "fill=\"#0B63B5\""), 3, "{svg}");
        assert!(svg.contains("<title>1m, 1: 40.0 MB/s</title>"), "{svg}");
        assert_eq!(chart.table().rows, [["64k", "1.00 MB/s", "20.0 MB/s"], ["1m", "40.0 MB/s", ""]]);
    }

    #[test]
    fn non_finite_values_break_nothing() {
        assert_eq!(draw(&Chart { marks: Marks::Bars(Vec::new()), ..example() }), "");
        let mut most = 1e-9;
        while most < 1e18 {
            for quantity in [Quantity::Rate, Quantity::Time, Quantity::RoundTrip, Quantity::Count, Quantity::Size] {
                let mut chart = Chart { y: (quantity, "y"), happened: Vec::new(), ..example() };
                let Marks::Lines(lines) = &mut chart.marks else { panic!("lines") };
                lines[0].points[0].y = most;
                assert!(draw(&chart).contains("<polyline"));
            }
            most *= 37.0;
        }
    }

    #[test]
    fn every_colour_is_one_of_the_style_sheet() {
        let style = include_str!("style.css");
        for RGBColor(red, green, blue) in PALETTE.into_iter().chain([INK, SOFT, GRID]) {
            let name = format!("\"#{red:02X}{green:02X}{blue:02X}\"]");
            assert!(style.contains(&name), "{name}");
        }
    }
}
