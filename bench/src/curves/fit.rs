//! Fits a power of the number to measured times: least squares over the logarithms.

use super::CurvePoint;

/// Below this, CPU time is noise: the least that counts beyond the start.
const LEAST_S: f64 = 0.05;
/// Fewest points for a fit, unless two points are as far apart.
const POINTS_MIN: usize = 3;
const FAR: u64 = 4;
/// The fit takes numbers down to this part of the greatest: a term that grows faster shows at the end only.
const RANGE: u64 = 10;
/// Noise, and caches that are smaller than the data, make a line look this much steeper.
const TOLERANCE: f64 = 0.15;

/// A fitted power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The time grows with the number to this power.
    pub exponent: f64,
    /// The power that n log n has over the same numbers.
    pub n_log_n: f64,
    /// Points that it is fitted to.
    pub points: usize,
}

impl Fit {
    /// Whether it grows faster than n log n.
    pub fn is_steep(&self) -> bool {
        self.exponent > self.n_log_n + TOLERANCE
    }
}

/// The exponent of a curve, over the figure that `of` returns; `None` for a curve too flat to have one.
///
/// The figure of the first point is the constant cost of the start: it is subtracted, and only points clearly above it
/// count. The number of the first point is subtracted as well, to give a straight line the exponent 1.
pub fn fit(points: &[CurvePoint], of: impl Fn(&CurvePoint) -> f64) -> Option<Fit> {
    let first = points.first()?;
    let start_s = of(first);
    let above = |point: &&CurvePoint| of(point) - start_s >= LEAST_S.max(start_s);
    // A point counts as noise unless all later points are above the start as well.
    let last_below = points.iter().rposition(|point| !above(&point))?;
    let above = &points[last_below + 1..];
    let (least, greatest) = (above.first()?.number, above.last()?.number);
    if above.len() < POINTS_MIN && greatest / least < FAR {
        return None;
    }
    let near = above.iter().filter(|point| point.number >= greatest / RANGE).count().max(POINTS_MIN);
    let rest = &above[above.len().saturating_sub(near)..];
    let numbers: Vec<f64> = rest.iter().map(|point| float(point.number - first.number).ln()).collect();
    let times: Vec<f64> = rest.iter().map(|point| (of(point) - start_s).ln()).collect();
    let n_log_n = |number: u64| float(number) * float(number).log2();
    let lines: Vec<f64> = rest.iter().map(|point| (n_log_n(point.number) - n_log_n(first.number)).ln()).collect();
    Some(Fit { exponent: slope(&numbers, &times)?, n_log_n: slope(&numbers, &lines)?.max(1.0), points: rest.len() })
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}

/// The slope of the line nearest to these points.
fn slope(across: &[f64], up: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / float(values.len() as u64);
    let (middle, height) = (mean(across), mean(up));
    let rise: f64 = across.iter().zip(up).map(|(x, y)| (x - middle) * (y - height)).sum();
    let run: f64 = across.iter().map(|x| (x - middle).powi(2)).sum();
    (run > 0.0).then(|| rise / run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(time: impl Fn(f64) -> f64) -> Option<Fit> {
        let point = |power| {
            let number = 4_u64.pow(power);
            CurvePoint { number, cpu_s: time(float(number)), user_s: 0.0, wall_s: 0.0 }
        };
        fit(&(0..10).map(point).collect::<Vec<_>>(), |point| point.cpu_s)
    }

    #[test]
    fn a_square_is_steep_and_n_log_n_is_not() {
        let line = curve(|n| 0.05 + n * 1e-4).expect("a line");
        assert!((line.exponent - 1.0).abs() < 0.01 && !line.is_steep(), "{line:?}");
        let n_log_n = curve(|n| 0.05 + n * n.log2() * 1e-5).expect("a curve");
        assert!(!n_log_n.is_steep(), "{n_log_n:?}");
        let square = curve(|n| 0.05 + n * n * 1e-8).expect("a curve");
        assert!(square.exponent > 1.9 && square.is_steep(), "{square:?}");
        let late = curve(|n| 0.05 + n * 1e-6 + n * n * 1e-9).expect("a curve");
        assert!(late.is_steep(), "{late:?}");
    }

    #[test]
    fn noise_around_the_start_is_no_curve() {
        assert_eq!(curve(|_| 0.05), None);
        assert_eq!(curve(|n| 0.05 + 0.01 * (n % 3.0)), None);
        assert_eq!(fit(&[], |point| point.cpu_s), None);
    }
}
