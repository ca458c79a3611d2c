//! The summary of a sweep: medians and quartiles of each setting, outliers, warnings; and NAME.json.

use haul_show::report::statistics::Quartiles;
use haul_show::units::{counted, rate};
use serde_json::{Map, Value, json};

use super::figures::{Figures, SweepRun, SweepRunFields};
use super::journal::Header;
use super::setting::{DIMENSIONS, SweepSetting};

/// A figure of a run.
type Figure = fn(&Figures) -> f64;

/// Figures with quartiles besides the rate.
const OTHERS: [(&str, Figure); 8] = [
    ("real_s", |figures| figures.real_s),
    ("user_s", |figures| figures.user_s),
    ("system_s", |figures| figures.system_s),
    ("cpus", Figures::cpus),
    ("rtt_unloaded_s", |figures| figures.rtt_unloaded_s),
    ("rtt_loaded_s", |figures| figures.rtt_loaded_s),
    ("ping_unloaded_s", |figures| figures.ping_unloaded_s),
    ("ping_loaded_s", |figures| figures.ping_loaded_s),
];

/// The runs with one setting.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// The setting.
    pub setting: &'a SweepSetting,
    /// Successful runs.
    pub good: Vec<(&'a SweepRun, &'a Figures)>,
    /// Number of failed runs.
    pub failed: usize,
}

impl<'a> Group<'a> {
    /// The runs by setting, in the order of their first runs.
    pub fn all(runs: &'a [SweepRun]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for run in runs {
            let at = groups.iter().position(|group| *group.setting == run.setting);
            let at = at.unwrap_or_else(|| {
                groups.push(Self { setting: &run.setting, good: Vec::new(), failed: 0 });
                groups.len() - 1
            });
            match &run.result {
                Ok(figures) => groups[at].good.push((run, figures)),
                Err(_) => groups[at].failed += 1,
            }
        }
        groups
    }

    /// The quartiles of a figure; `None` if no run has it.
    pub fn quartiles(&self, figure: impl Fn(&Figures) -> f64) -> Option<Quartiles> {
        Quartiles::of(&self.good.iter().map(|(_, figures)| figure(figures)).collect::<Vec<_>>())
    }

    /// Rates.
    pub fn rates(&self) -> Option<Quartiles> {
        self.quartiles(|figures| figures.bytes_per_s)
    }

    /// The most frequent bottleneck.
    pub fn limited_by(&self) -> Option<&'a str> {
        let limits = || self.good.iter().map(|(run, _)| run.limited_by.as_str()).filter(|limit| !limit.is_empty());
        limits().max_by_key(|limit| limits().filter(|other| other == limit).count())
    }

    /// Returns runs with rates far from the others'.
    pub fn outliers(&self) -> Vec<&'a SweepRun> {
        let Some(quartiles) = self.rates() else { return Vec::new() };
        self.good.iter().filter(|(_, figures)| quartiles.is_outlier(figures.bytes_per_s)).map(|(run, _)| *run).collect()
    }

    fn json(&self) -> Value {
        let of = |quartiles: Option<Quartiles>| {
            quartiles.map(|Quartiles { least, first, median, third, most, .. }| {
                json!({"least": least, "first_quartile": first, "median": median, "third_quartile": third, "most": most})
            })
        };
        let mut object = Map::new();
        for (dimension, word) in DIMENSIONS.iter().zip(&self.setting.0) {
            object.insert(dimension.name.into(), word.as_str().into());
        }
        object.insert("runs".into(), self.good.len().into());
        object.insert("failed".into(), self.failed.into());
        object.insert("bytes_per_s".into(), json!(of(self.rates())));
        for (name, figure) in OTHERS {
            object.insert(name.into(), json!(of(self.quartiles(figure))));
        }
        object.insert("limited_by".into(), json!(self.limited_by()));
        object.insert("outlier_rounds".into(), self.outliers().iter().map(|run| run.round).collect());
        Value::Object(object)
    }
}

/// The setting with the highest median.
pub fn fastest<'a, 'b>(groups: &'b [Group<'a>]) -> Option<(&'b Group<'a>, Quartiles)> {
    let rated = groups.iter().filter_map(|group| Some((group, group.rates()?)));
    rated.max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))
}

/// Warnings about the figures: outliers, failures, and `flattery`.
pub fn warnings(groups: &[Group<'_>], flattery: &[String]) -> Vec<String> {
    let mut warnings = Vec::new();
    for group in groups {
        let Some(quartiles) = group.rates() else { continue };
        for run in group.outliers() {
            let Ok(figures) = &run.result else { continue };
            let [is, usual] = [figures.bytes_per_s, quartiles.median].map(rate);
            warnings.push(format!(
                "{}, round {}: {is} is far from the median, {usual}",
                run.setting.label(),
                run.round
            ));
        }
    }
    let failed: usize = groups.iter().map(|group| group.failed).sum();
    if failed > 0 {
        warnings.push(format!("{} not in the medians", counted(failed as u64, "failed run is", "failed runs are")));
    }
    warnings.extend(flattery.iter().cloned());
    warnings
}

/// NAME.json.
pub fn json(header: &Header, runs: &[SweepRun], groups: &[Group<'_>], warnings: &[String]) -> Value {
    json!({
        "sweep": 1,
        "source": header.source,
        "target": header.target,
        "options": header.options,
        "settings": groups.iter().map(Group::json).collect::<Vec<_>>(),
        "runs": runs.iter().map(SweepRunFields::from).collect::<Vec<_>>(),
        "warnings": warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::run;
    use super::*;

    fn runs() -> Vec<SweepRun> {
        let rates = [100e6, 102e6, 101e6, 99e6, 40e6];
        let mut runs: Vec<_> = (1..).zip(rates).map(|(round, rate)| run(round, "64k", "8", rate)).collect();
        runs.push(run(1, "8k", "1", 120e6));
        runs.push(SweepRun { result: Err("gone".into()), ..run(2, "8k", "1", 1.0) });
        runs
    }

    #[test]
    fn settings_have_medians_and_the_fastest_is_found() {
        let runs = runs();
        let groups = Group::all(&runs);
        assert_eq!(groups.iter().map(|group| (group.good.len(), group.failed)).collect::<Vec<_>>(), [(5, 0), (1, 1)]);
        assert_eq!(groups[0].rates().unwrap().median, 100e6);
        assert_eq!(fastest(&groups).unwrap().0.setting.label(), "window 8k, streams 1");
    }

    #[test]
    fn outliers_and_failures_are_warned_of() {
        let runs = runs();
        let groups = Group::all(&runs);
        let warnings = warnings(&groups, &["a cache".to_owned()]);
        assert_eq!(
            warnings,
            [
                "window 64k, streams 8, round 5: 40.0 MB/s is far from the median, 100 MB/s",
                "1 failed run is not in the medians",
                "a cache"
            ]
        );
        let header = Header { source: "a".into(), target: "b".into(), options: String::new() };
        let value = json(&header, &runs, &groups, &warnings);
        assert_eq!(value["settings"][0]["bytes_per_s"]["median"], 100e6);
        assert_eq!(value["settings"][0]["outlier_rounds"], json!([5]));
        assert_eq!((value["runs"][6]["failure"].as_str(), value["runs"].as_array().unwrap().len()), (Some("gone"), 7));
    }
}
