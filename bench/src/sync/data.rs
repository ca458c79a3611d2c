//! The data to sync: made once, copied once for each tool that changes its copy, and changed before each round.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{Rng, TestTree};
use rustix::fs::{Advice, fadvise};

use super::SyncTool;
use super::cases::SyncCase;
use crate::settings::BenchSettings;

const SEED: u64 = 0x5e_9c00;
/// Of a database.
const PAGE: u64 = 4096;
/// So many pages for one that changes.
const PAGES_FOR_ONE: u64 = 100;
/// Where bytes are inserted.
const INSERT_AT: usize = 100_000;
const INSERTED: usize = 1024;
/// Lines added to a sorted list.
const LINES_ADDED: usize = 175;
const FILES_IN_DIRECTORY: u32 = 1000;
/// Pieces of data in a sparse file.
const SPARSE_PIECES: u64 = 100;

/// A source and its copies.
pub struct SyncSite {
    place: PathBuf,
    source: PathBuf,
    case: SyncCase,
    rng: Rng,
}

impl SyncSite {
    /// Creates the source, and the earlier copy of it.
    pub fn make(place: &Path, case: SyncCase, settings: &BenchSettings) -> Result<Self> {
        eprintln!("bench: {}: making {}", case.name(), case.about());
        let source = place.join("source");
        let scaled = |count| settings.scaled(count);
        match case {
            SyncCase::Unchanged => files(&source, scaled(1_000_000))?,
            SyncCase::Added => files(&source, scaled(50_000))?,
            SyncCase::Renamed => {
                let count = u32::try_from(scaled(2000))?;
                TestTree::new(&source, SEED).log_uniform_files("run-0", count, 4 << 10..=1 << 20)?;
            }
            SyncCase::Pages => noise(place, scaled(8 << 30))?,
            SyncCase::Insert => noise(place, scaled(1 << 30))?,
            SyncCase::Lines => fs::create_dir_all(place).and_then(|()| fs::write(&source, paths(scaled(14 << 20))))?,
            SyncCase::Sparse => sparse(&source, scaled(4 << 30))?,
            SyncCase::Twoway => {
                let count = u32::try_from(scaled(50_000))?;
                let dirs = count.div_ceil(FILES_IN_DIRECTORY);
                TestTree::new(&source, SEED).small_files("", count, dirs, 4096..=4096)?;
            }
            // rclone refuses to go on where all files have changed.
            SyncCase::TwowayPages => {
                noise(&source, scaled(2 << 30))?;
                fs::write(source.join("unchanged"), "")?;
            }
        }
        let site = Self { place: place.into(), source, case, rng: Rng::new(SEED) };
        if case != SyncCase::Sparse {
            for tool in if case.has_own_copies() { case.tools() } else { &case.tools()[..1] } {
                site.copy_to(&site.target(*tool))?;
                if case.is_twoway() {
                    site.copy_to(&site.source(*tool))?;
                }
            }
        }
        rustix::fs::syncfs(File::open(place)?)?;
        Ok(site)
    }

    fn copy_to(&self, target: &Path) -> Result<()> {
        let status = Command::new("cp").args(["-a", "--"]).arg(&self.source).arg(target).status()?;
        anyhow::ensure!(status.success(), "cp failed: {status}");
        Ok(())
    }

    /// A tool's source: its own where a run changes that, too.
    pub fn source(&self, tool: SyncTool) -> PathBuf {
        if self.case.is_twoway() { self.place.join(format!("near-{}", tool.program())) } else { self.source.clone() }
    }

    /// A tool's target.
    pub fn target(&self, tool: SyncTool) -> PathBuf {
        if self.case.has_own_copies() {
            self.place.join(format!("copy-{}", tool.program()))
        } else {
            self.place.join("copy")
        }
    }

    /// Changes the source, as the case says.
    pub fn change(&mut self, case: SyncCase, round: u32) -> Result<()> {
        match case {
            SyncCase::Unchanged | SyncCase::Sparse => {}
            SyncCase::Added => {
                fs::write(self.source.join("d0").join(format!("added-{round}")), vec![b'x'; 10_000])?;
            }
            SyncCase::Pages => self.change_pages(&self.source.clone())?,
            SyncCase::Twoway => {
                for tool in case.tools() {
                    change_files(&self.source(*tool), 0, round)?;
                    change_files(&self.target(*tool), 1, round)?;
                }
            }
            SyncCase::TwowayPages => {
                for tool in case.tools() {
                    self.change_pages(&self.source(*tool).join("source"))?;
                }
            }
            SyncCase::Insert => {
                let mut content = fs::read(&self.source)?;
                let mut inserted = vec![0; INSERTED];
                self.rng.fill(&mut inserted);
                let at = INSERT_AT.min(content.len());
                content.splice(at..at, inserted);
                fs::write(&self.source, content)?;
            }
            SyncCase::Lines => self.add_lines()?,
            SyncCase::Renamed => {
                let name = |round| self.source.join(format!("run-{round}"));
                fs::rename(name(round), name(round + 1))?;
            }
        }
        Ok(())
    }

    fn add_lines(&mut self) -> Result<()> {
        let content = fs::read_to_string(&self.source)?;
        let mut lines: Vec<_> = content.lines().map(str::to_owned).collect();
        for _ in 0..LINES_ADDED {
            let at = self.rng.index(lines.len());
            lines.insert(at + 1, format!("{}.{}", lines[at], self.rng.below(1000)));
        }
        fs::write(&self.source, lines.join("\n")).context("adding lines")
    }

    fn change_pages(&mut self, path: &Path) -> Result<()> {
        let file = File::options().write(true).open(path)?;
        let pages = file.metadata()?.len() / PAGE;
        let mut page = vec![0; usize::try_from(PAGE)?];
        for _ in 0..pages / PAGES_FOR_ONE {
            self.rng.fill(&mut page);
            file.write_all_at(&page, self.rng.below(pages) * PAGE)?;
        }
        file.sync_all().context("putting the pages on the disk")
    }

    /// Makes it as it was before a run, where the next one shares the copy.
    pub fn reset(&self, case: SyncCase, tool: SyncTool) -> Result<()> {
        let target = self.target(tool);
        match case {
            SyncCase::Added => {
                for entry in fs::read_dir(target.join("d0"))? {
                    let entry = entry?;
                    if entry.file_name().to_string_lossy().starts_with("added-") {
                        fs::remove_file(entry.path())?;
                    }
                }
                let status =
                    Command::new("touch").arg("-r").arg(self.source.join("d0")).arg(target.join("d0")).status()?;
                anyhow::ensure!(status.success(), "touch failed: {status}");
            }
            SyncCase::Sparse => fs::remove_file(&target)?,
            _ => {}
        }
        Ok(())
    }

    /// A file on disk is read from there. Trees are not: they would have to be found there first.
    pub fn forget_pages(&self, case: SyncCase, target: &Path) -> Result<()> {
        if case == SyncCase::Pages {
            for path in [&*self.source, target] {
                let file = File::open(path)?;
                file.sync_all()?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
        }
        Ok(())
    }
}

/// Changes 100 files of one side, none of which the other side changes: edits 60, adds 20, and removes 20.
fn change_files(root: &Path, side: usize, round: u32) -> Result<()> {
    let mut directories = fs::read_dir(root)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    directories.sort();
    let mut directories = directories.iter().skip(side).step_by(2).cycle();
    for change in 0..100 {
        let directory = directories.next().context("no directory")?;
        let number = round * 100 + change;
        if change < 20 {
            fs::write(directory.join(format!("added-{side}-{number}")), format!("{side} {number}").repeat(400))?;
            continue;
        }
        let mut files = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        files.sort();
        let file = &files[change as usize % files.len()];
        if change < 40 { fs::remove_file(file)? } else { fs::write(file, format!("{side} {number}").repeat(400))? }
    }
    Ok(())
}

/// Small files, by the thousand in each directory.
fn files(source: &Path, count: u64) -> Result<()> {
    let mut left = u32::try_from(count)?;
    let mut tree = TestTree::new(source, SEED);
    for number in 0.. {
        let here = left.min(FILES_IN_DIRECTORY);
        if here == 0 {
            break;
        }
        tree.empty_files(format!("d{number}"), here)?;
        left -= here;
    }
    Ok(())
}

fn noise(place: &Path, bytes: u64) -> Result<()> {
    TestTree::new(place, SEED).incompressible_file("source", bytes).map(drop)
}

/// About so many bytes of sorted paths, each in a line.
fn paths(bytes: u64) -> String {
    const WORDS: [&str; 12] =
        ["share", "lib", "python", "doc", "kernel", "module", "test", "icon", "locale", "include", "cache", "font"];
    let (mut rng, mut paths, mut len) = (Rng::new(SEED), std::collections::BTreeSet::new(), 0);
    while len < bytes {
        let mut path = String::from("/usr");
        for _ in 0..rng.between(2, 5) {
            path += &format!("/{}{}", rng.pick(&WORDS), rng.below(40));
        }
        path += &format!("/{}-{}.txt", rng.pick(&WORDS), rng.below(100_000));
        len += path.len() as u64 + 1;
        paths.insert(path);
    }
    paths.into_iter().collect::<Vec<_>>().join("\n")
}

fn sparse(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes)?;
    let mut rng = Rng::new(SEED);
    let mut piece = vec![0; 1 << 20];
    let (len, step) = (piece.len() as u64, bytes / SPARSE_PIECES);
    for number in 0..SPARSE_PIECES {
        rng.fill(&mut piece);
        file.write_all_at(&piece, (number * step / len) * len)?;
    }
    Ok(file.sync_all()?)
}
