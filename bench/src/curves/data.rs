//! The data of each case.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use haul_lab::TestTree;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::cases::DataShape;

const SEED: u64 = 0x63_7572;
const FILES_IN_DIRECTORY: u64 = 100;
/// Files for the filter rules.
const FILTERED_FILES: u64 = 1000;
const BLOCK: u64 = 4096;
/// Bytes of a frame, as [`FRAME`] says it.
const FRAME_BYTES: u64 = 256 << 10;
/// The length of frames where they are counted: the least, for most frames.
pub const FRAME: &str = "256k";

/// Makes the data of `number` below `place`: `source`, and `list` or `rules` beside it.
pub fn make(place: &Path, shape: DataShape, number: u64) -> Result<()> {
    let source = place.join("source");
    match shape {
        DataShape::Hole => Ok(File::create(source)?.set_len(number)?),
        DataShape::Noise => noise(place, number),
        DataShape::Frames => noise(place, number * FRAME_BYTES),
        DataShape::OneDirectory | DataShape::Operands => files(&source, number, number),
        DataShape::Directories => files(&source, number, FILES_IN_DIRECTORY),
        DataShape::Depth => deep(&source, number),
        DataShape::Renames => {
            fs::create_dir_all(source.join("old"))?;
            (0..number).try_for_each(|file| Ok(fs::write(source.join(format!("old/f{file}")), format!("{file:5000}"))?))
        }
        DataShape::HardLinks => hard_links(&source, number),
        DataShape::Holes => holes(&source, number),
        DataShape::Lines => {
            files(&source, number, FILES_IN_DIRECTORY)?;
            let mut list = BufWriter::new(File::create(place.join("list"))?);
            (0..number).try_for_each(|file| writeln!(list, "{}", path_of(file, FILES_IN_DIRECTORY)))?;
            list.flush().context("writing a list")
        }
        DataShape::Rules => {
            files(&source, FILTERED_FILES, FILES_IN_DIRECTORY)?;
            let mut rules = BufWriter::new(File::create(place.join("rules"))?);
            (0..number).try_for_each(|rule| writeln!(rules, "never-{rule}-*"))?;
            rules.flush().context("writing rules")
        }
    }
}

fn noise(place: &Path, bytes: u64) -> Result<()> {
    TestTree::new(place, SEED).incompressible_file("source", bytes).map(drop)
}

fn path_of(file: u64, in_directory: u64) -> String {
    format!("d{}/f{file}", file / in_directory.max(1))
}

/// Empty files.
fn files(source: &Path, number: u64, in_directory: u64) -> Result<()> {
    for file in 0..number {
        let path = source.join(path_of(file, in_directory));
        if file % in_directory == 0 {
            fs::create_dir_all(path.parent().context("a file in a directory")?)?;
        }
        File::create(&path).with_context(|| format!("making {path:?}"))?;
    }
    Ok(())
}

/// Nested directories, with a path longer than PATH_MAX.
fn deep(source: &Path, number: u64) -> Result<()> {
    fs::create_dir(source)?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = openat(CWD, source, flags, Mode::empty())?;
    for _ in 0..number {
        mkdirat(&dir, "d", Mode::from_raw_mode(0o755))?;
        dir = openat(&dir, "d", flags, Mode::empty())?;
    }
    Ok(())
}

fn hard_links(source: &Path, number: u64) -> Result<()> {
    fs::create_dir(source)?;
    let first = source.join("f0");
    fs::write(&first, "one file")?;
    (1..number).try_for_each(|link| Ok(fs::hard_link(&first, source.join(format!("f{link}")))?))
}

/// Every second block is a hole.
fn holes(source: &Path, number: u64) -> Result<()> {
    let file = File::create(source)?;
    file.set_len(2 * BLOCK * number)?;
    let mut block = vec![0; usize::try_from(BLOCK)?];
    let mut rng = haul_lab::Rng::new(SEED);
    rng.fill(&mut block);
    (0..number).try_for_each(|at| Ok(file.write_all_at(&block, 2 * BLOCK * at)?))
}

/// Has the journal of a partial file below `target` forget every second frame.
pub fn forget_every_second_frame(target: &Path) -> Result<()> {
    use haul_proto::journal::{HEADER_BYTES, SLOT_BYTES};
    let names = fs::read_dir(target)?.collect::<Result<Vec<_>, _>>()?;
    let journal =
        names.iter().map(fs::DirEntry::path).find(|path| path.extension().is_some_and(|end| end == "journal"));
    let journal = File::options().write(true).open(journal.context("the partial file has no journal")?)?;
    let slots = journal.metadata()?.len().saturating_sub(HEADER_BYTES as u64) / SLOT_BYTES as u64;
    (0..slots).step_by(2).try_for_each(|slot| {
        let offset = HEADER_BYTES as u64 + slot * SLOT_BYTES as u64;
        Ok(journal.write_all_at(&[0; SLOT_BYTES], offset)?)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::curves::cases::CurveCase;

    #[test]
    fn the_data_of_each_case_is_made() {
        for case in CurveCase::ALL {
            let place = tempfile::tempdir().expect("a temporary directory");
            make(place.path(), case.shape, 70).expect(case.name);
            let source = place.path().join("source");
            let count = |path: &str| fs::read_dir(source.join(path)).expect(case.name).count();
            let lines = |name: &str| fs::read_to_string(place.path().join(name)).expect(case.name).lines().count();
            let metadata = source.metadata().expect(case.name);
            match case.shape {
                DataShape::Hole => assert_eq!((metadata.len(), metadata.blocks()), (70, 0)),
                DataShape::Noise => assert_eq!(metadata.len(), 70),
                DataShape::Frames => assert_eq!(metadata.len(), 70 * FRAME_BYTES),
                DataShape::Holes => assert_eq!(metadata.len(), 140 * BLOCK),
                DataShape::OneDirectory | DataShape::Directories | DataShape::Operands => assert_eq!(count("d0"), 70),
                DataShape::Depth => assert!(source.join("d/".repeat(70)).is_dir()),
                DataShape::HardLinks => assert_eq!(source.join("f0").metadata().expect("a file").nlink(), 70),
                DataShape::Renames => assert_eq!(count("old"), 70),
                DataShape::Lines => assert_eq!((count("d0"), lines("list")), (70, 70)),
                DataShape::Rules => assert_eq!((count("d9"), lines("rules")), (100, 70)),
            }
        }
    }
}
