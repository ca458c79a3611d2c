//! Forecast of a transfer's rate, its bottleneck and useful settings. Its only input is measurements of single parts
//! and of a complete copy.
//!
//! A transfer is never faster than its slowest part. A measured copy is slower than that, since parts share processors
//! and wait for each other. So the forecast is the rate of the measured copy.
//!
//! An exception is a copy that used the page cache for reading, or did not flush its writes. Larger transfers will be
//! slower, so the rate of the part measured without the cache is then the upper bound.

use crate::diagnose::Bottleneck;

/// Rates of single parts, in bytes per second. A part without a measurement limits nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartRates {
    /// Reading without the page cache or with a cold one: the faster of the methods.
    pub read: Option<f64>,
    /// Computation at the source, on all cores.
    pub source_cpu: Option<f64>,
    /// Memory to memory over the network, with its bottleneck if there is a clear one; [`Bottleneck::None`] within one
    /// host, where there is no link.
    pub network: Option<(f64, Option<Bottleneck>)>,
    /// Computation at the target, on all cores.
    pub target_cpu: Option<f64>,
    /// Writing with a final flush to disk: the faster of the methods.
    pub write: Option<f64>,
}

/// A complete copy with default settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyRates {
    /// Steady rate in bytes per second.
    pub rate: f64,
    /// The bottleneck, if there is a clear one.
    pub limit: Option<Bottleneck>,
    /// Whether all data was flushed to disk.
    pub was_settled: bool,
    /// Whether the data was read without the page cache, or from something other than a disk.
    pub was_cold: bool,
}

/// Rates of the same part with different methods, in bytes per second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MethodRates {
    /// Rates with fixed numbers of streams.
    pub streams: Vec<(u16, f64)>,
    /// Rate with the number of streams that haul chose.
    pub streams_chosen: Option<f64>,
    /// Reading: through the page cache, and with O_DIRECT.
    pub read: Option<[f64; 2]>,
    /// Writing: through the page cache, and with O_DIRECT.
    pub write: Option<[f64; 2]>,
}

/// A recommended setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuggestedSetting {
    /// A fixed number of streams.
    Streams(u16),
    /// O_DIRECT at the source and at the target; `false` leaves the choice to haul.
    Direct(bool, bool),
    /// O_DIRECT at neither end.
    Buffered,
}

/// The expected rate and its bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Bytes per second.
    pub rate: f64,
    /// The bottleneck.
    pub limit: Bottleneck,
    /// The second bottleneck and its rate.
    pub next: Option<(Bottleneck, f64)>,
    /// Recommended settings.
    pub settings: Vec<SuggestedSetting>,
}

/// Factor by which a method must be faster to be recommended. A smaller difference may be chance.
const WORTH: f64 = 1.15;
/// Share of the slowest part's rate to expect from a transfer, where no complete copy was measured.
const TOGETHER: f64 = 0.85;
/// Factor by which a disk must be faster than the transfer to be irrelevant.
const FAR_FASTER: f64 = 2.0;

/// Computes the forecast; `None` without measurements.
pub fn forecast(parts: &PartRates, whole: Option<&CopyRates>, methods: &MethodRates) -> Option<Forecast> {
    let mut bounds = parts.bounds();
    bounds.sort_by(|a, b| a.1.total_cmp(&b.1));
    let slowest = bounds.first().copied();
    let (rate, limit) = match (whole, slowest) {
        (Some(whole), _) => {
            let cap = bounds.iter().find(|(limit, rate)| whole.was_flattered_by(*limit) && *rate < whole.rate);
            match cap {
                Some((limit, rate)) => (*rate, *limit),
                None => (whole.rate, whole.limit.or(slowest.map(|(limit, _)| limit)).unwrap_or(Bottleneck::None)),
            }
        }
        (None, Some((limit, rate))) => (rate * TOGETHER, limit),
        (None, None) => return None,
    };
    let next = bounds.into_iter().find(|(other, _)| ![limit, Bottleneck::None].contains(other));
    Some(Forecast { rate, limit, next, settings: settings(rate, methods) })
}

impl PartRates {
    fn bounds(&self) -> Vec<(Bottleneck, f64)> {
        let network = self.network.map(|(rate, limit)| (limit.unwrap_or(Bottleneck::Link), rate));
        let others = [
            (Bottleneck::SourceDisk, self.read),
            (Bottleneck::SourceCpu, self.source_cpu),
            (Bottleneck::TargetCpu, self.target_cpu),
            (Bottleneck::TargetDisk, self.write),
        ];
        let others = others.into_iter().filter_map(|(limit, rate)| Some((limit, rate?)));
        others.chain(network).filter(|(_, rate)| *rate > 0.0).collect()
    }
}

impl CopyRates {
    /// Whether the page cache replaced this part in the measured copy.
    fn was_flattered_by(&self, limit: Bottleneck) -> bool {
        match limit {
            Bottleneck::SourceDisk => !self.was_cold,
            Bottleneck::TargetDisk => !self.was_settled,
            _ => false,
        }
    }
}

fn settings(rate: f64, methods: &MethodRates) -> Vec<SuggestedSetting> {
    let best = methods.streams.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let streams = best.filter(|best| methods.streams_chosen.is_some_and(|chosen| best.1 > chosen * WORTH));
    let matters = |rates: Option<[f64; 2]>| rates.filter(|rates| rates[0].min(rates[1]) < rate * FAR_FASTER);
    let [read, write] = [matters(methods.read), matters(methods.write)];
    let direct = |rates: Option<[f64; 2]>| rates.is_some_and(|[buffered, direct]| direct > buffered * WORTH);
    let buffered = |rates: Option<[f64; 2]>| rates.is_some_and(|[buffered, direct]| buffered > direct * WORTH);
    let storage = match (direct(read), direct(write)) {
        // One setting covers both ends.
        (false, false) if buffered(read) && buffered(write) => Some(SuggestedSetting::Buffered),
        (false, false) => None,
        (source, target) => Some(SuggestedSetting::Direct(source, target)),
    };
    streams.map(|(streams, _)| SuggestedSetting::Streams(streams)).into_iter().chain(storage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

    fn parts() -> PartRates {
        PartRates {
            read: Some(500.0 * MB),
            source_cpu: Some(3000.0 * MB),
            network: Some((117.0 * MB, Some(Bottleneck::Link))),
            target_cpu: Some(4000.0 * MB),
            write: Some(200.0 * MB),
        }
    }

    fn whole(rate: f64, limit: Option<Bottleneck>) -> CopyRates {
        CopyRates { rate: rate * MB, limit, was_settled: true, was_cold: true }
    }

    fn expected(parts: &PartRates, whole: Option<&CopyRates>) -> (f64, Bottleneck, Option<Bottleneck>) {
        let told = forecast(parts, whole, &MethodRates::default()).unwrap();
        ((told.rate / MB).round(), told.limit, told.next.map(|next| next.0))
    }

    #[test]
    fn the_whole_copy_gives_the_forecast_and_names_the_limit_if_known() {
        for (whole, result) in [
            (whole(110.0, Some(Bottleneck::Link)), (110.0, Bottleneck::Link, Some(Bottleneck::TargetDisk))),
            (whole(110.0, None), (110.0, Bottleneck::Link, Some(Bottleneck::TargetDisk))),
            (whole(90.0, Some(Bottleneck::Congestion)), (90.0, Bottleneck::Congestion, Some(Bottleneck::Link))),
            (whole(60.0, Some(Bottleneck::SmallFiles)), (60.0, Bottleneck::SmallFiles, Some(Bottleneck::Link))),
        ] {
            assert_eq!(expected(&parts(), Some(&whole)), result, "{whole:?}");
        }
        let within_host = PartRates { network: Some((117.0 * MB, Some(Bottleneck::None))), ..parts() };
        let limits = (110.0, Bottleneck::None, Some(Bottleneck::TargetDisk));
        assert_eq!(expected(&within_host, Some(&whole(110.0, None))), limits);
        let limits = (90.0, Bottleneck::SourceCpu, Some(Bottleneck::TargetDisk));
        assert_eq!(expected(&within_host, Some(&whole(90.0, Some(Bottleneck::SourceCpu)))), limits);
    }

    #[test]
    fn the_disk_bounds_rates_inflated_by_the_page_cache() {
        let fast = PartRates { network: None, ..parts() };
        let settled = whole(900.0, Some(Bottleneck::SourceCpu));
        assert_eq!(expected(&fast, Some(&settled)), (900.0, Bottleneck::SourceCpu, Some(Bottleneck::TargetDisk)));
        let unsettled = CopyRates { was_settled: false, ..settled };
        assert_eq!(expected(&fast, Some(&unsettled)), (200.0, Bottleneck::TargetDisk, Some(Bottleneck::SourceDisk)));
        let warm = CopyRates { was_cold: false, ..settled };
        assert_eq!(expected(&fast, Some(&warm)), (500.0, Bottleneck::SourceDisk, Some(Bottleneck::TargetDisk)));
        // A disk faster than the copy does not lower the forecast.
        let slow = CopyRates { was_cold: false, was_settled: false, ..whole(100.0, None) };
        assert_eq!(expected(&fast, Some(&slow)).0, 100.0);
    }

    #[test]
    fn without_a_whole_copy_the_slowest_part_decides_and_without_parts_there_is_no_forecast() {
        assert_eq!(expected(&parts(), None), (99.0, Bottleneck::Link, Some(Bottleneck::TargetDisk)));
        assert_eq!(forecast(&PartRates::default(), None, &MethodRates::default()), None);
        let alone = forecast(&PartRates::default(), Some(&whole(5.0, None)), &MethodRates::default()).unwrap();
        assert_eq!((alone.limit, alone.next), (Bottleneck::None, None));
    }

    #[test]
    fn recommends_only_clearly_faster_settings() {
        let told = |methods: &MethodRates| forecast(&parts(), Some(&whole(110.0, None)), methods).unwrap().settings;
        let streams = |chosen| MethodRates {
            streams: vec![(1, 40.0 * MB), (4, 112.0 * MB)],
            streams_chosen: Some(chosen * MB),
            ..MethodRates::default()
        };
        assert_eq!(told(&streams(110.0)), []);
        assert_eq!(told(&streams(60.0)), [SuggestedSetting::Streams(4)]);
        let storage = |read, write| MethodRates { read, write, ..MethodRates::default() };
        for (read, write, settings) in [
            (Some([100.0, 130.0]), Some([100.0, 130.0]), vec![SuggestedSetting::Direct(true, true)]),
            (Some([100.0, 105.0]), Some([100.0, 130.0]), vec![SuggestedSetting::Direct(false, true)]),
            (Some([130.0, 100.0]), Some([130.0, 100.0]), vec![SuggestedSetting::Buffered]),
            // The other end is left to haul, so this end is as well.
            (None, Some([130.0, 100.0]), vec![]),
            // Both are far faster than anything else.
            (Some([900.0, 1300.0]), Some([800.0, 1000.0]), vec![]),
        ] {
            let scaled = |rates: Option<[f64; 2]>| rates.map(|rates| rates.map(|rate| rate * MB));
            assert_eq!(told(&storage(scaled(read), scaled(write))), settings, "{read:?} {write:?}");
        }
    }
}
