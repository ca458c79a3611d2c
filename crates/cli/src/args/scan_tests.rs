//! Both ways of writing.

use super::super::flags::COPY;
use super::*;

fn scanned(line: &str, dialect: Dialect) -> Result<Scanned, UsageError> {
    let words = line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
    scan(COPY, words, Grammar { dialect, operands: 2, has_rest: false })
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
fn letters_cluster_and_an_argument_is_attached_or_follows() {
    for (typed, expected) in [
        ("-rfs4 a b", "recursive force streams=4 | a b"),
        ("-rfs 4 a b", "recursive force streams=4 | a b"),
        ("a -p b -- -c", "preserve | a b -c"),
        ("-s=4 a b", "streams=4 | a b"),
        ("-w=2m a b", "windowsz==2m | a b"),
        ("-w =2m a b", "windowsz==2m | a b"),
        ("-W 2m a b", "windowsz=2m | a b"),
        ("--streams 4 --wind=2m a b", "streams=4 windowsz=2m | a b"),
        ("- b", " | - b"),
        ("-~+^@keep a b", "ptime readable no-empty-dirs symlinks=keep | a b"),
    ] {
        assert_eq!(meant(typed, Dialect::Haul), expected, "{typed}");
    }
}

#[test]
fn an_optional_argument_is_recognised_and_operands_remain() {
    for (typed, expected) in [
        ("-c a b", "compress | a b"),
        ("-c 3 a b", "compress=3 | a b"),
        ("-c 3 b", "compress | 3 b"),
        ("a b -c 3", "compress=3 | a b"),
        ("a -c 3", "compress | a 3"),
        ("-c 33 b", "compress | 33 b"),
        ("-c ./3 a b", "compress | ./3 a b"),
        ("-rfc19 a b", "recursive force compress=19 | a b"),
        ("-czstd a b", "compress=zstd | a b"),
        ("-cv a b", "compress verbose | a b"),
        ("--compress lz4 a b", "compress=lz4 | a b"),
        ("--compress=lz4 b", "compress=lz4 | b"),
        ("-k -a /home/u/ -r a b", "keep append=/home/u/ recursive | a b"),
        ("-a /home/u/ b", "append | /home/u/ b"),
        ("-a /home/u a b", "append | /home/u a b"),
        ("-a=dir a b", "append=dir | a b"),
        ("-a/j a b", "append=/j | a b"),
        ("-av a b", "append verbose | a b"),
        ("-c 1 -c 2 b", "compress=1 compress | 2 b"),
        ("-y dd a b", "fsync=dd | a b"),
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
        ("-a ckp a b", "append=ckp | a b"),
        ("-a a b", "append | a b"),
        ("-av ckp a b", "append=ckp verbose | a b"),
        ("-c 9 a b", "compress=9 | a b"),
        ("-a -- a b", "append | a b"),
        ("--streams 4 --s 8 a b", "streams=4 streams=8 | a b"),
    ] {
        assert_eq!(meant(typed, Dialect::Bbcp), expected, "{typed}");
    }
    for typed in ["a b -f", "a -f b", "--json a b", "-J a b", "-s -P 2 a b"] {
        assert!(meant(typed, Dialect::Bbcp).starts_with("error: "), "{typed}");
    }
}
