//! The record of a run. One table has the columns of the CSV and the fields of the JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use haul_base::copy::event::{StreamFigures, TransportPath};
use haul_base::copy::location::Host;
use haul_base::copy::spec::{CacheUse, CopySpec, is_null, names_null};
use haul_base::copy::summary::Summary;
use haul_show::report::series::Series;
use haul_show::units::bytes_per_s;
use serde::Serialize;

use super::setting::{COUNT, DIMENSIONS, SweepSetting};
use crate::echoes::{EchoFigures, RoundTrips};

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRun {
    /// Its round, from 1.
    pub round: u32,
    /// Its setting.
    pub setting: SweepSetting,
    /// Its start, in seconds since 1970.
    pub began: f64,
    /// The bottleneck, as in `--json`; empty if unknown.
    pub limited_by: String,
    /// Its figures, or its error.
    pub result: Result<Figures, String>,
}

/// A figure: its name, and its accessors.
struct Field {
    name: &'static str,
    get: fn(&Figures) -> f64,
    set: fn(&mut Figures, f64),
}

macro_rules! figures {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// The figures of a run. An unknown one is NaN.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub struct Figures {
            $($(#[$about])* #[cfg_attr(test, schemars(with = "Option<f64>"))] pub $name: f64,)*
        }

        const FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            get: |figures| figures.$name,
            set: |figures, value| figures.$name = value,
        },)*];

        impl Default for Figures {
            fn default() -> Self {
                Self { $($name: f64::NAN,)* }
            }
        }
    };
}

figures! {
    /// Copied bytes.
    bytes,
    /// Time of the whole command: logins, connections, the copy.
    real_s,
    /// Time with data streams.
    data_s,
    /// [`Self::bytes`] in [`Self::data_s`].
    bytes_per_s,
    /// User CPU time at both ends.
    user_s,
    /// System CPU time at both ends.
    system_s,
    /// CPU time of the source.
    source_cpu_s,
    /// CPU time of the target.
    target_cpu_s,
    /// The kernel's shortest round trip, without a queue.
    rtt_unloaded_s,
    /// The mean round trip under load.
    rtt_loaded_s,
    /// The shortest of ten ICMP echoes before the run.
    ping_unloaded_min_s,
    /// The median of these echoes.
    ping_unloaded_s,
    /// The longest of these echoes.
    ping_unloaded_max_s,
    /// Their standard deviation.
    ping_unloaded_deviation_s,
    /// The median of ICMP echoes under load.
    ping_loaded_s,
    /// The longest of these echoes.
    ping_loaded_max_s,
    /// Their standard deviation.
    ping_loaded_deviation_s,
    /// Segments sent.
    segments,
    /// Retransmitted segments.
    retransmitted,
    /// Reordered packets that the source's streams saw.
    reordered,
    /// Streams in use at the end.
    streams_used,
    /// The largest effective window of a stream (the smaller one of congestion window and receive window), as the mean
    /// of all streams.
    stream_window_bytes,
    /// Peak memory of the source.
    source_peak_bytes,
    /// Peak memory of the target.
    target_peak_bytes,
    /// Bytes read with direct I/O.
    source_direct_bytes,
    /// Bytes written with direct I/O.
    target_direct_bytes,
    /// Bytes on the wire.
    bytes_on_wire,
    /// Reflinked bytes.
    cloned_bytes,
    /// 1 if all data was on the target's disk at the end, 0 otherwise.
    durable,
}

/// Columns before the figures.
const BEFORE: [&str; 2] = ["round", "began"];
/// Columns after the figures.
const LIMITED_BY: &str = "limited_by";
const FAILURE: &str = "failure";

/// Names of all columns.
pub fn columns() -> Vec<&'static str> {
    let dimensions = DIMENSIONS.iter().map(|dimension| dimension.name);
    BEFORE
        .into_iter()
        .chain(dimensions)
        .chain(FIELDS.iter().map(|field| field.name))
        .chain([LIMITED_BY, FAILURE])
        .collect()
}

impl Figures {
    /// The figures of a copy's summary, its time series and ICMP echoes.
    pub fn of(summary: &Summary, series: &Series, echoes: RoundTrips) -> Self {
        let real = summary.times.elapsed;
        let data = real.saturating_sub(series.first_stream_time().unwrap_or_default());
        let seconds = |time: Duration| time.as_secs_f64();
        let system = summary.ends[0].system + summary.ends[1].system;
        let cpu = summary.ends[0].cpu + summary.ends[1].cpu;
        let is_tcp = summary.connection.path.segments > 0;
        let idle = |figure: fn(EchoFigures) -> f64| echoes.idle.map_or(f64::NAN, figure);
        let loaded = |figure: fn(EchoFigures) -> f64| echoes.loaded.map_or(f64::NAN, figure);
        let of_path = |figure: u64| if is_tcp { figure as f64 } else { f64::NAN };
        Self {
            bytes: summary.files.bytes as f64,
            real_s: seconds(real),
            data_s: seconds(data),
            bytes_per_s: bytes_per_s(summary.files.bytes, data),
            user_s: seconds(cpu.saturating_sub(system)),
            system_s: seconds(system),
            source_cpu_s: seconds(summary.ends[0].cpu),
            target_cpu_s: seconds(summary.ends[1].cpu),
            rtt_loaded_s: series.round_trip().unwrap_or(f64::NAN),
            rtt_unloaded_s: of_path(summary.connection.path.round_trip_us) / 1e6,
            ping_unloaded_min_s: idle(|echoes| echoes.min_s),
            ping_unloaded_s: idle(|echoes| echoes.median_s),
            ping_unloaded_max_s: idle(|echoes| echoes.max_s),
            ping_unloaded_deviation_s: idle(|echoes| echoes.deviation_s),
            ping_loaded_s: loaded(|echoes| echoes.median_s),
            ping_loaded_max_s: loaded(|echoes| echoes.max_s),
            ping_loaded_deviation_s: loaded(|echoes| echoes.deviation_s),
            segments: of_path(summary.connection.path.segments),
            retransmitted: of_path(summary.connection.path.retransmitted),
            reordered: of_path(summary.source().streams.iter().map(|stream| stream.reordered).sum()),
            streams_used: summary.connection.streams.into(),
            stream_window_bytes: mean_window_bytes(&summary.source().streams),
            source_peak_bytes: summary.ends[0].peak_bytes as f64,
            target_peak_bytes: summary.ends[1].peak_bytes as f64,
            source_direct_bytes: summary.ends[0].direct_bytes as f64,
            target_direct_bytes: summary.ends[1].direct_bytes as f64,
            bytes_on_wire: summary.counters.bytes_on_wire as f64,
            cloned_bytes: summary.files.cloned_bytes as f64,
            durable: f64::from(u8::from(summary.integrity.durable)),
        }
    }

    /// CPUs in use at both ends.
    pub fn cpus(&self) -> f64 {
        (self.source_cpu_s + self.target_cpu_s) / self.real_s
    }

    fn cells(&self) -> impl Iterator<Item = String> {
        let cell = |value: f64| if value.is_nan() { String::new() } else { value.to_string() };
        FIELDS.iter().map(move |field| cell((field.get)(self)))
    }
}

/// The mean of the largest effective windows of `streams`; NaN without TCP.
fn mean_window_bytes(streams: &[StreamFigures]) -> f64 {
    let windows = || streams.iter().filter(|stream| stream.segments > 0).map(|stream| stream.effective_window_bytes);
    windows().map(|bytes| bytes as f64).sum::<f64>() / windows().count() as f64
}

impl SweepRun {
    /// The cells of its row.
    pub fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.round.to_string(), format!("{:.3}", self.began)];
        cells.extend(self.setting.0.iter().cloned());
        match &self.result {
            Ok(figures) => cells.extend(figures.cells().chain([self.limited_by.clone(), String::new()])),
            Err(why) => {
                cells.extend(FIELDS.iter().map(|_| String::new()).chain([self.limited_by.clone(), one_line(why)]))
            }
        }
        cells
    }

    /// Parses a row; `None` if it is invalid.
    pub fn of_cells(cells: &[String]) -> Option<Self> {
        let (before, rest) = cells.split_at_checked(BEFORE.len())?;
        let (words, rest) = rest.split_at_checked(COUNT)?;
        let (figures, last) = rest.split_at_checked(FIELDS.len())?;
        let ([round, began], [limited_by, failure]) = (before, last) else { return None };
        let result = match failure.as_str() {
            "" => {
                let mut read = Figures::default();
                for (field, cell) in FIELDS.iter().zip(figures).filter(|(_, cell)| !cell.is_empty()) {
                    (field.set)(&mut read, cell.parse().ok().filter(|value: &f64| value.is_finite())?);
                }
                Ok(read)
            }
            why => Err(why.to_owned()),
        };
        let setting = SweepSetting(words.to_vec().try_into().ok()?);
        let limited_by = limited_by.clone();
        Some(Self { round: round.parse().ok()?, setting, began: began.parse().ok()?, limited_by, result })
    }
}

/// A run as an object.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SweepRunFields<'a> {
    round: u32,
    began: f64,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(schema_with = "setting_schema"))]
    setting: BTreeMap<&'static str, &'a str>,
    #[serde(flatten)]
    figures: Option<&'a Figures>,
    limited_by: Option<&'a str>,
    failure: Option<String>,
}

impl<'a> From<&'a SweepRun> for SweepRunFields<'a> {
    fn from(run: &'a SweepRun) -> Self {
        let words = run.setting.0.iter().map(String::as_str);
        Self {
            round: run.round,
            began: run.began,
            setting: DIMENSIONS.iter().map(|dimension| dimension.name).zip(words).collect(),
            figures: run.result.as_ref().ok(),
            limited_by: Some(run.limited_by.as_str()).filter(|limit| !limit.is_empty()),
            failure: run.result.as_ref().err().map(|why| one_line(why)),
        }
    }
}

#[cfg(test)]
fn setting_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names = DIMENSIONS.map(|dimension| dimension.name);
    let texts: BTreeMap<_, _> = names.iter().map(|name| (name, serde_json::json!({ "type": "string" }))).collect();
    schemars::json_schema!({ "type": "object", "properties": texts, "required": names })
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}

/// Reasons for figures better than the hardware: caches, and skipped work.
pub fn flattery(copy: &CopySpec, transport: Option<&TransportPath>, runs: &[SweepRun]) -> Vec<String> {
    let figures: Vec<&Figures> = runs.iter().filter_map(|run| run.result.as_ref().ok()).collect();
    let any = |is: &dyn Fn(&Figures) -> bool| figures.iter().any(|figures| is(figures));
    let reads = copy.sources.iter().any(|source| !names_null(source.path.as_os_str()));
    let writes = !is_null(&copy.target.path) && copy.target.path.as_os_str() != haul_base::copy::spec::NULL_TARGET;
    let mut warnings = Vec::new();
    let is_cold = copy.options.storage.source.cache == CacheUse::Cold;
    if reads && !is_cold && any(&|run| run.source_direct_bytes < run.bytes / 2.0) {
        warnings
            .push("the source came through the page cache, after the first run possibly from memory (--cache cold)");
    }
    if writes && any(&|run| run.durable < 0.5) {
        warnings.push("not all data reached the target's disk (--fsync, or a file system in memory): rates of memory");
    }
    if !writes {
        warnings.push("the target null: writes nothing");
    }
    if any(&|run| run.cloned_bytes > 0.0) {
        warnings.push("blocks were shared and not copied (reflink)");
    }
    if any(&|run| run.bytes_on_wire > 0.0 && run.bytes_on_wire < run.bytes * 0.9) {
        warnings.push("the data was compressed: rates depend on it (see --compress off)");
    }
    if matches!(transport, Some(TransportPath::Tcp { .. }))
        && copy.target.host == Host::Local
        && copy.sources.iter().all(|source| source.host == Host::Local)
    {
        warnings.push("both ends are on this machine: no network, and shared CPUs");
    }
    warnings.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
pub mod tests {
    use haul_base::copy::location::Location;
    use haul_base::copy::spec::{CopyOptions, RemoteAccess};

    use super::*;

    /// A run with a setting and a rate.
    pub fn run(round: u32, window: &str, streams: &str, bytes_per_s: f64) -> SweepRun {
        let mut setting = SweepSetting(std::array::from_fn(|_| "auto".to_owned()));
        [setting.0[0], setting.0[1]] = [window.into(), streams.into()];
        let figures = Figures {
            bytes: 1e9,
            real_s: 1e9 / bytes_per_s + 0.3,
            data_s: 1e9 / bytes_per_s,
            bytes_per_s,
            user_s: 0.5,
            system_s: 0.25,
            ..Figures::default()
        };
        SweepRun { round, setting, began: 1.8e9 + f64::from(round), limited_by: "link".into(), result: Ok(figures) }
    }

    #[test]
    fn a_run_round_trips_through_its_row() {
        let good = run(2, "64k", "8", 117e6);
        let again = SweepRun::of_cells(&good.cells()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{good:?}"));
        assert_eq!(good.cells().len(), columns().len());
        let failed = SweepRun { result: Err("db1: gone\nrun it again".into()), ..run(1, "8k", "1", 1.0) };
        assert_eq!(SweepRun::of_cells(&failed.cells()).unwrap().result, Err("db1: gone; run it again".to_owned()));
    }

    #[test]
    fn the_window_of_a_run_is_the_mean_of_its_streams_over_tcp() {
        let of = |segments, effective_window_bytes| StreamFigures {
            segments,
            effective_window_bytes,
            ..StreamFigures::default()
        };
        assert_eq!(mean_window_bytes(&[of(9, 100), of(9, 300), of(0, 7)]), 200.0);
        assert!(mean_window_bytes(&[]).is_nan() && mean_window_bytes(&[of(0, 7)]).is_nan());
    }

    #[test]
    fn invalid_rows_are_ignored() {
        let good = run(1, "64k", "8", 117e6).cells();
        assert!(SweepRun::of_cells(&good[..good.len() - 1]).is_none(), "too short");
        assert!(SweepRun::of_cells(&[good.clone(), vec![String::new()]].concat()).is_none(), "too long");
        for (at, text) in [(0, "-1"), (0, "x"), (1, ""), (12, "inf"), (12, "1e")] {
            let mut row = good.clone();
            row[at] = text.into();
            assert!(SweepRun::of_cells(&row).is_none(), "{at} {text}");
        }
    }

    #[test]
    fn unknown_values_are_null_in_json() {
        let object = serde_json::to_value(SweepRunFields::from(&run(1, "64k", "8", 117e6))).unwrap();
        assert_eq!((object["window"].as_str(), object["bytes_per_s"].as_f64()), (Some("64k"), Some(117e6)));
        assert!(object["rtt_loaded_s"].is_null() && object["failure"].is_null());
    }

    #[test]
    fn caches_that_inflate_rates_are_named() {
        let copy = |source: &str, target: &str| CopySpec {
            list: None,
            sources: vec![Location { host: Host::Local, path: source.into() }],
            target: Location { host: Host::Remote { user: None, name: "db1".into() }, path: target.into() },
            options: CopyOptions::default(),
            access: RemoteAccess::default(),
        };
        let run_with = |direct: f64, durable: f64| {
            let mut run = run(1, "8k", "1", 1e8);
            run.result = run.result.map(|figures| Figures {
                source_direct_bytes: direct,
                durable,
                cloned_bytes: 0.0,
                bytes_on_wire: 1e9,
                ..figures
            });
            [run]
        };
        let warnings = |source, target, direct, durable| {
            flattery(&copy(source, target), None, &run_with(direct, durable)).join("\n")
        };
        assert_eq!(warnings("/data", "/archive", 1e9, 1.0), "");
        assert!(warnings("/data", "/archive", 0.0, 1.0).contains("page cache"));
        assert!(warnings("/data", "/archive", 1e9, 0.0).contains("--fsync"));
        assert_eq!(warnings("null:1g", "null:", 0.0, 0.0), "the target null: writes nothing");
    }
}
