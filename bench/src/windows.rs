//! How evenly bytes arrived: the worst deviation from a rate over all windows of a length. Only arithmetic.

/// Bytes received over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalSample {
    /// Seconds, on any clock.
    pub at_s: f64,
    /// All bytes up to then.
    pub bytes: f64,
}

/// The deviation from `rate_bytes_per_s` that is largest over all windows of `window_s` that begin at a sample and end
/// before the last one: 0.05 is 5 % more than the rate. `None` where no window fits.
pub fn worst(samples: &[ArrivalSample], window_s: f64, rate_bytes_per_s: f64) -> Option<f64> {
    let deviation = |begin: &ArrivalSample| {
        let end = bytes_at(samples, begin.at_s + window_s)?;
        Some((end - begin.bytes) / (window_s * rate_bytes_per_s) - 1.0)
    };
    samples.iter().filter_map(deviation).max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// The deviation over the window of this length that begins with the first sample.
pub fn first(samples: &[ArrivalSample], window_s: f64, rate_bytes_per_s: f64) -> Option<f64> {
    let begin = samples.first()?;
    let end = bytes_at(samples, begin.at_s + window_s)?;
    Some((end - begin.bytes) / (window_s * rate_bytes_per_s) - 1.0)
}

/// From the last sample before the first byte to the last sample with new bytes: the time before and after is no part
/// of the transfer.
pub fn transfer(samples: &[ArrivalSample]) -> &[ArrivalSample] {
    let moved = |pair: &[ArrivalSample]| pair[1].bytes > pair[0].bytes;
    let begin = samples.windows(2).position(moved);
    let end = samples.windows(2).rposition(moved);
    match (begin, end) {
        (Some(begin), Some(end)) => &samples[begin..=end],
        _ => &[],
    }
}

/// The bytes at a time, on a line between the samples around it.
fn bytes_at(samples: &[ArrivalSample], at_s: f64) -> Option<f64> {
    let next = samples.partition_point(|sample| sample.at_s < at_s);
    let after = samples.get(next)?;
    let before = samples.get(next.checked_sub(1)?)?;
    let part = (at_s - before.at_s) / (after.at_s - before.at_s);
    Some(before.bytes + part * (after.bytes - before.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample each 10 ms for `seconds`, at a rate that depends on the time.
    fn samples(seconds: u32, rate: impl Fn(f64) -> f64) -> Vec<ArrivalSample> {
        let mut bytes = 0.0;
        let mut all = vec![ArrivalSample { at_s: 0.0, bytes }];
        for tick in 1..=seconds * 100 {
            let at_s = f64::from(tick) / 100.0;
            bytes += rate(at_s - 0.005) / 100.0;
            all.push(ArrivalSample { at_s, bytes });
        }
        all
    }

    fn is_about(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 0.001)
    }

    #[test]
    fn an_even_rate_deviates_nowhere() {
        let even = samples(12, |_| 1000.0);
        for window_s in [1.0, 2.0, 10.0] {
            assert!(is_about(worst(&even, window_s, 1000.0), 0.0));
            assert!(is_about(worst(&even, window_s, 2000.0), -0.5));
        }
        assert_eq!(worst(&even, 12.5, 1000.0), None);
    }

    #[test]
    fn a_burst_and_a_gap_are_found_anywhere() {
        let burst = samples(12, |at_s| if (5.0..5.1).contains(&at_s) { 3000.0 } else { 1000.0 });
        assert!(is_about(worst(&burst, 2.0, 1000.0), 0.1));
        assert!(is_about(worst(&burst, 10.0, 1000.0), 0.02));
        assert!(is_about(first(&burst, 1.0, 1000.0), 0.0));
        let gap = samples(12, |at_s| if at_s < 0.5 { 0.0 } else { 1000.0 });
        assert!(is_about(first(&gap, 1.0, 1000.0), -0.5));
        assert!(is_about(worst(&gap, 2.0, 1000.0), -0.25));
    }

    #[test]
    fn time_before_and_after_the_transfer_does_not_count() {
        let padded = samples(12, |at_s| if (3.0..9.0).contains(&at_s) { 1000.0 } else { 0.0 });
        let transfer = transfer(&padded);
        assert!(is_about(first(transfer, 1.0, 1000.0), 0.0));
        assert!(is_about(worst(transfer, 2.0, 1000.0), 0.0));
        assert_eq!(worst(transfer, 10.0, 1000.0), None);
        assert!(super::transfer(&padded[..10]).is_empty());
    }
}
