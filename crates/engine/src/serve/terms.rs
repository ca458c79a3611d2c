//! What a worker of a server may be asked for: nothing outside of its directory, nothing that its access forbids, and
//! nothing that is the server's to decide. The client's Requests are held to it before anybody else sees them.

use haul_proto::path::escape;
use haul_proto::wire::pipe::Pipe;
use haul_proto::wire::request::{ControllerMessage, Links, SessionSettings};
use haul_proto::wire::rules::Modes;
use haul_proto::wire::sandbox::Sandbox;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::os::confine::{Bounds, Network, Rights};

/// What may be done with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Fetching from it.
    ReadOnly,
    /// Sending to it.
    WriteOnly,
    /// Both.
    Both,
}

impl Access {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WriteOnly => "write-only",
            Self::Both => "both",
        }
    }

    /// The one that is written so.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::ReadOnly, Self::WriteOnly, Self::Both].into_iter().find(|access| access.word() == word)
    }
}

/// What a served worker is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What may be done.
    pub access: Access,
    /// At most so many bytes a second from here; `None` for no limit.
    pub rate: Option<u64>,
    /// The ports for data, the first and the last; `None`: one that the system chooses.
    pub ports: Option<(u16, u16)>,
}

/// What a served worker has done, for the server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Did {
    /// It sent; else it received.
    pub sent: bool,
    /// Files found, or received.
    pub files: u64,
    /// Their bytes that were carried.
    pub bytes: u64,
    /// Entries that failed.
    pub failed: u64,
    /// The first path that was asked for, escaped.
    pub path: String,
}

/// What a line that tells of it begins with.
const DID: &str = "HAUL-DID ";

impl Did {
    /// As a worker tells its server.
    pub fn line(&self) -> String {
        let Self { sent, files, bytes, failed, path } = self;
        format!("{DID}{} {files} {bytes} {failed} {path}", if *sent { "sent" } else { "received" })
    }

    /// What a line of a worker tells; `None` if it is another one.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(DID)?.splitn(5, ' ');
        let sent = words.next()? == "sent";
        let mut number = || words.next()?.parse().ok();
        let (files, bytes, failed) = (number()?, number()?, number()?);
        Some(Self { sent, files, bytes, failed, path: words.next()?.to_owned() })
    }
}

impl Terms {
    /// Makes `directory` the working directory, and has the kernel hold this thread, and all that it starts, to it. What
    /// a Request allows is less than that, and comes on top. Before it, the worker asks the system about itself.
    pub fn enter(&self, directory: &Path, state_dir: Option<&Path>) -> io::Result<Sandbox> {
        std::env::set_current_dir(directory)?;
        let mut bounds = Bounds::new(Network::Streams(self.ports));
        let rights = if self.access == Access::ReadOnly { Rights::ReadTree } else { Rights::Land };
        bounds.allow(File::open(".")?, rights);
        for system in ["/proc", "/sys"] {
            bounds.allow(File::open(system)?, Rights::ReadTree);
        }
        if let Some(trees) = state_dir.map(|state| state.join("trees")).filter(|_| self.access != Access::ReadOnly) {
            // Without it, finished trees are not remembered.
            let trees = std::fs::create_dir_all(&trees).and_then(|()| File::open(&trees));
            trees.iter().for_each(|trees| bounds.allow(trees, Rights::OwnFiles));
        }
        Ok(bounds.enforce())
    }

    /// Holds a message of the client's to these terms, in place; or says why it cannot be carried out.
    pub fn hold(&self, message: &mut ControllerMessage) -> Result<(), String> {
        match message {
            ControllerMessage::Source(request) => {
                if self.access == Access::WriteOnly {
                    return Err("this server's directory is write-only: nothing can be fetched from it".into());
                }
                refuse_following(request.links)?;
                refuse_pipes(request.pipe)?;
                request.operands.iter_mut().try_for_each(inside)?;
                request.rate_bytes_per_s = self.slower(request.rate_bytes_per_s);
                self.hold_settings(&mut request.settings);
            }
            ControllerMessage::Target(request) => {
                if self.access == Access::ReadOnly && request.compare.is_none() {
                    return Err("this server's directory is read-only: nothing can be sent to it".into());
                }
                if self.access == Access::WriteOnly && (request.digest_existing || request.compare.is_some()) {
                    return Err(
                        "this server's directory is write-only: what is there is not read\ncopy without --checksums"
                            .into(),
                    );
                }
                request.compare.map_or(Ok(()), refuse_following)?;
                refuse_pipes(request.pipe)?;
                refuse_special_bits(&request.rules.modes)?;
                if !request.journal_dir.is_empty() {
                    return Err(
                        "a server keeps its records of unfinished files beside them\nleave out -a's directory".into()
                    );
                }
                if request.preserve {
                    return Err("a server's files have its owner, and no mode that a client says\nleave out -p".into());
                }
                inside(&mut request.path)?;
                self.hold_settings(&mut request.settings);
            }
            ControllerMessage::Rate(bytes_per_s) => *bytes_per_s = self.slower(*bytes_per_s),
            _ => {}
        }
        Ok(())
    }

    /// The lower one of two limits, of which 0 is none.
    fn slower(&self, wanted: u64) -> u64 {
        match self.rate {
            Some(rate) if wanted == 0 => rate,
            Some(rate) => rate.min(wanted),
            None => wanted,
        }
    }

    fn hold_settings(&self, settings: &mut SessionSettings) {
        settings.ports = self.ports;
    }
}

fn refuse_following(links: Links) -> Result<(), String> {
    if links == Links::Follow {
        return Err("a server follows no symbolic links\nleave out --symlinks follow".into());
    }
    Ok(())
}

/// Programs are for those who could start them anyway.
fn refuse_pipes(pipe: Pipe) -> Result<(), String> {
    match pipe {
        Pipe::No | Pipe::Growing(_) => Ok(()),
        Pipe::Standard | Pipe::Named => Err("a server starts no programs, and opens no pipes\nleave out -N".into()),
    }
}

/// Set-id bits of the server's own files are not a client's to set.
fn refuse_special_bits(modes: &Modes) -> Result<(), String> {
    let is_special = |mode: Option<u16>| mode.is_some_and(|mode| mode & !0o777 != 0);
    if is_special(modes.file) || is_special(modes.directory) {
        return Err("a server sets no set-id and no sticky bits\ngive -m three digits".into());
    }
    Ok(())
}

/// Makes a path that was asked for one that begins in the working directory; or says why it does not stay there. A
/// symbolic link anywhere in it is none of its parts. (Whoever exchanges a directory for a link after that finds that
/// the kernel does not let this process out.)
fn inside(path: &mut Vec<u8>) -> Result<(), String> {
    let shown = escape(path);
    let outside = || format!("{shown}: this is outside of the served directory\nname what is in it");
    let mut checked = PathBuf::from(".");
    for component in Path::new(OsStr::from_bytes(path)).components() {
        match component {
            Component::CurDir => continue,
            Component::Normal(name) => checked.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
        if std::fs::symlink_metadata(&checked).is_ok_and(|found| found.is_symlink()) {
            return Err(format!("{shown}: a server goes through no symbolic link\nname what the link leads to"));
        }
    }
    let is_directory = path.ends_with(b"/") && !path.is_empty();
    *path = checked.into_os_string().into_encoded_bytes();
    if is_directory {
        path.push(b'/');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_is_refused() {
        for bad in ["/etc/passwd", "..", "a/../../b", "a/..", "/"] {
            assert!(inside(&mut bad.into()).is_err(), "{bad}");
        }
        for (good, becomes) in [("", "."), (".", "."), ("a/b", "./a/b"), ("./a/", "./a/"), ("null:9g", "./null:9g")] {
            let mut path = good.into();
            inside(&mut path).unwrap();
            assert_eq!(String::from_utf8(path).unwrap(), becomes);
        }
    }

    #[test]
    fn the_lower_limit_holds() {
        let terms = |rate| Terms { access: Access::Both, rate, ports: None };
        assert_eq!([0, 5, 50].map(|wanted| terms(Some(10)).slower(wanted)), [10, 5, 10]);
        assert_eq!([0, 5].map(|wanted| terms(None).slower(wanted)), [0, 5]);
    }

    #[test]
    fn what_was_done_comes_back_from_its_line() {
        let did = Did { sent: true, files: 3, bytes: 1 << 40, failed: 0, path: "./a b".into() };
        assert_eq!(Did::parse(&did.line()), Some(did));
        assert_eq!(Did::parse("haul: HAUL-DID sent"), None);
    }
}
