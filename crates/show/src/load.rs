//! Resource metrics of both ends as JSON.

use std::collections::BTreeMap;

use haul_base::copy::event::{ResourceMetrics, Stage, StreamFigures};
use haul_base::copy::summary::EndSummary;
use serde::Serialize;

/// Named counters.
type CounterValues = BTreeMap<&'static str, u64>;

/// Metrics of source and target, with their streams.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct LoadFields {
    source: Option<EndLoadFields>,
    target: Option<EndLoadFields>,
}

/// Metrics of one end.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct EndLoadFields {
    bears_loss: bool,
    cores: u16,
    disk: CounterValues,
    elapsed_us: u64,
    mbit_per_s: u32,
    processors: CounterValues,
    quota_permille: u32,
    sockets: CounterValues,
    stages: BTreeMap<&'static str, CounterValues>,
    streams: Vec<CounterValues>,
    traffic: CounterValues,
}

impl LoadFields {
    /// The metrics of both ends.
    pub fn new(ends: &[EndSummary; 2]) -> Self {
        let [source, target] = [0, 1].map(|end| EndLoadFields::of(&ends[end].load, end, &ends[end].streams));
        Self { source, target }
    }
}

impl EndLoadFields {
    fn of(load: &ResourceMetrics, disk: usize, streams: &[StreamFigures]) -> Option<Self> {
        let stages = Stage::ALL.iter().map(|stage| (stage, load.spent(*stage)));
        let stages = stages.filter(|(_, spent)| spent.wall_us > 0);
        let present = &load.present;
        (load.elapsed_us > 0).then(|| Self {
            bears_loss: present.bears_loss,
            cores: present.cores,
            disk: counts(load.disks[disk].named()),
            elapsed_us: load.elapsed_us,
            mbit_per_s: present.mbit_per_s,
            processors: counts(load.processors.named()),
            quota_permille: present.quota_permille,
            sockets: counts(load.sockets.named()),
            stages: stages.map(|(stage, spent)| (stage.name(), counts(spent.named()))).collect(),
            streams: streams.iter().map(|figures| counts(figures.named())).collect(),
            traffic: counts(load.traffic.named()),
        })
    }
}

fn counts(named: Vec<(&'static str, u64)>) -> CounterValues {
    named.into_iter().collect()
}
