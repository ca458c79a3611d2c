//! Settings of a sweep: options of a copy, each with a list of arguments, and their combinations.

use std::ffi::{OsStr, OsString};

use haul_proto::path::escape;

use crate::args::argument::bad;
use crate::args::flag::{Flag, Single};
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// An option with a list of arguments.
pub struct Dimension {
    /// The option.
    pub flag: &'static Flag<Single<OsString>>,
    /// Name in results.
    pub name: &'static str,
    /// The values of SLAC's sweeps, in their order, for the word `slac`.
    pub slac: &'static [&'static str],
}

/// Number of dimensions.
pub const COUNT: usize = 10;

/// All dimensions. The first gives the lines of a chart, the second its horizontal axis.
pub const DIMENSIONS: [Dimension; COUNT] = [
    Dimension {
        flag: &flags::sweep::WINDOWSZ,
        name: "window",
        slac: &["8k", "1024k", "16k", "512k", "32k", "256k", "128k", "64k"],
    },
    Dimension {
        flag: &flags::sweep::STREAMS,
        name: "streams",
        slac: &["1", "20", "5", "12", "8", "10", "4", "25", "11", "3", "7", "40", "15", "9", "2", "30", "6"],
    },
    Dimension { flag: &flags::sweep::CIPHER, name: "cipher", slac: &[] },
    Dimension { flag: &flags::sweep::FRAME, name: "frame", slac: &[] },
    Dimension { flag: &flags::sweep::UNBUFFERED, name: "engine", slac: &[] },
    Dimension {
        flag: &flags::sweep::XFRRATE,
        name: "rate_limit",
        slac: &[AUTO, "512k", "1m", "2m", "4m", "5m", "6m", "8m", "10m", "12m", "15m", "20m", "25m", "30m", "35m"],
    },
    Dimension { flag: &flags::sweep::QOS, name: "qos", slac: &[] },
    Dimension { flag: &flags::sweep::SIZE, name: "size", slac: &[] },
    Dimension { flag: &flags::sweep::DURATION, name: "duration", slac: &[] },
    Dimension { flag: &flags::sweep::TARGET, name: "target", slac: &[] },
];

/// Leaves a dimension to haul, like a copy without the option.
pub const AUTO: &str = "auto";
/// No cipher: a separate option.
const NO_CIPHER: &str = "none";
/// The word for SLAC's list.
const SLAC: &str = "slac";

/// One word for each dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SweepSetting(pub [String; COUNT]);

impl SweepSetting {
    /// The value as text, or `automatic`.
    pub fn label(&self) -> String {
        let set = DIMENSIONS.iter().zip(&self.0).filter(|(_, word)| *word != AUTO);
        let values: Vec<_> =
            set.map(|(dimension, word)| format!("{} {word}", dimension.name.replace('_', " "))).collect();
        if values.is_empty() { "automatic".to_owned() } else { values.join(", ") }
    }

    /// The value of a dimension; `None` if it is not varied.
    pub fn word(&self, option: &OptionRow) -> Option<&str> {
        let word = DIMENSIONS.iter().zip(&self.0).find(|(dimension, _)| dimension.flag.is(option))?.1;
        (word != AUTO).then_some(word)
    }

    /// The options of a copy with this setting: `values` are those of the sweep.
    pub fn options(&self, values: &Values) -> Values {
        let is_sweeps = |row: &OptionRow| flags::sweep::ALL.iter().any(|own| own.is(row));
        let others = values.given().iter().filter(|(row, _)| !is_sweeps(row)).cloned();
        let is_varied = |(dimension, word): &(&Dimension, &String)| {
            *word != AUTO && !dimension.flag.is_any(&[&flags::sweep::SIZE, &flags::sweep::TARGET])
        };
        let varied = DIMENSIONS.iter().zip(&self.0).filter(is_varied).map(|(dimension, word)| {
            match dimension.flag.is(&flags::CIPHER) && word == NO_CIPHER {
                true => (&flags::NO_ENCRYPT.row, None),
                false => (&dimension.flag.row, Some(OsString::from(word))),
            }
        });
        values.with(others.chain(varied).collect())
    }
}

/// All settings in the order of the runs: for each window all numbers of streams, and so on. By default, they are
/// SLAC's windows and streams. `target` is the first of several targets.
pub fn settings(values: &Values, target: &str) -> Result<Vec<SweepSetting>, UsageError> {
    // Options of a configuration file apply to copies.
    let is_any = DIMENSIONS.iter().any(|dimension| values.is_typed(dimension.flag));
    let mut settings = vec![Vec::new()];
    for dimension in &DIMENSIONS {
        let words = match values.last(dimension.flag).filter(|_| values.is_typed(dimension.flag)) {
            Some(list) if dimension.flag.is(&flags::sweep::TARGET) => {
                let mut targets = words(dimension, list)?;
                targets.retain(|word| word != target);
                [vec![target.to_owned()], targets].concat()
            }
            Some(list) => words(dimension, list)?,
            None if !is_any && !dimension.flag.is(&flags::XFRRATE) && !dimension.slac.is_empty() => {
                owned(dimension.slac)
            }
            None => vec![AUTO.to_owned()],
        };
        let with = |setting: &Vec<String>| -> Vec<Vec<String>> {
            words.iter().map(|word| [setting.as_slice(), std::slice::from_ref(word)].concat()).collect()
        };
        settings = settings.iter().flat_map(with).collect();
        if settings.len() > SETTINGS_MAX {
            return Err(UsageError::new(format!("more than {SETTINGS_MAX} combinations"))
                .remedy("vary fewer options at a time"));
        }
    }
    Ok(settings.into_iter().filter_map(|words| words.try_into().ok().map(SweepSetting)).collect())
}

/// Most combinations.
const SETTINGS_MAX: usize = 10_000;

/// The words of a list, each once.
fn words(dimension: &Dimension, list: &OsStr) -> Result<Vec<String>, UsageError> {
    let text = list.to_str().ok_or_else(|| bad(dimension.flag, list, "must be UTF-8"))?;
    let mut words: Vec<String> = Vec::new();
    for word in text.split(',') {
        let meant = match word {
            "" => return Err(bad(dimension.flag, list, "must be a list with commas between its words")),
            SLAC if dimension.slac.is_empty() => {
                let option = dimension.flag.typed();
                return Err(UsageError::new(format!("{option} {}: no such series", escape(text.as_bytes())))
                    .remedy("slac is a series of windows, streams and rates"));
            }
            SLAC => owned(dimension.slac),
            word => vec![word.to_owned()],
        };
        let new: Vec<_> = meant.into_iter().filter(|word| !words.contains(word)).collect();
        words.extend(new);
    }
    Ok(words)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    /// The options of `haul sweep LINE a b`.
    pub fn given(line: &str) -> Values {
        let words = ["sweep"].into_iter().chain(line.split_whitespace()).chain(["a", "b"]);
        match parse(Dialect::Haul, words.map(OsString::from).collect(), &crate::args::local_files::PlainFiles) {
            Ok(Command::Sweep(values, _)) => values,
            other => panic!("{other:?}"),
        }
    }

    fn labels(line: &str) -> Vec<String> {
        settings(&given(line), "b").unwrap().iter().map(SweepSetting::label).collect()
    }

    #[test]
    fn without_a_list_it_is_slacs_sweep_in_its_order() {
        let labels = labels("");
        assert_eq!(labels.len(), 8 * 17);
        assert_eq!(labels[0], "window 8k, streams 1");
        assert_eq!(labels[1], "window 8k, streams 20");
        assert_eq!((labels[17].as_str(), labels[135].as_str()), ("window 1024k, streams 1", "window 64k, streams 6"));
    }

    #[test]
    fn exactly_all_combinations_of_the_lists() {
        assert_eq!(
            labels("-s 1,4 --cipher none,auto"),
            ["streams 1, cipher none", "streams 1", "streams 4, cipher none", "streams 4"]
        );
        assert_eq!(labels("--rates slac").len(), 15);
        assert_eq!(labels("--rates slac")[0], "automatic", "without a limit");
        assert_eq!(labels("--streams 4,4,4"), ["streams 4"], "each once");
        assert_eq!(labels("--windows slac,=3m").len(), 9);
        assert_eq!(labels("--engines auto"), ["automatic"]);
        assert_eq!(labels("--qos 0,8 --sizes 1m,1g").len(), 4);
        assert_eq!(labels("--durations 2s --targets c,b"), ["duration 2s, target b", "duration 2s, target c"]);
    }

    #[test]
    fn a_setting_becomes_the_options_of_a_copy() {
        let values = given("-i key -s 1,4 --ciphers none --rates 1m -r --report --repeat 2");
        let one = settings(&values, "b").unwrap()[1].options(&values);
        assert!(
            one.is_set(&flags::NO_ENCRYPT)
                && one.is_set(&flags::RECURSIVE)
                && !one.is_set(&flags::CIPHER)
                && !one.is_set(&flags::REPORT)
        );
        assert_eq!(
            (one.last(&flags::STREAMS), one.last(&flags::XFRRATE), one.last(&flags::IDFILE)),
            (Some("4".as_ref()), Some("1m".as_ref()), Some("key".as_ref()))
        );
        assert_eq!(one.given().iter().filter(|(row, _)| row.is(&flags::STREAMS)).count(), 1);
        let values = given("--sizes 1m --qos 8 --targets c");
        let setting = &settings(&values, "b").unwrap()[1];
        assert_eq!(
            (setting.word(&flags::sweep::SIZE), setting.word(&flags::sweep::TARGET), setting.word(&flags::STREAMS)),
            (Some("1m"), Some("c"), None)
        );
        let copy = setting.options(&values);
        assert!(copy.is_set(&flags::QOS) && !copy.is_set(&flags::sweep::SIZE) && !copy.is_set(&flags::sweep::TARGET));
    }

    #[test]
    fn meaningless_lists_are_refused() {
        for (line, values) in [("-s 1,,2", "commas"), ("--frames slac", "no such series"), ("-s ,", "commas")] {
            let error = settings(&given(line), "b").unwrap_err().to_string();
            assert!(error.contains(values), "{error}");
        }
        let many: Vec<_> = (0..101).map(|number| number.to_string()).collect();
        let many = many.join(",");
        let error = settings(&given(&format!("-s {many} -w {many}")), "b").unwrap_err().to_string();
        assert!(error.contains("more than 10000 combinations"), "{error}");
    }
}
