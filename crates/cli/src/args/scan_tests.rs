//! Both ways of writing.

use super::super::flags::COPY;
use super::*;

fn scanned(line: &str, dialect: Dialect) -> Result<Scanned, UsageError> {
    let words = line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
    scan(
        COPY,
        words,
        Grammar { dialect, operands: 2, has_rest: false, files: &crate::args::local_files::PlainFiles, command: "" },
    )
}

/// Options and operands in their order, as one line.
fn meant(line: &str, dialect: Dialect) -> String {
    match scanned(line, dialect) {
        Ok(Scanned { values, operands, .. }) => {
            let option = |(row, argument): &(&OptionRow, Option<OsString>)| match argument {
                Some(argument) => format!("{}={}", row.id, argument.to_string_lossy()),
                None => row.id.to_owned(),
            };
            let given: Vec<_> = values.given().iter().map(option).collect();
            let operands: Vec<_> = operands.iter().map(|word| word.to_string_lossy()).collect();
            format!("{} | {}", given.join(" "), operands.join(" "))
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn letters_group_and_an_argument_is_attached_or_follows() {
    for (typed, expected) in [
        ("-r -f -s4 a b", "recursive force streams=4 | a b"),
        ("-rv -s 4 a b", "recursive verbose streams=4 | a b"),
        ("a -p b -- -c", "perms | a b -c"),
        ("-s=4 a b", "streams=4 | a b"),
        ("-w=2m a b", "windowsz==2m | a b"),
        ("-w =2m a b", "windowsz==2m | a b"),
        ("--streams 4 --wind=2m a b", "streams=4 windowsz=2m | a b"),
        ("- b", " | - b"),
        ("-avzP a b", "archive verbose compress=auto | a b"),
        ("--size-only --no-perms a b", "compare=size | a b"),
        ("--del --timeout 30 a b", "delete=during silence=30 | a b"),
        ("--checksum a b", "compare=digest | a b"),
        ("--checksum --no-checksum a b", " | a b"),
        ("--checksum md5 a b", "checksum=md5 | a b"),
        ("--progress --stats a b", "progress stats | a b"),
        ("--progress 2 a b", "progress=2 | a b"),
        ("-P 22 a b", "ssh-port=22 | a b"),
    ] {
        assert_eq!(meant(typed, Dialect::Haul), expected, "{typed}");
    }
}

#[test]
fn an_optional_argument_is_recognised_and_operands_remain() {
    for (typed, expected) in [
        ("--compress a b", "compress | a b"),
        ("--compress 3 a b", "compress=3 | a b"),
        ("--compress 3 b", "compress | 3 b"),
        ("a b --compress 3", "compress=3 | a b"),
        ("a --compress 3", "compress | a 3"),
        ("--compress 33 b", "compress | 33 b"),
        ("--compress ./3 a b", "compress | ./3 a b"),
        ("--compress lz4 a b", "compress=lz4 | a b"),
        ("--compress=lz4 b", "compress=lz4 | b"),
        ("--journal-dir /j -r a b", "journal-dir=/j recursive | a b"),
        ("--compress 1 --compress 2 b", "compress=1 compress | 2 b"),
        ("--fsync dd a b", "fsync=dd | a b"),
        ("--help streams", "help=streams | "),
    ] {
        assert_eq!(meant(typed, Dialect::Haul), expected, "{typed}");
    }
}

#[test]
fn bbcps_letters_take_the_following_words_and_its_options_come_first() {
    for (typed, expected) in [
        ("-rsP 4 2 a b", "recursive streams=4 progress=2 | a b"),
        ("-s 4 -w =2m a b", "streams=4 windowsz==2m | a b"),
        ("-a ckp a b", "journal-dir=ckp | a b"),
        ("-a a b", "journal-dir | a b"),
        ("-av ckp a b", "journal-dir=ckp verbose | a b"),
        ("-c 9 a b", "compress=9 | a b"),
        ("-a -- a b", "journal-dir | a b"),
        ("--streams 4 --s 8 a b", "streams=4 streams=8 | a b"),
    ] {
        assert_eq!(meant(typed, Dialect::Bbcp), expected, "{typed}");
    }
    for typed in ["a b -f", "a -f b", "--json a b", "-J a b", "-s -P 2 a b"] {
        assert!(meant(typed, Dialect::Bbcp).starts_with("error: "), "{typed}");
    }
}
