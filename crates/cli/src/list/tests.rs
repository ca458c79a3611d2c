//! Lists as people and programs write them.

use std::io::Write;
use std::time::Instant;

use haul_control::operand::host_label;

use super::*;
use crate::args::Dialect;
use crate::args::parse::{Command, parse};
use crate::list::list;

fn remote(name: &str) -> Host {
    Host::Remote { user: None, name: name.into() }
}

/// What is read until there is nothing more at hand.
fn read(lines: &mut dyn ListReader) -> Vec<String> {
    let mut read = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        read.push(match lines.next(Duration::from_millis(10)) {
            ListLine::Source(source) => format!("{} {}", host_label(&source.host), source.path.display()),
            ListLine::Bad(line, text) => {
                let text = text.lines().next().unwrap_or_default().to_owned();
                format!("{}: {text}: {}", lines.position(), haul_proto::path::escape(&line))
            }
            ListLine::NotYet => "not yet".into(),
            ListLine::End(error) => format!("end {error:?}"),
        });
        if matches!(read.last().map(String::as_str), Some("not yet" | "end None")) {
            break;
        }
    }
    read
}

fn reader(bytes: &[u8], end: u8, host: Host) -> ListFileReader {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let text = ListText::open(file.path()).unwrap();
    let written = ListFormat { name: "the list".into(), text, end, typed: Vec::new(), base: None };
    ListFileReader::new(Arc::new(written), Some(host))
}

fn local(bytes: &[u8]) -> Vec<String> {
    read(&mut reader(bytes, b'\n', Host::Local))
}

#[test]
fn a_line_is_a_path_blanks_and_all() {
    let here = |paths: &[&str]| -> Vec<String> {
        paths.iter().map(|path| format!("this machine {path}")).chain(["end None".into()]).collect()
    };
    assert_eq!(local(b""), here(&[]));
    assert_eq!(local(b"a\nb/c\n"), here(&["a", "b/c"]));
    assert_eq!(local(b"a\nwithout an end"), here(&["a", "without an end"]));
    assert_eq!(local(b" a \n\n\n#b\n-\n"), here(&[" a ", "#b", "-"]));
    assert_eq!(local(b"a\r\n\r\nb\r\n"), here(&["a", "b"]));
    let null = read(&mut reader(b"a\nb\0\0c\r\0d", 0, Host::Local));
    assert_eq!(null, here(&["a\nb", "c\r", "d"]));
}

#[test]
fn failed_lines_are_named_and_the_others_are_used() {
    let read = read(&mut reader(b"h:a\n\nb\nme@h:c\nh:d\nh:~x/y\nh:e\0f\nh:g", b'\n', remote("h")));
    insta::assert_snapshot!(read.join("\n"), @r"
    h a
    line 3 of the list: it is on this machine, but the source is on h: b
    line 4 of the list: it is on me@h, but the source is on h: me@h:c
    h d
    line 6 of the list: h:~x/y: ~USER is not supported: h:~x/y
    line 7 of the list: a path cannot contain NUL: h:e\u{0}f
    h g
    end None
    ");
}

#[test]
fn an_overlong_line_takes_no_memory() {
    let mut bytes = vec![b'x'; 1 << 20];
    bytes.extend_from_slice(b"\na\n");
    let mut reader = reader(&bytes, b'\n', Host::Local);
    let read = read(&mut reader);
    assert_eq!(read.len(), 3, "{read:?}");
    assert!(read[0].starts_with("line 1 of the list: path too long: xxx") && read[0].len() < 200);
    assert_eq!(read[1], "this machine a");
    assert!(reader.buffer.capacity() < 4 * PIECE, "{}", reader.buffer.capacity());
}

#[test]
fn a_pipes_list_can_be_read_again_from_its_start() {
    let (reading, mut writing) = std::io::pipe().unwrap();
    let text = ListText::spooled(std::os::fd::OwnedFd::from(reading).into()).unwrap();
    let written = ListFormat { name: "a pipe".into(), text, end: b'\n', typed: Vec::new(), base: None };
    let written = Arc::new(written);
    let mut first = ListFileReader::new(Arc::clone(&written), Some(Host::Local));
    assert_eq!(read(&mut first), ["not yet"]);
    writing.write_all(b"a\nb").unwrap();
    while !matches!(first.next(Duration::from_secs(10)), ListLine::Source(_)) {}
    assert_eq!(read(&mut first), ["not yet"], "half a line is none");
    writing.write_all(b"c\n").unwrap();
    drop(writing);
    let wait = || ListFileReader::new(Arc::clone(&written), Some(Host::Local));
    while !matches!(first.next(Duration::from_secs(10)), ListLine::End(_)) {}
    for mut again in [wait(), wait()] {
        assert_eq!(read(&mut again), ["this machine a", "this machine bc", "end None"]);
    }
}

#[test]
fn command_line_sources_come_first_and_the_first_line_names_the_host() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"\nb\nh:c\n").unwrap();
    let listed = |words: &[&str], typed: &[&str], base: Option<Location>| {
        let words = words
            .iter()
            .copied()
            .chain(["--infiles", file.path().to_str().unwrap(), "target"])
            .map(Into::into)
            .collect();
        let Ok(Command::Copy(values, _)) = parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles) else {
            panic!("a copy")
        };
        let mut sources = typed.iter().map(|path| parse_operand(OsStr::new(path)).unwrap()).collect();
        let list = list(&values, &mut sources, base).unwrap().unwrap();
        assert!(sources.is_empty());
        let paths: Vec<_> = read(&mut *(list.open)()).into_iter().filter(|line| !line.contains(':')).collect();
        (list.host, paths)
    };
    let ends =
        |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).chain(["end None".into()]).collect::<Vec<_>>();
    assert_eq!(listed(&[], &[], None), (Host::Local, ends(&["this machine b"])));
    assert_eq!(listed(&["-r"], &["h:a"], None), (remote("h"), ends(&["h a", "h c"])));
    let base = Location { host: remote("h"), path: "/base".into() };
    assert_eq!(listed(&[], &[], Some(base)), (remote("h"), ends(&["h b", "h c"])));
}
