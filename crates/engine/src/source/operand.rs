//! The operands: what the user named, looked at once.

use haul_proto::manifest::Meta;
use haul_proto::path::Name;
use haul_proto::wire::request::Operand;
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::fs::{Dir, Identity, Links, Look, describe};
use crate::os::machine;
use crate::report::Reporter;
use crate::shown::own_name;

/// An operand that can be copied.
pub struct Root {
    name: Option<Name>,
    identity: Identity,
    /// What it is.
    pub kind: RootKind,
}

/// What an operand is.
pub enum RootKind {
    /// A directory.
    Directory(Dir),
    /// A regular file: the directory that it is in, its name there, its size and metadata.
    File(Dir, Name, u64, Meta),
}

impl Root {
    /// As the target needs to know it.
    pub fn operand(&self) -> Operand {
        Operand {
            name: self.name.clone(),
            directory: matches!(self.kind, RootKind::Directory(_)),
            device: self.identity.device,
            inode: self.identity.inode,
        }
    }
}

/// Looks at an operand; reports it and returns `None` when it cannot or must not be copied.
pub fn look(operand: &[u8], recursive: bool, reporter: &Reporter) -> Option<Root> {
    match try_look(Path::new(OsStr::from_bytes(operand)), recursive) {
        Ok(root) => Some(root),
        Err(Refusal::LeftOut(reason)) => {
            reporter.left_out(operand.to_vec(), reason);
            None
        }
        Err(Refusal::Failed(text)) => {
            reporter.failed(operand.to_vec(), text);
            None
        }
    }
}

enum Refusal {
    LeftOut(&'static str),
    Failed(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(describe(&error))
    }
}

fn try_look(path: &Path, recursive: bool) -> Result<Root, Refusal> {
    let found = rustix::fs::stat(path).map_err(io::Error::from)?;
    let look = Look::from(&found);
    let name = own_name(path).and_then(|name| Name::new(name.as_bytes()).ok());
    let kind = match look.kind {
        FileType::Directory if !recursive => {
            return Err(Refusal::Failed(
                "it is a directory\nuse -r to copy directories with all that is in them".into(),
            ));
        }
        FileType::Directory => RootKind::Directory(Dir::open_root(path)?),
        FileType::RegularFile => {
            let name = name.clone().ok_or_else(|| Refusal::Failed("this path does not end in a file's name".into()))?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            RootKind::File(Dir::open_root(parent)?, name, look.size, look.meta)
        }
        FileType::Fifo => return Err(Refusal::LeftOut("is a FIFO")),
        FileType::Socket => return Err(Refusal::LeftOut("is a socket")),
        _ => return Err(Refusal::LeftOut("is a device")),
    };
    Ok(Root { name, identity: look.identity, kind })
}

/// The file's parent, name and how links are treated: an operand that is a link is followed.
pub const OPERAND_LINKS: Links = Links::Followed;

/// Names these operands on this machine, over all runs: what a target remembers a tree by.
pub fn origin(operands: &[Vec<u8>]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let machine = machine::machine_id();
    hasher.update(&(machine.len() as u64).to_le_bytes()).update(&machine);
    for operand in operands {
        let path = Path::new(OsStr::from_bytes(operand));
        let absolute = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let bytes = absolute.as_os_str().as_bytes();
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    *hasher.finalize().as_bytes()
}
