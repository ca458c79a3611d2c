//! Every limit that a peer is held to, by name. Whatever comes in is checked against these before anything is allocated.

/// Smallest payload of a full frame: 256 KiB.
pub const FRAME_MIN: u32 = 256 << 10;
/// Largest payload of a full frame: 1 MiB.
pub const FRAME_MAX: u32 = 1 << 20;
/// Largest trailer of a frame, in bytes (a pack of [`PACK_FILES_MAX`] files fits).
pub const TRAILER_MAX: usize = 64 << 10;
/// Most files in one pack.
pub const PACK_FILES_MAX: usize = 512;
/// A file of up to this part of a full frame travels in a pack.
pub const PACK_FILE_PART: u32 = 4;

/// Most entries in one Offer.
pub const OFFER_ENTRIES_MAX: usize = 1024;
/// Most entries that are offered and not settled, open directories aside.
pub const ENTRY_WINDOW: usize = 16_384;
/// Most directories that are open at once: the depth of a tree.
pub const OPEN_DIRECTORIES_MAX: usize = 1 << 16;
/// Most bytes that unsettled entries count together, open directories included: names, targets of links, attributes.
pub const UNSETTLED_BYTES_MAX: usize = 40 << 20;
/// Most bytes that open directories count together: their names, at any depth, and 8 MB of attributes.
pub const OPEN_DIRECTORIES_BYTES_MAX: usize = 24 << 20;
/// Bytes that an extended attribute counts besides its name and value: an empty one takes memory, too.
pub const ATTRIBUTE_OVERHEAD: usize = 64;
/// Most runs of frames in one message.
pub const FRAME_RUNS_MAX: usize = 4096;
/// Most runs of frames that have come of files that are not whole, of all files together: each costs some 100 bytes.
pub const UNMERGED_RUNS_MAX: usize = 1 << 18;
/// Most values of frames in one message.
pub const HELD_VALUES_MAX: usize = 2048;
/// Most runs of frames that were asked for and are not under way yet: more were never in flight.
pub const RESENDS_MAX: usize = 1 << 16;
/// Most frames that a target holds and a source was told to compare, and has not: so many values are in memory.
pub const COMPARES_MAX: usize = 1 << 14;
/// Most marks of an old file's blocks in one message.
pub const MARKS_MAX: usize = 1 << 13;
/// Most frames whose blocks a target has marked and that have not come: so many marks are in memory at the source, and
/// values of blocks at the target, 8 MiB of these at most.
pub const MARKED_FRAMES_MAX: usize = 1 << 10;
/// Most sums of an old file's blocks in one message.
pub const SUMS_MAX: usize = 1 << 15;
/// Shortest block whose sums are told, in bytes.
pub const ROLLING_BLOCK_MIN: u32 = 2 << 10;
/// Longest block whose sums are told, in bytes.
pub const ROLLING_BLOCK_MAX: u32 = 128 << 10;
/// Most blocks of one old file whose sums are told.
pub const ROLLING_BLOCKS_MAX: u64 = 1 << 20;
/// Most memory for sums, and what they are looked up by, of all files that are not settled, in bytes.
pub const SUMS_BYTES_MAX: u64 = 64 << 20;
/// Most deltas in a job whose frame gets another value than the source said: each tells a source that guesses something
/// of the old file. One more is a fault.
pub const WRONG_DELTAS_MAX: u32 = 1;
/// Most old files that a target remembers as lost to deltas; with more, no old file is of use in that session.
pub const LOST_BASES_MAX: usize = 1 << 12;
/// Bytes that a source hashes in vain for each byte that it searches for blocks of an old file: where sums mislead it more
/// often, the file is sent without delta.
pub const VAIN_HASHES_PER_BYTE: u64 = 4;
/// Most steps of making a frame of an old file.
pub const DELTA_STEPS_MAX: usize = 4096;
/// Most files that travel in frames and are begun and not settled: each is open at both ends. At 1,024 descriptors,
/// which a process has unless it is given more, directories and streams still have theirs.
pub const LARGE_IN_FLIGHT_MAX: usize = 256;
/// Most bytes of a flow that are read at the source and not known to be written at the target. Both ends may have to hold
/// that much; on a long path, no more than this moves in a round trip.
pub const FLOW_AHEAD: u64 = 64 << 20;
/// Most bytes that a symbolic link holds (Linux: PATH_MAX less its NUL).
pub const SYMLINK_MAX: usize = 4095;
/// Most extended attributes of an entry.
pub const ATTRIBUTES_MAX: usize = 1024;
/// Most bytes in the name of an extended attribute (Linux: XATTR_NAME_MAX).
pub const ATTRIBUTE_NAME_MAX: usize = 255;
/// Most bytes in the names and values of an entry's extended attributes (Linux: XATTR_SIZE_MAX for one).
pub const ATTRIBUTES_BYTES_MAX: usize = 64 << 10;
/// Most bytes behind an entry: what few have.
pub const MORE_BYTES_MAX: usize = 72 << 10;
/// Most bytes that files with hard links count, of which more names may come: both ends remember these. A million files
/// with names of 20 bytes fit, 64 in a directory.
pub const LINKED_FILES_BYTES_MAX: usize = 64 << 20;
/// Bytes that such a file counts besides its name.
pub const LINKED_FILE_BYTES: usize = 32;
/// Bytes that a directory above such files counts besides its name, once for all files below it.
pub const LINKED_DIRECTORY_BYTES: usize = 512;
/// Most ways in which an entry differs that are told of it.
pub const DIFFERENCES_MAX: usize = 11;
/// Most extended attributes that are named of an entry where they differ.
pub const DIFFERING_ATTRIBUTES_MAX: usize = 32;
/// Most ranges of bytes that are told of a file that differs.
pub const DIFFERING_RANGES_MAX: usize = 64;
/// Most bytes in a text meant for a person.
pub const TEXT_MAX: usize = 4096;
/// Most bytes in a path that a person typed, or that one is shown.
pub const PATH_MAX: usize = 64 << 10;
/// Most operands of one job.
pub const OPERANDS_MAX: usize = 1 << 18;
/// Most operands of a list in one message.
pub const LISTED_BATCH_MAX: usize = 512;
/// Largest message with operands of a list.
pub const LISTED_BATCH_BYTES: usize = 256 << 10;
/// Most such messages whose operands were not all passed by: each end has so many in memory.
pub const LISTED_BATCHES_AHEAD: usize = 32;

/// Most lists of patterns in one job: options, and files that options name.
pub const FILTER_LISTS_MAX: usize = 1 << 14;
/// Most bytes of one of them.
pub const FILTER_FILE_MAX: usize = 1 << 20;
/// Most bytes of all of them.
pub const FILTERS_BYTES_MAX: usize = 8 << 20;
/// Most names of files with patterns that are looked for in each directory.
pub const FILTER_NAMES_MAX: usize = 16;
/// Most bytes of such a file in a directory.
pub const DIRECTORY_FILTER_MAX: usize = 64 << 10;
/// Most rules that such files have together, of all directories that are open.
pub const OPEN_RULES_MAX: usize = 1 << 17;
/// Most names in one LeftOut.
pub const LEFT_OUT_NAMES_MAX: usize = 512;

/// Longest name of a user or of a group (Linux has 32 bytes; directories of accounts have more).
pub const ACCOUNT_NAME_MAX: usize = 256;
/// Most rules of what users, or groups, become at a target.
pub const OWNER_MAPS_MAX: usize = 1024;
/// Most users, and most groups, whose names a source tells.
pub const OWNERS_MAX: usize = 1 << 16;
/// Most earlier copies whose files a target may make names of.
pub const LINK_DESTS_MAX: usize = 20;

/// Most bytes of a digest that people ask for: SHA-512's.
pub const CHECKSUM_MAX: usize = 64;
/// Most lines of digests that files are held against: 80 bytes at most each at both the controller and the target, and 4
/// more for their order.
pub const EXPECTED_LINES_MAX: usize = 1 << 23;
/// Most bytes of such lines in one message.
pub const EXPECTED_PIECE_MAX: usize = 64 << 10;

/// Largest message between source and target.
pub const PEER_MESSAGE_MAX: usize = 1 << 20;
/// Largest message between the controller and a worker (a Request holds every operand).
pub const LINK_MESSAGE_MAX: usize = 64 << 20;
/// Largest piece of a tunnelled stream in one link frame: small enough that control messages never wait long behind it.
pub const TUNNEL_PIECE_MAX: usize = 64 << 10;

/// Longest time between two beats on a link, in milliseconds.
pub const BEAT_MS: u64 = 1000;
/// Whoever hears nothing at all on a link for this long gives the other end up, unless the Request says otherwise; in
/// milliseconds. With what there is to be tidied up then, all is over within 15 s.
pub const SILENCE_MS: u64 = 13_000;

/// Longest time for which a worker that is asked to measures one kind of computing, in milliseconds: it hears nothing meanwhile.
pub const MEASURE_MS_MAX: u32 = 2000;

/// Longest name of a congestion control (Linux has 15 bytes for it).
pub const CONGESTION_MAX: usize = 16;
/// Most data streams in a session.
pub const STREAMS_MAX: u16 = 256;
/// Bytes that one key may seal before the next one is derived: 64 GiB.
pub const REKEY_BYTES: u64 = 64 << 30;
/// Records that one key may seal before the next one is derived. Far below AES-GCM's bound of 2^32.
pub const REKEY_RECORDS: u64 = 1 << 28;

/// Largest greeting on a connection that has not proven itself.
pub const GREETING_MAX: usize = 1024;
/// Most connections that have not proven themselves, at any time.
pub const PENDING_CONNECTIONS_MAX: usize = 64;
/// Most of them from one network (an IPv4 address, or a /64 of IPv6), at a server.
pub const PENDING_CLIENTS_FROM_NETWORK_MAX: usize = 16;
/// The same where data connections are accepted: an end makes many at a time.
pub const PENDING_STREAMS_FROM_NETWORK_MAX: usize = 48;
/// Time in which a connection must prove itself.
pub const GREETING_DEADLINE_MS: u64 = 10_000;
/// The same while half of the places are taken.
pub const PRESSED_DEADLINE_MS: u64 = 2_000;
/// Most addresses that an end names as its own.
pub const ADDRESSES_MAX: usize = 64;
/// Most frames that a stream has under way past the page cache: with the largest frames, 64 MiB.
pub const UNDER_WAY_MAX: u8 = 64;
/// Most links between two ends that are in use at a time, while they are compared or together.
pub const LINKS_MAX: usize = 8;
/// Longest name of an interface (Linux has 16 bytes for it, with its NUL).
pub const INTERFACE_MAX: usize = 15;
/// Least rate that a limit sets, in bytes a second: so that a job goes on at all.
pub const RATE_MIN: u64 = 1024;
/// CPU numbers that can be named are below this.
pub const CPUS_MAX: usize = 1024;
/// Most files that a target names as those that took longest.
pub const SLOWEST_MAX: usize = 16;
/// Most streams that an end tells the figures of: those that were replaced included.
pub const STREAM_FIGURES_MAX: usize = 2 * STREAMS_MAX as usize;
/// Largest figure in a report of a worker: sums of several fit into 64 bits. An honest worker cuts what is more.
pub const FIGURE_MAX: u64 = 1 << 60;
/// A target has each frame of a file sent again so often on average, and each small file.
pub const RESENDS_PER_FRAME_MAX: u64 = 16;
/// So many more frames of each file are sent again.
pub const RESENDS_PER_FILE_MAX: u64 = 64;
/// Most addresses of an end that another end tries to connect to.
pub const ROUTES_MAX: usize = 32;

/// Most names in a path: each has a byte at least, and a slash.
pub(crate) const NAMES_MAX: usize = PATH_MAX / 2;
