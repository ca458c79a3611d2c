//! Files that change while they are copied: begun anew once, named where that is in vain, never a mixture.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use haul_e2e::{ProgramRun, Remote, Running, Sandbox, compare, hidden_or_partial, listing, within};

const BIG: u64 = 24_000_001;
const SOME: u64 = 4_000_000;
const LIMIT: Duration = Duration::from_secs(60);

struct Copying {
    source: PathBuf,
    place: PathBuf,
    running: Running,
    /// The host that it goes to, as long as the copy lasts.
    _remote: Remote,
}

/// A copy of a tree with one big file in it, which is under way, and slow.
fn under_way(sandbox: &Sandbox) -> Copying {
    let remote = Remote::new(sandbox);
    let source = sandbox.big_file("source/big", BIG);
    sandbox.file("source/little", "little");
    let place = sandbox.path("place");
    let haul = remote.haul(sandbox).limit(LIMIT).args(["-r", "-x", "12m", "--json", "-P", "1"]);
    let running = haul.arg(sandbox.path("source")).arg(remote.at(&place)).start();
    let arrived = within(LIMIT, || hidden_or_partial(&place, &["little"], SOME).is_some());
    assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
    Copying { source, place, running, _remote: remote }
}

impl Copying {
    fn ended(mut self) -> ProgramRun {
        assert!(self.running.wait_up_to(LIMIT), "it goes on for ever: {}", self.running.stderr_so_far());
        ProgramRun::of(self.running)
    }
}

#[test]
fn one_that_grew_or_shrank_is_begun_anew() {
    for grows in [true, false] {
        let sandbox = Sandbox::new();
        let copying = under_way(&sandbox);
        if grows {
            File::options().append(true).open(&copying.source).unwrap().write_all(b"more").unwrap();
        } else {
            // Into a size of which it travels in another way.
            File::options().write(true).open(&copying.source).unwrap().set_len(1000).unwrap();
        }
        let (source, place) = (copying.source.clone(), copying.place.clone());
        let run = copying.ended().succeeds();
        assert!(run.stdout.contains("it is begun anew"), "{}", run.account());
        compare(source.parent().unwrap(), &place).unwrap();
        assert_eq!(listing(&place), ["big", "little"]);
    }
}

#[test]
fn one_that_goes_on_changing_is_named_and_has_no_final_name() {
    let sandbox = Sandbox::new();
    let mut copying = under_way(&sandbox);
    let file = File::options().write(true).open(&copying.source).unwrap();
    let mut byte = 0;
    while !copying.running.wait_up_to(Duration::ZERO) {
        byte += 1;
        file.write_all_at(&[byte], u64::from(byte) * 1000).unwrap();
        sleep(Duration::from_millis(20));
        byte %= 100;
    }
    let place = copying.place.clone();
    let run = ProgramRun::of(copying.running).ends(1);
    assert!(run.stdout.contains("it changed while it was being read\\nrun"), "{}", run.account());
    assert_eq!(listing(&place), ["little"]);
}

#[test]
fn one_that_vanishes_is_named_and_the_others_arrive() {
    let sandbox = Sandbox::new();
    let copying = under_way(&sandbox);
    // It is open: what is read goes on, but what its name says by now is nothing.
    File::options().append(true).open(&copying.source).unwrap().write_all(b"more").unwrap();
    fs::remove_file(&copying.source).unwrap();
    let place = copying.place.clone();
    let run = copying.ended().ends(1);
    assert!(run.stdout.contains("No such file or directory"), "{}", run.account());
    assert_eq!(listing(&place), ["little"]);
}
