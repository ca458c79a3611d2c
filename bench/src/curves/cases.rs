//! The numbers that grow, their ranges, and the jobs that are measured for each.

/// A job over the data of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurveJob {
    /// A copy to an empty target.
    Copy,
    /// The same command again.
    Rerun,
    /// The rest of a copy that was killed half-way.
    Resume,
    /// A sync with a few changes.
    Sync,
    /// A comparison of both ends.
    Verify,
    /// A survey of the source.
    Survey,
}

impl CurveJob {
    /// The name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Rerun => "rerun",
            Self::Resume => "resume",
            Self::Sync => "sync",
            Self::Verify => "verify",
            Self::Survey => "survey",
        }
    }
}

/// The data of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataShape {
    /// One hole of this many bytes.
    Hole,
    /// A file of this many incompressible bytes.
    Noise,
    /// So many empty files in one directory.
    OneDirectory,
    /// So many empty files, 100 in each directory.
    Directories,
    /// Directories within each other, so deep.
    Depth,
    /// One file with this many hard links.
    HardLinks,
    /// A file with this many holes.
    Holes,
    /// A partial file of this many frames; every second one is recorded.
    Frames,
    /// So many empty files, each named on the command line.
    Operands,
    /// A directory of this many files of one size, renamed before a sync.
    Renames,
    /// A list with the paths of this many empty files.
    Lines,
    /// A number of filter rules without a match, and some files.
    Rules,
}

/// One number that grows.
#[derive(Debug)]
pub struct CurveCase {
    /// The name on the command line and in the table.
    pub name: &'static str,
    /// The counted unit.
    pub unit: &'static str,
    /// The data.
    pub shape: DataShape,
    /// The least number, and the greatest.
    range: (u64, u64),
    /// Factor between successive sizes.
    factor: u64,
    /// The jobs, in this order.
    pub jobs: &'static [CurveJob],
}

const ALL_BUT_RESUME: &[CurveJob] =
    &[CurveJob::Survey, CurveJob::Copy, CurveJob::Rerun, CurveJob::Verify, CurveJob::Sync];
const ALL: &[CurveJob] =
    &[CurveJob::Survey, CurveJob::Copy, CurveJob::Rerun, CurveJob::Verify, CurveJob::Sync, CurveJob::Resume];
/// A sync of this data has nothing to change.
const WITHOUT_SYNC: &[CurveJob] = &[CurveJob::Survey, CurveJob::Copy, CurveJob::Rerun, CurveJob::Verify];
const RENAMED: &[CurveJob] = &[CurveJob::Copy, CurveJob::Sync];
const TYPED: &[CurveJob] = &[CurveJob::Copy, CurveJob::Rerun, CurveJob::Verify, CurveJob::Sync];
const LISTED: &[CurveJob] = &[CurveJob::Copy, CurveJob::Rerun];
const RESUMED: &[CurveJob] = &[CurveJob::Resume];
/// With `--large`, numbers of files go up to this.
const LARGE_FILES: u64 = 10_000_000;

const fn case(
    (name, unit): (&'static str, &'static str),
    shape: DataShape,
    range: (u64, u64),
    factor: u64,
    jobs: &'static [CurveJob],
) -> CurveCase {
    CurveCase { name, unit, shape, range, factor, jobs }
}

impl CurveCase {
    /// In the order of the table.
    pub const ALL: &'static [Self] = &[
        case(("size", "bytes of a hole"), DataShape::Hole, (1 << 20, 64 << 30), 4, WITHOUT_SYNC),
        case(("data", "bytes of noise"), DataShape::Noise, (32 << 20, 1 << 30), 2, ALL),
        case(("files", "empty files in one directory"), DataShape::OneDirectory, (1, 1_000_000), 10, ALL_BUT_RESUME),
        case(("trees", "empty files, 100 to a directory"), DataShape::Directories, (1, 1_000_000), 10, ALL_BUT_RESUME),
        case(("depth", "directories within each other"), DataShape::Depth, (32, 4096), 2, ALL_BUT_RESUME),
        case(("links", "hard links to one file"), DataShape::HardLinks, (100, 200_000), 4, ALL_BUT_RESUME),
        case(("holes", "holes in a file"), DataShape::Holes, (2048, 131_072), 2, ALL),
        case(("frames", "frames, every second one recorded"), DataShape::Frames, (128, 4096), 2, RESUMED),
        case(("operands", "sources on the command line"), DataShape::Operands, (500, 32_000), 2, TYPED),
        case(("renames", "renamed files of one size"), DataShape::Renames, (256, 16_384), 2, RENAMED),
        case(("lines", "lines of a list"), DataShape::Lines, (100, 200_000), 4, LISTED),
        case(("rules", "filter rules over 1,000 files"), DataShape::Rules, (64, 65_536), 4, ALL_BUT_RESUME),
    ];

    /// The numbers to measure at.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "far fewer than 2^53"
    )]
    pub fn numbers(&self, scale: f64, large: bool) -> Vec<u64> {
        let (least, most) = self.range;
        let is_files = matches!(self.shape, DataShape::OneDirectory | DataShape::Directories);
        let most = if large && is_files { LARGE_FILES } else { (most as f64 * scale) as u64 };
        let next = |number: &u64| number.checked_mul(self.factor);
        std::iter::successors(Some(least), next).take_while(|number| *number <= most.max(least)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_match_the_documentation() {
        let of = |name| CurveCase::ALL.iter().find(|case| case.name == name).expect("a case");
        assert_eq!(of("files").numbers(1.0, false), [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]);
        assert_eq!(of("files").numbers(1.0, true).last(), Some(&10_000_000));
        assert_eq!(of("size").numbers(1.0, true).last(), Some(&(64 << 30)));
        assert_eq!(of("size").numbers(0.25, false).last(), Some(&(16 << 30)));
        assert_eq!(of("depth").numbers(0.0001, false), [32]);
    }
}
