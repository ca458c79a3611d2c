//! `haul job`: its steps, their options, and the options of a shard's copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::LazyLock;

use haul_control::operand::host_prefix;
use haul_proto::path::escape;

use super::flags::{self, COPY};
use super::local_files::{LocalDisk, LocalFiles};
use super::nearest::nearest;
use super::row::OptionRow;
use super::scan::{DEFAULT, Grammar, scan};
use super::values::Values;
use super::{Dialect, UsageError};

/// A step of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStep {
    /// Divides the source into shards.
    Plan,
    /// Plans, copies and finishes, or resumes.
    Run,
    /// Copies one shard.
    Shard,
    /// Takes shards until none is left.
    Work,
    /// Ends the job.
    Finish,
    /// Compares source and target in shards.
    Verify,
    /// Shows the states of shards.
    Status,
    /// Shows the results so far.
    Report,
    /// Shows this user's jobs.
    List,
    /// Stops the job.
    Cancel,
    /// Prints a manifest for Kubernetes.
    Manifest,
}

impl JobStep {
    /// All steps with their words.
    pub const WORDS: [(&str, Self); 11] = [
        ("plan", Self::Plan),
        ("run", Self::Run),
        ("shard", Self::Shard),
        ("work", Self::Work),
        ("finish", Self::Finish),
        ("verify", Self::Verify),
        ("status", Self::Status),
        ("report", Self::Report),
        ("list", Self::List),
        ("cancel", Self::Cancel),
        ("manifest", Self::Manifest),
    ];

    /// The table of its options.
    pub fn options(self) -> &'static [OptionRow] {
        match self {
            Self::Plan | Self::Run | Self::Verify => &ALL,
            Self::Manifest => flags::manifest::ALL,
            _ => flags::step::ALL,
        }
    }

    /// Options of that table that it refuses.
    pub fn refused(self) -> &'static [&'static OptionRow] {
        use flags::job::CONFIRM;
        use flags::step::{HOSTS, LOCAL, OUT, VERIFY, WAIT};
        match self {
            Self::Plan | Self::Run | Self::Verify => &REFUSED,
            Self::Manifest => &[],
            Self::Shard => &[&VERIFY.row, &WAIT.row, &OUT.row, &LOCAL.row, &HOSTS.row],
            Self::Work => &[&VERIFY.row, &WAIT.row, &OUT.row],
            Self::Finish => &[&OUT.row, &LOCAL.row, &HOSTS.row],
            Self::Report => &[&VERIFY.row, &WAIT.row, &CONFIRM.row, &LOCAL.row, &HOSTS.row],
            Self::Status | Self::Cancel | Self::List => {
                &[&VERIFY.row, &WAIT.row, &OUT.row, &CONFIRM.row, &LOCAL.row, &HOSTS.row]
            }
        }
    }
}

/// A step with its options and operands.
#[derive(Debug)]
pub struct JobWords {
    /// The step.
    pub step: JobStep,
    /// Its options.
    pub values: Values,
    /// Its operands, in a valid number.
    pub operands: Vec<OsString>,
}

/// Options of a copy without a meaning for a shard.
const REFUSED: [&OptionRow; 21] = [
    &flags::INFILES.row,
    &flags::PAIRS.row,
    &flags::TO.row,
    &flags::NULL.row,
    &flags::DIRBASE.row,
    &flags::PIPE.row,
    &flags::REALTIME.row,
    &flags::EXPLAIN.row,
    &flags::DETECT_RENAMES.row,
    &flags::REMOVE_SOURCE_FILES.row,
    &flags::DRY_RUN.row,
    &flags::WATCH.row,
    &flags::ITEMS.row,
    &flags::CHECKSUMS.row,
    &flags::CHECKSUM_ALG.row,
    &flags::EXPECT.row,
    &flags::CHECKSUM.row,
    &flags::TUI.row,
    &flags::REPORT.row,
    &flags::VERSION.row,
    &flags::LICENSE.row,
];

/// Options that name a file on the host of the command line.
const FILES: [&OptionRow; 6] = [
    &flags::CONFIG.row,
    &flags::INCLUDE_FROM.row,
    &flags::EXCLUDE_FROM.row,
    &flags::IDFILE.row,
    &flags::SECRET_FILE.row,
    &flags::LOGFILE.row,
];

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    // In a job, --sync means a sync, not --fsync.
    let copy = COPY.iter().filter(|row| !row.is(&flags::HELP) && !row.is(&flags::DETACH)).cloned();
    let copy = copy.map(|row| if row.alias == Some("sync") { OptionRow { alias: None, ..row } } else { row });
    flags::job::ALL.iter().cloned().chain(copy).collect()
});

/// Parses the words after `haul job`; `None` asks for help.
pub fn parse(words: &[OsString], files: &dyn LocalFiles) -> Result<Option<JobWords>, UsageError> {
    let names = JobStep::WORDS.map(|(word, _)| word);
    let Some(first) = words.first().filter(|first| !["-h", "--help"].iter().any(|help| *first == help)) else {
        return match words.is_empty() {
            true => Err(UsageError::new("haul job needs a step").remedy(format!("steps are {}", names.join(", ")))),
            false => Ok(None),
        };
    };
    let Some((word, step)) = JobStep::WORDS.into_iter().find(|(word, _)| first == *word) else {
        let error = UsageError::new(format!("haul job {}: no such step", escape(first.as_bytes())));
        return Err(match nearest(first.to_str().unwrap_or_default(), &names) {
            Some(near) => error.remedy(format!("did you mean: haul job {near}")),
            None => error.remedy(format!("steps are {}", names.join(", "))),
        });
    };
    let grammar = Grammar { dialect: Dialect::Haul, operands: 1, has_rest: false, files, command: "job" };
    let scanned = scan(step.options(), words[1..].to_vec(), grammar)?;
    if scanned.values.is_set(&flags::HELP) {
        return Ok(None);
    }
    check_count(word, step, &scanned.values, &scanned.operands)?;
    refuse_useless(word, step, &scanned.values)?;
    Ok(Some(JobWords { step, values: scanned.values, operands: scanned.operands }))
}

fn check_count(word: &str, step: JobStep, values: &Values, operands: &[OsString]) -> Result<(), UsageError> {
    let has_targets = values.is_set(&flags::job::TARGETS);
    let is_source = |operand| !host_prefix(operand).is_empty() || values.is_set(&flags::job::SOURCES);
    match (step, operands.len()) {
        (JobStep::Run, 1) if !is_source(&operands[0]) => Ok(()),
        (JobStep::Shard, 1) => Ok(()),
        (JobStep::Plan | JobStep::Run, count) if count >= 2 || count == 1 && has_targets => Ok(()),
        (JobStep::Plan | JobStep::Run, _) => {
            Err(UsageError::new(format!("haul job {word} needs a source and a target"))
                .remedy(format!("haul job {word} -r --dir JOB SOURCE TARGET...")))
        }
        (JobStep::Shard, 2) => Ok(()),
        (JobStep::Shard, _) => {
            Err(UsageError::new("haul job shard needs a job and a number").remedy("haul job shard JOB 17"))
        }
        (JobStep::List, 0) => Ok(()),
        (JobStep::List, _) => {
            Err(UsageError::new("haul job list takes no job").remedy("haul job status JOB shows one"))
        }
        (_, 1) => Ok(()),
        (_, 0) => Err(UsageError::new(format!("haul job {word} needs the directory of a job"))
            .remedy(format!("haul job {word} JOB"))),
        (_, _) => Err(UsageError::new(format!("{}: haul job {word} takes one job", escape(operands[1].as_bytes())))),
    }
}

fn refuse_useless(word: &str, step: JobStep, values: &Values) -> Result<(), UsageError> {
    match values.first_of(step.refused()) {
        None => Ok(()),
        Some(row) => Err(UsageError::new(format!("{} cannot be used in haul job {word}", row.typed()))
            .remedy("haul help job lists its options")),
    }
}

/// The options of the copy among those of `haul job plan`, each as one word in host-independent form.
pub fn copy_options(values: &Values) -> Result<Vec<OsString>, UsageError> {
    let is_own = |row: &OptionRow| flags::job::ALL.iter().any(|own| own.is(row));
    let given = values.given().iter().filter(|(row, _)| !is_own(row));
    let typed = given.map(|(row, argument)| {
        let argument = match argument {
            Some(file) if row.is_any(&FILES) => Some(absolute(file)?),
            argument => argument.clone(),
        };
        Ok(word(row, argument.as_deref()))
    });
    let default = OsStr::from_bytes(DEFAULT);
    let undone = values.undone().iter().filter(|row| !is_own(row)).map(|row| Ok(word(row, Some(default))));
    typed.chain(undone).collect()
}

/// `--streams=8`, `--archive`, `-U=4m`.
fn word(row: &OptionRow, argument: Option<&OsStr>) -> OsString {
    let mut word = row.typed().into_bytes();
    if let Some(argument) = argument {
        word.push(b'=');
        word.extend_from_slice(argument.as_bytes());
    }
    OsString::from_vec(word)
}

fn absolute(file: &OsStr) -> Result<OsString, UsageError> {
    let wrong = |error| UsageError::new(format!("{}: {error}", escape(file.as_bytes())));
    if file == "-" {
        return Err(UsageError::new("-: a shard cannot read standard input").remedy("name a file that all hosts see"));
    }
    std::path::absolute(Path::new(file)).map(Into::into).map_err(wrong)
}

/// Options of a copy from [`copy_options`].
pub fn copy_values(words: &[OsString]) -> Result<Values, UsageError> {
    let grammar = Grammar { dialect: Dialect::Haul, operands: 0, has_rest: false, files: &LocalDisk, command: "" };
    Ok(scan(COPY, words.to_vec(), grammar)?.values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    fn parsed(line: &str) -> Result<JobWords, String> {
        parse(&words(line), &crate::args::local_files::PlainFiles)
            .map_err(|error| error.to_string())
            .map(|parsed| parsed.expect("not help"))
    }

    #[test]
    fn each_step_takes_its_operands() {
        for (line, step) in [
            ("plan -r --dir j s t u", JobStep::Plan),
            ("run --sync --delete s t", JobStep::Run),
            ("run j", JobStep::Run),
            ("plan s --targets file", JobStep::Plan),
            ("shard j 17", JobStep::Shard),
            ("shard j --quiet", JobStep::Shard),
            ("finish j --verify", JobStep::Finish),
            ("verify j --local 4", JobStep::Verify),
        ] {
            assert_eq!(parsed(line).unwrap().step, step, "{line}");
        }
        for (line, why) in [
            ("", "haul job needs a step"),
            ("plam s t", "did you mean: haul job plan"),
            ("plan s", "needs a source and a target"),
            ("run host:s", "needs a source and a target"),
            ("run s --sources hosts", "needs a source and a target"),
            ("shard j 1 2", "haul job shard JOB 17"),
            ("status", "needs the directory of a job"),
            ("cancel a b", "takes one job"),
            ("plan --tui s t", "--tui cannot be used in haul job plan"),
            ("run --infiles list s t", "--infiles cannot be used in haul job run"),
            ("status --wait j", "--wait cannot be used in haul job status"),
            ("report --confirm 0 j", "--confirm cannot be used in haul job report"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn options_of_the_copy_survive_as_words() {
        let JobWords { values, .. } = parsed(
            "plan -r --dir j --sync --xfrrate 50m -w =4m --compress --exclude *.o --streams=default --shard-files 5 s t",
        )
        .unwrap();
        let options = copy_options(&values).unwrap();
        let expected =
            ["--recursive", "--xfrrate=50m", "--windowsz==4m", "--compress", "--exclude=*.o", "--streams=default"];
        assert_eq!(options, expected);
        let copy = copy_values(&options).unwrap();
        assert_eq!(copy_options(&copy).unwrap(), expected);
        assert!(values.is_set(&flags::job::SYNC) && !copy.is_set(&flags::FSYNC));
    }

    #[test]
    fn files_are_named_for_any_directory() {
        let JobWords { values, .. } = parsed("plan -i key --exclude-from /etc/x s t").unwrap();
        let options = copy_options(&values).unwrap();
        assert!(options[0].to_str().unwrap().starts_with("--idfile=/") && options[1] == "--exclude-from=/etc/x");
        assert!(copy_options(&parsed("plan --exclude-from - s t").unwrap().values).is_err());
    }
}
