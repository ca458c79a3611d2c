//! Trials repeated many times to establish trust in haul: daily and soak counts, targets, and the tests that run them.
//! `cargo xtask test` and `cargo xtask soak` both use this table.

use std::collections::BTreeMap;

/// How often each thing was tried that a harness tries many times over.
pub type Cases = BTreeMap<String, u64>;

/// Adds the `COUNT row number` lines of a harness's output.
pub fn add_cases(cases: &mut Cases, output: &str) {
    for line in output.lines().filter_map(|line| line.strip_prefix("COUNT ")) {
        if let Some((row, number)) = line.rsplit_once(' ')
            && let Ok(number) = number.parse::<u64>()
        {
            *cases.entry(row.to_owned()).or_default() += number;
        }
    }
}

/// One thing that is tried again and again.
pub struct CaseRow {
    /// The row's name in `--only`.
    pub name: &'static str,
    /// A description of the trial.
    pub about: &'static str,
    /// Names in the lines `COUNT name number` that count it.
    pub counted: &'static [&'static str],
    /// How often it is to be tried every day.
    pub everyday: u64,
    /// How often in the soak.
    pub soak: u64,
    /// The smallest count at which the row's tests can fail.
    pub least: u64,
    /// Variables that say how often, each for its part of all.
    pub variables: &'static [(&'static str, CasePart)],
    /// Variables that a soak sets besides.
    pub always: &'static [(&'static str, &'static str)],
    /// The tests.
    pub tests: &'static [Tests],
}

/// A variable's part of a number: so many of so many.
pub type CasePart = (u64, u64);

/// Tests in one executable.
pub struct Tests {
    /// Directory of the package under the root.
    pub package: &'static str,
    /// The executable's target.
    pub target: &'static str,
    /// Part of the tests' names.
    pub filter: &'static str,
}

const ALL: CasePart = (1, 1);

const fn tests(package: &'static str, target: &'static str, filter: &'static str) -> Tests {
    Tests { package, target, filter }
}

const fn e2e(target: &'static str, filter: &'static str) -> Tests {
    tests("e2e", target, filter)
}

const fn engine(filter: &'static str) -> Tests {
    tests("crates/engine", "haul_engine", filter)
}

/// All rows, in display order.
pub const ROWS: &[CaseRow] = &[
    CaseRow {
        name: "kills",
        about: "SIGKILL at a chosen system call of either end, then resumed",
        counted: &["kills"],
        everyday: 100,
        soak: 5000,
        least: 12,
        variables: &[("HAUL_KILLS", (5, 6)), ("HAUL_KILLS_OVER_SSH", (1, 6))],
        always: &[],
        tests: &[e2e("faults", "killed")],
    },
    CaseRow {
        name: "damaged-parts",
        about: "partial files and journals damaged between a kill and the rerun",
        counted: &["damaged-parts"],
        everyday: 60,
        soak: 5000,
        least: 12,
        variables: &[("HAUL_PART_DAMAGES", ALL)],
        always: &[],
        tests: &[e2e("parts", "damaged_parts")],
    },
    CaseRow {
        name: "power-cuts",
        about: "power cuts, ext4 and XFS, then resumed",
        counted: &["power-cuts-ext4", "power-cuts-xfs"],
        everyday: 60,
        soak: 2000,
        least: 4,
        variables: &[("HAUL_POWER_CUTS", (1, 2))],
        always: &[],
        tests: &[e2e("power", "after_a_cut")],
    },
    CaseRow {
        name: "failing-calls",
        about: "the n-th call fails, 12 system calls",
        counted: &["failing-calls"],
        everyday: 480,
        soak: 4800,
        least: 60,
        variables: &[("HAUL_FAULTS", ALL)],
        always: &[],
        tests: &[e2e("faults", "a_call_that_fails")],
    },
    CaseRow {
        name: "flips",
        about: "bits flipped in flight and in memory",
        counted: &["bits-flipped-on-a-stream", "bits-flipped-before-a-write", "bits-flipped-in-memory"],
        everyday: 20_000,
        soak: 1_000_000,
        least: 400,
        variables: &[("HAUL_FLIPS", (40, 43))],
        always: &[],
        tests: &[engine("stream::damage_tests"), engine("target::deliver::tests")],
    },
    CaseRow {
        name: "proxy-flips",
        about: "bits flipped by a proxy between two ends",
        counted: &["bits-flipped-through-a-proxy"],
        everyday: 200,
        soak: 10_000,
        least: 10,
        variables: &[("HAUL_PROXY_FLIPS", ALL)],
        always: &[],
        tests: &[e2e("damage", "a_bit_that_flips")],
    },
    CaseRow {
        name: "records",
        about: "records dropped, doubled, swapped, spliced",
        counted: &["records-dropped-doubled-swapped-spliced"],
        everyday: 500,
        soak: 100_000,
        least: 50,
        variables: &[("HAUL_MIDDLE", ALL)],
        always: &[],
        tests: &[engine("records_that_are_dropped")],
    },
    CaseRow {
        name: "glitches",
        about: "a link that is down for a moment",
        counted: &["glitches-short"],
        everyday: 25,
        soak: 1000,
        least: 5,
        variables: &[("HAUL_GLITCHES", ALL)],
        always: &[],
        tests: &[e2e("glitches", "glitches_of_the_link")],
    },
    CaseRow {
        name: "long-glitches",
        about: "3 s and 30 s without a link, 1 of 8 streams stopped",
        counted: &["glitches-of-3-s", "glitches-of-30-s", "streams-stopped"],
        everyday: 3,
        soak: 3,
        least: 3,
        variables: &[],
        always: &[("HAUL_GLITCH_30", "1"), ("HAUL_CUT_SECONDS", "30")],
        tests: &[e2e("glitches", ""), e2e("retries", "cut")],
    },
    CaseRow {
        name: "races",
        about: "path races, seconds for each of 12 operations",
        counted: &["path-race-seconds-each"],
        everyday: 3,
        soak: 60,
        least: 1,
        variables: &[("HAUL_RACE_SECONDS", ALL)],
        always: &[],
        tests: &[engine("race_tests"), e2e("confinement", "while_their_paths_are_exchanged")],
    },
    CaseRow {
        name: "hostile",
        about: "sources that keep to no rule",
        counted: &["hostile-sources"],
        everyday: 300,
        soak: 3000,
        least: 60,
        variables: &[("HAUL_HOSTILE", ALL)],
        always: &[],
        tests: &[e2e("hostile", "a_hostile_source")],
    },
    CaseRow {
        name: "hostile-target",
        about: "far workers that keep to no rule",
        counted: &["hostile-targets"],
        everyday: 300,
        soak: 3000,
        least: 60,
        variables: &[("HAUL_HOSTILE_TARGET", ALL)],
        always: &[],
        tests: &[e2e("hostile_target", "a_hostile_worker")],
    },
    CaseRow {
        name: "mutations",
        about: "peers that mutate what was opened",
        counted: &["mutated-sessions", "mutated-served-sessions"],
        everyday: 120,
        soak: 10_000,
        least: 60,
        variables: &[("HAUL_MUTATIONS", ALL), ("HAUL_MUTATIONS_SERVED", ALL)],
        always: &[],
        tests: &[e2e("mutations", "mutate")],
    },
    CaseRow {
        name: "strangers",
        about: "strangers at the port with wrong keys",
        counted: &["strangers-with-wrong-keys"],
        everyday: 1000,
        soak: 100_000,
        least: 100,
        variables: &[("HAUL_KNOCKS", ALL)],
        always: &[],
        tests: &[e2e("strangers", "strangers_at_the_port")],
    },
    CaseRow {
        name: "loiterers",
        about: "strangers at the port, slow or silent",
        counted: &["strangers-that-are-slow-or-silent"],
        everyday: 200,
        soak: 1000,
        least: 100,
        variables: &[("HAUL_LOITERERS", ALL)],
        always: &[],
        tests: &[e2e("strangers", "strangers_at_the_port")],
    },
    CaseRow {
        name: "listed",
        about: "lines of a list, and the memory that they take",
        counted: &["listed-lines"],
        everyday: 20_000,
        soak: 1_000_000,
        least: 2000,
        variables: &[("HAUL_LISTED", ALL)],
        always: &[],
        tests: &[e2e("lists", "a_long_list")],
    },
    CaseRow {
        name: "seeds",
        about: "seeds of the simulator, with faults",
        counted: &["simulator-seeds"],
        everyday: 20_000,
        soak: 10_000_000,
        least: 1000,
        variables: &[("HAUL_SEEDS", ALL)],
        always: &[],
        tests: &[tests("sim", "seeds", "no_seed")],
    },
    CaseRow {
        name: "fuzz",
        about: "fuzz targets, seconds each, on the stable toolchain",
        counted: &["fuzz-seconds-each"],
        everyday: 20,
        soak: 14_400,
        least: 1,
        variables: &[("HAUL_FUZZ_SECONDS", ALL)],
        always: &[],
        tests: &[tests("fuzz", "mutate", "")],
    },
    CaseRow {
        name: "concurrent",
        about: "runs of one job at the same time",
        counted: &["concurrent-runs"],
        everyday: 20,
        soak: 1000,
        least: 20,
        variables: &[("HAUL_CONCURRENT", ALL)],
        always: &[],
        tests: &[e2e("status", "of_many_runs")],
    },
    CaseRow {
        name: "sync-pairs",
        about: "haul sync of random pairs of trees, beside rsync",
        counted: &["sync-pairs"],
        everyday: 2000,
        soak: 200_000,
        least: 1,
        variables: &[("HAUL_SYNC_PAIRS", ALL)],
        always: &[],
        tests: &[e2e("sync_pairs", "")],
    },
];

impl CaseRow {
    /// The number of cases run without a failure.
    pub fn ran(&self, cases: &Cases) -> u64 {
        self.counted.iter().filter_map(|name| cases.get(*name)).sum()
    }

    /// The variables' values for so many tries.
    pub fn environment(&self, number: u64) -> Vec<(&'static str, String)> {
        let part = |(of, whole): CasePart| (number * of).div_ceil(whole);
        let counts = self.variables.iter().map(|(name, of)| (*name, part(*of).to_string()));
        counts.chain(self.always.iter().map(|(name, value)| (*name, (*value).to_owned()))).collect()
    }
}

/// Whether any row counts this.
pub fn counts(name: &str) -> bool {
    ROWS.iter().any(|row| row.counted.contains(&name))
}

/// The table: requested and actual counts of each row. It marks rows with fewer cases than requested, or none.
pub fn table<'r>(rows: impl IntoIterator<Item = (&'r CaseRow, u64, u64)>) -> String {
    let mut text = format!("\n{:<70} {:>10} {:>10}\n", "tried, with nothing wrong", "asked for", "ran");
    for (row, asked, ran) in rows {
        let about = format!("{:<14} {}", row.name, row.about);
        let remark = match ran {
            0 => "  NOT RUN",
            ran if ran < asked => "  LESS",
            _ => "",
        };
        text.push_str(&format!("{about:<70} {asked:>10} {ran:>10}{remark}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_counted_once_and_has_a_name_of_its_own() {
        let are_different = |mut names: Vec<&&str>| {
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            names.len() == all
        };
        assert!(are_different(ROWS.iter().flat_map(|row| row.counted).collect()));
        assert!(are_different(ROWS.iter().map(|row| &row.name).collect()));
        assert!(ROWS.iter().all(|row| !row.tests.is_empty() && row.least <= row.everyday && row.everyday <= row.soak));
    }

    #[test]
    fn a_number_is_shared_by_its_variables() {
        let row = ROWS.iter().find(|row| row.name == "kills").expect("it is there");
        assert_eq!(row.environment(12), [("HAUL_KILLS", "10".to_owned()), ("HAUL_KILLS_OVER_SSH", "2".to_owned())]);
    }

    #[test]
    fn incomplete_rows_are_marked() {
        let cases = Cases::from([("power-cuts-ext4".to_owned(), 30), ("power-cuts-xfs".to_owned(), 29)]);
        let row = ROWS.iter().find(|row| row.name == "power-cuts").expect("it is there");
        let text = table([(row, row.everyday, row.ran(&cases))]);
        assert!(text.contains("60         59  LESS\n"), "{text}");
        assert!(!table([(row, 59, 59)]).contains("LESS") && table([(row, 60, 0)]).contains("NOT RUN"));
    }
}
