//! Statistics: quartiles, outliers and distributions.

use super::chart::ChartPoint;
use crate::units::Quantity;

/// Distance of outliers from the interquartile range, in its widths (Tukey).
const FENCE: f64 = 1.5;
/// Smallest number of values with outliers.
const OUTLIERS_FROM: usize = 4;
/// Points of a distribution.
const POINTS_MAX: usize = 200;

/// The quartiles of some figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    /// The minimum.
    pub least: f64,
    /// The first quartile.
    pub first: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub third: f64,
    /// The maximum.
    pub most: f64,
    /// The number of figures.
    pub count: usize,
}

impl Quartiles {
    /// The quartiles of `figures`, with linear interpolation; `None` without figures.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let sorted = sorted(figures);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let [first, median, third] = [0.25, 0.5, 0.75].map(|part| at(&sorted, part));
        Some(Self { least, first, median, third, most, count: sorted.len() })
    }

    /// Whether a figure is an outlier.
    pub fn is_outlier(&self, figure: f64) -> bool {
        let width = (self.third - self.first) * FENCE;
        self.count >= OUTLIERS_FROM && !(self.first - width..=self.third + width).contains(&figure)
    }

    /// A sentence for people; `of` names the population.
    pub fn sentence(&self, quantity: Quantity, of: &str) -> String {
        let [least, first, median, third, most] =
            [self.least, self.first, self.median, self.third, self.most].map(|figure| quantity.shown(figure));
        format!("Median {median}; half of the {of} from {first} to {third}; at least {least}, at most {most}")
    }
}

/// The cumulative distribution of `figures`.
pub fn distribution(figures: &[f64]) -> Vec<ChartPoint> {
    let sorted = sorted(figures);
    let every = sorted.len().div_ceil(POINTS_MAX).max(1);
    let last = sorted.len().saturating_sub(1);
    let kept = sorted.iter().enumerate().filter(|(at, _)| (last - at).is_multiple_of(every));
    kept.map(|(at, figure)| ChartPoint::new(*figure, (at + 1) as f64 / sorted.len() as f64)).collect()
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<_> = figures.iter().copied().filter(|figure| figure.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The quantile of `sorted` at a fraction.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a place in the list")]
fn at(sorted: &[f64], part: f64) -> f64 {
    let place = part * sorted.len().saturating_sub(1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarters(figures: &[f64]) -> [f64; 5] {
        let Quartiles { least, first, median, third, most, .. } = Quartiles::of(figures).unwrap();
        [least, first, median, third, most]
    }

    #[test]
    fn quartiles_match_the_textbook() {
        assert_eq!(quarters(&[5.0, 1.0, 4.0, 2.0, 3.0]), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(quarters(&[1.0, 2.0, 3.0, 4.0]), [1.0, 1.75, 2.5, 3.25, 4.0]);
        assert_eq!(quarters(&[7.0]), [7.0; 5]);
        assert_eq!(quarters(&[1.0, f64::NAN, 2.0]), [1.0, 1.25, 1.5, 1.75, 2.0]);
        assert_eq!(Quartiles::of(&[]), None);
        assert_eq!(Quartiles::of(&[f64::INFINITY]), None);
    }

    #[test]
    fn an_outlier_is_far_from_the_middle_half() {
        let usual = Quartiles::of(&[100.0, 102.0, 101.0, 99.0, 40.0]).unwrap();
        assert!(usual.is_outlier(40.0) && !usual.is_outlier(99.0) && !usual.is_outlier(103.0));
        assert!(!Quartiles::of(&[100.0, 1.0, 100.0]).unwrap().is_outlier(1.0), "too few to tell");
    }

    #[test]
    fn a_distribution_rises_to_all_of_them() {
        let points = distribution(&[3.0, 1.0, 2.0, 2.0]);
        assert_eq!(
            points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>(),
            [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]
        );
        let many: Vec<_> = (0..10_000u32).map(f64::from).collect();
        let points = distribution(&many);
        assert!(points.len() <= POINTS_MAX && points.last() == Some(&ChartPoint::new(9999.0, 1.0)));
        assert!(points.windows(2).all(|pair| pair[0].y < pair[1].y));
        assert!(distribution(&[]).is_empty());
    }
}
