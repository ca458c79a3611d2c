//! Extraneous entries of a directory: when they are removed, which of them stay, and the reports.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_base::copy::event::NOT_EMPTY;
use haul_proto::entry::{EntryContent, EntryLocation};
use haul_proto::filter::definition::FilterOptions;
use haul_proto::filter::{ListSyntax, PatternList, PatternRules};
use haul_proto::ids::EntryId;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::sync::{EqualityTest, SyncOptions};
use haul_proto::wire::message::{Exclusion, ListingEnd, SourceMessage, TransferNeed};
use haul_proto::wire::request::{TargetOperand, TargetRequest};
use rustix::fs::{RenameFlags, renameat_with};

use super::super::removal::tests::{Site, THEN, make, tree};
use super::*;
use crate::fs::testing::{in_time, name};
use crate::sys::confine::{ConfineBounds, ConfineNetwork};
use crate::sys::machine;

const UNFINISHED: &str = ".haul-0123456789abcdef01234567.part";
/// Entries of the target. The source has a directory `d`, `a`, and `d/b`.
const PATHS: [&str; 9] =
    ["a", "d/b", "x", "d/y", "d/z/1", "d/z/2/3", "w/5", ".haul-0123456789abcdef01234567.part", "w/6/"];
const EXTRAS: [&str; 9] = ["d/y", "d/z/1", "d/z/2/3", "d/z/2", "d/z", "w/5", "w/6", "w", "x"];

fn rules(delete: DeleteMode) -> SyncOptions {
    SyncOptions { delete, tells_items: true, equal: EqualityTest::Size, ..SyncOptions::default() }
}

/// The same, also for a source that is empty.
fn without_limit(delete: DeleteMode) -> SyncOptions {
    SyncOptions { delete_max: Some(u64::MAX), ..rules(delete) }
}

/// Offers the source's entries, and ends its directories with `complete`.
fn offer(site: &mut Site, complete: bool) {
    assert_eq!(site.operand(), TransferNeed::All);
    assert_eq!(
        (site.file(0, "a"), site.child(0, "d", EntryContent::Directory)),
        (TransferNeed::Nothing, TransferNeed::All)
    );
    assert_eq!(site.file(2, "b"), TransferNeed::Nothing);
    site.end(2, complete);
}

fn after(sync: SyncOptions) -> Site {
    let mut site = Site::new(&PATHS, sync);
    offer(&mut site, true);
    site.finish();
    site
}

fn filtered(text: &str, sync: SyncOptions) -> impl FnOnce(&mut TargetRequest, &Path) {
    let list = PatternList { text: text.into(), syntax: ListSyntax::Pattern, includes: false };
    move |request, _| {
        (request.filters, request.sync) = (FilterOptions { lists: vec![list], ..FilterOptions::default() }, sync)
    }
}

#[test]
fn extraneous_entries_are_removed_children_first() {
    for delete in [DeleteMode::During, DeleteMode::After, DeleteMode::Only] {
        let site = after(rules(delete));
        assert_eq!(tree(&site.root()), [UNFINISHED, "a", "d", "d/b"], "{delete:?}");
        let mut items = site.items();
        if delete != DeleteMode::During {
            items.rotate_left(4);
        }
        assert_eq!(items, EXTRAS, "{delete:?}");
        assert_eq!((site.removed(), site.failures().len(), site.notices()), (9, 0, 0));
    }
    assert_eq!(tree(&after(rules(DeleteMode::No)).root()).len(), 13);
}

#[test]
fn removal_is_during_the_copy_or_after_it() {
    for (delete, left) in [(DeleteMode::During, 8), (DeleteMode::After, 13)] {
        let mut site = Site::new(&PATHS, rules(delete));
        offer(&mut site, true);
        assert_eq!(tree(&site.root()).len(), left, "{delete:?}");
    }
}

#[test]
fn directories_keep_their_times_after_removals() {
    for delete in [DeleteMode::During, DeleteMode::After] {
        let site = after(rules(delete));
        for dir in [site.root(), site.root().join("d")] {
            let meta = fs::metadata(dir).unwrap();
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (THEN.seconds, THEN.nanoseconds.into()), "{delete:?}");
        }
    }
}

#[test]
fn directories_stay_unchanged_in_a_removal_without_a_copy() {
    let mut site = Site::new(&PATHS, rules(DeleteMode::Only));
    let time = || fs::metadata(site.root().join("d")).map(|meta| (meta.mtime(), meta.mtime_nsec())).unwrap();
    let before = time();
    assert_eq!(site.operand(), TransferNeed::All);
    // None of this is checked.
    assert_eq!(site.child(0, "a", EntryContent::File { size: 1 << 40 }), TransferNeed::Nothing);
    let link = EntryContent::HardLink { to: EntryId(1), size: 1 };
    assert_eq!(site.child(0, "linked", link), TransferNeed::Nothing);
    let needs = ["missing", "x", "d"].map(|text| site.child(0, text, EntryContent::Directory));
    assert_eq!(needs, [TransferNeed::Refused, TransferNeed::Refused, TransferNeed::All]);
    site.file(5, "b");
    site.end(3, true);
    site.end(4, true);
    site.end(5, true);
    site.finish();
    let time = || fs::metadata(site.root().join("d")).map(|meta| (meta.mtime(), meta.mtime_nsec())).unwrap();
    assert_eq!((tree(&site.root()), time()), ([UNFINISHED, "a", "d", "d/b", "x"].map(str::to_owned).to_vec(), before));
    assert_eq!(site.failures().len(), 0);
}

#[test]
fn a_dry_run_reports_the_same_and_removes_nothing() {
    for delete in [DeleteMode::During, DeleteMode::After, DeleteMode::Only] {
        for delete_max in [None, Some(9), Some(8), Some(3), Some(0)] {
            let sync = SyncOptions { delete_max, ..rules(delete) };
            let (dry, real) = (after(SyncOptions { is_dry: true, ..sync.clone() }), after(sync));
            let told = |site: &Site| (site.items(), site.failures(), site.notices());
            assert_eq!(told(&dry), told(&real), "{delete:?} {delete_max:?}");
            assert_eq!(tree(&dry.root()).len(), 13);
        }
    }
}

#[test]
fn no_more_are_removed_than_may_be() {
    let during = after(SyncOptions { delete_max: Some(3), ..rules(DeleteMode::During) });
    assert_eq!(
        (during.items(), during.failures().len()),
        (EXTRAS[..3].to_vec().iter().map(|one| (*one).into()).collect(), 1)
    );
    assert_eq!(tree(&during.root()).len(), 10);
    for delete in [DeleteMode::After, DeleteMode::Only] {
        let later = after(SyncOptions { delete_max: Some(8), ..rules(delete) });
        assert_eq!((later.items().len(), tree(&later.root()).len()), (0, 13));
        let failures = later.failures();
        assert!(
            failures.len() == 1 && failures[0].contains("9 extraneous entries") && failures[0].contains("--max-delete")
        );
        assert_eq!(after(SyncOptions { delete_max: Some(9), ..rules(delete) }).removed(), 9);
    }
}

#[test]
fn earlier_attempts_removals_count() {
    for (removed_before, left) in [(0, 4), (2, 6), (9, 13), (u64::MAX, 13)] {
        let during = after(SyncOptions { delete_max: Some(9), removed_before, ..rules(DeleteMode::During) });
        assert_eq!((tree(&during.root()).len(), during.failures().len()), (left, usize::from(removed_before > 0)));
    }
    let later = after(SyncOptions { delete_max: Some(9), removed_before: 1, ..rules(DeleteMode::After) });
    assert!(later.failures()[0].contains("--max-delete permits 9, including 1 deleted before"));
    assert_eq!(tree(&later.root()).len(), 13);
}

#[test]
fn after_an_incomplete_listing_nothing_more_is_removed() {
    for delete in [DeleteMode::During, DeleteMode::After, DeleteMode::Only] {
        for (despite, left) in [(false, 13), (true, 4)] {
            let mut site = Site::new(&PATHS, SyncOptions { delete_despite_errors: despite, ..rules(delete) });
            offer(&mut site, false);
            site.finish();
            assert_eq!((tree(&site.root()).len(), site.notices()), (left, usize::from(!despite)), "{delete:?}");
        }
    }
}

#[test]
fn a_vanished_directory_keeps_its_own_entries_and_vanished_names_stay() {
    for delete in [DeleteMode::During, DeleteMode::After] {
        let sync = SyncOptions { delete_filtered: true, ..rules(delete) };
        let mut site = Site::new(&["a", "d/b", "d/y", "log", "x"], sync);
        site.operand();
        site.file(0, "a");
        site.child(0, "d", EntryContent::Directory);
        site.file(2, "b");
        site.tell(&SourceMessage::DirectoryEnd { entry: EntryId(2), listing: ListingEnd::Unknown });
        site.tell(&SourceMessage::Excluded { entry: EntryId(0), what: Exclusion::Vanished(vec![name("log")]) });
        site.finish();
        assert_eq!(tree(&site.root()), ["a", "d", "d/b", "d/y", "log"], "{delete:?}");
    }
}

#[test]
fn excluded_entries_stay_unless_their_removal_is_requested() {
    for (delete_filtered, left) in [(false, vec!["d", "d/b.o", "e", "e/f", "e/f/g.o", "x"]), (true, vec!["d"])] {
        let sync = SyncOptions { delete_filtered, ..rules(DeleteMode::During) };
        let paths = ["d/b.o", "d/c", "e/f/g.o", "e/f/h", "e/i", "x"];
        let mut site = Site::of(&paths, filtered("*.o", sync));
        site.operand();
        site.child(0, "d", EntryContent::Directory);
        site.end(1, true);
        site.tell(&SourceMessage::Excluded { entry: EntryId(0), what: Exclusion::Names(vec![name("x")]) });
        site.finish();
        assert_eq!((tree(&site.root()), site.failures().len()), (left.iter().map(|one| (*one).into()).collect(), 0));
    }
}

#[test]
fn filters_apply_below_extraneous_directories() {
    for delete in [DeleteMode::During, DeleteMode::After] {
        let mut site = Site::of(&["d/e/f/keep", "d/e/keep", "e/f/keep"], filtered("/d/e/f/keep", rules(delete)));
        site.operand();
        site.child(0, "d", EntryContent::Directory);
        site.end(1, true);
        site.finish();
        assert_eq!(tree(&site.root()), ["d", "d/e", "d/e/f", "d/e/f/keep"], "{delete:?}");
    }
}

#[test]
fn backups_receive_files_and_neither_they_nor_earlier_copies_are_removed() {
    // Files moved into a directory being removed would circulate for ever.
    in_time(|| [DeleteMode::During, DeleteMode::After].into_iter().for_each(moves_into_backups));
}

fn moves_into_backups(delete: DeleteMode) {
    let (backup_dir, link_dests) = (b"w/old".to_vec(), vec![b"earlier".to_vec()]);
    let sync = SyncOptions { backup_dir, link_dests, ..rules(delete) };
    let mut site = Site::of(&["earlier/1"], |request, _| request.sync = sync);
    PATHS.iter().for_each(|path| make(&site.root().join(path)));
    symlink("nowhere", site.root().join("d/z/link")).unwrap();
    offer(&mut site, true);
    site.finish();
    let old = site.root().join("w/old");
    assert_eq!(tree(&old), ["d", "d/y", "d/z", "d/z/1", "d/z/2", "d/z/2/3", "d/z/link", "w", "w/5", "x"]);
    fs::remove_dir_all(old).unwrap();
    assert_eq!(tree(&site.root()), [UNFINISHED, "a", "d", "d/b", "earlier", "earlier/1", "w"], "{delete:?}");
    assert_eq!(site.target.parts.copy.reporter.sync.backed_up.load(Ordering::Relaxed), 6);
    assert_eq!((site.removed(), site.failures().len()), (9, 0));
}

#[test]
fn a_source_inside_the_target_stays_and_is_named() {
    let mut site = Site::of(&["x/src/1", "x/2", "f"], |request, place| {
        request.sync = without_limit(DeleteMode::During);
        request.source_boot = machine::boot_id();
        let meta = fs::metadata(place.join("target/x/src")).unwrap();
        request.operands = vec![TargetOperand { name: None, directory: true, device: meta.dev(), inode: meta.ino() }];
    });
    site.operand();
    site.finish();
    assert_eq!(tree(&site.root()), ["x", "x/src", "x/src/1"]);
    let failures = site.failures();
    assert!(failures.len() == 1 && failures[0].starts_with("the source is inside the target"));
}

#[test]
fn contents_of_merged_directories_are_not_extraneous() {
    let operand = |name| TargetOperand { name, directory: true, device: 0, inode: 0 };
    let mut site = Site::of(&["p/1", "q/1", "r"], |request, _| {
        request.sync = without_limit(DeleteMode::During);
        request.operands = ["p", "q"].map(|text| operand(Some(name(text)))).to_vec();
    });
    site.operand();
    site.offer(EntryLocation::Operand(1), EntryContent::Directory);
    site.end(1, true);
    site.finish();
    assert_eq!(tree(&site.root()), ["p", "q", "r"]);
    let mut request = crate::testing::target_request(site.temp.path(), vec![operand(None), operand(Some(name("x")))]);
    let no_names = || std::iter::empty();
    assert!(super::super::removal::ExtraneousRemoval::prepare(&request, no_names()).is_ok());
    request.sync = rules(DeleteMode::After);
    assert!(
        super::super::removal::ExtraneousRemoval::prepare(&request, no_names()).is_err_and(|refused| refused.usage)
    );
}

#[test]
fn sources_in_the_directory_of_another_one_are_not_extraneous() {
    let operand = |text, directory| TargetOperand { name: Some(name(text)), directory, device: 0, inode: 0 };
    for delete in [DeleteMode::During, DeleteMode::After] {
        let mut site = Site::of(&["d/own", "d/x", "d/e/f", "d/e/x", "y"], |request, _| {
            request.sync = SyncOptions { into: true, ..without_limit(delete) };
            request.operands = vec![operand("d", true), operand("own", false), operand("f", false)];
            request.below = vec![vec![], vec![name("d")], vec![name("d"), name("e")]];
        });
        site.operand();
        for (number, text) in [(1, "own"), (2, "f")] {
            site.offer(EntryLocation::Operand(number), EntryContent::File { size: text.len() as u64 });
        }
        site.finish();
        assert_eq!(tree(&site.root()), ["d", "d/e", "d/e/f", "d/e/x", "d/own", "y"], "{delete:?}");
        assert_eq!((site.removed(), site.failures().len()), (1, 0));
    }
}

#[test]
fn entries_of_missing_sources_are_removed_unless_they_are_directories_with_contents() {
    let operand = |text: &str| TargetOperand { name: Some(name(text)), directory: text == "d", device: 0, inode: 0 };
    let paths = ["d/1", "gone", "full/1", "empty/", "a/b", "a/c", "stays"];
    let all = ["d", "gone", "full", "empty", "b", "absent", "b", "b"];
    let site = |delete, is_dry| {
        let mut site = Site::of(&paths, |request, root| {
            symlink(root.join("target/a"), root.join("target/link")).unwrap();
            request.sync = SyncOptions { into: true, is_dry, ..without_limit(delete) };
            request.operands = all.map(operand).to_vec();
            request.below = vec![Vec::new(); all.len()];
            request.below[4] = vec![name("a")];
            request.below[6] = vec![name("none")];
            request.below[7] = vec![name("link")];
            request.missing = (1..6).chain([7]).collect();
        });
        site.operand();
        site.file(0, "1");
        site.finish();
        site
    };
    let kept = site(DeleteMode::No, false);
    assert_eq!(tree(&kept.root()), ["a", "a/c", "d", "d/1", "full", "full/1", "link", "stays"]);
    assert_eq!((kept.removed(), kept.failures().len()), (3, 0));
    let skipped = |message: &WorkerMessage| matches!(message, WorkerMessage::Skipped(skipped) if skipped.reason == NOT_EMPTY && skipped.path.ends_with(b"/full"));
    assert_eq!(kept.told().iter().filter(|message| skipped(message)).count(), 1);
    assert!(!tree(&site(DeleteMode::During, false).root()).contains(&"full".to_owned()));
    let dry = site(DeleteMode::No, true);
    assert_eq!((tree(&dry.root()).len(), dry.removed()), (11, 3));
}

#[test]
fn no_entry_of_another_file_system_is_removed() {
    let mut request = crate::testing::target_request(Path::new("/"), Vec::new());
    // The first entry to be removed ends it.
    request.sync = SyncOptions { is_dry: true, delete_max: Some(0), ..rules(DeleteMode::During) };
    request.operands = vec![TargetOperand { name: None, directory: true, device: 0, inode: 0 }];
    let site = Site::of(&[], |old, _| *old = request);
    let mut clearing = TreeClearing::new(&site.target.parts.removals);
    assert!(site.target.parts.copy.is_dry());
    assert!(!clearing.clear(&site.dir(), &name("proc"), FileType::Directory, None).unwrap());
    assert!(clearing.entries == 0 && site.failures()[0].contains("mount point"));
}

#[test]
fn a_link_in_the_place_of_a_directory_is_not_followed() {
    let site = Site::new(&["x/1"], rules(DeleteMode::During));
    let outside = site.temp.path().join("outside");
    make(&outside.join("precious"));
    symlink(&outside, site.root().join("link")).unwrap();
    let mut clearing = TreeClearing::new(&site.target.parts.removals);
    // A directory when the names were listed.
    assert!(!clearing.clear(&site.dir(), &name("link"), FileType::Directory, None).unwrap());
    assert_eq!((site.removed(), site.failures().len()), (0, 1));
    assert!(clearing.clear(&site.dir(), &name("link"), FileType::Symlink, None).unwrap());
    assert_eq!(tree(&outside), ["precious"]);
}

#[test]
fn exchanging_directories_for_links_removes_nothing_outside() {
    let site = Site::new(&[], rules(DeleteMode::During));
    let outside = site.temp.path().join("outside");
    make(&outside.join("in/precious"));
    let (root, over) = (fs::File::open(site.root()).unwrap(), AtomicBool::new(false));
    symlink(&outside, site.root().join("flop")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = renameat_with(&root, "flip", &root, "flop", RenameFlags::EXCHANGE);
            }
        });
        let (rounds, deadline) = (2_000, Instant::now() + Duration::from_secs(30));
        // On a busy machine, the first rounds may all find the link.
        for round in 0.. {
            if round >= rounds && (site.removed() > 0 || Instant::now() > deadline) {
                break;
            }
            // Whichever of the two is the directory at the moment.
            ["flip", "flop"].iter().for_each(|way| drop(fs::create_dir(site.root().join(way))));
            let _ = TreeClearing::new(&site.target.parts.removals).clear(
                &site.dir(),
                &name("flip"),
                FileType::Directory,
                None,
            );
            if fs::symlink_metadata(site.root().join("flop")).is_err() {
                let _ = symlink(&outside, site.root().join("flop"));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree(&outside), ["in", "in/precious"]);
    assert!(site.removed() > 0, "nothing was ever removed");
}

#[test]
fn no_tree_is_too_deep() {
    const LEVELS: u64 = 20_000;
    let mut site = Site::of(&["d/"], |request, _| {
        request.sync = SyncOptions { tells_items: false, ..without_limit(DeleteMode::After) }
    });
    let mut at = site.dir().child(&name("d")).unwrap();
    for _ in 1..LEVELS {
        rustix::fs::mkdirat(&*at.fd().unwrap(), "d", rustix::fs::Mode::RWXU).unwrap();
        at = at.child(&name("d")).unwrap();
    }
    drop(at);
    site.operand();
    site.finish();
    assert_eq!((tree(&site.root()).len(), site.removed(), site.failures().len()), (0, LEVELS, 0));
}

#[test]
fn remembered_state_is_bounded() {
    let site = Site::new(&["d/"], rules(DeleteMode::After));
    let item = |site: &Site| {
        let (dir, meta) = (site.dir(), Default::default());
        Arc::new(ReceiverEntry::Directory { dir, fresh: false, names: None, meta, attributes: None })
    };
    let later = |scope| DeferredRemoval { item: item(&site), extras: vec![(name("d"), FileType::Directory)], scope };
    let mut laters = DeferredRemovals { entries: LATER_MAX - 1, ..DeferredRemovals::default() };
    assert!(laters.remember(later(None)) && !laters.remember(later(None)) && laters.directories.is_empty());

    let lines = "a\n".repeat(LATER_RULES_MAX / 4);
    let files = || vec![(0, PatternRules::of_file(lines.as_bytes(), false).unwrap())];
    let above = Arc::new(FilterScope::operand(files()));
    let below = |text| Arc::new(FilterScope::below(Arc::clone(&above), name(text), files()));
    let mut laters = DeferredRemovals::default();
    // Shared scopes are counted once.
    let together = ["1", "2", "3"].map(|text| laters.remember(later(Some(below(text)))));
    assert!(together.iter().all(|is_remembered| *is_remembered));
    assert!(!laters.remember(later(Some(below("4")))));
}

#[test]
fn a_confined_target_removes_and_moves() {
    let sync = SyncOptions { backup_dir: b"../old".to_vec(), ..rules(DeleteMode::During) };
    let mut site = Site::new(&PATHS, sync);
    let done = std::thread::scope(|scope| {
        let site = &mut site;
        scope
            .spawn(move || {
                let mut bounds = ConfineBounds::new(ConfineNetwork::None);
                site.target.allow(&mut bounds);
                let _ = bounds.enforce();
                offer(site, true);
                site.finish();
            })
            .join()
    });
    done.unwrap();
    assert_eq!(tree(&site.root()), [UNFINISHED, "a", "d", "d/b"]);
    assert_eq!((site.failures().len(), site.removed()), (0, 9));
}

#[test]
fn with_a_limit_the_sources_order_decides_not_that_of_arrival() {
    let mut trees = Vec::new();
    for is_dry in [true, false] {
        let sync = SyncOptions { delete_max: Some(3), is_dry, ..rules(DeleteMode::During) };
        let mut site = Site::new(&["d/x", "d/y", "e/b", "e/x", "e/y"], sync);
        site.operand();
        assert_eq!(site.child(0, "d", EntryContent::Directory), TransferNeed::All);
        // It does not arrive before the other directory is complete.
        let need = site.child(1, "new", EntryContent::File { size: 3 });
        assert_eq!(need, if is_dry { TransferNeed::Nothing } else { TransferNeed::All });
        site.end(1, true);
        assert_eq!(site.child(0, "e", EntryContent::Directory), TransferNeed::All);
        assert_eq!(site.file(3, "b"), TransferNeed::Nothing);
        site.end(3, true);
        site.end(0, true);
        assert_eq!(site.failures().len(), 1, "{:?}", site.failures());
        let expected = if is_dry { vec!["d/x", "d/y", "e/x"] } else { vec!["e/x"] };
        assert_eq!(site.items().into_iter().filter(|path| path.len() == 3).collect::<Vec<_>>(), expected);
        trees.push(tree(&site.root()));
    }
    assert_eq!(trees[1], ["d", "d/x", "d/y", "e", "e/b", "e/y"]);
}

#[test]
fn protected_entries_survive_in_a_replaced_directory() {
    let rules = SyncOptions { replaces_trees: true, ..rules(DeleteMode::After) };
    let mut site = Site::of(&["d/x"], filtered("*.o", rules));
    site.operand();
    let place = EntryLocation::Child { parent: EntryId(0), name: name("d") };
    let removal = site.target.parts.removals.may_clear(&site.dir(), &name("d"), &place).unwrap();
    // Between decision and removal.
    make(&site.root().join("d/keep.o"));
    make(&site.root().join("whole"));
    let dir = site.dir();
    site.target.parts.removals.replace_directory(&dir, &name("whole"), &name("d"), &removal).unwrap_err();
    assert_eq!(tree(&site.root()), ["d", "d/keep.o", "d/x", "whole"]);
}

#[test]
fn decisions_about_replaced_directories_count_at_once() {
    let sync = SyncOptions { replaces_trees: true, delete_max: Some(3), ..rules(DeleteMode::After) };
    let site = Site::new(&["a/1", "a/2", "b/1", "b/2"], sync);
    let may = |text: &str| site.target.parts.removals.may_clear(&site.dir(), &name(text), &EntryLocation::Operand(0));
    let first = may("a").unwrap();
    assert!(may("b").unwrap_err().to_string().contains("permits 3"));
    // It counts once; entries added meanwhile count too.
    make(&site.root().join("a/3"));
    let first = site.target.parts.removals.may_still_clear(&site.dir(), &name("a"), first).unwrap();
    make(&site.root().join("a/4"));
    assert!(site.target.parts.removals.may_still_clear(&site.dir(), &name("a"), first).is_err());
}

#[test]
fn a_file_replaced_by_a_directory_stays_until_the_directory_is_there() {
    let paths: Vec<_> = (0..300).map(|number| format!("f{number}")).collect();
    for with_backups in [false, true] {
        let mut site = Site::of(&paths.iter().map(String::as_str).collect::<Vec<_>>(), |request, place| {
            request.write.overwrite = OverwritePolicy::Follow;
            request.sync = SyncOptions { existing_only: true, replaces_trees: true, ..rules(DeleteMode::No) };
            if with_backups {
                request.sync.backup_dir = place.join("old").into_os_string().into_encoded_bytes();
            }
        });
        let (root, is_over) = (site.root(), AtomicBool::new(false));
        site.operand();
        std::thread::scope(|scope| {
            // Leftovers of a killed run, or of one with a lost connection.
            let watch = scope.spawn(|| {
                let mut missing = 0;
                while !is_over.load(Ordering::Relaxed) {
                    missing += paths.iter().filter(|path| fs::symlink_metadata(root.join(path)).is_err()).count();
                }
                missing
            });
            for path in &paths {
                assert_eq!(site.child(0, path, EntryContent::Directory), TransferNeed::All);
            }
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(watch.join().unwrap(), 0);
        });
        assert!(paths.iter().all(|path| root.join(path).is_dir()));
        assert_eq!(tree(&root).len(), paths.len(), "nothing is left over");
        let kept = if with_backups { tree(&site.temp.path().join("old")).len() } else { paths.len() };
        assert_eq!(kept, paths.len());
    }
}
