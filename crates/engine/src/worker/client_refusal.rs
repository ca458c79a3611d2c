//! Refusals of a served worker: what a client's Request asks for, and what stands against it.

use haul_proto::integrity::FrameLen;
use haul_proto::path::escape;

use crate::worker::client_limits::ServedAccess;

/// A Request that exceeds a server's limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientRefusal {
    /// An act that the access to the directory excludes.
    #[error("this server's directory is {}: {act}", description(*.access))]
    Access {
        /// The permitted access.
        access: ServedAccess,
        /// The act.
        act: ForbiddenAct,
    },
    /// A measurement of the host.
    #[error("a server permits no measurements\nprobe its host over ssh")]
    Measurement,
    /// Two-way synchronisation.
    #[error(
        "a server permits no two-way synchronisation: it keeps no archives for its clients\nsynchronise with its host over ssh"
    )]
    Replica,
    /// Source arguments from a list.
    #[error("a server reads no lists of files\nname the files, or a directory with -r")]
    FileList,
    /// A program, or a pipe of the server's host.
    #[error("a server starts no programs and opens no pipes\nomit --pipe")]
    Program,
    /// The pipe of a server that has a directory.
    #[error("this server has a directory and no pipe\nwrite ./- for a file named -")]
    PipeOfDirectory,
    /// Base files, where the operator excludes deltas.
    #[error("this server makes no deltas: existing files are not base files\nomit --delta and --inplace")]
    Deltas,
    /// Moved files, which deltas find.
    #[error("this server makes no deltas, so it finds no moved files\nomit --detect-renames")]
    RenameDetection,
    /// Owners and modes of the source.
    #[error("haul serve keeps no owners and modes\nomit -p, or use -r instead of -a")]
    OwnersAndModes,
    /// A separate directory for journals.
    #[error("a server keeps journals beside partial files\nomit --journal-dir")]
    JournalDirectory,
    /// More memory for streams than a client may use.
    #[error("a server permits at most {most} streams with frames of {} KiB\nuse -s {most}, or a smaller --frame", .frame.get() >> 10)]
    StreamMemory {
        /// The highest number of streams with these frames.
        most: usize,
        /// The requested frame length.
        frame: FrameLen,
    },
    /// Data connections without encryption.
    #[error("this server requires encryption\nomit --no-encrypt")]
    ClearText,
    /// The targets of symbolic links.
    #[error("a server follows no symbolic links\nomit --symlinks")]
    LinkTargets,
    /// Set-id or sticky bits.
    #[error("a server sets no set-id or sticky bits\nuse three digits for --mode")]
    SpecialModes,
    /// Extended attributes or access control lists.
    #[error("a server sets no extended attributes or access control lists\nomit --xattrs and --acls")]
    Attributes,
    /// Special files.
    #[error("a server creates no devices, FIFOs or sockets\nomit -a, --devices and --specials")]
    SpecialFiles,
    /// A path that leads out of the directory.
    #[error("{shown}: outside the served directory\nuse a path inside it", shown = escape(.0))]
    OutsidePath(Vec<u8>),
    /// A path with a symbolic link.
    #[error("{shown}: a server follows no symbolic links\nuse the path of the link's target", shown = escape(.0))]
    LinkInPath(Vec<u8>),
    /// Data from a pipe for clients that send.
    #[error("this server's pipe is write-only: reading is forbidden")]
    WriteOnlyPipe,
    /// Data for a pipe for clients that fetch.
    #[error("this server's pipe is read-only: writing is forbidden")]
    ReadOnlyPipe,
    /// A copy that only compares, with a pipe.
    #[error("a served pipe holds nothing to compare with")]
    PipeComparison,
    /// Files of a server that has a pipe.
    #[error("this server has a pipe and no directory\nend its line in :-")]
    FilesOfPipe,
}

/// An act that the access to a served directory excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenAct {
    /// Fetching files.
    #[error("reading is forbidden")]
    Reading,
    /// Sending files.
    #[error("writing is forbidden")]
    Writing,
    /// Comparing files.
    #[error("comparing is forbidden")]
    Comparing,
    /// Removing copied source files.
    #[error("deleting is forbidden\nomit --remove-source-files")]
    SourceRemoval,
    /// Removing entries.
    #[error("deleting is forbidden")]
    Removal,
    /// Digests of existing files.
    #[error("digests of its files are secret\nomit --checksums, --checksum and --expect")]
    Digests,
    /// Deltas against existing files, which reveal their contents.
    #[error("existing files are not base files\nomit --delta and --inplace")]
    BaseFiles,
    /// Sync options that reveal or delete existing entries.
    #[error(
        "existing entries are secret and are not deleted\nomit --delete, --dry-run, --items, --compare digest and --link-dest"
    )]
    ExistingEntries,
    /// Ranges of a file from several runs.
    #[error("several runs cannot share a partial file\nplan the job with a larger --shard-range")]
    Ranges,
    /// Replacing existing files.
    #[error("replacing is forbidden\nomit -f, or use haul instead of haul sync")]
    Replacement,
    /// Moving replaced files to backups.
    #[error("moving is forbidden\nomit --backup-dir")]
    Backups,
    /// Changing the times of existing files.
    #[error("changing times is forbidden\nomit --compare")]
    TimeChanges,
    /// Hard links to existing files.
    #[error("hard links are forbidden\nomit --hard-links")]
    HardLinks,
}

/// Returns the access as messages describe it.
fn description(access: ServedAccess) -> &'static str {
    match access {
        ServedAccess::Create => "for new names only",
        ServedAccess::ReadOnly | ServedAccess::WriteOnly | ServedAccess::Both => access.word(),
    }
}
