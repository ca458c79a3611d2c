//! Where both ends' time went, as JSON.

use haul_engine::job::event::{ResourceMetrics, Stage, StreamFigures};
use serde_json::{Map, Value, json};

/// Of source and target, with their streams.
pub fn json(
    [source, target]: &[ResourceMetrics; 2],
    [source_streams, target_streams]: &[Vec<StreamFigures>; 2],
) -> Value {
    json!({"source": end(source, 0, source_streams), "target": end(target, 1, target_streams)})
}

fn end(load: &ResourceMetrics, disk: usize, streams: &[StreamFigures]) -> Value {
    if load.elapsed_us == 0 {
        return Value::Null;
    }
    let stages: Map<String, Value> = Stage::ALL
        .iter()
        .filter(|stage| load.spent(**stage).wall_us > 0)
        .map(|stage| (stage.name().to_owned(), object(&load.spent(*stage).named())))
        .collect();
    let present = &load.present;
    json!({
        "elapsed_us": load.elapsed_us,
        "stages": stages,
        "processors": object(&load.processors.named()),
        "disk": object(&load.disks[disk].named()),
        "traffic": object(&load.traffic.named()),
        "sockets": object(&load.sockets.named()),
        "cores": present.cores,
        "quota_permille": present.quota_permille,
        "mbit_per_s": present.mbit_per_s,
        "bears_loss": present.bears_loss,
        "streams": streams.iter().map(|figures| object(&figures.named())).collect::<Vec<_>>(),
    })
}

fn object(named: &[(&'static str, u64)]) -> Value {
    named.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect::<Map<_, _>>().into()
}
