//! Help as it is printed.

use super::*;

#[test]
fn the_first_screen_fits_a_screen() {
    let text = short();
    assert!(text.lines().count() <= 24, "{} lines", text.lines().count());
    let others = [full(), demo(), serve()];
    let others = others
        .into_iter()
        .chain(["verify", "sync", "sweep", "status", "clean", "config", "probe", "survey"].map(command));
    let others: Vec<_> = others.collect();
    for line in text.lines().chain(others.iter().flat_map(|help| help.lines())) {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
}

#[test]
fn every_listed_option_is_in_the_full_help() {
    let text = full();
    for row in COPY.iter().filter(|row| row.section != HelpSection::Unlisted) {
        assert!(row.help.lines().all(|line| text.contains(line)), "{}", row.id);
    }
}

#[test]
fn short_help() {
    insta::assert_snapshot!(short(), @r#"
        haul copies files between hosts: encrypted, verified, over parallel streams

        haul [OPTIONS] SOURCE... TARGET       each a path, or [user@]host:path
        haul sync SOURCE... TARGET            makes TARGET the same: moves what differs
        haul verify SOURCE... TARGET          are both the same? copies nothing
        haul status|clean PATH...             what broken copies left there; removes it
        haul serve DIR                        lets others send and fetch, without ssh
        haul config [HOST]                    options in force, and where they come from
        haul survey PATH... | probe TARGET    what would a copy be made of? how fast?

          -r, --recursive           copy directories with all that is in them
          -f, --force               replace files that exist and differ
          -p, --preserve            keep mode, owner, group (times are always kept)
          -s, --streams N           parallel streams, 1 to 256 (default: automatic)
          -i, --idfile KEY          ssh's identity file
              --ssh-port PORT       ssh's port
              --checksums FILE      lines for b3sum --check (-: standard output)
              --json                events on standard output, one object a line
              --quiet               nothing but errors

        haul -r run7 db1:/archive/      haul db1:'~/big.db' .      haul ./a:b db1:

        haul --help all    every option, exit statuses, names
        haul help WHAT     one option or command: haul help streams, haul help sweep
        "#);
}

#[test]
fn full_help() {
    insta::assert_snapshot!(full(), @r#"
        haul [OPTIONS] SOURCE... TARGET

        SOURCE and TARGET are paths on this machine or [user@]host:path on another;
        an IPv6 address stands in brackets: [fe80::1%eth0]:path. A path here with a
        colon in its name is written ./a:b. After --, nothing is an option. Relative
        paths on another host, and ~/path, start in the login directory. With several
        sources the target is a directory. SIZE is a number of bytes, or one with k, m
        or g (powers of 1024). Run an interrupted copy again: what is there is not
        sent twice.

        Copying:
          -r, --recursive           copy directories with all that is in them
          -f, --force               replace files that exist and differ
          -O, --omit                leave out files that exist, whatever is in them
          -p, --preserve            keep mode, owner, group (times are always kept)
          -m, --mode [DIRS/][FILES] octal modes of what is made, such as 750/640
          -A, --mkdir               make the target directory if it is missing
          -d, --dirbase BASE        relative sources are below BASE, and come to lie in
                                    the same directories below the target
          -I, --infiles FILE        copy what FILE names, too, one path a line; - is
                                    standard input
          -0, --null                NUL ends a path in that list, and not a line end
          -@, --symlinks MODE       links in directories: keep (default), follow, ignore
          -+, --readable            leave out what cannot be read in directories
          -^, --no-empty-dirs       leave out directories with nothing in them
          -o, --order               write in ascending order: one stream, through the
                                    page cache
          -N, --pipe ENDS           the source (i), the target (o) or both (io) are
                                    programs, for the host's shell, or FIFOs
          -R, --realtime [TIME]     follow a file that grows, until it has not grown for
                                    TIME (default: 10s)
              --delta HOW           of a file that is replaced, send what the old one
                                    lacks: auto (default), off, blocks (found at their
                                    places), rolling (found anywhere)
              --inplace             with -f, change files in their own place, block by
                                    block, and replace none
          -a, --append [DIR]        where the target records what is in unfinished
                                    files (default: beside them)
              --no-resume           begin anew, and record nothing of unfinished files
              --no-keep             remove unfinished files when the copy fails
          -F, --nofschk             begin files for which there is no room, too
          -t, --timelimit TIME      give up after TIME (90, 10m, 2h); the same command
                                    goes on
          -C, --config FILE         options from FILE, and not from the configuration of
                                    user and system (haul help config)
              --archive             -r, -p, --hard-links, --xattrs and --acls
              --hard-links          names of one file are names of one file there, too
              --xattrs              keep extended attributes
              --acls                keep access control lists, and all that -p does
              --sparse [WHAT]       holes in files: keep (default), fill them, or make
                                    them, too, where there are only zeros
              --numeric-ids         with -p, owners and groups by their numbers, and not
                                    by their names
              --usermap FROM:TO,... with -p, users that become others: by name or number
                                    (anna:smith, 0-99:nobody, *:guest)
              --groupmap FROM:TO,... the same of groups
              --chown USER:GROUP    with -p, all become theirs; either may be left out
              --devices             make devices, as root
              --specials            make FIFOs and sockets

        Leaving out:
              --include PATTERN     take what matches; the first of these options that
                                    matches decides (haul help filters)
              --exclude PATTERN     leave out what matches: a gitignore pattern, such as
                                    '*.o', '/build/' or 'src/**/*.tmp'
              --include-from FILE   patterns of what is taken, one a line; of these the
                                    last that matches decides, and ! leaves out
              --exclude-from FILE   patterns of what is left out, as in a .gitignore
              --filter-files NAME   files of that name in the source's directories have
                                    patterns, such as .gitignore or .haulignore
              --min-size SIZE       leave out files with fewer bytes
              --max-size SIZE       leave out files with more bytes
              --newer WHEN          only files modified at WHEN (2026-11-01, in UTC) or
                                    later, or in that time (12h, 7d)
              --older WHEN          only files modified before that
              --explain PATH        copy nothing: say whether PATH would be taken, and
                                    which rule says so

        Making the target the same (haul help sync):
              --compare HOW         what makes a file that is there the same: size and
                                    time (time, the default), size, what is in it
                                    (digest), or that it is there (exists)
              --modify-window SECONDS times that differ by at most SECONDS are equal
                                    (0: only in fractions of a second)
              --update              leave files that are newer than the source's
              --existing            make nothing that is not there
              --ignore-existing     the same as --compare exists
              --delete [WHEN]       remove what is at the target alone: after the copy
                                    (default), during it, or before it
              --delete-excluded     with --delete: also what filters leave out
              --max-delete N        with --delete: at most N entries
              --ignore-errors       with --delete: also where entries failed, or the source
                                    could not be listed to its end
              --detect-renames      look for files that are not there under other names,
                                    and send only what those lack
              --backup-dir DIR      keep what is replaced or removed in DIR, which is in
                                    the target unless it begins with /
              --link-dest DIR       files that are the same in DIR, an earlier copy, are
                                    made names of those; up to 20 times; in the target
                                    unless it begins with /
              --remove-source-files remove files that were sent, and links, once they
                                    are proven at the target
              --dry-run             change nothing, and say what would be made, changed
                                    and removed
              --items               say what is made, changed and removed

        Moving data:
          -s, --streams N           parallel streams, 1 to 256 (default: automatic)
              --congestion NAME     congestion control (default: by the path)
          -w, --windowsz [=]SIZE    most that a socket's buffers hold (default: the
                                    kernel's tuning); with = exactly that
          -U SIZE                   the same as -w =SIZE
          -q, --qos CLASS           traffic class of the packets, 0 to 255 (IPv4: TOS)
          -x, --xfrrate RATE        at most RATE (a SIZE) a second, over all streams;
                                    SIGUSR1 to this haul doubles it, SIGUSR2 halves it
              --bwlimit RATE        rsync's: the same, and a number is in KiB a second
              --cpus LIST           keep both ends to these CPUs (0-7,16)
              --frame SIZE          payload of a frame: 256k, 512k or 1m
          -B, --buffsz SIZE         read and write files in pieces of at most SIZE
                                    (256k at least, 1m at most)
          -b, --buffers [+]N        frames that a stream has under way on the disk, 1 to
                                    64, at the source; with + at the target
          -u, --unbuffered ENDS     O_DIRECT at the source (s), the target (t), both
                                    (st), or off (default: what measures faster)
              --cache HOW           keep copied files in the page cache, or drop
                                    them (default: large ones are dropped)
              --cipher NAME         auto, aes-256-gcm, aes-128-gcm, chacha20-poly1305
              --no-encrypt          contents in the clear, still authenticated
          -c, --compress [HOW]      auto (default), off, lz4, zstd, or zstd's level,
                                    1 to 19

        Reaching the other host:
          -i, --idfile KEY          ssh's identity file
              --ssh-port PORT       ssh's port
              --ssh-option OPTION   passed to ssh as -o OPTION; can be repeated
              --rsh COMMAND         rsync's: 'ssh -p PORT -i KEY -o OPTION'
          -S, --source-command CMD  starts haul at a remote source (see -T)
          -T, --target-command CMD  starts haul at a remote target, for example
                                    'ssh %I -l %U %H /opt/bin/haul'; %I is -i KEY,
                                    %U the user, %H the host, %4 nothing or -4
          -H, --callback HOST       connect to HOST or HOST:PORT for the data, and to
                                    nothing else: an address of the end that accepts
              --bind WHAT           only over this address or interface of this machine
          -4, --ipv4 [WHERE]        IPv4 only: for ssh (c), the data (s, t), or both
          -6, --ipv6 [WHERE]        the same with IPv6
          -z, --reverse             the target connects to the source, if it can
          -Z, --port P[:Q]          accept data on a port from P to Q (default: any)
              --paths HOW           best (default): of several links the one that
                                    carries most; all: several links at once
              --secret-file FILE    the secret for haul://HOST, in FILE's first line
              --no-deploy           never put haul on a host that has none
              --retries N           after a lost connection begin again, at most N
                                    times in a row without coming further; 0: never
              --retry-for TIME      the same for at most TIME (90, 10m, 2h) without
                                    coming further (default: 10m)
              --silence TIME        a host that says nothing for TIME is lost
                                    (default: 13s)

        Proving:
              --verify HOW          memory: the target hashes what it writes, too;
                                    disk: it reads back what it has written, past the
                                    page cache, and has sent again what differs
              --digest WHAT         xxh3 (default): each block is checked at both ends;
                                    blake3: the source computes each file's BLAKE3, too
                                    (as with --json, --checksums and --verify)
          -y, --fsync [HOW]         full (default): files and their names are on the
                                    disk when haul is done; data: only what is in them;
                                    none; d and dd are bbcp's data and full
              --checksums FILE      lines for b3sum --check (-: standard output)
              --checksum-alg ALG    which digest these lines have, or those of --expect:
                                    one of -E, in the form of sha256sum and its like
              --expect FILE         hold each file against its line in FILE (as of
                                    sha256sum or b3sum) before it has its name; what has
                                    no line, or no file, is named
          -E, --checksum ALG        print ALG of each file at the target, with %ALG at
                                    the source: a32, c32, c32z, md5, crc32c, crc64nvme,
                                    sha1, sha256, sha512, xxh3, blake3; ALG=FILE adds
                                    it to FILE, ALG=VALUE fails files that have another

        Showing:
          -P, --progress SECONDS    a progress line every SECONDS, in bbcp's form
              --json                events on standard output, one object a line
              --quiet               nothing but errors
          -v, --verbose             more about the connection and the ends; -vv about
                                    the path, -vvv each file
          -V, --vverbose            the same as -vv
          -D, --debug               the same as -vvv
              --tui                 a dashboard on the whole terminal; keys change the
                                    rate and the number of streams, and pause
              --report FILE         at the end, also of a copy that failed, a page with
                                    charts: FILE.html, or FILE.md
          -l, --logfile FILE        add to FILE what would be shown on standard error
          -#, --version             the version; with -v also speeds of this CPU
          -$, --license             the license of haul
          -h, --help [WHAT]         this help; --help all for every option, or the name
                                    of an option or a command

        Accepted, since haul does so anyway:
          -k, --keep                unfinished files are always kept
          -~, --ptime               times are always kept
          -e                        every frame is always checked
          -g, --gross               empty directories are copied
          -K                        with -f: what is replaced stays until the new file
                                    is whole
          -n, --nodns               addresses are never looked up

        Exit status:
          0  everything is there and verified
          1  some files failed; each was named on standard error
          2  the command line, or what it asks for, makes no sense
          3  the other host could not be reached
          4  interrupted; run the same command again to go on
        "#);
}

#[test]
fn partials_help() {
    insta::assert_snapshot!(command("status") + &command("clean"), @r#"
        haul status [OPTIONS] PATH...

        Shows what unfinished copies have left below each PATH, or of the file PATH, and
        how far it is. The same copy, run again, goes on with it; haul clean removes it.

        PATH is on this machine; for another: ssh HOST haul status PATH

          -a, --append DIR          the DIR of the copies' -a, where their records lie
              --json                one object a line
          -C, --config FILE         options from FILE, and not from the configuration of
                                    user and system (haul help config)
          -h, --help                this help
        haul clean [OPTIONS] PATH...

        Removes what unfinished copies have left below each PATH, or of the file PATH,
        and says what that was. What a running copy writes is left alone, and so are
        changes that a file may have some of (--inplace): the same copy puts in all.

        PATH is on this machine; for another: ssh HOST haul clean PATH

          -a, --append DIR          the DIR of the copies' -a, where their records lie
              --json                one object a line
          -C, --config FILE         options from FILE, and not from the configuration of
                                    user and system (haul help config)
          -h, --help                this help
        "#);
}

#[test]
fn verify_help() {
    insta::assert_snapshot!(command("verify"), @r#"
    haul verify [OPTIONS] SOURCE... TARGET

    Compares SOURCE with what a copy to TARGET would have made of it: both ends read
    all files, and only BLAKE3 values of their blocks travel. Nothing is written.
    Names what is missing, what is at the target alone, and what differs: files by
    block. Times are never compared. What only some copies keep is compared with the
    options that keep it.

      -r, --recursive           compare directories with all that is in them
      -p, --preserve            compare mode, owner and group, too
          --archive             -r, -p, --hard-links, --xattrs and --acls
          --hard-links          whether names of one file are names of one file
                                there, too, and no others are
          --xattrs              compare extended attributes
          --acls                compare access control lists, and all that -p does
          --numeric-ids         with -p, owners and groups by their numbers, and not
                                by their names
          --usermap FROM:TO,... with -p, users that the copy has made others
          --groupmap FROM:TO,... the same of groups
          --chown USER:GROUP    with -p, whose all was made
          --devices             compare devices: kind and number
          --specials            compare FIFOs and sockets
      -d, --dirbase BASE        relative sources are below BASE, and in the same
                                directories below the target
      -I, --infiles FILE        compare what FILE names, too, one path a line; - is
                                standard input
      -0, --null                NUL ends a path in that list, and not a line end
      -@, --symlinks MODE       links in directories: keep (default), follow, ignore
          --include PATTERN     take what matches; the first of these options that
                                matches decides (haul help filters)
          --exclude PATTERN     leave out what matches: a gitignore pattern, such as
                                '*.o', '/build/' or 'src/**/*.tmp'
          --include-from FILE   patterns of what is taken, one a line; of these the
                                last that matches decides, and ! leaves out
          --exclude-from FILE   patterns of what is left out, as in a .gitignore
          --filter-files NAME   files of that name in the source's directories have
                                patterns, such as .gitignore or .haulignore
          --min-size SIZE       leave out files with fewer bytes
          --max-size SIZE       leave out files with more bytes
          --newer WHEN          only files modified at WHEN (2026-11-01, in UTC) or
                                later, or in that time (12h, 7d)
          --older WHEN          only files modified before that
          --explain PATH        copy nothing: say whether PATH would be taken, and
                                which rule says so
      -s, --streams N           N threads at each end read, 1 to 256
                                (default: automatic)
          --cpus LIST           keep both ends to these CPUs (0-7,16)
          --frame SIZE          what is named of a file that differs: blocks of
                                256k, 512k (default) or 1m
      -u, --unbuffered ENDS     O_DIRECT at the source (s), the target (t), both
                                (st), or off (default: what measures faster)
          --cache HOW           keep what was read in the page cache, or drop it
                                (default: large files are dropped)
      -i, --idfile KEY          ssh's identity file
          --ssh-port PORT       ssh's port
          --ssh-option OPTION   passed to ssh as -o OPTION; can be repeated
      -S, --source-command CMD  starts haul at a remote source
      -T, --target-command CMD  starts haul at a remote target
      -4, --ipv4 [WHERE]        ssh over IPv4 only
      -6, --ipv6 [WHERE]        the same with IPv6
          --rsh COMMAND         rsync's: 'ssh -p PORT -i KEY -o OPTION'
          --no-deploy           never put haul on a host that has none
          --retries N           after a lost connection begin again, at most N times
          --retry-for TIME      the same for at most TIME (90, 10m, 2h)
          --silence TIME        a host that says nothing for TIME is lost
      -P, --progress SECONDS    a progress line every SECONDS, in bbcp's form
          --json                events on standard output, one object a line
          --quiet               nothing but differences and errors
      -v, --verbose             more about the ends
      -V, --vverbose            the same as -vv
      -D, --debug               the same as -vvv
      -l, --logfile FILE        add to FILE what would be shown on standard error
      -t, --timelimit TIME      give up after TIME (90, 10m, 2h)
      -C, --config FILE         options from FILE, and not from the configuration of
                                user and system (haul help config)
      -h, --help                this help
          --secret-file FILE    the secret for haul://HOST, in FILE's first line

    Exit status: 0 identical, 1 differences (or files that could not be read), each
    named on standard error; 2 to 4 as of a copy.
    "#);
}

#[test]
fn survey_help() {
    insta::assert_snapshot!(command("survey"), @r#"
        haul survey [OPTIONS] PATH...

        Shows what a copy of each PATH would be made of: files, directories, bytes,
        holes, sizes, types, what is biggest, what is there twice, how well it
        compresses, and what cannot be read. Nothing is written, and nothing leaves
        this machine.

        PATH is on this machine; for another: ssh HOST haul survey PATH

              --to TARGET           say what is at TARGET already (a directory here), or
                                    how long a copy takes (host:path)
          -r, --recursive           as for a copy: directories are always walked
          -@, --symlinks MODE       links in directories: keep (default), follow, ignore
              --include PATTERN     take what matches; the first of these options that
                                    matches decides (haul help filters)
              --exclude PATTERN     leave out what matches: a gitignore pattern, such as
                                    '*.o', '/build/' or 'src/**/*.tmp'
              --include-from FILE   patterns of what is taken, one a line; of these the
                                    last that matches decides, and ! leaves out
              --exclude-from FILE   patterns of what is left out, as in a .gitignore
              --filter-files NAME   files of that name in the source's directories have
                                    patterns, such as .gitignore or .haulignore
              --min-size SIZE       leave out files with fewer bytes
              --max-size SIZE       leave out files with more bytes
              --newer WHEN          only files modified at WHEN (2026-11-01, in UTC) or
                                    later, or in that time (12h, 7d)
              --older WHEN          only files modified before that
              --no-duplicates       read no files to find those that are the same
              --no-sample           read no files to see how they compress
              --time TIME           read files for at most TIME, for both together
                                    (default: 60s)
              --html FILE           a page, too, with a map of the bytes
              --json                one object a line
          -C, --config FILE         options from FILE, and not from the configuration of
                                    user and system (haul help config)
          -h, --help                this help

        Files of equal size are read, those first with which most could be saved. Exit
        status: 0, or 1 if something cannot be read.
        "#);
}

#[test]
fn sync_help() {
    insta::assert_snapshot!(command("sync"), @r#"
        haul sync [OPTIONS] SOURCE... TARGET

        Makes what is in the directory TARGET the same as the sources, and moves only
        what differs. Directories with all that is in them, links, modes, owners and
        times are kept (-r and -p are implied, and -f: what differs is replaced, also by
        something of another kind). Nothing is removed without --delete.

          haul sync run7 db1:/archive      run7 becomes /archive/run7
          haul sync run7/ db1:/archive     what is in run7 goes into /archive

              --compare HOW         what makes a file that is there the same: size and
                                    time (time, the default), size, what is in it
                                    (digest), or that it is there (exists)
              --modify-window SECONDS times that differ by at most SECONDS are equal
                                    (0: only in fractions of a second)
              --update              leave files that are newer than the source's
              --existing            make nothing that is not there
              --ignore-existing     the same as --compare exists
              --delete [WHEN]       remove what is at the target alone: after the copy
                                    (default), during it, or before it
              --delete-excluded     with --delete: also what filters leave out
              --max-delete N        with --delete: at most N entries
              --ignore-errors       with --delete: also where entries failed, or the source
                                    could not be listed to its end
              --detect-renames      look for files that are not there under other names,
                                    and send only what those lack
              --backup-dir DIR      keep what is replaced or removed in DIR, which is in
                                    the target unless it begins with /
              --link-dest DIR       files that are the same in DIR, an earlier copy, are
                                    made names of those; up to 20 times; in the target
                                    unless it begins with /
              --remove-source-files remove files that were sent, and links, once they
                                    are proven at the target
              --dry-run             change nothing, and say what would be made, changed
                                    and removed
              --items               say what is made, changed and removed

        All other options of a copy are taken, too: haul --help all. --hard-links,
        --xattrs, --acls, --specials and --devices are not implied. A copy takes these
        options as well; there, --delete needs -r and -f.

        --delete removes nothing where a source is missing or could not be read to its
        end, nothing that filters leave out, and, where there is more than --max-delete
        allows, nothing at all (with --delete=during, nothing more). Look at it first:
        haul sync --dry-run --delete SOURCE... TARGET
        "#);
}

#[test]
fn config_help() {
    insta::assert_snapshot!(command("config"), @r#"
        haul config [--json] [OPTIONS OF A COPY] [HOST]

        Shows which options are in force for a copy from or to HOST, or within this
        machine, and where each comes from: the default, a file, the command line.

        haul reads ~/.config/haul/config.toml (or $XDG_CONFIG_HOME/haul/config.toml) and
        /etc/haul/config.toml; with -C FILE only that. A file has long names of options:

            streams = 8
            no-deploy = true

            [host."db*"]
            xfrrate = "50m"
            ssh-option = ["ProxyJump=gate"]

        The command line goes before your file, that before the system's; in a file a
        host's name before a pattern (* and ?), that before what is for all hosts.
        --OPTION=default is as if nothing had said OPTION. These cannot be in a file:

          force omit dirbase infiles null include exclude include-from exclude-from
          filter-files min-size max-size newer older explain pipe realtime config
          compare update existing ignore-existing delete delete-excluded
          ignore-errors detect-renames backup-dir link-dest remove-source-files
          dry-run rsh checksums checksum-alg expect checksum vverbose debug tui
          report version license help
        "#);
}

#[test]
fn demo_help() {
    insta::assert_snapshot!(demo(), @r#"
        haul demo [OPTIONS] [-- OPTIONS OF A COPY]

        Makes data in a temporary directory, copies it to another place there through
        the real path (two workers, sealed TCP streams over loopback), compares both,
        and removes them.

              --size SIZE           how much data to make (default: 1g)
          -s, --streams N           parallel streams, 1 to 256 (default: automatic)
              --keep                leave the data there afterwards
          -h, --help                this help
        "#);
}
