//! All limits on a peer's input, by name. Both ends check input against these before they allocate memory.

/// Smallest payload of a full frame: 256 KiB.
pub const FRAME_MIN: u32 = 256 << 10;
/// Largest payload of a full frame: 1 MiB.
pub const FRAME_MAX: u32 = 1 << 20;
/// Largest trailer of a frame, in bytes (a pack of [`PACK_FILES_MAX`] files fits).
pub const TRAILER_MAX: usize = 64 << 10;
/// Most files in one pack.
pub const PACK_FILES_MAX: usize = 512;
/// Divisor of a full frame: files up to this part of it travel in a pack.
pub const PACK_FILE_PART: u32 = 4;

/// Most entries in one Offer.
pub const OFFER_ENTRIES_MAX: usize = 1024;
/// Most entries offered and not complete, open directories aside.
pub const ENTRY_WINDOW: usize = 16_384;
/// Most directories open at once: the depth of a tree.
pub const OPEN_DIRECTORIES_MAX: usize = 1 << 16;
/// Most bytes counted for incomplete entries together, open directories included: names, link targets, attributes.
pub const UNSETTLED_BYTES_MAX: usize = 40 << 20;
/// Most bytes counted for open directories together: their names, at any depth, and 8 MB of attributes.
pub const OPEN_DIRECTORIES_BYTES_MAX: usize = 24 << 20;
/// Bytes counted for an extended attribute besides its name and value, since an empty one takes memory, too.
pub const ATTRIBUTE_OVERHEAD: usize = 64;
/// Most runs of frames in one message.
pub const FRAME_RUNS_MAX: usize = 4096;
/// Most runs of received frames of all incomplete files together. Each takes some 100 bytes.
pub const UNMERGED_RUNS_MAX: usize = 1 << 18;
/// Most frame values in one message.
pub const HELD_VALUES_MAX: usize = 2048;
/// Most requested runs of frames that are not in flight yet. More were never in flight.
pub const RESENDS_MAX: usize = 1 << 16;
/// Most frames that the source still has to compare with the target's values. Their values are held in memory.
pub const COMPARES_MAX: usize = 1 << 14;
/// Most hashes of a base file's blocks in one message.
pub const MARKS_MAX: usize = 1 << 13;
/// Most frames that a target sent block hashes for and that have not arrived. The source holds these hashes in memory.
/// The target holds the values of the blocks, at most 8 MiB.
pub const MARKED_FRAMES_MAX: usize = 1 << 10;
/// Most rolling signatures of a base file's blocks in one message.
pub const SUMS_MAX: usize = 1 << 15;
/// Shortest block with a rolling signature, in bytes.
pub const ROLLING_BLOCK_MIN: u32 = 1 << 10;
/// Longest block with a rolling signature, in bytes.
pub const ROLLING_BLOCK_MAX: u32 = 128 << 10;
/// Shortest strong hash of a rolling signature, in bytes.
pub const STRONG_BYTES_MIN: u8 = 4;
/// Longest strong hash of a rolling signature, in bytes.
pub const STRONG_BYTES_MAX: u8 = 8;
/// Most blocks of one base file with rolling signatures.
pub const ROLLING_BLOCKS_MAX: u64 = 1 << 20;
/// Most memory for rolling signatures and their index, of all incomplete files, in bytes.
pub const SUMS_BYTES_MAX: u64 = 64 << 20;
/// Most deltas in a copy with a frame value other than the source sent. Each lets a guessing source learn something of
/// the base file. One more is an error.
pub const WRONG_DELTAS_MAX: u32 = 1;
/// Most base files that a target remembers as useless for deltas. Beyond that number, the session uses no base file.
pub const LOST_BASES_MAX: usize = 1 << 12;
/// Bytes hashed in vain for each byte searched for blocks of a base file. Beyond this ratio of false matches, the
/// source sends the file without delta.
pub const VAIN_HASHES_PER_BYTE: u64 = 4;
/// Most instructions to build one frame from a base file.
pub const DELTA_STEPS_MAX: usize = 4096;
/// Most started and incomplete files that travel in frames; each is open at both ends. With the default limit of 1,024
/// descriptors, enough are left for directories and streams.
pub const LARGE_IN_FLIGHT_MAX: usize = 256;
/// Most bytes of a flow read at the source and not known to be written at the target. Both ends may have to buffer
/// them. On a long path, this is the most data per round trip.
pub const FLOW_AHEAD: u64 = 64 << 20;
/// Longest target of a symbolic link in bytes (Linux: PATH_MAX less its NUL).
pub const SYMLINK_MAX: usize = 4095;
/// Most extended attributes of an entry.
pub const ATTRIBUTES_MAX: usize = 1024;
/// Most bytes in the name of an extended attribute (Linux: XATTR_NAME_MAX).
pub const ATTRIBUTE_NAME_MAX: usize = 255;
/// Most bytes in the names and values of an entry's extended attributes (Linux: XATTR_SIZE_MAX for one).
pub const ATTRIBUTES_BYTES_MAX: usize = 64 << 10;
/// Most bytes of an entry's rare attributes.
pub const MORE_BYTES_MAX: usize = 128 << 10;
/// Most bytes counted for files with further hard links to come; both ends remember these files. A million files with
/// names of 20 bytes fit, with 64 in a directory.
pub const LINKED_FILES_BYTES_MAX: usize = 64 << 20;
/// Bytes counted for such a file besides its name.
pub const LINKED_FILE_BYTES: usize = 32;
/// Bytes counted for a directory above such files besides its name, once for all files below it.
pub const LINKED_DIRECTORY_BYTES: usize = 512;
/// Most differences reported of an entry.
pub const DIFFERENCES_MAX: usize = 11;
/// Most differing extended attributes reported of an entry.
pub const DIFFERING_ATTRIBUTES_MAX: usize = 32;
/// Most differing byte ranges reported of a file.
pub const DIFFERING_RANGES_MAX: usize = 64;
/// Most bytes in a text for the user.
pub const TEXT_MAX: usize = 4096;
/// Most bytes in a path typed by the user or displayed.
pub const PATH_MAX: usize = 64 << 10;
/// Most source arguments of one copy.
pub const OPERANDS_MAX: usize = 1 << 18;
/// Most patterns of source arguments in one copy, after the expansion of braces.
pub const PATTERN_ALTERNATIVES_MAX: usize = 1000;
/// Most paths that these patterns match.
pub const PATTERN_MATCHES_MAX: usize = 100_000;
/// Most bytes of these paths, each with its base.
pub const PATTERN_MATCHES_BYTES: usize = 32 << 20;
/// Most source arguments of a list in one message.
pub const LISTED_BATCH_MAX: usize = 512;
/// Largest message with source arguments of a list.
pub const LISTED_BATCH_BYTES: usize = 256 << 10;
/// Most such messages with unfinished arguments: each end holds that many in memory.
pub const LISTED_BATCHES_AHEAD: usize = 32;

/// Most lists of patterns in one copy: options, and files named by options.
pub const FILTER_LISTS_MAX: usize = 1 << 14;
/// Most bytes of one such list.
pub const FILTER_FILE_MAX: usize = 1 << 20;
/// Most bytes of all such lists.
pub const FILTERS_BYTES_MAX: usize = 8 << 20;
/// Most names of per-directory filter files.
pub const FILTER_NAMES_MAX: usize = 16;
/// Most bytes of a per-directory filter file.
pub const DIRECTORY_FILTER_MAX: usize = 64 << 10;
/// Most rules of per-directory filter files, of all open directories together.
pub const OPEN_RULES_MAX: usize = 1 << 17;
/// Most changed paths of a watched tree: beyond, a run looks at everything.
pub const CHANGED_PATHS_MAX: usize = 4096;
/// Most names in one Excluded.
pub const LEFT_OUT_NAMES_MAX: usize = 512;

/// Longest name of a user or group in bytes (Linux has 32; directory services have more).
pub const ACCOUNT_NAME_MAX: usize = 256;
/// Most rules that map users, or groups, at a target.
pub const OWNER_MAPS_MAX: usize = 1024;
/// Most rules that change modes.
pub const MODE_RULES_MAX: usize = 64;
/// Most users, and most groups, with names sent by a source.
pub const OWNERS_MAX: usize = 1 << 16;
/// Most earlier copies as the sources of hard links (`--link-dest`).
pub const LINK_DESTS_MAX: usize = 20;
/// Longest suffix of backups: a name (Linux: NAME_MAX).
pub const SUFFIX_MAX: usize = 255;

/// Most bytes of a selectable digest: SHA-512's.
pub const CHECKSUM_MAX: usize = 64;
/// Most lines of expected digests. Each takes at most 80 bytes at both the controller and the target, and 4 more for
/// the sort order.
pub const EXPECTED_LINES_MAX: usize = 1 << 23;
/// Most bytes of expected digests in one message.
pub const EXPECTED_CHUNK_MAX: usize = 64 << 10;

/// Largest message between source and target.
pub const PEER_MESSAGE_MAX: usize = 1 << 20;
/// Largest message between the controller and a worker (a Request holds every source argument).
pub const CONTROL_MESSAGE_MAX: usize = 64 << 20;
/// Largest chunk of a tunnelled stream in one frame of a control channel. It is small, so that control messages never
/// wait long behind it.
pub const TUNNEL_CHUNK_MAX: usize = 64 << 10;

/// Longest time between two heartbeats on a control channel, in milliseconds.
pub const BEAT_MS: u64 = 1000;
/// Idle timeout of a control channel in milliseconds, unless the Request sets another. An end without any input for
/// this time gives up the other end. With cleanup, everything ends within 15 s.
pub const SILENCE_MS: u64 = 13_000;

/// Longest time for one kind of computation in a worker's measurement, in milliseconds. The worker reads no messages
/// meanwhile.
pub const MEASURE_MS_MAX: u32 = 2000;

/// Most bytes of a file in one answer of a file session.
pub const FILE_READ_MAX: u32 = 4 << 20;
/// Most files that a file session holds open.
pub const SESSION_FILES_MAX: usize = 64;
/// Most unanswered operations of a file session. The worker holds their paths in memory.
pub const FILE_OPERATIONS_AHEAD: usize = 16;
/// Most entries in one answer of a listing.
pub const LISTED_ENTRIES_MAX: usize = 16_384;
/// Most failed entries that an answer names.
pub const FAILED_ENTRIES_MAX: usize = 100;
/// Most paths, updates or actions in one step of a replica session.
pub const REPLICA_BATCH_MAX: usize = 4096;
/// A step or answer of a replica session is sent once its paths have this many bytes.
pub const REPLICA_BATCH_BYTES: usize = 1 << 20;
/// Most updates of a replica in one run.
pub const REPLICA_UPDATES_MAX: u64 = 1 << 27;
/// Most generations of an archive.
pub const REPLICA_GENERATIONS_MAX: usize = 8;
/// Longest machine-id(5), or name of a host.
pub const MACHINE_ID_MAX: usize = 256;

/// Longest name of a congestion control in bytes (Linux has 15).
pub const CONGESTION_MAX: usize = 16;
/// Most data streams in a session.
pub const STREAMS_MAX: u16 = 256;
/// Bytes encrypted with one key before the next one is derived: 64 GiB.
pub const REKEY_BYTES: u64 = 64 << 30;
/// Records encrypted with one key before the next one is derived. It is far below AES-GCM's bound of 2^32.
pub const REKEY_RECORDS: u64 = 1 << 28;

/// Largest greeting on an unauthenticated connection.
pub const GREETING_MAX: usize = 1024;
/// Most unauthenticated connections at any time.
pub const PENDING_CONNECTIONS_MAX: usize = 64;
/// Most unauthenticated connections from one network (an IPv4 address, or a /64 of IPv6), at a server.
pub const PENDING_CLIENTS_FROM_NETWORK_MAX: usize = 16;
/// The same for data connections: an end opens many at a time.
pub const PENDING_STREAMS_FROM_NETWORK_MAX: usize = 48;
/// Time limit for authentication, in milliseconds.
pub const GREETING_DEADLINE_MS: u64 = 10_000;
/// The same while half of the pending connections are in use.
pub const PRESSED_DEADLINE_MS: u64 = 2_000;
/// Most local addresses that an end advertises.
pub const ADDRESSES_MAX: usize = 64;
/// Most frames of a stream in flight with O_DIRECT: with the largest frames, 64 MiB.
pub const UNDER_WAY_MAX: u8 = 64;
/// Most network links between two ends in use at a time, in comparison or together.
pub const LINKS_MAX: usize = 8;
/// Longest name of an interface in bytes (Linux has 16, with its NUL).
pub const INTERFACE_MAX: usize = 15;
/// Lowest rate limit in bytes per second, so that a copy makes progress.
pub const RATE_MIN: u64 = 1024;
/// Upper bound (exclusive) of CPU numbers.
pub const CPUS_MAX: usize = 1024;
/// Most files in a target's list of the slowest.
pub const SLOWEST_MAX: usize = 16;
/// Most streams in an end's report, replaced streams included.
pub const STREAM_FIGURES_MAX: usize = 2 * STREAMS_MAX as usize;
/// Most ranges of a file.
pub const RANGES_MAX: u64 = 1 << 20;
/// Largest number in a worker's report, so that sums of several fit into 64 bits. An honest worker clamps its numbers.
pub const FIGURE_MAX: u64 = 1 << 60;
/// Average number of times that a target may request each frame of a file, or each small file, anew.
pub const RESENDS_PER_FRAME_MAX: u64 = 16;
/// Extra frames of each file that a target may request anew.
pub const RESENDS_PER_FILE_MAX: u64 = 64;
/// Most addresses of an end that the other end tries to connect to.
pub const ROUTES_MAX: usize = 32;

/// Most names in a path: each has at least one byte and a slash.
pub(crate) const NAMES_MAX: usize = PATH_MAX / 2;
