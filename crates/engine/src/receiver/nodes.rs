//! Devices, FIFOs and sockets: made where that was asked for, and never opened.

use haul_proto::entry::{Device, Meta, Node};
use haul_proto::overwrite_policy::Decision;
use haul_proto::path::Name;
use haul_proto::session::step::Answer;
use rustix::fs::{AtFlags, FileType, Mode, makedev, mknodat, renameat, unlinkat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

use super::examine::{Decided, Position};
use super::standing::Standing;
use super::temporary::{make_temporary, rename_new};
use super::{Item, Target};
use crate::fs::Keep;
use crate::fs::meta::{apply_to_node, mode_without_preserve};
use crate::sys::describe::describe;

/// Said where the source offers what was not asked for, and where making it takes rights.
pub const NODE_NOT_ASKED: &str = "it is a device, FIFO or socket, and none was asked for";
/// Of a device.
const NOT_ROOT: &str = "only root makes devices\nuse an account that may, or leave --devices out";

impl Target {
    /// Makes a device, FIFO or socket under a temporary name, gives it its metadata, then its own name.
    pub(super) fn node(
        &self,
        position: &Position,
        node: Node,
        meta: &Meta,
        decided: &Decided,
        there: &Standing,
    ) -> io::Result<Answer<Item>> {
        let is_device = is_device(node);
        let dir = position.dir.fd()?;
        if decided.decision == Decision::Keep {
            let has_time = there.look.is_some_and(|look| look.meta.modified == meta.modified);
            self.put_on_node(&dir, &position.name, meta, !has_time)?;
            return Ok(Answer::Settled);
        }
        let temporary = match make_temporary(&dir, &position.name, b"node", |name| make(&dir, name, node)) {
            Ok(temporary) => temporary,
            Err(error) => {
                let is_denied = is_device && error == Errno::PERM;
                return Ok(self.refuse(position, if is_denied { NOT_ROOT.to_owned() } else { describe(&error.into()) }));
            }
        };
        let made = self.put_on_node(&dir, &temporary, meta, true).and_then(|()| {
            Ok(match decided.decision {
                Decision::Replace => {
                    self.back_up(&position.dir, &position.name)?;
                    renameat(&*dir, temporary.as_bytes(), &*dir, position.name.as_bytes())
                }
                Decision::ReplaceTree => {
                    return self.replace_directory(&position.dir, &temporary, &position.name, &decided.removal);
                }
                _ => rename_new(&dir, &temporary, &position.name),
            }?)
        });
        if made.is_err() {
            let _ = unlinkat(&*dir, temporary.as_bytes(), AtFlags::empty());
        }
        made.map(|()| Answer::Settled)
    }

    /// Whether the job asks for such a node.
    pub(super) fn may_make_node(&self, node: Node) -> bool {
        let kept = self.request.kept;
        if is_device(node) { kept.devices } else { kept.specials }
    }

    fn put_on_node(&self, dir: &OwnedFd, name: &Name, meta: &Meta, times: bool) -> io::Result<()> {
        let preserve = self.request.preserve;
        let mode = if preserve { meta.mode } else { mode_without_preserve(meta.mode, self.umask) };
        apply_to_node(dir, name, meta, Keep { owner: preserve, mode: Some(mode), times }).map(|_| ())
    }
}

fn is_device(node: Node) -> bool {
    matches!(node, Node::Character(_) | Node::Block(_))
}

/// Makes it, for its owner alone.
fn make(dir: &OwnedFd, name: &Name, node: Node) -> Result<(), Errno> {
    let number = |Device { major, minor }| makedev(major, minor);
    let (kind, device) = match node {
        Node::Character(device) => (FileType::CharacterDevice, number(device)),
        Node::Block(device) => (FileType::BlockDevice, number(device)),
        Node::Fifo => (FileType::Fifo, 0),
        Node::Socket => (FileType::Socket, 0),
    };
    mknodat(dir, name.as_bytes(), kind, Mode::from_raw_mode(0o600), device)
}
