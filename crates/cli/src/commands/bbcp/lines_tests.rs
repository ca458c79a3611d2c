//! Tests of bbcp's lines, from events without a copy.

use haul_base::copy::event::{FileReport, ItemChange, ItemReport, ResumeReport};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{CopyOptions, RemoteAccess};
use haul_base::copy::summary::TransferTotals;
use haul_show::human::Verbosity;
use haul_show::testing::{Paper, every_event, example};

use super::*;

fn copy(sources: &[&str], target: &str) -> CopySpec {
    let place = |path: &str| Location { host: Host::Local, path: path.into() };
    CopySpec {
        sources: sources.iter().map(|path| place(path)).collect(),
        list: None,
        target: place(target),
        options: CopyOptions::default(),
        access: RemoteAccess::default(),
    }
}

/// A display on paper, and where the exit status goes.
struct Desk {
    paper: Paper,
    status: Rc<Cell<u8>>,
    lines: Lines,
}

fn desk(style: Style, copy: &CopySpec) -> Desk {
    let (paper, status) = (Paper::default(), Rc::new(Cell::new(0)));
    let text = || TextOutput::new(Box::new(paper.clone()), false).called("bbcp");
    let lines = Lines::new(Human::new(text(), Verbosity::Errors), text(), style, copy, Rc::clone(&status));
    Desk { paper, status, lines }
}

fn begun(path: &str) -> Event {
    let item = ItemChange { what: EntryKind::File, change: ChangeKind::Made };
    Event::Item(ItemReport { path: path.into(), item, size: None, modified: None, first_name: None })
}

fn done(path: &str, size: u64, copied: bool) -> Event {
    Event::FileDone(FileReport { path: path.into(), size, copied, digest: None })
}

fn failed(path: &str, message: &str) -> Event {
    Event::FileFailed { path: path.into(), host: "db1".into(), message: message.into() }
}

fn shown(style: Style, copy: &CopySpec, events: &[Event]) -> String {
    let mut desk = desk(style, copy);
    events.iter().for_each(|event| desk.lines.event(event));
    desk.lines.finish(&Ok(example())).unwrap();
    desk.paper.text()
}

const MB: f64 = 1024.0 * 1024.0;

#[test]
fn progress_has_bbcps_form() {
    assert_eq!(progress_line("140304 06:46:12", 1, None, 6.9 * MB), "bbcp: 140304 06:46:12  1% done; 6.9 MB/s");
    assert_eq!(
        progress_line("140304 06:46:12", 1, Some(6.9 * MB), 7.5 * MB),
        "bbcp: 140304 06:46:12  1% done; 6.9 MB/s, avg 7.5 MB/s"
    );
    assert_eq!(
        [0.0, 1023.0, 1024.0, 1.1e9, 1e20].map(binary_rate).join(" "),
        "0.0 B/s 1023.0 B/s 1.0 KB/s 1.0 GB/s 90949470.2 TB/s"
    );
}

#[test]
fn the_full_path_is_named() {
    let whole = |target: &str, relative: &str| TargetNames::new(&copy(&["a"], target)).whole(relative.as_bytes());
    assert_eq!(whole("/home/u/", "file.256m"), Path::new("/home/u/file.256m"));
    assert_eq!(whole("test.file", "test.file"), Path::new("test.file"));
    assert_eq!(whole(".", "F"), Path::new("./F"));
    assert_eq!(whole("/archive/copy", "a/copy"), Path::new("/archive/copy/a/copy"));
}

#[test]
fn only_errors_are_printed_and_the_first_gives_the_status() {
    let mut desk = desk(Style::default(), &copy(&["run7"], "/archive"));
    every_event().iter().for_each(|event| desk.lines.event(event));
    desk.lines.event(&failed("run7/c", "already exists"));
    desk.lines.finish(&Err(Error::Failed(FIRST_FAILURE.into()))).unwrap();
    let expected = "bbcp: db1: run7/b: no space left\n      hint: free some\nbbcp: File run7/c already exists.\n";
    assert_eq!((desk.paper.text().as_str(), desk.status.get()), (expected, 255));
}

#[test]
fn the_error_of_a_copy_is_printed() {
    let mut desk = desk(Style::default(), &copy(&["a"], "/archive"));
    desk.lines.finish(&Err(Error::Connect("db1: no".into()))).unwrap();
    assert_eq!((desk.paper.text().as_str(), desk.status.get()), ("bbcp: db1: no\n", 255));
}

#[test]
fn files_are_announced_and_completed() {
    let style = Style { announces: true, is_verbose: true, ..Style::default() };
    let text = shown(style, &copy(&["a"], "there/b"), &[begun("there/b"), done("b", 5, true)]);
    assert!(text.starts_with("bbcp: Creating ./there/b\nFile ./there/b created; 5 bytes at "), "{text}");
    let quiet = Style { announces: true, ..Style::default() };
    assert_eq!(shown(quiet, &copy(&["a"], "/t"), &[begun("/t/a"), done("a", 5, true)]), "bbcp: Creating /t/a\n");
}

#[test]
fn the_number_of_files_is_first() {
    let style = Style { announces: true, indexes: true, ..Style::default() };
    let known = Progress { files_found: 12408, directories: 3, walk_complete: true, ..Progress::default() };
    let known = Event::Progress(Box::new(known));
    let events = [begun("/t/tree/a"), known.clone(), known, begun("/t/tree/b")];
    assert_eq!(
        shown(style, &copy(&["tree"], "/t"), &events),
        "bbcp: Indexing files to be copied...\nbbcp: Copying 12408 files in 3 directories.\n\
         bbcp: Creating /t/tree/a\nbbcp: Creating /t/tree/b\n"
    );
}

#[test]
fn too_many_lines_do_not_wait() {
    let style = Style { announces: true, indexes: true, ..Style::default() };
    let mut desk = desk(style, &copy(&["tree"], "/t"));
    (0..=HELD_MAX).for_each(|number| desk.lines.event(&begun(&format!("/t/{number}"))));
    assert_eq!(desk.paper.text().lines().count(), HELD_MAX + 2);
}

#[test]
fn skipped_and_appended_files_have_their_lines() {
    let omits = Style { omits: true, is_verbose: true, ..Style::default() };
    assert_eq!(shown(omits, &copy(&["a"], "/t"), &[done("a", 5, false)]), "bbcp: Skipping /t/a already exists.\n");
    assert_eq!(shown(Style { omits: true, ..Style::default() }, &copy(&["a"], "/t"), &[done("a", 5, false)]), "");
    let appends = Style { appends: true, announces: true, ..Style::default() };
    let resumed =
        Event::Resumed(ResumeReport { path: b"/t/a".to_vec(), size: 9, held: 4, damaged: 0, compared: false });
    let events = [begun("/t/a"), begun("/t/b"), resumed, done("a", 9, true), done("b", 5, true), done("c", 5, false)];
    assert_eq!(
        shown(appends, &copy(&["a"], "/t"), &events),
        "bbcp: Appending to /t/a at offset 4\nbbcp: Appending to /t/b at offset 0\n\
         bbcp: File /t/c appears to have already been copied; copy skipped.\n"
    );
    let verbose = shown(Style { is_verbose: true, ..appends }, &copy(&["a"], "/t"), &events[..3]);
    assert!(verbose.starts_with("bbcp: Will try to complete copying /t/a\nbbcp: Appending to /t/a at "), "{verbose}");
}

#[test]
fn no_line_follows_the_last_percent() {
    let style = Style { progress_every: Some(Duration::ZERO), ..Style::default() };
    let at = |bytes_written| {
        Event::Progress(Box::new(Progress {
            bytes_found: 10,
            bytes_written,
            walk_complete: true,
            ..Progress::default()
        }))
    };
    let text = shown(style, &copy(&["a"], "/t"), &[at(4), at(10)]);
    assert!(text.lines().count() == 1 && text.contains("  40% done; "), "{text}");
}

#[test]
fn progress_lines_keep_their_distance() {
    let style = Style { progress_every: Some(Duration::from_secs(3600)), ..Style::default() };
    let progress = Event::Progress(Box::new(Progress { bytes_found: 10, ..Progress::default() }));
    assert_eq!(shown(style, &copy(&["a"], "/t"), &[progress.clone(), progress]), "");
}

#[test]
fn a_digest_names_the_target() {
    let path = |copy: &CopySpec, begun_at: Option<&str>, path: &str| {
        let mut desk = desk(Style::default(), copy);
        begun_at.iter().for_each(|at| desk.lines.event(&begun(at)));
        desk.lines.names.digested(Path::new(path))
    };
    assert_eq!(path(&copy(&["from/a"], "to"), Some("to"), "from/a"), Path::new("to"), "a file with a new name");
    assert_eq!(path(&copy(&["from/a"], "to"), Some("to/a"), "from/a"), Path::new("to/a"));
    assert_eq!(path(&copy(&["x/tree", "y/b"], "/t"), None, "x/tree/b/c"), Path::new("/t/tree/b/c"));
    assert_eq!(path(&copy(&["tree"], "/t"), None, "tree/b/c"), Path::new("/t/tree/b/c"));
}

#[test]
fn failures_have_bbcps_words() {
    let said = |message: &str, appends| {
        let mut desk = desk(Style { appends, ..Style::default() }, &copy(&["a"], "/t"));
        desk.lines.event(&failed("/t/a", message));
        desk.paper.text()
    };
    assert_eq!(said("already exists\nuse -f", false), "bbcp: File /t/a already exists.\n      hint: use -f\n");
    let append = "bbcp: File /t/a changed since the copy completed; append not possible.\n";
    assert_eq!(said("already exists and differs", true), append);
    assert_eq!(said("No such file or directory", false), "bbcp: No such file or directory processing /t/a\n");
    assert_eq!(said("is a directory\nuse -r", false), "bbcp: /t/a is a directory.\n      hint: use -r\n");
    assert_eq!(said("Permission denied", false), "bbcp: db1: /t/a: Permission denied\n");
}

#[test]
fn the_closing_line_counts_copied_files() {
    let closing = |style: Style, summary: &Summary| desk(style, &copy(&["a"], "/t")).lines.closing(summary);
    let verbose = Style { is_verbose: true, ..Style::default() };
    assert_eq!(closing(verbose, &example()).unwrap(), "12408 files copied at effectively 1.1 GB/s");
    assert_eq!(closing(Style { is_piped: true, ..verbose }, &example()), None);
    assert_eq!(closing(Style::default(), &example()), None);
    assert_eq!(closing(verbose, &Summary { files: TransferTotals { bytes: 0, ..example().files }, ..example() }), None);
}
