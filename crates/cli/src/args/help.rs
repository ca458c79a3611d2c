//! The help, generated from the tables of options and commands: one screen, everything, or one option, command or
//! topic.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_proto::path::escape;

use super::commands::{self, COMMANDS, TOPICS};
use super::flags::{self, COPY};
use super::names::{self, Named};
use super::nearest::nearest;
use super::row::{HelpSection, OptionRow};
use super::subjects::{Subject, subject_of, subject_with};
use super::{Dialect, UsageError, completions, filters, letters, manual, markdown};

/// Columns of a signature in a list of options.
const SIGNATURE_WIDTH: usize = 25;
/// Columns of the text beside it.
const TEXT_WIDTH: usize = 52;

const EXIT: &str = "\
Exit status:
  0  success: everything is copied and verified
  1  some files failed; each is named on standard error
  2  usage error
  3  host unreachable
  4  interrupted, or the connection was lost for good; rerun to resume
  5  files vanished at the source; all else is copied and verified
  6  conflicts are left (haul twoway); all else is synchronised
";

const SIZES: &str = "\
SIZE is a number of bytes, or one with a unit of rsync, in either case:
  k, m, g, t, p (or KiB, MiB, ...)  powers of 1024: 512k, 1.5g, 64KiB
  KB, MB, GB, TB, PB                powers of 1000: 10MB
RATE is a SIZE per second (50m, 50MB/s), or a number of bits per second, in
powers of 1000 (400Mbit/s, 1gbps). In a RATE, the B of bytes is a capital.
TIME is a number of seconds, or numbers with d, h, m (min), s or ms, largest
first: 90, 10m, 1h30m, 1.5h. Sizes and rates are rounded down.
";

/// Help on a topic: none, an option, a command, or one of [`TOPICS`].
pub fn on(dialect: Dialect, topic: &OsStr) -> Result<String, UsageError> {
    let text = topic.to_str().unwrap_or_default();
    match (dialect, text) {
        (Dialect::Bbcp, _) => return Ok(bbcp()),
        (_, "" | "help") => return Ok(short()),
        (_, "all") => return Ok(full()),
        (_, "exit") => return Ok(EXIT.to_owned()),
        (_, "size") => return Ok(SIZES.to_owned()),
        (_, "man") => return Ok(manual::page()),
        (_, "markdown") => return Ok(markdown::page()),
        (_, "letters") => return Ok(letters::help()),
        (_, "filters") => return Ok(filters::HELP.to_owned()),
        _ => {}
    }
    if let Some(script) = completions::script(text) {
        return Ok(script);
    }
    // `version` names a command and an option.
    if COMMANDS.iter().any(|row| row.name == text) {
        return Ok(command(text));
    }
    if let Some(subject) = subject_of(text) {
        return Ok(subject.options.iter().map(|row| one(row)).collect::<String>() + &more_about(subject));
    }
    match option(text) {
        Named::One(row) => Ok(one(row) + &subject_with(row).map(more_about).unwrap_or_default()),
        Named::Several(names) => {
            Ok(names.iter().filter_map(|name| named(name)).map(one).collect::<Vec<_>>().join("\n"))
        }
        Named::None(near) => {
            let shown = escape(topic.as_bytes());
            let unknown =
                UsageError::new(format!("no option or command is called {shown}; haul --help all lists them"));
            let near = nearest(text, &commands::names()).or_else(|| nearest(text, &TOPICS)).or(near);
            Err(match near {
                Some(near) => unknown.remedy(format!("did you mean: haul help {near}")),
                None => unknown,
            })
        }
    }
}

/// An option by its long name, its first letters, or its letter; with dashes or without.
fn option(text: &str) -> Named {
    let name = text.trim_start_matches('-');
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => letters::named(letter).map_or(Named::None(None), Named::One),
        _ => names::long(COPY, Dialect::Haul, name),
    }
}

fn named(name: &str) -> Option<&'static OptionRow> {
    COPY.iter().find(|row| row.long_forms().any(|form| form == name))
}

fn more_about(subject: &Subject) -> String {
    format!("\nMore about it: {} in the sources\n", subject.page)
}

/// Formats an option: its forms and its description.
fn one(row: &OptionRow) -> String {
    let mut text = String::new();
    push_rows(&mut text, std::iter::once(row));
    row.alias.iter().for_each(|alias| text.push_str(&format!("  also --{alias}\n")));
    row.refusal.iter().flat_map(|why| why.lines()).for_each(|line| text.push_str(&format!("  {line}\n")));
    text
}

/// The usage under the name bbcp.
pub const BBCP_USAGE: &str = "Usage:   bbcp [OPTIONS] SOURCE... TARGET        each a path or [user@][host:]path";

/// bbcp's options, in its order of letters.
pub fn bbcp() -> String {
    let mut text = format!(
        "{BBCP_USAGE}\n\n\
         This is haul under the name bbcp, with bbcp's command line. For haul's: haul -h\n\n",
    );
    let mut rows: Vec<_> = COPY.iter().filter(|row| row.bbcp.is_some() && row.refusal.is_none()).collect();
    rows.sort_by_key(|row| {
        row.bbcp.map(|bbcp| (!bbcp.letter.is_ascii_alphabetic(), bbcp.letter.to_ascii_lowercase(), bbcp.letter))
    });
    rows.iter().for_each(|row| push_entry(&mut text, &row.bbcp_signature(), row.help));
    text
}

/// One screen: the commands and the most used options.
pub fn short() -> String {
    let mut text = String::from(
        "haul copies files between hosts: encrypted, verified, over parallel streams\n\n\
         haul [OPTIONS] SOURCE... TARGET       each a path or [user@]host:path\n\n\
         Commands:\n",
    );
    let commands = COMMANDS.iter().filter(|row| !row.is_rare);
    commands.for_each(|row| push_entry(&mut text, &row.signature(), row.about));
    push_entry(&mut text, "ls, du, mkdir, rm PATH", "files here or at host:path");
    text.push_str("\nOptions used most:\n");
    push_rows(&mut text, COPY.iter().filter(|row| row.essential));
    text.push_str(
        "\nhaul -r run7 db1:/archive/    haul db1:'~/big.db' .    haul rsync -avz a/ db1:b\n\
         haul help NAME explains an option, command or topic (all, letters, size, exit)\n",
    );
    text
}

/// Every option.
pub fn full() -> String {
    let mut text = format!(
        "haul [OPTIONS] SOURCE... TARGET\n\n\
         SOURCE and TARGET are local paths, or [user@]host:path on a remote host. IPv6\n\
         addresses are written in brackets: [fe80::1%eth0]:path. Write ./a:b for a local\n\
         path that contains a colon. Relative remote paths, and ~/path, start in the\n\
         login directory. With several sources, TARGET is a directory. -- ends the\n\
         options. Rerun an interrupted copy to resume it.\n\n{SIZES}"
    );
    for (section, heading) in HelpSection::LISTED {
        text.push_str(&format!("\n{heading}:\n"));
        push_rows(&mut text, COPY.iter().filter(|row| row.section == section));
    }
    text.push_str(&format!("\n{EXIT}"));
    text
}

/// Help of `haul demo`.
pub fn demo() -> String {
    let mut text = String::from(
        "haul demo [OPTIONS] [-- COPY OPTIONS]\n\n\
         Generates data in a temporary directory, copies it within that directory over\n\
         the network code (two workers, encrypted TCP streams over loopback), compares\n\
         source and target, and deletes both.\n\n",
    );
    push_rows(&mut text, flags::demo::ALL.iter());
    text
}

/// Help of `haul serve`.
fn serve() -> String {
    let mut text = String::from(
        "haul serve [OPTIONS] DIR\n\
         haul serve [OPTIONS] --config FILE\n\n\
         Prints an address, haul://HOST:PORT/#SECRET. Everyone who has it can send files\n\
         to DIR and fetch files from it without ssh, encrypted and verified:\n\n\
         haul -r run7 ADDRESS       sends; haul -r ADDRESS:run7 .  fetches\n\n\
         The server runs until Ctrl-C and logs each transfer on standard error. Clients\n\
         cannot reach anything outside DIR, not even through symbolic links.\n\n",
    );
    push_rows(&mut text, flags::serve::ALL.iter());
    text.push_str(
        "\nWith --config, clients name a directory: haul://HOST/incoming/PATH (port 5031,\n\
         unless --port says otherwise). FILE has a table for each directory:\n\n\
         \x20 [incoming]\n\
         \x20 path = \"/srv/incoming\"\n\
         \x20 access = \"create\"            (or read-only, write-only, both)\n\
         \x20 secrets = [\"/etc/haul/partner.secret\"]\n\
         \x20 keys = [\"haul-public-...\"]  (what --new-key printed for a client)\n\
         \x20        (or { key = \"haul-public-...\", expires = 2027-01-31 }, revoked = true)\n\
         \x20 clients = 4                  (at a time)\n\
         \x20 rate = \"50m\"                (bytes/s, from and to each client)\n\
         \x20 size = \"100g\"               (from all clients together)\n\
         \x20 files = 50000               (from all clients together)\n\
         \x20 require-encryption = true    (also allow-unsafe-links and allow-tuning)\n\n\
         Clients with a key authenticate the server by its public key. The server's\n\
         private key is set above all tables:\n\n\
         \x20 key = \"/etc/haul/serve.key\"\n\n\
         SIGHUP reloads FILE; transfers of revoked clients end, others continue. The\n\
         printed address then contains the server's public key, and the client passes\n\
         its private key: haul --secret-file my.key FILE ADDRESS\n",
    );
    text
}

/// Help of a command.
pub fn command(command: &str) -> String {
    match command {
        "serve" => serve(),
        "verify" => verify(),
        "sync" => sync(),
        "twoway" => twoway(),
        "sweep" => sweep(),
        "config" => config(),
        "probe" => probe(),
        "net" => net(),
        "read" => read(),
        "survey" => survey(),
        "report" => report(),
        "job" => job(),
        "demo" => demo(),
        "help" => short(),
        "completions" => completions(),
        "man" => {
            "haul man [COMMAND]\n\nPrints the manual page, or that of COMMAND: haul man job | man -l -\n".to_owned()
        }
        "version" => version(),
        "copies" => copies(),
        "jobs" => jobs(),
        "rsync" | "scp" | "bbcp" => dialect(command),
        _ => files(command),
    }
}

/// Help of `haul copies`.
fn copies() -> String {
    let mut text = "haul copies [--json]\n\
         haul copies attach|log|cancel|rerun NAME\n\n\
         Lists the copies of this user that were started with --detach: those that run,\n\
         and those of the last 30 days.\n\n\
         haul copies attach run7-1   follow it to its end; Ctrl-C leaves it running\n\
         haul copies log run7-1      print what it has printed\n\
         haul copies cancel run7-1   stop it, as Ctrl-C does\n\
         haul copies rerun run7-1    start it again; it resumes\n\n"
        .to_owned();
    push_rows(&mut text, flags::copies::ALL.iter());
    text
}

/// Help of `haul jobs`.
fn jobs() -> String {
    let mut text = "haul jobs [--json]\n\n\
         Lists the jobs of this user (haul job list), then the detached copies (haul\n\
         copies).\n\n"
        .to_owned();
    push_rows(&mut text, flags::copies::ALL.iter());
    text
}

/// Help of `haul completions`.
fn completions() -> String {
    "haul completions SHELL\n\n\
     Prints a completion script for SHELL: bash, zsh or fish.\n\n\
     haul completions bash > ~/.local/share/bash-completion/completions/haul\n\
     haul completions zsh > ~/.zfunc/_haul\n\
     haul completions fish > ~/.config/fish/completions/haul.fish\n"
        .to_owned()
}

/// Help of `haul rsync`, `haul scp` and `haul bbcp`.
fn dialect(program: &str) -> String {
    format!(
        "haul {program} ...\n\n\
         Takes the whole command line of {program}, with its meaning, output and exit\n\
         statuses, or refuses an option by name before anything happens. A link to haul\n\
         called {program} does the same. Both hosts need haul, or ssh to deploy it.\n\n\
         \x20 alias {program}='haul {program}'\n"
    )
}

/// Help of `haul version`.
fn version() -> String {
    "haul version [-v]\n\n\
     Prints the version, as haul --version does. With -v, measures for about a second\n\
     how fast this CPU encrypts and hashes.\n"
        .to_owned()
}

/// Help of `haul sweep`.
fn sweep() -> String {
    let mut text = String::from(
        "haul sweep [OPTIONS] SOURCE... TARGET\n\n\
         Repeats a copy with many settings and reports medians and quartiles. null:SIZE\n\
         as SOURCE reads from memory, and null: as TARGET (db1:null:) discards the data.\n\
         Otherwise each run writes to a new directory below TARGET and deletes it\n\
         afterwards. Rerun an interrupted sweep to resume it: runs that are in NAME.csv\n\
         are not repeated.\n\n",
    );
    push_rows(&mut text, flags::sweep::ALL.iter());
    text.push_str(
        "\nEvery combination of the LISTs is run. In a list, auto is haul's automatic\n\
         choice, and slac is the set of windows, streams or rates that SLAC measured;\n\
         slac is also the default where no LIST is given. Before and during each run,\n\
         ICMP echoes measure the round trip, where this user may send them.\n\n\
         Most copy options apply to all runs: haul --help all.\n\n\
         haul sweep -s 1,2,4,8,16 --repeat 3 --report null:2g db1:null:\n",
    );
    text
}

/// Help of `haul config`.
fn config() -> String {
    let mut text = String::from(
        "haul config [--all] [--json] [COPY OPTIONS] [HOST]\n\n\
         Shows the options that a file or the command line sets for a copy from or to\n\
         HOST, or within this machine, and the origin of each. --all and --json list\n\
         those with their defaults, too.\n\n\
         haul reads ~/.config/haul/config.toml (or $XDG_CONFIG_HOME/haul/config.toml) and\n\
         /etc/haul/config.toml; with --config FILE only FILE. It has long option names:\n\n\
         \x20   streams = 8\n\
         \x20   no-deploy = true\n\n\
         \x20   [host.\"db*\"]\n\
         \x20   xfrrate = \"50m\"\n\
         \x20   ssh-option = [\"ProxyJump=gate\"]\n\n\
         Precedence: the command line, your file, the system's file. Within a file: a\n\
         host's name, a pattern (* and ?), the settings for all hosts.\n\
         --OPTION=default restores the default. A file cannot set these options:\n\n",
    );
    let rows = COPY.iter().filter(|row| row.of_one_copy && row.section != HelpSection::Unlisted);
    let names: Vec<_> = rows.map(|row| row.id).collect();
    wrapped(&names.join(" "), 76).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    text
}

/// Help of `haul probe`.
fn probe() -> String {
    let mut text = String::from(
        "haul probe [OPTIONS] [SOURCE] TARGET\n\n\
         Measures each part of a copy from SOURCE to TARGET: reading, encryption and\n\
         hashing, the network, writing, then the copy itself. Reports whether both hosts\n\
         are ready, the expected rate, the bottleneck, and recommended settings. Without\n\
         SOURCE, data comes from memory, and reading is not measured. TARGET is the\n\
         target of the copy: a hidden directory is created there and deleted afterwards.\n\n",
    );
    push_rows(&mut text, flags::probe::ALL.iter());
    text.push_str(
        "\nCopy options for performance and connections are accepted and applied to the\n\
         measurements: haul --help all. Each part logs in to the remote host again.\n",
    );
    text
}

/// Help of `haul net`.
fn net() -> String {
    let mut text = String::from(
        "haul net [OPTIONS] HOST\n\n\
         Measures the network between this machine and HOST for ten seconds, from memory\n\
         to memory, as a copy would use it: encrypted, with as many streams as pay off.\n\
         Prints a line a second, then the average, retransmits, round trips when idle\n\
         and under load, and CPUs in use. HOST is a host of ssh, or the address that\n\
         haul serve printed.\n\n",
    );
    push_rows(&mut text, flags::net::ALL.iter());
    text.push_str(
        "\nCopy options for performance and connections are accepted: --duration, -s, -w,\n\
         --bwlimit, --congestion, -z and others. haul --help all lists them.\n\
         --progress=N prints a line every N seconds. Without the right to send ICMP,\n\
         round trips are those of TCP.\n",
    );
    text
}

/// Help of `haul read`.
fn read() -> String {
    let mut text = String::from(
        "haul read [OPTIONS] PATH\n\n\
         Prints a file of this machine, of host:path over ssh, or of haul serve. A file\n\
         that changes meanwhile is an error.\n\n",
    );
    push_rows(&mut text, flags::read::ALL.iter());
    text.push_str(
        "\nWith --session, PATH names the host, and haul answers a program: see\n\
         docs/JSON.md. Copy options for connections are accepted: haul --help all.\n\n\
         haul read --range 1g+64k db1:/archive/run7/big.dat\n",
    );
    text
}

/// Help of commands on files of hosts.
fn files(command: &str) -> String {
    let (about, rows, example) = match command {
        "ls" => (
            "Lists directories and files. More than 100,000 entries of one directory are\n\
             sorted in pieces.\n\n",
            flags::files::ls::ALL,
            "haul ls -l db1:/archive 'db1:run7/*.dat'\n",
        ),
        "du" => (
            "Sums up each PATH with everything below: the bytes of its files, its entries,\n\
             and the bytes on the disk. A file with several names counts once.\n\n",
            flags::files::du::ALL,
            "haul du db1:/archive/run7\n",
        ),
        "mkdir" => ("Creates directories.\n\n", flags::files::mkdir::ALL, "haul mkdir -p db1:/archive/2026/run7\n"),
        "status" => (
            "Lists the partial files of interrupted copies below each PATH, or of the file\n\
             PATH, and their progress. Rerun a copy to resume it; haul clean deletes them.\n\n",
            flags::partials::ALL,
            "haul status db1:/archive\n",
        ),
        "clean" => (
            "Deletes the partial files of interrupted copies below each PATH, or of the file\n\
             PATH, and lists them. Files of running copies are kept, and so are files that\n\
             --inplace has partly updated: rerun the copy to complete those.\n\n",
            flags::partials::ALL,
            "haul clean db1:/archive\n",
        ),
        _ => (
            "Deletes files, and with -r directories. Links are deleted, never followed. The\n\
             working and home directories, those above them, and mount points stay.\n\n",
            flags::files::rm::ALL,
            "haul rm -r db1:/archive/run7\n",
        ),
    };
    let mut text = format!("haul {command} [OPTIONS] [HOST:]PATH...\n\n{about}");
    push_rows(&mut text, rows.iter());
    text.push_str(&format!(
        "\nPATH is on this machine, or on a host over ssh or haul serve, which expands\n\
         patterns. Copy options for connections are accepted: haul --help all. A file\n\
         called {command} is ./{command}.\n\n{example}"
    ));
    text
}

/// Help of `haul report`.
fn report() -> String {
    let mut text = String::from(
        "haul report [OPTIONS] FILE...\n\n\
         Writes a page with charts of up to 12 copies: their rates, incremental and\n\
         cumulative, with medians and quartiles. Each FILE is what haul --json printed\n\
         of a copy, or haul net --json. haul --report writes a page about a single copy.\n\n",
    );
    push_rows(&mut text, flags::report::ALL.iter());
    text.push_str(
        "\nhaul --json -s 4 run7 db1:/archive > 4.json\n\
         haul --json -s 16 run8 db1:/archive > 16.json\n\
         haul report 4.json 16.json\n",
    );
    text
}

/// Help of `haul survey`.
fn survey() -> String {
    let mut text = String::from(
        "haul survey [OPTIONS] PATH...\n\n\
         Summarises what a copy of each PATH would move: files, directories, bytes,\n\
         holes, sizes, types, the biggest files, duplicates, compressibility, and\n\
         unreadable files. Nothing is written, and no data leaves this machine.\n\n\
         PATH is a local path. For a remote one: ssh HOST haul survey PATH\n\n",
    );
    push_rows(&mut text, flags::survey::ALL.iter().filter(|row| row.section != HelpSection::Unlisted));
    text.push_str(
        "\nTo find duplicates, files of equal size are read, the largest savings first.\n\
         Exit status: 0, or 1 if something could not be read.\n",
    );
    text
}

/// Help of `haul job`.
fn job() -> String {
    let mut text = String::from(
        "haul job run [OPTIONS] SOURCE TARGET...   plan, copy on this host, and finish\n\
         haul job run --slurm [OPTIONS] SOURCE TARGET...   the same on nodes of Slurm\n\
         haul job run [--slurm] JOB                continue a job\n\
         haul job plan --dir JOB [OPTIONS] SOURCE TARGET...\n\
         haul job work [--hosts LIST] JOB          copy shards until none is left\n\
         haul job shard JOB [N]                    copy one shard\n\
         haul job finish JOB                       directories, deletions, the report\n\
         haul job verify [--slurm] JOB             compare source and target in shards\n\
         haul job status|report|cancel JOB\n\
         haul job list                             your jobs\n\
         haul job manifest --image IMAGE --claim PVC JOB   print jobs for Kubernetes\n\n\
         Copies the directory SOURCE with many hosts. The plan divides it into shards;\n\
         each is one copy that resumes. Any host that sees JOB runs any shard, in any\n\
         order, also twice. Without N, the shard is SLURM_ARRAY_TASK_ID or\n\
         JOB_COMPLETION_INDEX. Shards take turns on several targets: dtn{1..4}:/archive,\n\
         or on several hosts of one source: dtn{1..4}:/data /archive. Options that can\n\
         start programs need --confirm DIGEST on hosts without your home directory.\n\n\
         Options of plan, run and verify:\n",
    );
    push_rows(&mut text, flags::job::ALL.iter());
    text.push_str("\nOptions of the other steps:\n");
    push_rows(&mut text, flags::step::ALL.iter());
    text.push_str("\nOptions of manifest:\n");
    push_rows(&mut text, flags::manifest::ALL.iter());
    text.push_str(
        "\nplan and run take the options of a copy, and with --sync those of haul sync.\n\n\
         Exit status of haul job status: 0 finished, 1 shards failed or source and target\n\
         differ, 4 unfinished.\n",
    );
    text
}

/// Help of `haul sync`.
fn sync() -> String {
    let mut text = String::from(
        "haul sync [OPTIONS] SOURCE... TARGET\n\n\
         Makes the directory TARGET match the sources and transfers only differences.\n\
         -r, -p and -f are implied. A differing entry is replaced, even a directory by a\n\
         file. Nothing is deleted without --delete.\n\n\
         \x20 haul sync run7 db1:/archive      run7 becomes /archive/run7\n\
         \x20 haul sync run7/ db1:/archive     the contents of run7 go into /archive\n\n",
    );
    push_rows(&mut text, COPY.iter().filter(|row| row.section == HelpSection::Syncing));
    text.push_str(
        "\nAll other copy options are accepted: haul --help all. -H, -X, -A, --specials\n\
         and --devices are not implied. A copy accepts the options above too; there,\n\
         --delete needs -r and -f.\n\n\
         --delete keeps everything below a source that is missing or could not be read\n\
         completely, and everything that filters exclude. With more than --max-delete\n\
         entries to delete, it deletes none (with --delete=during, no more). Preview it:\n\
         haul sync --dry-run --delete SOURCE... TARGET\n",
    );
    text
}

/// Help of `haul twoway`.
fn twoway() -> String {
    let mut text = String::from(
        "haul twoway [OPTIONS] A B\n\
         haul twoway [OPTIONS] PAIR\n\n\
         Brings two directories that both changed to agreement: what changed at one side\n\
         goes to the other, renamings and deletions included. A path that changed at both\n\
         sides, differently, is a conflict: it stays until an option or you decide. The\n\
         first run deletes nothing.\n\n\
         \x20 haul twoway ~/photos db1:photos\n\
         \x20 haul twoway --plan ~/photos db1:photos     changes nothing\n\
         \x20 haul twoway --prefer newer --prefer 'b:*.log' ~/photos db1:photos\n\n\
         PAIR is a pair of the configuration file, with two roots and any options:\n\n\
         \x20 [pair.photos]\n\
         \x20 roots = [\"/home/anna/photos\", \"db1:photos\"]\n\
         \x20 exclude = [\".thumbnails/\"]\n\n",
    );
    push_rows(&mut text, flags::twoway::ALL.iter());
    text.push_str(
        "\n--exclude, --include and their lists, -X, -A, --fsync, --verify, -q, -v and copy\n\
         options for performance and connections are accepted: haul --help all.\n\n\
         Exit status: 1 if something failed or changed during the run, else 6 if\n\
         conflicts are left; others as in a copy.\n",
    );
    text
}

/// Help of `haul verify`.
fn verify() -> String {
    let mut text = String::from(
        "haul verify [OPTIONS] SOURCE... TARGET\n\n\
         Compares SOURCE with the result of a copy to TARGET, given the arguments of that\n\
         copy; --sync for those of haul sync. Both ends read all files, and only BLAKE3\n\
         values of blocks cross the network. Nothing is written. Lists missing,\n\
         extraneous and differing files, the latter by block. Modification times are\n\
         never compared; other metadata is compared with the options that preserve it.\n\n\
         \x20 haul -r run7 db1:/archive        haul verify -r run7 db1:/archive\n\
         \x20 haul sync run7/ db1:/archive     haul verify --sync run7/ db1:/archive\n\n",
    );
    push_rows(&mut text, flags::verify::ALL.iter().filter(|row| row.section != HelpSection::Unlisted));
    text.push_str(
        "\nExit status: 0 identical; 1 differences or unreadable files, each named on\n\
         standard error; 2 to 4 as in a copy.\n",
    );
    text
}

fn push_rows<'a>(text: &mut String, rows: impl Iterator<Item = &'a OptionRow>) {
    rows.for_each(|row| push_entry(text, &row.signature(), row.help));
}

/// An option or command with its text beside it, or below if the name is too long.
fn push_entry(text: &mut String, signature: &str, about: &str) {
    let mut lines = wrapped(about, TEXT_WIDTH).into_iter();
    match signature.chars().count() <= SIGNATURE_WIDTH {
        true => {
            let first = lines.next().unwrap_or_default();
            text.push_str(&format!("  {signature:<SIGNATURE_WIDTH$} {first}\n"));
        }
        false => text.push_str(&format!("  {signature}\n")),
    }
    lines.for_each(|line| text.push_str(&format!("  {:<SIGNATURE_WIDTH$} {line}\n", "")));
}

/// Wraps `text` at spaces to `width` columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width) {
            Some(line) => line.push_str(&format!(" {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
#[path = "help_tests.rs"]
mod tests;
