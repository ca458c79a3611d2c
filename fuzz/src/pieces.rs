//! Names and trees of frames: small parts that a peer's bytes reach directly.

use std::collections::BTreeMap;

use haul_proto::integrity::FrameTree;
use haul_proto::path::{Name, escape};

use crate::bytes::Bytes;

/// Most frames of which a whole tree is made.
const FRAMES_MAX: u64 = 100;

/// What is accepted as a name is one component; what is shown of any bytes disturbs no terminal.
pub fn name(data: &[u8]) {
    let shown = escape(data);
    assert!(!shown.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)), "{shown:?}");
    let Ok(name) = Name::new(data) else { return };
    assert!(!data.is_empty() && data.len() <= 255 && data != b"." && data != b"..");
    assert!(!data.contains(&b'/') && !data.contains(&0));
    assert_eq!((name.as_bytes(), name.to_string()), (data, shown));
}

/// Frames in any order, some twice, some that there are not: the digest comes with the last one, and is the same in any order.
pub fn frame_tree(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let frames = bytes.number();
    let mut tree = FrameTree::new(frames);
    let mut seen = BTreeMap::new();
    while !bytes.is_empty() {
        let index = bytes.number();
        let value = [bytes.u8(); 32];
        let new = index < frames && !seen.contains_key(&index);
        assert_eq!(tree.insert(index, value), new);
        if new {
            seen.insert(index, value);
        }
        assert_eq!(tree.contains(index), index < frames);
        let full = seen.len() as u64 == frames;
        assert_eq!((tree.is_full(), tree.digest().is_some()), (full, full));
    }
    if frames > FRAMES_MAX {
        return;
    }
    let mut in_order = FrameTree::new(frames);
    for index in 0..frames {
        let value = seen.get(&index).copied().unwrap_or([0; 32]);
        tree.insert(index, value);
        in_order.insert(index, value);
    }
    assert_eq!(tree.digest(), in_order.digest());
    assert!(tree.digest().is_some());
}
