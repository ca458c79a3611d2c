//! Draws a chart as SVG, for a page whose style sheet (`style.css`) has the colours.
//!
//! No script: `<title>` labels the element under the pointer in every browser.

use std::fmt::Write;

use super::chart::{Chart, ChartLine, ChartPoint, Marks};
use super::escape::text;
use super::scale::Scale;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Colours of the style sheet; of what comes after them the lines are broken.
const COLOURS: usize = 8;
/// Points that get a mark of their own.
const DOTS_MAX: usize = 60;
/// Places under the pointer.
const STRIPS_MAX: usize = 300;
/// Height of a row of stretches.
const ROW: f64 = 26.0;
/// Width of a character of a label, about.
const CHARACTER: f64 = 6.6;

/// The chart, or nothing where it has no figures.
pub fn draw(chart: &Chart) -> String {
    if !chart.has_figures() {
        return String::new();
    }
    let mut svg = Svg::new(chart);
    match &chart.marks {
        Marks::Lines(lines) => {
            svg.levels();
            svg.places();
            svg.happened();
            lines.iter().enumerate().for_each(|(number, line)| svg.line(number, line));
            svg.strips(lines);
        }
        Marks::Bars(_) => {
            svg.levels();
            svg.bars();
        }
        Marks::Spans(_) => {
            svg.places();
            svg.spans();
            svg.happened();
        }
    }
    svg.ended()
}

/// The names of lines with their colours, where there are several.
pub fn legend(chart: &Chart) -> String {
    let Marks::Lines(lines) = &chart.marks else { return String::new() };
    if lines.len() < 2 {
        return String::new();
    }
    let mut legend = String::from("<ul class=\"legend\">");
    for (number, line) in lines.iter().enumerate() {
        let class = class(number);
        let _ = write!(
            legend,
            "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line {class}\" d=\"M1 5H25\"/></svg>{}</li>",
            text(&line.name)
        );
    }
    legend + "</ul>"
}

/// The class of a line's colour.
fn class(number: usize) -> String {
    let broken = if (number / COLOURS).is_multiple_of(2) { "" } else { " broken" };
    format!("c{}{broken}", number % COLOURS)
}

struct Svg<'a> {
    chart: &'a Chart,
    x: Scale,
    y: Scale,
    height: f64,
    out: String,
}

impl<'a> Svg<'a> {
    fn new(chart: &'a Chart) -> Self {
        let (x, y) = chart.extent();
        let height = match &chart.marks {
            Marks::Spans(_) => TOP + BOTTOM + ROW * rows(chart).len() as f64,
            _ => HEIGHT,
        };
        let title = text(&chart.title);
        let out = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>"
        );
        Self { chart, x: Scale::fitted(chart.x.0, x), y: Scale::new(chart.y.0, y), height, out }
    }

    fn ended(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }

    fn floor(&self) -> f64 {
        self.height - BOTTOM
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * self.x.part(value)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.floor() - (self.floor() - TOP) * self.y.part(value)
    }

    fn push(&mut self, piece: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(piece);
    }

    /// Horizontal lines with their labels.
    fn levels(&mut self) {
        for (value, label) in self.y.ticks.clone() {
            let y = self.at_y(value);
            self.push(format_args!(
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            ));
        }
        let middle = (TOP + self.floor()) / 2.0;
        let label = labelled(self.chart.y.1, self.y.unit);
        self.push(format_args!(
            "<text class=\"label\" transform=\"translate(16 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{label}</text>"
        ));
    }

    /// The axis below, with its labels.
    fn places(&mut self) {
        let floor = self.floor();
        self.push(format_args!("<path class=\"axis\" d=\"M{LEFT} {floor:.1}H{:.1}\"/>", WIDTH - RIGHT));
        for (value, label) in self.x.ticks.clone() {
            let x = self.at_x(value);
            self.push(format_args!(
                "<path class=\"axis\" d=\"M{x:.1} {floor:.1}v5\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                floor + 18.0
            ));
        }
        let label = labelled(self.chart.x.1, self.x.unit);
        self.push(format_args!(
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            self.height - 8.0
        ));
    }

    /// What happened, as lines from top to bottom.
    fn happened(&mut self) {
        for (at, what) in &self.chart.happened {
            let (x, floor, what) = (self.at_x(*at), self.floor(), text(what));
            self.push(format_args!(
                "<path class=\"event\" d=\"M{x:.1} {TOP}V{floor:.1}\"><title>{what}</title></path>"
            ));
        }
    }

    fn line(&mut self, number: usize, line: &ChartLine) {
        let class = class(number);
        for &ChartPoint { x, spread, .. } in &line.points {
            let Some((low, high)) = spread.filter(|(low, high)| low < high) else { continue };
            let (x, low, high) = (self.at_x(x), self.at_y(low), self.at_y(high));
            self.push(format_args!("<path class=\"spread {class}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>"));
        }
        let corners: Vec<_> =
            line.points.iter().map(|point| format!("{:.1} {:.1}", self.at_x(point.x), self.at_y(point.y))).collect();
        let name = text(&line.name);
        let way = corners.join("L");
        self.push(format_args!("<path class=\"line {class}\" d=\"M{way}\"><title>{name}</title></path>"));
        if line.points.len() <= DOTS_MAX {
            for point in &line.points {
                let (x, y) = (self.at_x(point.x), self.at_y(point.y));
                self.push(format_args!("<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"));
            }
        }
    }

    /// Strips from top to bottom that say the figures below the pointer.
    fn strips(&mut self, lines: &[ChartLine]) {
        let table = self.chart.table();
        let mut places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        if places.len() > STRIPS_MAX {
            return;
        }
        let ends = |at: usize| self.at_x(f64::midpoint(places[at.saturating_sub(1)], places[at.min(places.len() - 1)]));
        let mut strips = String::new();
        for (at, row) in table.rows.iter().enumerate().take(places.len()) {
            let (from, to) = if at == 0 { (LEFT, ends(1)) } else { (ends(at), ends(at + 1)) };
            let to = if at + 1 == places.len() { WIDTH - RIGHT } else { to };
            let mut said = row.first().cloned().unwrap_or_default();
            for (name, figure) in table.columns.iter().zip(row).skip(1).filter(|(_, figure)| !figure.is_empty()) {
                let _ = write!(said, "\n{name}: {figure}");
            }
            let _ = write!(
                strips,
                "<rect class=\"strip\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                (to - from).max(0.0),
                self.floor() - TOP,
                text(&said)
            );
        }
        self.out.push_str(&strips);
    }

    fn bars(&mut self) {
        let Marks::Bars(bars) = &self.chart.marks else { return };
        let floor = self.floor();
        let room = (WIDTH - LEFT - RIGHT) / bars.len() as f64;
        let width = (room * 0.6).min(90.0);
        for (number, bar) in bars.iter().enumerate() {
            let middle = LEFT + room * (number as f64 + 0.5);
            let top = self.at_y(bar.value);
            let figure = self.chart.y.0.shown(bar.value);
            let name = text(&bar.name);
            self.push(format_args!(
                "<rect class=\"bar\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{name}: {figure}</title></rect>",
                middle - width / 2.0,
                (floor - top).max(0.0)
            ));
            if let Some((low, high)) = bar.spread.filter(|(low, high)| low < high) {
                let (low, high) = (self.at_y(low), self.at_y(high));
                self.push(format_args!("<path class=\"whisker\" d=\"M{middle:.1} {low:.1}V{high:.1}\"/>"));
            }
            let shown = shortened(&bar.name, room);
            self.push(format_args!(
                "<text class=\"tick\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                floor + 18.0,
                text(&shown)
            ));
        }
        let end = WIDTH - RIGHT;
        let label = text(self.chart.x.1);
        self.push(format_args!(
            "<path class=\"axis\" d=\"M{LEFT} {floor:.1}H{end:.1}\"/><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            (LEFT + end) / 2.0,
            self.height - 8.0
        ));
    }

    fn spans(&mut self) {
        let Marks::Spans(spans) = &self.chart.marks else { return };
        for (row, name) in rows(self.chart).into_iter().enumerate() {
            let top = TOP + ROW * row as f64;
            let shown = shortened(name, LEFT);
            self.push(format_args!(
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
                LEFT - 8.0,
                top + ROW / 2.0 + 4.0,
                text(&shown),
                text(name)
            ));
            for span in spans.iter().filter(|span| span.name == name) {
                let (from, to) = (self.at_x(span.from), self.at_x(span.to));
                let time = self.chart.x.0;
                let said = format!("{name}: {} to {}", time.shown(span.from), time.shown(span.to));
                self.push(format_args!(
                    "<rect class=\"span {}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                    class(row),
                    top + 4.0,
                    (to - from).max(1.0),
                    ROW - 8.0,
                    text(&said)
                ));
            }
        }
    }
}

/// The names of stretches, each once, in the order in which they come.
fn rows(chart: &Chart) -> Vec<&str> {
    let Marks::Spans(spans) = &chart.marks else { return Vec::new() };
    let mut names: Vec<&str> = Vec::new();
    for span in spans {
        if !names.contains(&span.name.as_str()) {
            names.push(&span.name);
        }
    }
    names
}

/// What an axis says: what it is, and its unit.
fn labelled(what: &str, unit: &str) -> String {
    match unit {
        "" => text(what),
        unit => format!("{} ({})", text(what), text(unit)),
    }
}

/// A name shortened to the available room.
fn shortened(name: &str, room: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a small positive number")]
    let most = (room / CHARACTER) as usize;
    match name.char_indices().nth(most.max(4)) {
        Some(_) => format!("{}…", name.chars().take(most.max(4) - 1).collect::<String>()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::example;
    use super::super::chart::{ChartBar, Span};
    use super::super::scale::Quantity;
    use super::*;

    fn count(svg: &str, what: &str) -> usize {
        svg.matches(what).count()
    }

    #[test]
    fn lines_are_drawn_with_axes_units_and_figures() {
        let svg = draw(&example());
        assert_eq!((count(&svg, "class=\"line c"), count(&svg, "class=\"dot c")), (2, 5));
        assert!(svg.contains(">rate (MB/s)</text>") && svg.contains(">time (s)</text>"), "{svg}");
        assert!(svg.contains("<title>2.00 s\nstream 0: 117 MB/s\n&lt;stream&gt; 1: 20.0 MB/s</title>"), "{svg}");
        assert_eq!(count(&svg, "class=\"strip\""), 3);
        assert!(svg.contains("class=\"event\"") && !svg.contains("<stream>"));
        assert_eq!(count(&svg, "<title>"), count(&svg, "</title>"));
        assert_eq!(count(&legend(&example()), "<li>"), 2);
    }

    #[test]
    fn points_lie_within_the_chart_and_the_largest_is_highest() {
        let svg = draw(&example());
        let attribute = |name: &str| -> Vec<f64> {
            svg.split(name).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
        };
        let (x, y) = (attribute(" cx=\""), attribute(" cy=\""));
        assert!(x.iter().all(|x| (LEFT..=WIDTH - RIGHT).contains(x)), "{x:?}");
        assert!(y.iter().all(|y| (TOP..=HEIGHT - BOTTOM).contains(y)), "{y:?}");
        assert!(y[1] < y[2] && y[2] < y[0] && y[0] < y[3] && x[0] < x[1], "{x:?} {y:?}");
    }

    #[test]
    fn bars_have_names_and_spreads() {
        let bar = |name: &str, value, spread| ChartBar { name: name.to_owned(), value, spread };
        let bars = vec![
            bar("aes-256-gcm", 900e6, Some((800e6, 950e6))),
            bar("a name far too long for its bar, really", 1.0, None),
        ];
        let chart = Chart { marks: Marks::Bars(bars), x: (Quantity::Count, "cipher"), ..example() };
        let svg = draw(&chart);
        assert_eq!((count(&svg, "class=\"bar\""), count(&svg, "class=\"whisker\"")), (2, 1));
        assert!(svg.contains(">cipher</text>") && svg.contains("aes-256-gcm: 900 MB/s"), "{svg}");
    }

    #[test]
    fn stretches_have_a_row_for_each_name() {
        let span = |name: &str, from, to| Span { name: name.to_owned(), from, to };
        let spans = vec![span("link", 0.0, 2.0), span("target-disk", 2.0, 5.0), span("link", 5.0, 6.0)];
        let svg = draw(&Chart { marks: Marks::Spans(spans), ..example() });
        assert_eq!((count(&svg, "class=\"span c0"), count(&svg, "class=\"span c1")), (2, 1));
        assert!(svg.contains("<title>target-disk</title>") && svg.contains("target-disk: 2.00 s to 5.00 s"), "{svg}");
    }

    #[test]
    fn what_has_no_figures_is_not_drawn() {
        assert_eq!(draw(&Chart { marks: Marks::Bars(Vec::new()), ..example() }), "");
    }
}
