//! Striping of large targets on Lustre, for which a file system in user space stands in: it has the attribute
//! `lustre.lov`, and takes a layout only before a file has objects.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use haul_e2e::{ProgramRun, Remote, Sandbox, contents, listing};
use haul_lab::{Layouts, Oddities, SlowFs};
use rustix::fs::{XattrFlags, fsetxattr, getxattr};

/// The smallest file that gets a striping.
const LARGE: usize = 64 << 20;
const LAYOUT: &str = "lustre.lov";
/// Of a file that was given none.
const DEFAULT: &[u8] = b"default";

/// The stand-in, mounted here.
fn lustre(sandbox: &Sandbox, name: &str, layouts: Layouts) -> Option<SlowFs> {
    if !SlowFs::available() {
        println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
        return None;
    }
    let oddities = Oddities { layouts: Some(layouts), ..Oddities::default() };
    Some(SlowFs::mount_odd(sandbox.dir(name), oddities).unwrap())
}

/// A `lov_user_md_v1` whose first storage target Lustre chooses.
fn layout(count: u16, size: u32) -> Vec<u8> {
    let numbers = [0x0bd1_0bd0u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
    [&numbers[..], &[0; 16], &size.to_le_bytes(), &count.to_le_bytes(), &[0xff; 2]].concat()
}

fn layout_of(path: &Path) -> Vec<u8> {
    let mut value = [0; 100];
    let len = getxattr(path, LAYOUT, &mut value[..]).unwrap();
    value[..len].to_vec()
}

/// A file with this layout, as `lfs setstripe` makes it.
fn striped_file(path: &Path, layout: &[u8], bytes: usize) {
    let flags = libc::O_ASYNC | libc::O_NOCTTY;
    let mut file = fs::File::options().write(true).create_new(true).custom_flags(flags).open(path).unwrap();
    fsetxattr(&file, LAYOUT, layout, XattrFlags::empty()).unwrap();
    file.write_all(&vec![7; bytes]).unwrap();
    assert_eq!(layout_of(path), layout);
}

#[test]
fn large_targets_have_the_stripes_of_their_sources_or_of_the_option() {
    let sandbox = Sandbox::new();
    let Some(_from) = lustre(&sandbox, "from", Layouts::Settable) else { return };
    let Some(_to) = lustre(&sandbox, "to", Layouts::Settable) else { return };
    striped_file(&sandbox.path("from/large"), &layout(3, 2 << 20), LARGE);
    striped_file(&sandbox.path("from/small"), &layout(3, 2 << 20), 1 << 20);
    striped_file(&sandbox.path("from/one stripe"), &layout(1, 1 << 20), LARGE);
    let names = ["large", "one stripe", "small"];
    let stripes_of = |option: &[&str], dir: &str| {
        sandbox.haul(["-r", "-f"]).args(option).args(["from/.", dir]).run().succeeds().does_not_say("striping");
        names.map(|name| {
            let [source, target] = ["from", dir].map(|dir| sandbox.path(dir).join(name));
            assert!(contents(&source) == contents(&target), "{dir}/{name}");
            let found = layout_of(&target);
            fs::remove_file(target).unwrap();
            found
        })
    };
    let default = || DEFAULT.to_vec();
    assert_eq!(stripes_of(&[], "to/as the source"), [layout(3, 2 << 20), default(), default()]);
    assert_eq!(stripes_of(&["--stripe", "4,1m"], "to/four"), [layout(4, 1 << 20), layout(4, 1 << 20), default()]);
    assert_eq!(stripes_of(&["--stripe=-1"], "to/all"), [layout(u16::MAX, 0), layout(u16::MAX, 0), default()]);
    assert_eq!(stripes_of(&["--stripe", "off"], "to/off"), [default(), default(), default()]);
}

#[test]
fn stripes_travel_between_two_hosts_and_streams_have_those_of_the_option() {
    let sandbox = Sandbox::new();
    let Some(_lustre) = lustre(&sandbox, "lustre", Layouts::Settable) else { return };
    let remote = Remote::new(&sandbox);
    let there = |name: &str| remote.at(sandbox.path("lustre").join(name)).into_string().unwrap();
    striped_file(&sandbox.path("lustre/large"), &layout(3, 2 << 20), LARGE);
    remote.haul(&sandbox).args(["lustre/large", &there("copy")]).run().succeeds();
    assert_eq!(layout_of(&sandbox.path("lustre/copy")), layout(3, 2 << 20));
    remote.haul(&sandbox).args(["--stripe", "off", "lustre/large", &there("off")]).run().succeeds();
    assert_eq!(layout_of(&sandbox.path("lustre/off")), DEFAULT);
    sandbox.haul(["--pipe", "i", "--stripe", "8", "echo x", "lustre/stream"]).run().succeeds();
    assert_eq!(layout_of(&sandbox.path("lustre/stream")), layout(8, 0));
}

#[test]
fn a_target_that_refuses_the_layout_is_copied_with_one_warning() {
    let sandbox = Sandbox::new();
    let Some(_from) = lustre(&sandbox, "from", Layouts::Settable) else { return };
    let Some(_refuses) = lustre(&sandbox, "refuses", Layouts::Refused) else { return };
    ["a", "b"].iter().for_each(|name| striped_file(&sandbox.path("from").join(name), &layout(3, 2 << 20), LARGE));
    sandbox.dir("plain");
    for dir in ["refuses", "plain"] {
        let place = |name: &str| sandbox.path(dir).join(name);
        // Without direct I/O, no second open gives the file objects.
        sandbox
            .haul(["-r", "--unbuffered", "off", "from/.", &format!("{dir}/quiet")])
            .run()
            .succeeds()
            .does_not_say("striping");
        let asked = ["-r", "--stripe", "4", "from/.", &format!("{dir}/asked")];
        let run = sandbox.haul(asked).run().succeeds();
        let words = "the directory's striping, not the requested one";
        assert_eq!(run.stderr.matches(words).count(), 1, "{}", run.account());
        for name in ["quiet/a", "quiet/b", "asked/a", "asked/b"] {
            assert!(contents(&place(name)) == vec![7; LARGE], "{dir}/{name}");
        }
    }
    assert_eq!(layout_of(&sandbox.path("refuses/asked/a")), DEFAULT);
}

#[test]
fn ranges_write_one_file_with_one_layout() {
    let sandbox = Sandbox::new();
    let Some(_to) = lustre(&sandbox, "to", Layouts::Settable) else { return };
    sandbox.big_file("src/large", LARGE as u64 + 1);
    let plan = ["job", "plan", "--dir", "job", "--shard-range", "32m", "-r", "--stripe", "4,1m", "src", "to"];
    sandbox.haul(plan).run().succeeds();
    let status = sandbox.haul(["job", "status", "--json", "job"]).run();
    let shards = status.events().iter().filter(|event| event["event"] == "shard").count();
    assert!(shards >= 3, "{}", status.account());
    let shard = |number: usize| sandbox.haul(["job", "shard", "job", &number.to_string()]).start();
    let running: Vec<_> = (0..shards).map(shard).collect();
    running.into_iter().for_each(|run| drop(ProgramRun::of(run).succeeds()));
    sandbox.haul(["job", "finish", "job"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("to/src")), ["large"]);
    assert_eq!(layout_of(&sandbox.path("to/src/large")), layout(4, 1 << 20));
    assert!(contents(&sandbox.path("to/src/large")) == contents(&sandbox.path("src/large")));
}
