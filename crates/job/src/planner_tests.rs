//! Plans of small trees: every name in one shard, hard links together, and what is not a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::*;
use crate::description::JobOrigin;
use crate::options::JobOptions;
use crate::packer::ShardSizes;
use crate::plan_index::PlanIndex;
use crate::shard_list::ShardListReader;

const RANGES_MAX_HERE: u64 = 4;

struct PlannedTree {
    _temp: tempfile::TempDir,
    job: JobDirectory,
    totals: PlanTotals,
}

impl PlannedTree {
    /// Plans what `make` puts into a directory.
    fn new(keeps_hard_links: bool, limits: ShardLimits, make: impl FnOnce(&Path)) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let source = temp.path().join("src");
        fs::create_dir(&source).unwrap();
        make(&source);
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        let mut options = JobOptions::default();
        options.copy.metadata.preserve.hard_links = keeps_hard_links;
        let description = JobDescription {
            id: String::new(),
            origin: JobOrigin::default(),
            source_hosts: Vec::new(),
            base: temp.path().into(),
            name: "src".into(),
            source,
            targets: vec!["t".into()],
            options,
            words: Vec::new(),
            is_sync: false,
            verifies: false,
            sizes: ShardSizes::exact(limits),
            range_len: Some(RangeLen::MIN),
        };
        let rules = WalkRules {
            one_file_system: false,
            symlinks: Symlinks::Keep,
            filters: FilterOptions::default(),
            nodes: SpecialFiles { devices: false, specials: true },
            target: None,
            ranges_max: RANGES_MAX_HERE,
            is_alone: true,
        };
        let totals = plan(&job, &description, &rules, &Cancel::new(), &mut |_| {}).unwrap();
        Self { _temp: temp, job, totals }
    }

    /// The shard of each path; none is in two.
    fn shards(&self) -> BTreeMap<Vec<u8>, u32> {
        let index = PlanIndex::read(&self.job).unwrap();
        assert_eq!(index.complete, Some(self.totals));
        let mut found = BTreeMap::new();
        for shard in &index.shards {
            let list = ShardListReader::open(&self.job.list(shard.number)).unwrap();
            let paths: Vec<_> = list.collect::<Result<_, _>>().unwrap();
            assert_eq!(paths.len() as u64, shard.files);
            for path in paths {
                assert_eq!(found.insert(path, shard.number), None);
            }
        }
        found
    }
}

#[test]
fn every_file_and_link_is_in_one_shard() {
    let odd = OsStr::from_bytes(b"a\nb\xff");
    let tree = PlannedTree::new(false, ShardLimits { bytes: 1 << 30, files: 64 }, |source| {
        for number in 0..300 {
            let dir = source.join(format!("d{}", number % 7)).join(odd);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(format!("h:{number}")), "x").unwrap();
        }
        fs::create_dir(source.join("empty")).unwrap();
        symlink("nowhere", source.join("link")).unwrap();
        fs::write(source.join(".haul-000000000000000000000000.part"), "partial").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, source.join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    });
    let shards = tree.shards();
    assert_eq!((shards.len(), tree.totals.files, tree.totals.bytes), (301, 301, 300));
    assert_eq!((tree.totals.directories, tree.totals.others, tree.totals.failed), (16, 1, 0));
    assert!(shards.contains_key(&b"src/d3/a\nb\xff/h:3"[..]) && shards.contains_key(&b"src/link"[..]));
    let numbers: BTreeSet<_> = shards.values().collect();
    assert!(numbers.len() > 6 && numbers.len() == tree.totals.shards as usize, "{numbers:?}");
}

#[test]
fn with_hard_links_a_shard_has_one_name_of_each_inode() {
    let make = |source: &Path| {
        for dir in ["a", "b", "c"] {
            fs::create_dir(source.join(dir)).unwrap();
        }
        for number in 0..200 {
            let name = format!("{number}");
            fs::write(source.join("a").join(&name), "four").unwrap();
            fs::hard_link(source.join("a").join(&name), source.join("b").join(&name)).unwrap();
            fs::write(source.join("c").join(&name), "four").unwrap();
        }
    };
    let limits = ShardLimits { bytes: 1 << 30, files: 50 };
    let tree = PlannedTree::new(true, limits, make);
    let shards = tree.shards();
    assert_eq!((shards.len(), tree.totals.files, tree.totals.linked, tree.totals.bytes), (400, 400, 200, 1600));
    for number in 0..200 {
        let names = ["a", "b"].map(|dir| shards.contains_key(format!("src/{dir}/{number}").as_bytes()));
        assert_ne!(names[0], names[1], "{number}");
    }
    assert_eq!(tree.job.spill().names().unwrap().len(), 0);
    let apart = PlannedTree::new(false, limits, make);
    assert_eq!(
        (apart.shards().len(), apart.totals.linked),
        (600, 0),
        "without --hard-links they are files like others"
    );
}

#[test]
fn a_large_file_has_a_shard_of_its_own() {
    let tree = PlannedTree::new(false, ShardLimits { bytes: 1000, files: 1000 }, |source| {
        fs::write(source.join("large"), vec![0; 5000]).unwrap();
        (0..5).for_each(|number| fs::write(source.join(format!("{number}")), "x").unwrap());
    });
    let shards = tree.shards();
    let own = shards[&b"src/large"[..]];
    assert_eq!(shards.values().filter(|shard| **shard == own).count(), 1);
}

#[test]
fn an_empty_tree_is_planned_and_a_missing_one_is_not() {
    let tree = PlannedTree::new(false, ShardLimits::default(), |_| {});
    assert_eq!((tree.shards().len(), tree.totals.directories), (0, 1));
    let gone = not_a_directory(Path::new("/nonexistent"), &std::io::ErrorKind::NotFound.into()).to_string();
    assert!(gone.contains("on a host that mounts the source"), "{gone}");
}

#[test]
fn a_large_file_is_divided_and_counts_once() {
    let size = 2 * RangeLen::MIN.get() + 1;
    let tree = PlannedTree::new(false, ShardLimits { bytes: 1 << 40, files: 100 }, |source| {
        fs::write(source.join("small"), "1").unwrap();
        fs::File::create(source.join("large")).unwrap().set_len(size).unwrap();
        fs::File::create(source.join("one")).unwrap().set_len(RangeLen::MIN.get()).unwrap();
    });
    assert_eq!((tree.totals.files, tree.totals.bytes, tree.totals.shards), (3, size + RangeLen::MIN.get() + 1, 5));
    let index = PlanIndex::read(&tree.job).unwrap();
    let mut ranges: Vec<_> = index.shards.iter().filter_map(|shard| Some((shard.range?, shard))).collect();
    ranges.sort_by_key(|(range, _)| range.number);
    let figures: Vec<_> =
        ranges.iter().map(|(range, shard)| (range.number, range.ranges, shard.files, shard.bytes)).collect();
    let len = RangeLen::MIN.get();
    assert_eq!(figures, [(0, 3, 1, len), (1, 3, 0, len), (2, 3, 0, 1)]);
    assert_eq!(tree.totals.lengthened, 0);
    for (range, shard) in ranges {
        assert_eq!(range.version.size, size);
        let mut list = ShardListReader::open(&tree.job.list(shard.number)).unwrap();
        assert_eq!(list.next().unwrap().unwrap(), b"src/large");
    }
}

#[test]
fn files_with_too_many_ranges_get_longer_ones() {
    let len = RangeLen::MIN.get();
    let tree = PlannedTree::new(false, ShardLimits { bytes: 1 << 40, files: 100 }, |source| {
        for (name, size) in [("few", RANGES_MAX_HERE * len), ("many", RANGES_MAX_HERE * len + 1)] {
            fs::File::create(source.join(name)).unwrap().set_len(size).unwrap();
        }
    });
    let index = PlanIndex::read(&tree.job).unwrap();
    let mut ranges: Vec<_> = index.shards.iter().map(|shard| (shard.range.unwrap(), shard)).collect();
    ranges.sort_by_key(|(range, shard)| (range.len.get(), shard.number));
    let figures: Vec<_> = ranges
        .iter()
        .map(|(range, shard)| (range.len.get() / len, range.ranges, shard.bytes / len, shard.first_of_file()))
        .collect();
    let [few, many] = [ranges[0].1.first_of_file(), ranges[4].1.first_of_file()];
    let of_many = [(2, 3, 2, many), (2, 3, 2, many), (2, 3, 0, many)];
    assert_eq!(figures, [&[(1, 4, 1, few); 4][..], &of_many].concat());
    assert_eq!(tree.totals.lengthened, 1);
}
