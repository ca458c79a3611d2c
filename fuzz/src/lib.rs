//! Fuzz targets: one function each for everything that reads bytes from a peer. Each takes any bytes and panics where
//! a rule is broken. `fuzz_targets/` gives them to libFuzzer. In the everyday run, on the stable toolchain,
//! `tests/replay.rs` gives them the saved corpus, and `tests/mutate.rs` what becomes of it at random.

mod bytes;
mod delta;
mod mutate;
mod pieces;
pub mod seeds;
mod source;
mod target;
mod wire;

pub use delta::{instructions, patch};
pub use mutate::mutate;
pub use pieces::{frame_tree, name};
pub use source::source_session;
pub use target::target_session;
pub use wire::{
    archive, compressed_payload, controller_message, handshake, journal, link_header, serve, source_message,
    target_message, trailer, worker_message,
};

/// A fuzz target: takes any bytes, and panics where a rule is broken.
pub type Target = fn(&[u8]);

/// All targets by name; each has a directory of that name under `corpus/`.
pub const TARGETS: [(&str, Target); 17] = [
    ("archive", archive),
    ("compressed_payload", compressed_payload),
    ("controller_message", controller_message),
    ("frame_tree", frame_tree),
    ("handshake", handshake),
    ("instructions", instructions),
    ("journal", journal),
    ("link_header", link_header),
    ("name", name),
    ("patch", patch),
    ("serve", serve),
    ("source_message", source_message),
    ("source_session", source_session),
    ("target_message", target_message),
    ("target_session", target_session),
    ("trailer", trailer),
    ("worker_message", worker_message),
];
