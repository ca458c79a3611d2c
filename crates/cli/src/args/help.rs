//! The help, made from the table of options: one screen, everything, or one option or command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_proto::path::escape;

use super::names::{self, Named};
use super::nearest::nearest;
use super::row::{HelpSection, OptionRow};
use super::table::{COMMANDS, COPY, DEMO, PARTIALS, PROBE, SERVE, SURVEY, SWEEP, VERIFY};
use super::{Dialect, UsageError, completions, manual, markdown};

/// Help on a topic: none, `all`, an option or a command.
pub fn on(dialect: Dialect, topic: &OsStr) -> Result<String, UsageError> {
    let text = topic.to_str().unwrap_or_default();
    match (dialect, text) {
        (Dialect::Bbcp, _) => return Ok(bbcp()),
        (_, "") => return Ok(short()),
        (_, "all") => return Ok(full()),
        (_, "man") => return Ok(manual::page()),
        (_, "markdown") => return Ok(markdown::page()),
        (_, "bash") => return Ok(completions::bash()),
        (_, "zsh") => return Ok(completions::zsh()),
        (_, "fish") => return Ok(completions::fish()),
        (_, "demo") => return Ok(demo()),
        (_, "filters") => return Ok(super::filters::HELP.to_owned()),
        (_, "status" | "clean" | "serve" | "verify" | "sync" | "config" | "sweep" | "probe" | "survey") => {
            return Ok(command(text));
        }
        _ => {}
    }
    match option(text) {
        Named::One(row) => Ok(one(row)),
        Named::Several(names) => {
            Ok(names.iter().filter_map(|name| named(name)).map(one).collect::<Vec<_>>().join("\n"))
        }
        Named::None(near) => {
            let unknown = UsageError::new(format!("there is no option and no command {}", escape(topic.as_bytes())));
            let near = nearest(text, COMMANDS).or(near);
            Err(match near {
                Some(near) => unknown.remedy(format!("did you mean haul help {near}?")),
                None => unknown,
            }
            .remedy("haul help all"))
        }
    }
}

/// An option by its long name, its first letters, or its letter; with dashes or without.
fn option(text: &str) -> Named {
    let name = text.trim_start_matches('-');
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => names::letter(COPY, Dialect::Haul, letter).map_or(Named::None(None), Named::One),
        _ => names::long(COPY, Dialect::Haul, name),
    }
}

fn named(name: &str) -> Option<&'static OptionRow> {
    COPY.iter().find(|row| row.long_forms().any(|form| form == name))
}

/// One option: how it is written, and what it does.
fn one(row: &OptionRow) -> String {
    let mut text = String::new();
    push_rows(&mut text, std::iter::once(row));
    let also = row.other_letter.map(|letter| format!("-{letter}")).into_iter();
    let also: Vec<_> = also.chain(row.alias.map(|alias| format!("--{alias}"))).collect();
    if !also.is_empty() {
        text.push_str(&format!("  also {}\n", also.join(", ")));
    }
    row.refusal.iter().flat_map(|why| why.lines()).for_each(|line| text.push_str(&format!("  {line}\n")));
    text
}

/// The options that bbcp has, in its order of letters.
pub fn bbcp() -> String {
    let mut text = String::from(
        "bbcp [OPTIONS] SOURCE... TARGET        each a path, or [user@][host:]path\n\n\
         This is haul under the name of bbcp: it takes bbcp's command line. haul -h is its own.\n\n",
    );
    let mut rows: Vec<_> = COPY.iter().filter(|row| row.bbcp.is_some() && row.refusal.is_none()).collect();
    rows.sort_by_key(|row| {
        row.letter.map(|letter| (!letter.is_ascii_alphabetic(), letter.to_ascii_lowercase(), letter))
    });
    push_rows(&mut text, rows.into_iter());
    text
}

/// One screen: the options that most people need.
pub fn short() -> String {
    let mut text = String::from(
        "haul copies files between hosts: encrypted, verified, over parallel streams\n\n\
         haul [OPTIONS] SOURCE... TARGET       each a path, or [user@]host:path\n\
         haul sync SOURCE... TARGET            makes TARGET the same: moves what differs\n\
         haul verify SOURCE... TARGET          are both the same? copies nothing\n\
         haul status|clean PATH...             what broken copies left there; removes it\n\
         haul serve DIR                        lets others send and fetch, without ssh\n\
         haul config [HOST]                    options in force, and where they come from\n\
         haul survey PATH... | probe TARGET    what would a copy be made of? how fast?\n\n",
    );
    push_rows(&mut text, COPY.iter().filter(|row| row.essential));
    text.push_str(
        "\nhaul -r run7 db1:/archive/      haul db1:'~/big.db' .      haul ./a:b db1:\n\n\
         haul --help all    every option, exit statuses, names\n\
         haul help WHAT     one option or command: haul help streams, haul help sweep\n",
    );
    text
}

/// Every option.
pub fn full() -> String {
    let mut text = String::from(
        "haul [OPTIONS] SOURCE... TARGET\n\n\
         SOURCE and TARGET are paths on this machine or [user@]host:path on another;\n\
         an IPv6 address stands in brackets: [fe80::1%eth0]:path. A path here with a\n\
         colon in its name is written ./a:b. After --, nothing is an option. Relative\n\
         paths on another host, and ~/path, start in the login directory. With several\n\
         sources the target is a directory. SIZE is a number of bytes, or one with k, m\n\
         or g (powers of 1024). Run an interrupted copy again: what is there is not\n\
         sent twice.\n",
    );
    for (section, heading) in HelpSection::LISTED {
        text.push_str(&format!("\n{heading}:\n"));
        push_rows(&mut text, COPY.iter().filter(|row| row.section == section));
    }
    text.push_str(
        "\nExit status:\n\
         \x20 0  everything is there and verified\n\
         \x20 1  some files failed; each was named on standard error\n\
         \x20 2  the command line, or what it asks for, makes no sense\n\
         \x20 3  the other host could not be reached\n\
         \x20 4  interrupted; run the same command again to go on\n",
    );
    text
}

/// Help of `haul demo`.
pub fn demo() -> String {
    let mut text = String::from(
        "haul demo [OPTIONS] [-- OPTIONS OF A COPY]\n\n\
         Makes data in a temporary directory, copies it to another place there through\n\
         the real path (two workers, sealed TCP streams over loopback), compares both,\n\
         and removes them.\n\n",
    );
    push_rows(&mut text, DEMO.iter());
    text
}

/// Help of `haul serve`.
fn serve() -> String {
    let mut text = String::from(
        "haul serve [OPTIONS] DIR\n\
         haul serve [OPTIONS] --config FILE\n\n\
         Prints a line, haul://HOST:PORT/#SECRET. Whoever has it can send to DIR and\n\
         fetch from it, without ssh, encrypted and proven at both ends:\n\n\
         haul -r run7 LINE      sends; haul -r LINE:run7 .  fetches\n\n\
         It serves until Ctrl-C, and logs on standard error who came for what. Nothing\n\
         outside of DIR can be reached, nor through symbolic links in it.\n\n",
    );
    push_rows(&mut text, SERVE.iter());
    text.push_str(
        "\nWith --config, clients name a directory: haul://HOST/incoming/PATH (port 5031,\n\
         unless --port says otherwise). FILE has for each of them:\n\n\
         \x20 [incoming]\n\
         \x20 path = \"/srv/incoming\"\n\
         \x20 access = \"create\"            (or read-only, write-only, both)\n\
         \x20 secrets = [\"/etc/haul/partner.secret\"]\n\
         \x20 keys = [\"haul-public-...\"]  (what --new-key printed for a client)\n\
         \x20        (or { key = \"haul-public-...\", expires = 2027-01-31 }, revoked = true)\n\
         \x20 clients = 4                  (at a time)\n\
         \x20 rate = \"50m\"                (bytes a second, from and to each client)\n\
         \x20 size = \"100g\"               (from all its clients)\n\
         \x20 files = 50000               (from all its clients)\n\
         \x20 require-encryption = true    (allow-unsafe-links and allow-tuning, too)\n\n\
         Clients with a key know the server by its own, which stands above all tables:\n\n\
         \x20 key = \"/etc/haul/serve.key\"\n\n\
         SIGHUP reads FILE again: what is revoked ends, and what runs otherwise goes on.\n\
         The line then has the server's public key, and the client's private one is given\n\
         with --secret-file: haul --secret-file my.key FILE LINE\n",
    );
    text
}

/// Help of a command that takes operands.
pub fn command(command: &str) -> String {
    match command {
        "serve" => serve(),
        "verify" => verify(),
        "sync" => sync(),
        "sweep" => sweep(),
        "config" => config(),
        "probe" => probe(),
        "survey" => survey(),
        _ => partials(command),
    }
}

/// Help of `haul sweep`.
fn sweep() -> String {
    let mut text = String::from(
        "haul sweep [OPTIONS] SOURCE... TARGET\n\n\
         Makes the same copy with many settings, measures it, and tells medians and\n\
         quartiles. null:SIZE as SOURCE is memory, and null: as TARGET (db1:null:) is\n\
         nowhere; else each run writes into a directory of its own below TARGET, which is\n\
         removed after it. Stopped, the same command goes on: runs in NAME.csv are not\n\
         made again.\n\n",
    );
    push_rows(&mut text, SWEEP.iter());
    text.push_str(
        "\nEvery combination of the LISTs is run. auto in a list is what haul would choose;\n\
         slac stands for the windows, streams or rates that SLAC swept, which are also\n\
         what is swept where there is no LIST at all.\n\n\
         Most options of a copy are for all runs: haul --help all.\n\n\
         haul sweep -s 1,2,4,8,16 --repeat 3 --report null:2g db1:null:\n",
    );
    text
}

/// Help of `haul config`.
fn config() -> String {
    let mut text = String::from(
        "haul config [--json] [OPTIONS OF A COPY] [HOST]\n\n\
         Shows which options are in force for a copy from or to HOST, or within this\n\
         machine, and where each comes from: the default, a file, the command line.\n\n\
         haul reads ~/.config/haul/config.toml (or $XDG_CONFIG_HOME/haul/config.toml) and\n\
         /etc/haul/config.toml; with -C FILE only that. A file has long names of options:\n\n\
         \x20   streams = 8\n\
         \x20   no-deploy = true\n\n\
         \x20   [host.\"db*\"]\n\
         \x20   xfrrate = \"50m\"\n\
         \x20   ssh-option = [\"ProxyJump=gate\"]\n\n\
         The command line goes before your file, that before the system's; in a file a\n\
         host's name before a pattern (* and ?), that before what is for all hosts.\n\
         --OPTION=default is as if nothing had said OPTION. These cannot be in a file:\n\n",
    );
    let rows = COPY.iter().filter(|row| row.of_one_job && row.section != HelpSection::Unlisted);
    let names: Vec<_> = rows.map(|row| row.id).collect();
    let mut line = String::new();
    for name in names {
        if line.len() + name.len() > 74 {
            text.push_str(&format!(" {line}\n"));
            line.clear();
        }
        line.push_str(&format!(" {name}"));
    }
    text.push_str(&format!(" {line}\n"));
    text
}

/// Help of `haul probe`.
fn probe() -> String {
    let mut text = String::from(
        "haul probe [OPTIONS] [SOURCE] TARGET\n\n\
         Measures what a copy of SOURCE to TARGET is made of, part by part: reading,\n\
         computing, the network, writing, then the copy itself. Says whether both hosts\n\
         are ready, what rate to expect, what limits it, and which settings are worth\n\
         having. Without SOURCE, data comes from memory, and nothing is read. TARGET is\n\
         where a copy would go: it gets a hidden directory for the time of the probe.\n\n",
    );
    push_rows(&mut text, PROBE.iter());
    text.push_str(
        "\nOptions of a copy about moving data and reaching hosts are taken, too, and\n\
         measured with: haul --help all. Each part logs in at the other host anew.\n",
    );
    text
}

/// Help of `haul survey`.
fn survey() -> String {
    let mut text = String::from(
        "haul survey [OPTIONS] PATH...\n\n\
         Shows what a copy of each PATH would be made of: files, directories, bytes,\n\
         holes, sizes, types, what is biggest, what is there twice, how well it\n\
         compresses, and what cannot be read. Nothing is written, and nothing leaves\n\
         this machine.\n\n\
         PATH is on this machine; for another: ssh HOST haul survey PATH\n\n",
    );
    push_rows(&mut text, SURVEY.iter().filter(|row| row.section != HelpSection::Unlisted));
    text.push_str(
        "\nFiles of equal size are read, those first with which most could be saved. Exit\n\
         status: 0, or 1 if something cannot be read.\n",
    );
    text
}

/// Help of `haul sync`.
fn sync() -> String {
    let mut text = String::from(
        "haul sync [OPTIONS] SOURCE... TARGET\n\n\
         Makes what is in the directory TARGET the same as the sources, and moves only\n\
         what differs. Directories with all that is in them, links, modes, owners and\n\
         times are kept (-r and -p are implied, and -f: what differs is replaced, also by\n\
         something of another kind). Nothing is removed without --delete.\n\n\
         \x20 haul sync run7 db1:/archive      run7 becomes /archive/run7\n\
         \x20 haul sync run7/ db1:/archive     what is in run7 goes into /archive\n\n",
    );
    push_rows(&mut text, COPY.iter().filter(|row| row.section == HelpSection::Syncing));
    text.push_str(
        "\nAll other options of a copy are taken, too: haul --help all. --hard-links,\n\
         --xattrs, --acls, --specials and --devices are not implied. A copy takes these\n\
         options as well; there, --delete needs -r and -f.\n\n\
         --delete removes nothing where a source is missing or could not be read to its\n\
         end, nothing that filters leave out, and, where there is more than --max-delete\n\
         allows, nothing at all (with --delete=during, nothing more). Look at it first:\n\
         haul sync --dry-run --delete SOURCE... TARGET\n",
    );
    text
}

/// Help of `haul verify`.
fn verify() -> String {
    let mut text = String::from(
        "haul verify [OPTIONS] SOURCE... TARGET\n\n\
         Compares SOURCE with what a copy to TARGET would have made of it: both ends read\n\
         all files, and only BLAKE3 values of their blocks travel. Nothing is written.\n\
         Names what is missing, what is at the target alone, and what differs: files by\n\
         block. Times are never compared. What only some copies keep is compared with the\n\
         options that keep it.\n\n",
    );
    push_rows(&mut text, VERIFY.iter().filter(|row| row.section != HelpSection::Unlisted));
    text.push_str(
        "\nExit status: 0 identical, 1 differences (or files that could not be read), each\n\
         named on standard error; 2 to 4 as of a copy.\n",
    );
    text
}

/// Help of `haul status` and `haul clean`.
fn partials(command: &str) -> String {
    let mut text = format!("haul {command} [OPTIONS] PATH...\n\n");
    text.push_str(match command {
        "clean" => {
            "Removes what unfinished copies have left below each PATH, or of the file PATH,\n\
             and says what that was. What a running copy writes is left alone, and so are\n\
             changes that a file may have some of (--inplace): the same copy puts in all.\n\n"
        }
        _ => {
            "Shows what unfinished copies have left below each PATH, or of the file PATH, and\n\
             how far it is. The same copy, run again, goes on with it; haul clean removes it.\n\n"
        }
    });
    text.push_str("PATH is on this machine; for another: ssh HOST haul ");
    text.push_str(&format!("{command} PATH\n\n"));
    push_rows(&mut text, PARTIALS.iter());
    text
}

fn push_rows<'a>(text: &mut String, rows: impl Iterator<Item = &'a OptionRow>) {
    for row in rows {
        let mut lines = row.help.lines();
        text.push_str(&format!("  {:<25} {}\n", row.signature(), lines.next().unwrap_or_default()));
        lines.for_each(|line| text.push_str(&format!("  {:<25} {line}\n", "")));
    }
}

#[cfg(test)]
#[path = "help_tests.rs"]
mod tests;
