//! Hard links to something other than the file that was copied under the first name.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use haul_e2e::Rng;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::wire::message::{TargetMessage, TransferNeed};
use haul_proto::wire::preserve::RightsOptions;

use super::memory::linked_file;
use super::raw;
use super::scene::Scene;

/// An owner whom the target does not trust.
const OTHER_USER: u32 = 12_345;

/// A target of a sync that keeps hard links, with the open directories `tree` and `tree/below`. Returns their entries.
fn linking_scene() -> (Scene, u64, u64) {
    let mut scene = Scene::with(&mut Rng::new(1), |request| {
        request.metadata.preserve.hard_links = true;
        request.metadata.rights = RightsOptions::default();
        request.write.overwrite = OverwritePolicy::Follow;
    });
    // In a directory made by the copy, nothing would be replaced.
    fs::create_dir(scene.landing().join("tree/below")).unwrap();
    let tree = scene.open_tree();
    let below = scene.offer(&[raw::directory(tree, b"below")]);
    (scene, tree, below)
}

/// Copies a file with a further name to come. Returns its entry.
fn send_first_name(scene: &mut Scene, parent: u64, name: &[u8]) -> u64 {
    let file = scene.next;
    assert_eq!(scene.needs(&[linked_file(parent, name)]), [TransferNeed::All]);
    scene.pack(&[(file, 5)]);
    let done = scene.wait_for(|message| match message {
        TargetMessage::Done { runs } => {
            runs.iter().any(|(first, many)| (first.0..first.0 + many).contains(&file)).then_some(())
        }
        _ => None,
    });
    done.expect("no fault");
    file
}

/// Offers a further name, and waits for its refusal.
fn offer_further_name(scene: &mut Scene, parent: u64, name: &[u8], to: u64) {
    let link = scene.offer(&[raw::hard_link(parent, name, to, 5)]);
    let failed = scene.wait_for(|message| match message {
        TargetMessage::TargetFailed { entry } if entry.0 == link => Some(()),
        TargetMessage::Done { .. } => panic!("the link was made"),
        _ => None,
    });
    failed.expect("no fault");
}

#[test]
fn a_link_replacing_the_first_name_gets_no_hard_link() {
    let (mut scene, tree, below) = linking_scene();
    let file = send_first_name(&mut scene, below, b"first");
    assert_ne!(scene.needs(&[raw::link(below, b"first", b"../inside")]), [TransferNeed::Refused]);
    assert!(scene.landing().join("tree/below/first").is_symlink());
    offer_further_name(&mut scene, tree, b"planted", file);
    assert!(!scene.landing().join("tree/planted").is_symlink());
    assert_eq!(scene.end("a link for a first name"), Some(1));
}

#[test]
fn another_users_file_under_the_first_name_gets_no_hard_link() {
    let (mut scene, tree, below) = linking_scene();
    let file = send_first_name(&mut scene, below, b"first");
    let (first, planted) = (scene.landing().join("tree/below/first"), scene.landing().join("tree/planted"));
    fs::write(&planted, "mine!").unwrap();
    chown(&planted, Some(OTHER_USER), None).unwrap();
    fs::rename(&planted, &first).unwrap();
    offer_further_name(&mut scene, tree, b"further", file);
    assert!(!scene.landing().join("tree/further").exists());
    assert_eq!(fs::metadata(&first).unwrap().nlink(), 1);
    assert_eq!(scene.end("a file in the place of a first name"), Some(1));
}
