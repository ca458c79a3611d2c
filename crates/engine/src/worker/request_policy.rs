//! Which Requests a served worker carries out: the client's are held to the server's terms before anybody else sees
//! them.
//!
//! Allowed is what is named. Every field of a Request stands here, so that one that is new does not compile before
//! somebody has decided about it; `_` says that it is the client's to choose: its decoder holds it to its limits, and the
//! kernel holds the worker to its directory.

use haul_proto::delta::options::{DeltaMode, DeltaOptions};
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::escape;
use haul_proto::sync::{DeleteMode, EqualityTest, SyncOptions};
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::request::{ControllerMessage, SessionSettings, SourceRequest, SymlinkMode, TargetRequest};
use haul_proto::wire::write_options::{ModeOptions, WriteOptions};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::fs::lookup;
use crate::worker::client_limits::{ClientLimits, ServedAccess};

/// Most bytes that all streams of a client have in one frame each: 128 streams with the usual frame.
const STREAMS_BYTES_MAX: usize = 64 << 20;
/// Most frames that one of them has under way past the page cache, whatever the client says.
const UNDER_WAY_MAX: u8 = 8;
/// Longest silence of a client's that a server waits out: nobody holds a place here for ever.
const SILENCE_MS_MAX: u32 = 3_600_000;

impl ClientLimits {
    /// Holds a message of the client's to these terms, in place; or says why it cannot be carried out.
    pub fn hold(&self, message: &mut ControllerMessage) -> Result<(), String> {
        match message {
            ControllerMessage::Source(request) => self.hold_source(request),
            ControllerMessage::Target(request) => self.hold_target(request),
            ControllerMessage::Rate(bytes_per_s) => {
                *bytes_per_s = self.slower(*bytes_per_s);
                Ok(())
            }
            // A source holds itself to what its settings allow.
            ControllerMessage::Pause(_) | ControllerMessage::Streams(_) => Ok(()),
            ControllerMessage::Listen { address } => {
                *address = self.address.or(*address);
                Ok(())
            }
            // The worker answers that it does not.
            ControllerMessage::Connect { routes: _, timeout_ms: _ } => Ok(()),
            // What its Request has said nothing of, the worker takes none of.
            ControllerMessage::Expected(_) => Ok(()),
            ControllerMessage::SourceBatch(_) | ControllerMessage::DestinationBatch(_) => Ok(()),
            ControllerMessage::Tunnel { connector: _ } | ControllerMessage::Start { skip: _ } => Ok(()),
            ControllerMessage::Cancel => Ok(()),
            ControllerMessage::Measure(_) => {
                Err("a server is not measured: a probe would write, and be told what the server is like\nssh reaches it for that".into())
            }
        }
    }

    fn hold_source(&self, request: &mut SourceRequest) -> Result<(), String> {
        let SourceRequest {
            settings,
            operands,
            listed,
            base,
            recursive: _,
            links,
            leave_out: _,
            // What it has is what may be read; what is made of it is for its target to decide.
            kept: _,
            // Names and patterns: files with them are read below an operand, as the others are.
            filters: _,
            tell_left_out: _,
            rate_bytes_per_s,
            storage,
            compression: _,
            pipe,
            compare: _,
            // Of what may be read.
            tell_digests: _,
            remove_files,
            tell_owners,
        } = request;
        if !self.access.reads() {
            return Err(format!("this server's directory is {}: nothing in it can be read", self.write_only()));
        }
        self.hold_settings(settings)?;
        storage.under_way = storage.under_way.min(UNDER_WAY_MAX);
        operands.iter_mut().try_for_each(inside)?;
        base.iter_mut().try_for_each(inside)?;
        if *listed {
            return Err("a server sends no lists of files\nname them, or a directory with -r".into());
        }
        if *remove_files && self.access != ServedAccess::Both {
            return Err(
                "this server's directory is read-only: nothing in it is removed\nleave out --remove-source-files"
                    .into(),
            );
        }
        // Who has an account here is nobody's business.
        *tell_owners = false;
        refuse_following(*links)?;
        *rate_bytes_per_s = self.slower(*rate_bytes_per_s);
        match pipe {
            PipeKind::No | PipeKind::Growing(_) => Ok(()),
            PipeKind::Standard | PipeKind::Named => Err(NO_PIPES.into()),
        }
    }

    fn hold_target(&self, request: &mut TargetRequest) -> Result<(), String> {
        let TargetRequest {
            settings,
            path,
            operands: _,
            // Names, as those of operands and of what is below them.
            listed: _,
            source_boot: _,
            origin: _,
            again: _,
            own_tree: _,
            make_directory: _,
            filters: _,
            rules: WriteOptions { in_the_way, modes, check_space: _, below: _ },
            preserve,
            // Nothing is anybody else's than the server's, or what is compared with.
            owners: _,
            kept,
            verify: _,
            digest_existing,
            storage,
            resume,
            keep_partial,
            journal_dir,
            fsync: _,
            delta,
            sync,
            pipe,
            compare,
        } = request;
        match (self.access, &compare) {
            (ServedAccess::ReadOnly, None) => {
                return Err("this server's directory is read-only: nothing can be sent to it".into());
            }
            (ServedAccess::WriteOnly | ServedAccess::Create, Some(_)) => {
                return Err(format!("this server's directory is {}: what is there is not compared", self.write_only()));
            }
            (ServedAccess::WriteOnly | ServedAccess::Create, None)
                if *digest_existing || has_digests_of_target(settings) =>
            {
                let mode = self.write_only();
                return Err(format!(
                    "this server's directory is {mode}: no digests are told of what is there\nleave out --checksums, -E and --expect"
                ));
            }
            _ => {}
        }
        if !self.access.reads() {
            hold_delta(delta, &format!("this server's directory is {}", self.write_only()))?;
            hold_sync(sync, self.write_only())?;
        }
        if !self.deltas {
            hold_delta(delta, "this server makes no deltas")?;
            if sync.detect_renames {
                return Err(
                    "this server makes no deltas: it looks for no moved files\nleave out --detect-renames".into()
                );
            }
        }
        if self.access == ServedAccess::Create {
            hold_to_new_names(*in_the_way, sync, kept)?;
            // A part that is there may be another client's.
            (*resume, *keep_partial) = (false, false);
        }
        self.hold_settings(settings)?;
        storage.under_way = storage.under_way.min(UNDER_WAY_MAX);
        inside(path)?;
        hold_modes(modes)?;
        compare.map_or(Ok(()), refuse_following)?;
        if *preserve && compare.is_none() {
            return Err("a server's files have its owner, and no mode that a client says\nleave out -p".into());
        }
        hold_kept(kept)?;
        sync.link_dests
            .iter_mut()
            .chain([&mut sync.backup_dir])
            .filter(|path| !path.is_empty())
            .try_for_each(inside)?;
        if !journal_dir.is_empty() {
            return Err("a server keeps its records of unfinished files beside them\nleave out -a's directory".into());
        }
        match pipe {
            PipeKind::No => Ok(()),
            PipeKind::Standard | PipeKind::Named | PipeKind::Growing(_) => Err(NO_PIPES.into()),
        }
    }

    /// What is about this machine and its network is the server's to decide.
    fn hold_settings(&self, settings: &mut SessionSettings) -> Result<(), String> {
        let SessionSettings {
            job: _,
            number: _,
            session: _,
            secret: _,
            suite,
            frame,
            streams: _,
            streams_max,
            congestion,
            window_bytes,
            window_fixed,
            traffic_class,
            rekey_bytes: _,
            report_files: _,
            blake3: _,
            report_every_ms: _,
            cpus,
            all_paths: _,
            ports,
            silence_ms,
            // Where nothing may be read, hold_target has looked at it.
            checksum: _,
        } = settings;
        *cpus = haul_proto::cpus::Cpus::default();
        *ports = self.ports;
        *silence_ms = (*silence_ms).min(SILENCE_MS_MAX);
        if !self.policy.tuning {
            // What they ask for at their own end, the kernel there decides.
            congestion.clear();
            (*window_bytes, *window_fixed, *traffic_class) = (0, false, 0);
        }
        if frame.bytes() * usize::from(*streams_max) > STREAMS_BYTES_MAX {
            let most = STREAMS_BYTES_MAX / frame.bytes();
            return Err(format!(
                "a server has at most {most} streams with frames of {} KiB\ngive -s {most}, or a smaller --frame",
                frame.get() >> 10
            ));
        }
        match (self.policy.encryption, suite) {
            (true, CipherSuite::AuthenticateOnly) => {
                Err("this server requires encryption\nleave out --no-encrypt".into())
            }
            (true, CipherSuite::Aes256Gcm | CipherSuite::Aes128Gcm | CipherSuite::ChaCha20Poly1305) | (false, _) => {
                Ok(())
            }
        }
    }

    /// The access of a directory that cannot be read, for messages.
    fn write_only(&self) -> &'static str {
        if self.access == ServedAccess::Create { "for new names only" } else { "write-only" }
    }

    /// The lower one of two limits, of which 0 is none.
    fn slower(&self, wanted: u64) -> u64 {
        match self.rate {
            Some(rate) if wanted == 0 => rate,
            Some(rate) => rate.min(wanted),
            None => wanted,
        }
    }
}

/// Programs are for those who could start them anyway.
const NO_PIPES: &str = "a server starts no programs, and opens no pipes\nleave out -N";

/// A target computes them of files that are there already, too.
fn has_digests_of_target(settings: &SessionSettings) -> bool {
    settings.checksum.as_ref().is_some_and(|checksum| !checksum.at_source)
}

fn refuse_following(links: SymlinkMode) -> Result<(), String> {
    match links {
        SymlinkMode::Keep | SymlinkMode::Ignore | SymlinkMode::KeepAll => Ok(()),
        SymlinkMode::Follow => Err("a server follows no symbolic links\nleave out --symlinks follow".into()),
    }
}

/// What is told of an old file is told of what is there. Where it is only what haul would choose, it does not choose it.
fn hold_delta(rules: &mut DeltaOptions, why: &str) -> Result<(), String> {
    if rules.in_place || !matches!(rules.delta, DeltaMode::Off | DeltaMode::Auto) {
        return Err(format!("{why}: nothing is told of the files that are there\nleave out --delta and --inplace"));
    }
    rules.delta = DeltaMode::Off;
    Ok(())
}

/// Where nothing may be read, nothing is told of what is there, and nothing that is there is removed.
fn hold_sync(rules: &SyncOptions, access: &str) -> Result<(), String> {
    let SyncOptions {
        // A directory is made, as it is for a copy.
        into: _,
        equal,
        // Files are kept that are there, as in any copy.
        update: _,
        existing_only: _,
        detect_renames,
        delete,
        delete_max: _,
        removed_before: _,
        delete_filtered: _,
        modify_window_s: _,
        replaces_trees,
        delete_despite_errors: _,
        is_dry,
        tells_items,
        // That links are the same is known from their not being needed.
        source_removes: _,
        // Paths are held as others are.
        backup_dir: _,
        link_dests,
    } = rules;
    if *delete != DeleteMode::No
        || *detect_renames
        || *replaces_trees
        || *is_dry
        || *tells_items
        || *equal == EqualityTest::Digest
        || !link_dests.is_empty()
    {
        return Err(format!(
            "this server's directory is {access}: nothing is told of what is there, and nothing is removed\nleave out --delete, --dry-run, --items, --compare digest and --link-dest"
        ));
    }
    Ok(())
}

/// In a directory for new names, nothing that is there is replaced, moved, changed or given another name.
fn hold_to_new_names(in_the_way: OverwritePolicy, sync: &SyncOptions, kept: &PreserveOptions) -> Result<(), String> {
    let refused = match in_the_way {
        OverwritePolicy::Replace | OverwritePolicy::Follow => {
            Some(("nothing in it is replaced", "-f, or use haul instead of haul sync"))
        }
        OverwritePolicy::Report | OverwritePolicy::ReportEqual | OverwritePolicy::Omit => None,
    };
    let refused = refused
        .or((!sync.backup_dir.is_empty()).then_some(("nothing in it is moved", "--backup-dir")))
        .or((sync.equal != EqualityTest::SizeAndTime).then_some(("times in it stay", "--compare")))
        .or(kept.hard_links.then_some(("no file in it gets another name", "--hard-links")));
    refused.map_or(Ok(()), |(why, option)| {
        Err(format!("this server's directory is for new names only: {why}\nleave out {option}"))
    })
}

/// Set-id bits of the server's own files are not a client's to set, and its umask holds.
fn hold_modes(ModeOptions { file, directory, less_umask }: &mut ModeOptions) -> Result<(), String> {
    *less_umask = true;
    if [file, directory].into_iter().flatten().any(|mode| *mode & !0o777 != 0) {
        return Err("a server sets no set-id and no sticky bits\ngive -m three digits".into());
    }
    Ok(())
}

/// What says who may do what with a server's files, and what is no file, is not a client's to say.
fn hold_kept(kept: &PreserveOptions) -> Result<(), String> {
    let PreserveOptions { holes: _, hard_links: _, attributes, acls, devices, specials } = *kept;
    if attributes || acls {
        return Err(
            "a server sets no extended attributes and no access control lists\nleave out --xattrs and --acls".into()
        );
    }
    if devices || specials {
        return Err("a server makes no devices, FIFOs and sockets\nleave out -D, --devices and --specials".into());
    }
    Ok(())
}

/// Makes a path that was asked for one that begins in the working directory; or says why it does not stay there. What
/// opens it goes through no symbolic link either ([`lookup`]): the look here only gives the reason beforehand.
fn inside(path: &mut Vec<u8>) -> Result<(), String> {
    let shown = escape(path);
    let mut checked = PathBuf::from(".");
    for component in Path::new(OsStr::from_bytes(path)).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => checked.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!("{shown}: this is outside of the served directory\nname what is in it"));
            }
        }
    }
    if lookup::has_link(&checked) {
        return Err(format!("{shown}: a server goes through no symbolic link\nname what the link leads to"));
    }
    // Those say that it is a directory, or mean what is in it.
    let ending = [&b"/."[..], b"/"].into_iter().find(|ending| path.ends_with(ending)).unwrap_or_default();
    *path = [checked.as_os_str().as_bytes(), ending].concat();
    Ok(())
}

#[cfg(test)]
#[path = "request_policy_tests.rs"]
mod tests;
