//! The table of curves.

use haul_lab::{aligned, number};

use super::CurvePoint;
use super::cases::{CurveCase, CurveJob, DataShape};
use super::fit::{Fit, fit};

/// The measurements of one job of one case.
#[derive(Debug)]
pub struct Curve {
    case: &'static CurveCase,
    /// The job.
    pub job: CurveJob,
    /// By number, ascending.
    pub points: Vec<CurvePoint>,
    /// Why there are no more.
    pub failure: Option<String>,
}

impl Curve {
    /// Without a measurement.
    pub fn new(case: &'static CurveCase, job: CurveJob) -> Self {
        Self { case, job, points: Vec::new(), failure: None }
    }

    fn fit(&self) -> Option<Fit> {
        // The kernel's part is its own: see the text below the table.
        let is_own = self.case.shape == DataShape::Depth;
        fit(&self.points, |point| if is_own { point.user_s } else { point.cpu_s })
    }

    /// Whether it was measured to its end and is not too steep.
    pub fn is_good(&self) -> bool {
        self.failure.is_none() && self.fit().is_none_or(|fit| !fit.is_steep())
    }

    fn row(&self) -> Vec<String> {
        let (first, last) = match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) => (first.number.to_string(), *last),
            _ => ("-".to_owned(), CurvePoint { number: 0, cpu_s: 0.0, user_s: 0.0, wall_s: 0.0 }),
        };
        let fit = self.fit();
        let shown = |figure: fn(&Fit) -> f64| number(fit.as_ref().map(figure), 2);
        let verdict = match (&self.failure, &fit) {
            (Some(text), _) => format!("FAILED {text}"),
            (None, Some(fit)) if fit.is_steep() => "STEEP".to_owned(),
            (None, Some(_)) => "fine".to_owned(),
            (None, None) if self.case.shape == DataShape::Depth => "fine: nearly all in the kernel".to_owned(),
            (None, None) => "fine: hardly more than the start".to_owned(),
        };
        vec![
            self.case.unit.to_owned(),
            self.job.name().to_owned(),
            first,
            last.number.to_string(),
            format!("{:.2}", last.cpu_s),
            format!("{:.2}", last.wall_s),
            shown(|fit| fit.exponent),
            shown(|fit| fit.n_log_n),
            verdict,
        ]
    }
}

/// Said of the exponents of depth.
const DEPTH: &str = "The exponents of directories within each other are those of the time outside of the kernel. Landlock checks \
                     each parent directory up to the root at each open, so that the kernel's time grows with the square of the depth.";

/// All curves, one on each line.
pub fn table(curves: &[Curve]) -> String {
    let heading = ["number", "job", "from", "to", "CPU s at the end", "wall s", "exponent", "of n log n", ""];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines.extend(curves.iter().map(Curve::row));
    let has_depth = curves.iter().any(|curve| curve.case.shape == DataShape::Depth);
    aligned(&lines, &[0, 1, 8]) + if has_depth { DEPTH } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(time: impl Fn(f64) -> f64) -> Curve {
        let point = |power| {
            let number = 10_u64.pow(power);
            CurvePoint { number, cpu_s: time(10_f64.powi(power.cast_signed())), user_s: 0.0, wall_s: 1.0 }
        };
        Curve { points: (0..7).map(point).collect(), ..Curve::new(&CurveCase::ALL[2], CurveJob::Copy) }
    }

    #[test]
    fn a_steep_curve_is_marked_and_fails() {
        let good = curve(|n| 0.01 + n * 3e-6);
        let steep = curve(|n| 0.01 + n * n * 1e-9);
        let failed = Curve { failure: Some("at 7: no".into()), ..curve(|_| 0.01) };
        assert!(good.is_good() && !steep.is_good() && !failed.is_good());
        let text = table(&[good, steep, failed]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let start = "| empty files in one directory | copy | 1 | 1000000 |";
        assert!(text.contains(&format!("{start} 3.01 | 1.00 | 1.00 | ")), "{text}");
        assert!(text.contains("| STEEP |") && text.contains("| FAILED at 7: no |"), "{text}");
    }
}
