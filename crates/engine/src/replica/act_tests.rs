use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::filter::definition::FilterOptions;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::attributes::AttributeList;
use haul_proto::twoway::merge::MetadataRules;

use super::super::attributes::read_attributes;
use super::super::root::ReplicaRoot;
use super::super::scan::{ReplicaFilter, ScannedReplica, no_archive};
use super::*;

/// A replica that was scanned.
struct Replica {
    temp: tempfile::TempDir,
    view: ReplicaView,
    staged: Dir,
    backups: Option<Dir>,
    filter: ReplicaFilter,
}

fn path(text: &str) -> TreePath {
    TreePath::new(text.as_bytes()).unwrap()
}

impl Replica {
    /// A replica with these files, whose contents are their paths; a path with a slash at its end is a directory, and
    /// `b=a` a further name of `a`.
    fn with(entries: &[&str]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        for entry in entries {
            if let Some(names) = entry.split_once('=') {
                let [new, old] = [names.0, names.1].map(|name| temp.path().join("root").join(name));
                fs::hard_link(old, new).unwrap();
                continue;
            }
            let at = temp.path().join("root").join(entry);
            let directory = if entry.ends_with('/') { &*at } else { at.parent().unwrap() };
            fs::create_dir_all(directory).unwrap();
            if !entry.ends_with('/') {
                fs::write(&at, entry).unwrap();
                let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
                File::options().write(true).open(&at).unwrap().set_modified(old).unwrap();
            }
        }
        for name in ["root", "staged", "backups"] {
            fs::create_dir_all(temp.path().join(name)).unwrap();
        }
        let root = ReplicaRoot::open(&temp.path().join("root")).unwrap();
        let (filter, rules) = (ReplicaFilter::new(&FilterOptions::default(), None).unwrap(), MetadataRules::ALL);
        let scan = ScannedReplica::new(&root, &filter, no_archive(), &rules).unwrap();
        let staged = Dir::open_root(&temp.path().join("staged")).unwrap();
        let backups = Some(Dir::open_root(&temp.path().join("backups")).unwrap());
        Self {
            temp,
            view: ReplicaView { root, scan, rules, made: BTreeMap::new(), linked: BTreeMap::new() },
            staged,
            backups,
            filter,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.temp.path().join("root").join(name)
    }

    fn scanned(&self, name: &str) -> Option<ReplicaEntry> {
        let entries = &self.view.scan.entries;
        entries.iter().find(|entry| entry.path == path(name)).map(|found| found.entry.clone())
    }

    /// Puts a copied file into its directory, and returns the entry that it is to become.
    fn stage(&self, name: &str, contents: &str) -> ReplicaEntry {
        let at = self.temp.path().join("staged").join(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, contents).unwrap();
        let (dir, name) = below(&self.staged, &path(name)).unwrap();
        let mut entry = entry_at(&dir, &name).unwrap();
        entry.metadata.basic.mode = 0o640;
        let digest = Some(*blake3::hash(contents.as_bytes()).as_bytes());
        entry.content = ReplicaContent::File { size: contents.len() as u64, digest };
        entry
    }

    fn action(&self, name: &str, kind: ActionKind, entry: Option<ReplicaEntry>) -> TwowayAction {
        let (path, expected) = (path(name), self.scanned(name));
        let attributes = ActionAttributes::Kept;
        TwowayAction { path, side: ReplicaSide::B, kind, entry, expected, keep_as: None, attributes }
    }

    fn copy(&self, name: &str, contents: &str) -> TwowayAction {
        let entry = self.stage(name, contents);
        self.action(name, ActionKind::Copy { source: entry.clone() }, Some(entry))
    }

    fn perform(&mut self, action: &TwowayAction) -> ActionOutcome {
        let Self { view, staged, backups, filter, .. } = self;
        ActionPerformer { view, staged: Some(staged), backups: backups.as_ref(), filter }.perform(action)
    }

    #[track_caller]
    fn does(&mut self, action: &TwowayAction) {
        let outcome = self.perform(action);
        assert!(matches!(outcome, ActionOutcome::Done { .. }), "{outcome:?}");
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.at(name)).ok()
    }

    fn backup(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.temp.path().join("backups").join(name)).ok()
    }
}

#[test]
fn a_copy_gets_its_name_and_metadata_in_place_of_the_old_file() {
    let mut replica = Replica::with(&["d/f"]);
    let action = replica.copy("d/f", "new");
    replica.does(&action);
    assert_eq!(replica.read("d/f").as_deref(), Some("new"));
    assert_eq!(fs::metadata(replica.at("d/f")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(replica.backup("d/f").as_deref(), Some("d/f"));
    // The next action at the path expects what this one left.
    let again = TwowayAction { kind: ActionKind::Delete, entry: None, expected: action.entry.clone(), ..action };
    replica.does(&again);
    assert_eq!((replica.read("d/f"), replica.backup("d/f").as_deref()), (None, Some("new")));
}

#[test]
fn what_changed_since_the_scan_stays() {
    let mut replica = Replica::with(&["f", "g"]);
    let actions = [replica.copy("f", "new"), replica.action("g", ActionKind::Delete, None), replica.copy("h", "new")];
    for name in ["f", "g", "h"] {
        fs::write(replica.at(name), "edited").unwrap();
    }
    for action in &actions {
        assert_eq!(replica.perform(action), ActionOutcome::Skipped, "{action:?}");
    }
    for name in ["f", "g", "h"] {
        assert_eq!(replica.read(name).as_deref(), Some("edited"));
    }
}

#[test]
fn a_copy_of_other_contents_than_planned_gets_no_name() {
    let mut replica = Replica::with(&["f"]);
    let action = replica.copy("f", "new");
    fs::write(replica.temp.path().join("staged/f"), "now").unwrap();
    assert_eq!(replica.perform(&action), ActionOutcome::Skipped);
    assert_eq!(replica.read("f").as_deref(), Some("f"));
}

#[test]
fn a_file_is_replaced_by_a_directory_and_back() {
    let mut replica = Replica::with(&["f", "d/"]);
    let directory = replica.scanned("d");
    let made = replica.action("f", ActionKind::MakeDirectory, directory.clone());
    replica.does(&made);
    assert!(replica.at("f").is_dir());
    assert_eq!(replica.backup("f").as_deref(), Some("f"));
    let action = replica.copy("d", "a file now");
    replica.does(&action);
    assert_eq!(replica.read("d").as_deref(), Some("a file now"));
}

#[test]
fn a_directory_with_something_in_it_is_neither_removed_nor_replaced() {
    let mut replica = Replica::with(&["d/", "e/"]);
    let actions = [replica.copy("d", "a file now"), replica.action("e", ActionKind::Delete, None)];
    for name in ["d/x", "e/x"] {
        fs::write(replica.at(name), "x").unwrap();
    }
    for action in &actions {
        assert_eq!(replica.perform(action), ActionOutcome::Skipped, "{action:?}");
    }
    assert_eq!((replica.read("d/x"), replica.read("e/x")), (Some("x".into()), Some("x".into())));
}

#[test]
fn a_loser_is_kept_under_its_name() {
    let mut replica = Replica::with(&["f"]);
    let action = TwowayAction { keep_as: Some(path("f.kept")), ..replica.copy("f", "new") };
    replica.does(&action);
    assert_eq!((replica.read("f").as_deref(), replica.read("f.kept").as_deref()), (Some("new"), Some("f")));
}

#[test]
fn nothing_is_overwritten_under_the_name_for_a_loser() {
    let mut replica = Replica::with(&["f", "f.kept"]);
    let action = TwowayAction { keep_as: Some(path("f.kept")), ..replica.copy("f", "new") };
    assert_eq!(replica.perform(&action), ActionOutcome::Skipped);
    assert_eq!((replica.read("f").as_deref(), replica.read("f.kept").as_deref()), (Some("f"), Some("f.kept")));
}

#[test]
fn a_move_keeps_the_file_and_sets_its_metadata() {
    let mut replica = Replica::with(&["a", "d/"]);
    let source = replica.scanned("a").unwrap();
    let mut entry = source.clone();
    entry.metadata.basic.mode = 0o600;
    let inode = fs::metadata(replica.at("a")).unwrap().ino();
    let action = replica.action("d/b", ActionKind::Move { from: path("a"), source }, Some(entry));
    replica.does(&action);
    let moved = fs::metadata(replica.at("d/b")).unwrap();
    assert_eq!((moved.ino(), moved.mode() & 0o7777, replica.read("a")), (inode, 0o600, None));
}

#[test]
fn a_mode_alone_is_set() {
    let mut replica = Replica::with(&["f"]);
    let mut entry = replica.scanned("f").unwrap();
    entry.metadata.basic.mode = 0o400;
    let action = replica.action("f", ActionKind::SetMetadata, Some(entry));
    replica.does(&action);
    assert_eq!(fs::metadata(replica.at("f")).unwrap().permissions().mode() & 0o7777, 0o400);
}

#[test]
fn attributes_are_set_if_they_are_those_of_the_plan() {
    let mut replica = Replica::with(&["f", "d/"]);
    let attributes = vec![ExtendedAttribute { name: (*b"user.color").into(), value: (*b"red").into() }];
    let list = AttributeList { attributes };
    for name in ["f", "d"] {
        let mut entry = replica.scanned(name).unwrap();
        entry.metadata.attributes = list.digest();
        let mut action = replica.action(name, ActionKind::SetMetadata, Some(entry));
        action.attributes = ActionAttributes::Given(AttributeList::default());
        assert_eq!(replica.perform(&action), ActionOutcome::Skipped);
        action.attributes = ActionAttributes::Of(ReplicaSide::A);
        assert!(matches!(replica.perform(&action), ActionOutcome::Failed { .. }));
        action.attributes = ActionAttributes::Given(list.clone());
        replica.does(&action);
        let (dir, name) = below(&replica.view.root.dir, &path(name)).unwrap();
        assert_eq!(read_attributes(&dir, &name, &MetadataRules::ALL).unwrap(), list);
    }
    // They changed since the scan.
    let remove = replica.action("f", ActionKind::Delete, None);
    assert_eq!(replica.perform(&remove), ActionOutcome::Skipped);
}

/// A change of one name gives the others a new stamp.
#[test]
fn all_names_of_a_file_are_deleted_moved_or_get_their_mode() {
    let mut replica = Replica::with(&["a", "b=a", "c=a", "d=a", "e=a"]);
    let mut entry = replica.scanned("a").unwrap();
    entry.metadata.basic.mode = 0o600;
    let (delete, kind) =
        (ActionKind::Delete, ActionKind::Move { from: path("c"), source: replica.scanned("c").unwrap() });
    let moved = replica.scanned("c");
    let actions = [
        replica.action("a", delete.clone(), None),
        replica.action("x", kind, moved),
        replica.action("d", ActionKind::SetMetadata, Some(entry.clone())),
        replica.action("e", ActionKind::SetMetadata, Some(entry)),
        replica.action("b", delete, None),
    ];
    actions.iter().for_each(|action| replica.does(action));
    assert_eq!((replica.read("x").as_deref(), replica.read("a"), replica.read("b")), (Some("a"), None, None));
    assert_eq!(fs::metadata(replica.at("e")).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn a_file_with_further_names_is_replaced_and_never_written_in_place() {
    let mut replica = Replica::with(&["a", "b=a", "stays=a"]);
    let actions = ["a", "b"].map(|name| replica.copy(name, "new"));
    actions.iter().for_each(|action| replica.does(action));
    assert_eq!(["a", "b", "stays"].map(|name| replica.read(name).unwrap()), ["new", "new", "a"]);
}

#[test]
fn a_copied_file_gets_further_names_unless_it_changed_since() {
    let mut replica = Replica::with(&["b", "c"]);
    let first = replica.copy("a", "new");
    let link = |replica: &Replica, name: &str| {
        let kind = ActionKind::Link { to: path("a"), source: first.entry.clone().unwrap() };
        replica.action(name, kind, first.entry.clone())
    };
    let links = ["b", "d/e", "c"].map(|name| link(&replica, name));
    assert_eq!(replica.perform(&links[0]), ActionOutcome::Skipped);
    fs::create_dir(replica.at("d")).unwrap();
    [&first, &links[0], &links[1]].into_iter().for_each(|action| replica.does(action));
    let inode = |name: &str| fs::metadata(replica.at(name)).unwrap().ino();
    assert!(inode("a") == inode("b") && inode("a") == inode("d/e"));
    assert_eq!(replica.backup("b").as_deref(), Some("b"));
    fs::write(replica.at("a"), "edited").unwrap();
    assert_eq!(replica.perform(&links[2]), ActionOutcome::Skipped);
    assert_eq!(replica.read("c").as_deref(), Some("c"));
}

#[test]
fn a_write_to_another_name_shows_between_two_actions() {
    let mut replica = Replica::with(&["a", "b=a", "c=a"]);
    let actions = ["a", "b"].map(|name| replica.copy(name, "new"));
    replica.does(&actions[0]);
    fs::write(replica.at("c"), "edited").unwrap();
    assert_eq!(replica.perform(&actions[1]), ActionOutcome::Skipped);
    assert_eq!(replica.read("b").as_deref(), Some("edited"));
}

#[test]
fn a_link_in_the_way_leads_nowhere() {
    let mut replica = Replica::with(&["d/f"]);
    let action = replica.copy("d/f", "new");
    fs::rename(replica.at("d"), replica.temp.path().join("outside")).unwrap();
    std::os::unix::fs::symlink(replica.temp.path().join("outside"), replica.at("d")).unwrap();
    assert!(!matches!(replica.perform(&action), ActionOutcome::Done { .. }));
    assert_eq!(fs::read_to_string(replica.temp.path().join("outside/f")).unwrap(), "d/f");
}
