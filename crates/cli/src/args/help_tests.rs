//! Help as it is printed.

use super::*;

#[test]
fn the_first_screen_fits_a_screen() {
    let text = short();
    assert!((24..=41).contains(&text.lines().count()), "{} lines", text.lines().count());
    let others = [full(), filters::HELP.to_owned(), EXIT.to_owned(), SIZES.to_owned()];
    let others: Vec<_> = others.into_iter().chain(COMMANDS.iter().map(|row| command(row.name))).collect();
    for line in text.lines().chain(others.iter().flat_map(|help| help.lines())) {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
}

#[test]
fn every_listed_option_is_in_the_full_help() {
    let text = full();
    for row in COPY.iter().filter(|row| row.section != HelpSection::Unlisted) {
        let lines = wrapped(row.help, TEXT_WIDTH);
        assert!(lines.iter().all(|line| text.contains(line)), "{}", row.id);
    }
}

#[test]
fn every_command_and_the_options_used_most_are_on_the_first_screen() {
    let text = short();
    for row in COMMANDS.iter().filter(|row| !row.is_rare) {
        assert!(text.contains(&format!("\n  {}", row.signature())), "{}", row.name);
    }
    let essential: Vec<_> = COPY.iter().filter(|row| row.essential).map(|row| row.id).collect();
    let wanted = ["force", "exclude", "archive", "delete", "dry-run", "streams", "xfrrate", "json", "verbose"];
    assert_eq!(essential, [&["recursive"][..], &wanted].concat());
}

#[test]
fn every_command_and_topic_has_help() {
    let on = |topic: &str| on(Dialect::Haul, OsStr::new(topic)).unwrap();
    for row in &COMMANDS {
        assert!(!on(row.name).is_empty(), "{}", row.name);
    }
    assert_eq!(on("exit").lines().count(), 8);
    assert!(on("size").contains("powers of 1024"));
    assert!(on("completions").contains("haul completions bash >"));
    assert!(on("bash").starts_with("# Completion of haul for bash"));
}

#[test]
fn short_help() {
    insta::assert_snapshot!(short(), @"
    haul copies files between hosts: encrypted, verified, over parallel streams

    haul [OPTIONS] SOURCE... TARGET       each a path or [user@]host:path

    Commands:
      sync SOURCE... TARGET     make TARGET match SOURCE
      twoway A B                bring two directories that both changed to agreement
      verify SOURCE... TARGET   compare without copying
      status [HOST:]PATH...     list partial files
      clean [HOST:]PATH...      delete partial files
      serve DIR                 accept transfers without ssh
      survey PATH...            summarise what a copy would move
      probe [SOURCE] TARGET     measure disks and network
      net HOST                  measure the network alone
      sweep SOURCE... TARGET    benchmark settings
      report FILE...            chart copies from their --json output
      job STEP ...              copy with many hosts, in shards
      copies [ACTION NAME]      list detached copies, or follow one
      config [HOST]             show effective options and their origin
      demo                      copy generated data on this machine
      help [TOPIC]              explain an option, a command or a topic
      ls, du, mkdir, rm PATH    files here or at host:path

    Options used most:
      -r, --recursive           copy directories recursively
      -f, --force               overwrite existing files that differ
          --exclude PATTERN     skip matching paths (gitignore syntax: '*.o',
                                '/build/', 'src/**/*.tmp')
      -a, --archive             -r with modes, owners, groups; -aHAX: all metadata
          --delete [WHEN]       delete extraneous files from the target: after
                                (default), during or before the copy
      -n, --dry-run             show what would be copied, changed and deleted
      -s, --streams N           use 1 to 256 parallel streams (default: automatic)
          --xfrrate RATE        limit the total rate: 50m (MiB/s), 50MB/s, 400Mbit/s
                                (SIGUSR1 doubles it, SIGUSR2 halves it)
          --json                print events as JSON lines
      -v, --verbose             print more: -v names, -vv path, -vvv sizes of files

    haul -r run7 db1:/archive/    haul db1:'~/big.db' .    haul rsync -avz a/ db1:b
    haul help NAME explains an option, command or topic (all, letters, size, exit)
    ");
}

#[test]
fn full_help() {
    insta::assert_snapshot!(full(), @r"
    haul [OPTIONS] SOURCE... TARGET

    SOURCE and TARGET are local paths, or [user@]host:path on a remote host. IPv6
    addresses are written in brackets: [fe80::1%eth0]:path. Write ./a:b for a local
    path that contains a colon. Relative remote paths, and ~/path, start in the
    login directory. With several sources, TARGET is a directory. -- ends the
    options. Rerun an interrupted copy to resume it.

    SIZE is a number of bytes, or one with a unit of rsync, in either case:
      k, m, g, t, p (or KiB, MiB, ...)  powers of 1024: 512k, 1.5g, 64KiB
      KB, MB, GB, TB, PB                powers of 1000: 10MB
    RATE is a SIZE per second (50m, 50MB/s), or a number of bits per second, in
    powers of 1000 (400Mbit/s, 1gbps). In a RATE, the B of bytes is a capital.
    TIME is a number of seconds, or numbers with d, h, m (min), s or ms, largest
    first: 90, 10m, 1h30m, 1.5h. Sizes and rates are rounded down.

    Copying:
      -r, --recursive           copy directories recursively
      -f, --force               overwrite existing files that differ
          --omit                skip files that exist on the target
          --preserve            same as --perms --owner --group; times are always
                                preserved
      -p, --perms               preserve modes; set-id bits need the owner or group
                                as well
          --owner               preserve owners (root only)
      -g, --group               preserve groups
          --no-times            do not preserve times of modification
          --omit-dir-times      do not preserve times of directories
          --omit-link-times     do not preserve times of symbolic links
          --mode [DIRS/][FILES] set octal modes, for example 750/640
          --chmod RULES         change the source's modes first, as chmod does; D is
                                for directories, F for files (D2775,Fu+rw,go-w)
          --mkdir               create missing directories of the target
          --dirbase BASE        recreate source paths relative to BASE below the
                                target
          --infiles FILE        read source paths from FILE, one a line (-: standard
                                input)
          --pairs FILE          copy what each line of FILE names: a source and a
                                target (-: standard input)
          --to TARGET,...       copy to each of these targets at the same time, and
                                read the source's data once (\, is a comma)
      -0, --null                paths in --infiles and --pairs end with NUL
          --symlinks MODE       symbolic links inside directories: keep (default),
                                follow, ignore, safe, follow-unsafe or follow-dirs
          --readable            skip unreadable files and directories
          --no-empty-dirs       skip empty directories
      -x, --one-file-system     stay on the file system of each source; mount points
                                become empty directories
          --order               write sequentially: one stream, buffered I/O
          --pipe ENDS           treat the source (i), target (o) or both (io) as a
                                shell command or FIFO
          --realtime [TIME]     follow a growing file until it has not grown for
                                TIME (default: 10s)
          --refuse-growing      fail files that grow while being read, instead of
                                copying them up to their first length
          --delta MODE          transfer only changed blocks of existing files: auto
                                (default), blocks (aligned), rolling (at any offset)
                                or off
          --inplace             with -f, update files in place instead of replacing
                                them
          --keep                keep and resume partial files from 1 MiB on
                                (default: from 16 MiB on)
          --journal-dir [DIR]   the same as --keep, with resume journals in DIR
                                instead of beside the files
          --no-resume           restart partial files from the beginning, and write
                                no resume journals
          --no-keep             delete partial files when the copy fails
          --nofschk             skip the free-space check
          --timelimit TIME      stop after TIME (90, 10m, 2h); rerun to resume
          --config FILE         read options from FILE instead of the user and
                                system configuration
      -a, --archive             -r with modes, owners, groups; -aHAX: all metadata
      -H, --hard-links          preserve hard links
      -X, --xattrs              preserve extended attributes
      -A, --acls                preserve access control lists (implies -p)
      -S, --sparse [MODE]       holes: keep (default), make (also for runs of zeros)
                                or fill
          --numeric-ids         map owners and groups by number instead of by name
          --usermap FROM:TO,... map users by name, number or range (anna:smith,
                                0-99:nobody, *:guest)
          --groupmap FROM:TO,...
                                map groups likewise
          --chown USER:GROUP    set owner and group of everything (either may be
                                omitted)
          --devices             preserve device nodes (root only)
          --specials            preserve FIFOs and sockets

    Filtering:
          --include PATTERN     copy matching paths; the first matching rule decides
                                (haul help filters)
          --exclude PATTERN     skip matching paths (gitignore syntax: '*.o',
                                '/build/', 'src/**/*.tmp')
          --include-from FILE   read patterns to copy from FILE, in the form of a
                                .gitignore (! skips; the last match decides)
          --exclude-from FILE   read patterns to skip from FILE, in the form of a
                                .gitignore
          --filter-files NAME   read patterns from files called NAME in the source's
                                directories (.gitignore)
          --min-size SIZE       skip files smaller than SIZE
          --max-size SIZE       skip files larger than SIZE
          --newer WHEN          copy only files modified since WHEN (2026-11-01 in
                                UTC, or an age: 12h, 7d)
          --older WHEN          copy only files modified before WHEN
          --explain PATH        print which rule includes or excludes PATH, and exit

    Syncing:
          --compare BY          consider a file unchanged by time (default: size and
                                mtime), size, digest or exists; never: transfer
                                every file
          --modify-window SECONDS
                                treat times as equal within SECONDS (0: ignore
                                fractions of a second)
      -u, --update              replace older files, and skip those that are newer
                                on the target
          --existing            skip files that do not exist on the target
          --ignore-existing     skip files that exist on the target
          --delete [WHEN]       delete extraneous files from the target: after
                                (default), during or before the copy
          --delete-excluded     with --delete, delete excluded files as well
          --max-delete N        with --delete, delete nothing if it is more than N
          --allow-empty-source  with --delete, empty the target if the source is
                                empty
          --ignore-errors       with --delete, delete even after errors
          --detect-renames      use renamed files on the target as base files
      -b, --backup              keep replaced and deleted files beside the new ones,
                                as NAME~
          --suffix SUFFIX       append SUFFIX to the names of kept files (default:
                                ~, or nothing with --backup-dir)
          --backup-dir DIR      move replaced and deleted files to DIR (relative to
                                the target)
          --link-dest DIR       hard-link unchanged files to those in DIR (relative
                                to the target; up to 20 times)
          --remove-source-files delete source files and links after verification at
                                the target
      -n, --dry-run             show what would be copied, changed and deleted
          --watch               with haul sync: stay, and sync again whenever
                                something has changed at the source
          --items               list each created, changed and deleted entry

    Performance:
      -s, --streams N           use 1 to 256 parallel streams (default: automatic)
          --congestion NAME     TCP congestion control (default: chosen by the path)
      -w, --windowsz [=]SIZE    limit socket buffers to SIZE; =SIZE sets them
                                exactly (default: autotuning)
          --qos CLASS           set the IP traffic class, 0 to 255
          --xfrrate RATE        limit the total rate: 50m (MiB/s), 50MB/s, 400Mbit/s
                                (SIGUSR1 doubles it, SIGUSR2 halves it)
          --bwlimit RATE        same as --xfrrate, in KiB/s unless a unit is given,
                                as in rsync
          --duration TIME       copy to null: for TIME, then stop with a summary
                                (90, 10m, 2h)
          --cpus LIST           pin both ends to these CPUs (0-7,16)
          --frame SIZE          frame payload: 256k, 512k or 1m
          --buffsz SIZE         read and write in blocks of up to SIZE, 256k to 1m
          --buffers [+]N        I/O queue depth per stream, 1 to 64, at the source
                                (+N: at the target)
          --unbuffered ENDS     use O_DIRECT at the source (s), target (t) or both
                                (st); off forbids it (default: measured)
          --cache MODE          page cache after the copy: keep, drop, or cold: also
                                drop the source before it is read (default: drop
                                large files)
          --stripe COUNT[,SIZE] on Lustre, stripe files from 64 MiB on over COUNT
                                storage targets or all, SIZE bytes each; off uses
                                the directory's default (default: as the source)
          --cipher NAME         auto (default), aes-128-gcm, aes-256-gcm or
                                chacha20-poly1305
          --no-encrypt          authenticate only, for networks that inspect traffic
      -z, --compress [MODE]     auto (default), off, lz4, zstd, or a zstd level from
                                1 to 19

    Connecting:
      -i, --idfile KEY          ssh identity file
      -F, --ssh-config FILE     ssh configuration file, as ssh -F FILE
      -P, --ssh-port PORT       ssh port
      -o, --ssh-option OPTION   option passed to ssh as -o OPTION (repeatable)
          --no-ssh-reuse        log in for each command (default: commands within 60
                                s share a login)
      -e, --rsh COMMAND         ssh command line, as in rsync ('ssh -p 2222 -i key')
          --source-command CMD  command that starts haul on a remote source
                                (placeholders: see --target-command)
          --target-command CMD  command that starts haul on a remote target, for
                                example 'ssh %I -l %U %H sudo /usr/bin/haul' (%I: -i
                                KEY, %U: user, %H: host, %4: -4 if given)
          --callback HOST[:PORT]
                                address for data connections to the accepting end
          --bind ADDRESS|INTERFACE
                                use only this local address or interface
      -4, --ipv4 [WHERE]        use IPv4 only, for ssh (c), data (s, t) or
                                everything (cst, if omitted)
      -6, --ipv6 [WHERE]        use IPv6 only, likewise
          --reverse             open data connections from the target to the source
          --data-ports P[:Q]    accept data connections on ports P to Q (default:
                                any)
          --paths MODE          several links between the hosts: best (default) or
                                all
          --transport MODE      data connections: auto (default: direct, else
                                through ssh), ssh or tcp
          --secret-file FILE    read the secret or private key for haul://HOST from
                                the first line of FILE
          --no-deploy           do not copy haul to hosts that lack it
          --worker-binary FILE  haul for hosts of another architecture that lack it
          --remote-dir DIR      directory for haul on hosts that lack it (default:
                                ~/.cache)
          --retries N           reconnect at most N times without progress (0:
                                never)
          --retry-for TIME      reconnect for at most TIME without progress
                                (default: 10m)
          --silence TIME        treat a host as lost after TIME without a message
                                (default: 13s)

    Integrity:
          --verify MODE         memory: hash at the target as well; disk: read back
                                from disk and repair
          --digest NAME         xxh3 (default): check blocks only; blake3: compute
                                the BLAKE3 of each file as well
          --fsync [MODE]        full (default): sync data and names; data; or none
                                (d, dd: bbcp's data, full)
          --checksums FILE      write a digest list for b3sum --check (-: standard
                                output)
          --checksum-alg ALG    digest of that list or of --expect's, in the format
                                of sha256sum (names: see --checksum)
          --expect FILE         verify files against a digest list before they get
                                their names; report entries without a match
          --checksum ALG[=VALUE|=FILE]
                                print, compare or record the digest of each file;
                                %ALG: at the source. ALG is a32, c32, c32z, md5,
                                crc32c, crc64nvme, sha1, sha256, sha512, xxh3 or
                                blake3

    Output:
          --progress[=SECONDS]  print a progress line every SECONDS (default: as the
                                terminal allows)
          --json                print events as JSON lines
          --detach[=NAME]       run in the background, beyond this login; print the
                                name of the copy (haul copies)
          --notify COMMAND      run COMMAND at the end; HAUL_STATUS, and HAUL_COPY
                                and HAUL_LOG or HAUL_JOB and HAUL_REPORT, are in its
                                environment
      -q, --quiet               print errors only
      -v, --verbose             print more: -v names, -vv path, -vvv sizes of files
          --vverbose            same as -vv
          --debug               same as -vvv
          --tui                 show a full-screen dashboard (keys pause, change
                                rate and streams)
          --report FILE         write an HTML or Markdown report (FILE.html,
                                FILE.md)
          --metrics FILE        write the result to FILE as OpenMetrics text (for
                                node_exporter)
          --stats               print the bytes sent and received, and the speedup
          --bits                show rates in bit/s
          --logfile FILE        append messages to FILE
      -V, --version             print the version; with -v, CPU benchmarks as well
          --license             print the licence; --license all: of linked
                                libraries too
      -h, --help [WHAT]         show help; --help all: every option; --help WHAT:
                                one option or command

    Accepted for compatibility:
          --ptime               times are always preserved
          --gross               empty directories are always copied
          --nodns               names are never looked up

    Exit status:
      0  success: everything is copied and verified
      1  some files failed; each is named on standard error
      2  usage error
      3  host unreachable
      4  interrupted, or the connection was lost for good; rerun to resume
      5  files vanished at the source; all else is copied and verified
      6  conflicts are left (haul twoway); all else is synchronised
    ");
}

#[test]
fn partials_help() {
    insta::assert_snapshot!(command("status") + &command("clean"), @"
    haul status [OPTIONS] [HOST:]PATH...

    Lists the partial files of interrupted copies below each PATH, or of the file
    PATH, and their progress. Rerun a copy to resume it; haul clean deletes them.

          --journal-dir DIR     the directory of the copies' resume journals
          --json                print one JSON object a line
      -h, --help                show help

    PATH is on this machine, or on a host over ssh or haul serve, which expands
    patterns. Copy options for connections are accepted: haul --help all. A file
    called status is ./status.

    haul status db1:/archive
    haul clean [OPTIONS] [HOST:]PATH...

    Deletes the partial files of interrupted copies below each PATH, or of the file
    PATH, and lists them. Files of running copies are kept, and so are files that
    --inplace has partly updated: rerun the copy to complete those.

          --journal-dir DIR     the directory of the copies' resume journals
          --json                print one JSON object a line
      -h, --help                show help

    PATH is on this machine, or on a host over ssh or haul serve, which expands
    patterns. Copy options for connections are accepted: haul --help all. A file
    called clean is ./clean.

    haul clean db1:/archive
    ");
}

#[test]
fn verify_help() {
    insta::assert_snapshot!(command("verify"), @"
    haul verify [OPTIONS] SOURCE... TARGET

    Compares SOURCE with the result of a copy to TARGET, given the arguments of that
    copy; --sync for those of haul sync. Both ends read all files, and only BLAKE3
    values of blocks cross the network. Nothing is written. Lists missing,
    extraneous and differing files, the latter by block. Modification times are
    never compared; other metadata is compared with the options that preserve it.

      haul -r run7 db1:/archive        haul verify -r run7 db1:/archive
      haul sync run7/ db1:/archive     haul verify --sync run7/ db1:/archive

          --sync                compare as haul sync copies: SOURCE/ means its
                                contents; with -r and -p
      -r, --recursive           compare directories recursively
          --preserve            compare mode, owner and group
      -p, --perms               compare modes only
          --owner               compare owners only
      -g, --group               compare groups only
      -a, --archive             -r with modes, owners, groups; -aHAX: all metadata
      -H, --hard-links          compare hard links
      -X, --xattrs              compare extended attributes
      -A, --acls                compare access control lists (implies -p)
          --numeric-ids         compare owners and groups by number instead of by
                                name
          --usermap FROM:TO,... map users as the copy did
          --groupmap FROM:TO,...
                                map groups as the copy did
          --chown USER:GROUP    expect this owner and group of everything
          --devices             compare device nodes
          --specials            compare FIFOs and sockets
          --dirbase BASE        find source paths relative to BASE below the target
          --infiles FILE        read source paths from FILE, one a line (-: standard
                                input)
      -0, --null                paths in --infiles end with NUL
          --symlinks MODE       symbolic links inside directories: keep (default),
                                follow, ignore, safe, follow-unsafe or follow-dirs
      -x, --one-file-system     stay on the file system of each source; mount points
                                become empty directories
          --include PATTERN     copy matching paths; the first matching rule decides
                                (haul help filters)
          --exclude PATTERN     skip matching paths (gitignore syntax: '*.o',
                                '/build/', 'src/**/*.tmp')
          --include-from FILE   read patterns to copy from FILE, in the form of a
                                .gitignore (! skips; the last match decides)
          --exclude-from FILE   read patterns to skip from FILE, in the form of a
                                .gitignore
          --filter-files NAME   read patterns from files called NAME in the source's
                                directories (.gitignore)
          --min-size SIZE       skip files smaller than SIZE
          --max-size SIZE       skip files larger than SIZE
          --newer WHEN          copy only files modified since WHEN (2026-11-01 in
                                UTC, or an age: 12h, 7d)
          --older WHEN          copy only files modified before WHEN
          --explain PATH        print which rule includes or excludes PATH, and exit
      -s, --streams N           read with N threads on each host, 1 to 256 (default:
                                automatic)
          --cpus LIST           pin both ends to these CPUs (0-7,16)
          --frame SIZE          size of the blocks that are compared: 256k, 512k
                                (default) or 1m
          --unbuffered ENDS     use O_DIRECT at the source (s), target (t) or both
                                (st); off forbids it (default: measured)
          --cache MODE          page cache after reading: keep, or drop (default:
                                drop large files)
      -i, --idfile KEY          ssh identity file
      -F, --ssh-config FILE     ssh configuration file, as ssh -F FILE
      -P, --ssh-port PORT       ssh port
      -o, --ssh-option OPTION   option passed to ssh as -o OPTION (repeatable)
          --no-ssh-reuse        log in for each command (default: commands within 60
                                s share a login)
          --source-command CMD  command that starts haul on a remote source
          --target-command CMD  command that starts haul on a remote target
      -4, --ipv4 [WHERE]        use IPv4 only for ssh
      -6, --ipv6 [WHERE]        use IPv6 only for ssh
      -e, --rsh COMMAND         ssh command line, as in rsync ('ssh -p 2222 -i key')
          --no-deploy           do not copy haul to hosts that lack it
          --worker-binary FILE  haul for hosts of another architecture that lack it
          --remote-dir DIR      directory for haul on hosts that lack it (default:
                                ~/.cache)
          --retries N           reconnect at most N times without progress
          --retry-for TIME      reconnect for at most TIME without progress
                                (default: 10m)
          --silence TIME        treat a host as lost after TIME without a message
                                (default: 13s)
          --progress[=SECONDS]  print a progress line every SECONDS (default: as the
                                terminal allows)
          --json                print events as JSON lines
      -q, --quiet               print differences and errors only
      -v, --verbose             print more about both hosts
          --vverbose            same as -vv
          --debug               same as -vvv
          --logfile FILE        append messages to FILE
          --timelimit TIME      stop after TIME (90, 10m, 2h)
          --config FILE         read options from FILE instead of the user and
                                system configuration
      -h, --help                show help
          --secret-file FILE    read the secret or private key for haul://HOST from
                                the first line of FILE

    Exit status: 0 identical; 1 differences or unreadable files, each named on
    standard error; 2 to 4 as in a copy.
    ");
}

#[test]
fn survey_help() {
    insta::assert_snapshot!(command("survey"), @"
    haul survey [OPTIONS] PATH...

    Summarises what a copy of each PATH would move: files, directories, bytes,
    holes, sizes, types, the biggest files, duplicates, compressibility, and
    unreadable files. Nothing is written, and no data leaves this machine.

    PATH is a local path. For a remote one: ssh HOST haul survey PATH

          --to TARGET           show what exists at TARGET (a local directory), or
                                estimate the time of a copy (host:path)
      -r, --recursive           accepted, as in a copy: directories are always
                                walked
          --symlinks MODE       symbolic links inside directories: keep (default),
                                follow, ignore, safe, follow-unsafe or follow-dirs
      -x, --one-file-system     stay on the file system of each source; mount points
                                become empty directories
          --include PATTERN     copy matching paths; the first matching rule decides
                                (haul help filters)
          --exclude PATTERN     skip matching paths (gitignore syntax: '*.o',
                                '/build/', 'src/**/*.tmp')
          --include-from FILE   read patterns to copy from FILE, in the form of a
                                .gitignore (! skips; the last match decides)
          --exclude-from FILE   read patterns to skip from FILE, in the form of a
                                .gitignore
          --filter-files NAME   read patterns from files called NAME in the source's
                                directories (.gitignore)
          --min-size SIZE       skip files smaller than SIZE
          --max-size SIZE       skip files larger than SIZE
          --newer WHEN          copy only files modified since WHEN (2026-11-01 in
                                UTC, or an age: 12h, 7d)
          --older WHEN          copy only files modified before WHEN
          --no-duplicates       do not read files to find duplicates
          --no-sample           do not read files to estimate compression
          --time TIME           read files for at most TIME in total (default: 60s)
          --html FILE           write a page with a map of the bytes
          --json                print one JSON object a line
          --config FILE         read options from FILE instead of the user and
                                system configuration
      -h, --help                show help

    To find duplicates, files of equal size are read, the largest savings first.
    Exit status: 0, or 1 if something could not be read.
    ");
}

#[test]
fn sync_help() {
    insta::assert_snapshot!(command("sync"), @"
    haul sync [OPTIONS] SOURCE... TARGET

    Makes the directory TARGET match the sources and transfers only differences.
    -r, -p and -f are implied. A differing entry is replaced, even a directory by a
    file. Nothing is deleted without --delete.

      haul sync run7 db1:/archive      run7 becomes /archive/run7
      haul sync run7/ db1:/archive     the contents of run7 go into /archive

          --compare BY          consider a file unchanged by time (default: size and
                                mtime), size, digest or exists; never: transfer
                                every file
          --modify-window SECONDS
                                treat times as equal within SECONDS (0: ignore
                                fractions of a second)
      -u, --update              replace older files, and skip those that are newer
                                on the target
          --existing            skip files that do not exist on the target
          --ignore-existing     skip files that exist on the target
          --delete [WHEN]       delete extraneous files from the target: after
                                (default), during or before the copy
          --delete-excluded     with --delete, delete excluded files as well
          --max-delete N        with --delete, delete nothing if it is more than N
          --allow-empty-source  with --delete, empty the target if the source is
                                empty
          --ignore-errors       with --delete, delete even after errors
          --detect-renames      use renamed files on the target as base files
      -b, --backup              keep replaced and deleted files beside the new ones,
                                as NAME~
          --suffix SUFFIX       append SUFFIX to the names of kept files (default:
                                ~, or nothing with --backup-dir)
          --backup-dir DIR      move replaced and deleted files to DIR (relative to
                                the target)
          --link-dest DIR       hard-link unchanged files to those in DIR (relative
                                to the target; up to 20 times)
          --remove-source-files delete source files and links after verification at
                                the target
      -n, --dry-run             show what would be copied, changed and deleted
          --watch               with haul sync: stay, and sync again whenever
                                something has changed at the source
          --items               list each created, changed and deleted entry

    All other copy options are accepted: haul --help all. -H, -X, -A, --specials
    and --devices are not implied. A copy accepts the options above too; there,
    --delete needs -r and -f.

    --delete keeps everything below a source that is missing or could not be read
    completely, and everything that filters exclude. With more than --max-delete
    entries to delete, it deletes none (with --delete=during, no more). Preview it:
    haul sync --dry-run --delete SOURCE... TARGET
    ");
}

#[test]
fn config_help() {
    insta::assert_snapshot!(command("config"), @r#"
    haul config [--all] [--json] [COPY OPTIONS] [HOST]

    Shows the options that a file or the command line sets for a copy from or to
    HOST, or within this machine, and the origin of each. --all and --json list
    those with their defaults, too.

    haul reads ~/.config/haul/config.toml (or $XDG_CONFIG_HOME/haul/config.toml) and
    /etc/haul/config.toml; with --config FILE only FILE. It has long option names:

        streams = 8
        no-deploy = true

        [host."db*"]
        xfrrate = "50m"
        ssh-option = ["ProxyJump=gate"]

    Precedence: the command line, your file, the system's file. Within a file: a
    host's name, a pattern (* and ?), the settings for all hosts.
    --OPTION=default restores the default. A file cannot set these options:

      force omit chmod dirbase infiles pairs to null include exclude include-from
      exclude-from filter-files min-size max-size newer older explain pipe
      realtime config compare update existing ignore-existing delete
      delete-excluded allow-empty-source ignore-errors detect-renames backup
      suffix backup-dir link-dest remove-source-files dry-run watch rsh checksums
      checksum-alg expect checksum detach vverbose debug tui report stats version
      license help
    "#);
}

#[test]
fn demo_help() {
    insta::assert_snapshot!(demo(), @r#"
        haul demo [OPTIONS] [-- COPY OPTIONS]

        Generates data in a temporary directory, copies it within that directory over
        the network code (two workers, encrypted TCP streams over loopback), compares
        source and target, and deletes both.

              --size SIZE           amount of data to create (default: 1g)
          -s, --streams N           use 1 to 256 parallel streams (default: automatic)
              --keep                keep the data afterwards
          -h, --help                show help
        "#);
}

#[test]
fn twoway_help() {
    insta::assert_snapshot!(command("twoway"), @r#"
    haul twoway [OPTIONS] A B
    haul twoway [OPTIONS] PAIR

    Brings two directories that both changed to agreement: what changed at one side
    goes to the other, renamings and deletions included. A path that changed at both
    sides, differently, is a conflict: it stays until an option or you decide. The
    first run deletes nothing.

      haul twoway ~/photos db1:photos
      haul twoway --plan ~/photos db1:photos     changes nothing
      haul twoway --prefer newer --prefer 'b:*.log' ~/photos db1:photos

    PAIR is a pair of the configuration file, with two roots and any options:

      [pair.photos]
      roots = ["/home/anna/photos", "db1:photos"]
      exclude = [".thumbnails/"]

      -n, --plan                show what would happen, and change nothing
          --plan-file FILE      apply what --plan --json printed into FILE, if
                                nothing has changed since
          --prefer WHICH        decide conflicts for newer, older, larger, a or b;
                                b:'*.log' decides for a pattern
          --keep-both           keep the loser of a conflict as
                                NAME.conflict-HOST-DATE.EXT
          --interactive         ask about each conflict before anything changes
          --batch               ask nothing: refuse what needs a confirmation
          --watch               stay, and synchronise again whenever a side has
                                changed
          --max-delete N        delete up to N entries of a side without asking
                                (default: half of them, at most 1000, at least 10)
          --allow-empty-source  delete everything at a side if the other side has
                                become empty
          --backup-dir DIR      keep replaced and deleted files in DIR at each side
                                (relative to the replica)
          --compare BY          find changed files by time (default: size, times and
                                inode) or digest
          --json                print one JSON object a line
      -h, --help                show help

    --exclude, --include and their lists, -X, -A, --fsync, --verify, -q, -v and copy
    options for performance and connections are accepted: haul --help all.

    Exit status: 1 if something failed or changed during the run, else 6 if
    conflicts are left; others as in a copy.
    "#);
}

#[test]
fn every_command_has_a_page_of_its_own() {
    for row in COMMANDS {
        let is_about_partials = command(row.name).contains("partial files of interrupted copies");
        assert_eq!(is_about_partials, ["status", "clean"].contains(&row.name), "{}", row.name);
    }
}
