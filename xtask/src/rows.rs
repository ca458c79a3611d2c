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

/// A test, or all tests of a module.
pub struct Tests {
    package: &'static str,
    /// Its path in the package's executable: a test's full name, or a module's with `::`.
    path: &'static str,
}

impl Tests {
    /// nextest's filter expression for them.
    pub fn expression(&self) -> String {
        let Self { package, path } = self;
        match path.ends_with("::") {
            true => format!("package({package}) and test(/(^|::){path}/)"),
            false => format!("package({package}) and test(={path})"),
        }
    }
}

const ALL: CasePart = (1, 1);

const fn e2e(path: &'static str) -> Tests {
    Tests { package: "haul-e2e", path }
}

const fn engine(path: &'static str) -> Tests {
    Tests { package: "haul-engine", path }
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
        tests: &[
            e2e("faults::killed_at_any_call_it_resumes_with_all_recorded_data"),
            e2e("faults::either_end_killed_on_its_own_host_resumes"),
        ],
    },
    CaseRow {
        name: "damaged-parts",
        about: "partial files and journals damaged between a kill and the rerun",
        counted: &["damaged-parts"],
        everyday: 40,
        soak: 5000,
        least: 12,
        variables: &[("HAUL_PART_DAMAGES", ALL)],
        always: &[],
        tests: &[e2e("parts::damaged_parts_never_become_wrong_files")],
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
        tests: &[
            e2e("power::no_name_has_wrong_content_after_a_cut_on_ext4"),
            e2e("power::no_name_has_wrong_content_after_a_cut_on_xfs"),
        ],
    },
    CaseRow {
        name: "failing-calls",
        about: "the n-th call fails, 12 system calls",
        counted: &["failing-calls"],
        everyday: 240,
        soak: 4800,
        least: 60,
        variables: &[("HAUL_FAULTS", ALL)],
        always: &[],
        tests: &[e2e("faults::a_failing_call_costs_at_most_a_file_and_is_named")],
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
        tests: &[engine("stream::damage_tests::"), engine("receive::damage_tests::")],
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
        tests: &[e2e("damage::a_flipped_bit_never_makes_a_wrong_file")],
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
        tests: &[engine("stream::middle_tests::")],
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
        tests: &[e2e("glitches::glitches_of_the_link_are_lived_through")],
    },
    CaseRow {
        name: "long-glitches",
        about: "3 s and 30 s without a link, 1 of 8 streams stopped",
        counted: &["glitches-of-3-s", "glitches-of-8-s", "streams-stopped"],
        everyday: 3,
        soak: 3,
        least: 3,
        variables: &[],
        always: &[("HAUL_CUT_SECONDS", "30")],
        tests: &[e2e("glitches::"), e2e("retries::a_path_cut_for_longer_is_lost_at_both_ends_and_used_again_later")],
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
        tests: &[
            engine("receiver::race_tests::"),
            e2e("confinement::copies_stay_inside_while_their_paths_are_exchanged_at_both_ends"),
        ],
    },
    CaseRow {
        name: "hostile",
        about: "sources that keep to no rule",
        counted: &["hostile-sources"],
        everyday: 150,
        soak: 3000,
        least: 60,
        variables: &[("HAUL_HOSTILE", ALL)],
        always: &[],
        tests: &[e2e("hostile::a_hostile_source_changes_nothing_outside_and_ends_with_a_fault")],
    },
    CaseRow {
        name: "hostile-target",
        about: "far workers that keep to no rule",
        counted: &["hostile-targets"],
        everyday: 150,
        soak: 3000,
        least: 60,
        variables: &[("HAUL_HOSTILE_TARGET", ALL)],
        always: &[],
        tests: &[e2e("hostile_target::a_hostile_worker_is_not_believed_and_the_copy_ends")],
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
        tests: &[
            e2e("mutations::any_mutation_ends_both_ends_with_a_message_and_no_wrong_file_gets_a_name"),
            e2e("mutations::a_served_worker_resists_a_clients_mutations"),
        ],
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
        tests: &[e2e("strangers::strangers_at_the_port_are_not_accepted_and_delay_nothing")],
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
        tests: &[e2e("strangers::strangers_at_the_port_are_not_accepted_and_delay_nothing")],
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
        tests: &[e2e("lists::a_long_list_takes_little_memory")],
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
        tests: &[Tests { package: "haul-sim", path: "no_seed_breaks_a_rule" }],
    },
    CaseRow {
        name: "twoway-seeds",
        about: "seeds of two-way synchronisation, with edits, crashes and lost archives",
        counted: &["twoway-seeds"],
        everyday: 500,
        soak: 1_000_000,
        least: 200,
        variables: &[("HAUL_TWOWAY_SEEDS", ALL)],
        always: &[],
        tests: &[Tests { package: "haul-sim", path: "no_seed_of_two_way_synchronisation_loses_anything" }],
    },
    CaseRow {
        name: "twoway-kills",
        about: "haul twoway over ssh, killed at any moment, at either end",
        counted: &["twoway-kills"],
        everyday: 10,
        soak: 5_000,
        least: 1,
        variables: &[("HAUL_TWOWAY_KILLS", ALL)],
        always: &[],
        tests: &[e2e("twoway::kills::")],
    },
    CaseRow {
        name: "twoway-oracle",
        about: "histories of edits of two replicas, beside Unison",
        counted: &["twoway-oracle"],
        everyday: 30,
        soak: 20_000,
        least: 1,
        variables: &[("HAUL_TWOWAY_ORACLE", ALL)],
        always: &[],
        tests: &[e2e("twoway::oracle::")],
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
        tests: &[Tests {
            package: "haul-fuzz",
            path: "every_target_takes_what_becomes_of_its_corpus_and_what_breaks_a_rule_is_noticed",
        }],
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
        tests: &[e2e("status::among_many_runs_of_one_copy_one_proceeds_and_the_others_wait")],
    },
    CaseRow {
        name: "sync-pairs",
        about: "haul sync of random pairs of trees, beside rsync",
        counted: &["sync-pairs"],
        everyday: 800,
        soak: 200_000,
        least: 1,
        variables: &[("HAUL_SYNC_PAIRS", ALL)],
        always: &[],
        tests: &[e2e("sync_pairs::")],
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
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::workspace::root;

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

    /// The source of a path's module: `a::b::` and `a::b::test` are in `a/b.rs`, `a/b/mod.rs`, or `b.rs` of some folder.
    fn source_of(tests: &Tests) -> String {
        let folders = [
            ("haul-e2e", "e2e/tests"),
            ("haul-engine", "crates/engine/src"),
            ("haul-sim", "sim/tests"),
            ("haul-fuzz", "fuzz/tests"),
        ];
        let folder = folders.iter().find(|(package, _)| *package == tests.package).expect("a folder").1;
        let module = tests.path.rsplit("::").nth(1);
        let is_of_module = |path: &Path| match module {
            Some(module) => path.ends_with(format!("{module}.rs")) || path.ends_with(format!("{module}/mod.rs")),
            None => true,
        };
        let (mut folders, mut text) = (vec![root().join(folder)], String::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false if is_of_module(&entry) => text += &fs::read_to_string(&entry).unwrap_or_default(),
                    false => {}
                }
            }
        }
        text
    }

    #[test]
    fn every_row_names_existing_tests() {
        for tests in ROWS.iter().flat_map(|row| row.tests) {
            let name = tests.path.rsplit("::").next().expect("a last part");
            assert!(source_of(tests).contains(&format!("fn {name}")), "{} has no test {}", tests.package, tests.path);
        }
        assert_eq!(engine("a::b::").expression(), "package(haul-engine) and test(/(^|::)a::b::/)");
        assert_eq!(e2e("sync::x").expression(), "package(haul-e2e) and test(=sync::x)");
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
