use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::thread;

use haul_base::copy::spec::Login;
use tempfile::TempDir;

use super::*;

const USUAL: &str = "user ann\nhostname db1\ncontrolmaster false\ncontrolpersist no\n";

/// A runtime directory, and the place of masters in it.
fn runtime() -> (TempDir, MasterPlace) {
    let runtime = tempfile::tempdir().unwrap();
    let place = MasterPlace { directory: Some(runtime.path().join("haul")), ..MasterPlace::default() };
    (runtime, place)
}

fn chosen(printed: &str, login: Login, place: &MasterPlace) -> SshMaster {
    let access = RemoteAccess { login, ..RemoteAccess::default() };
    SshMaster::choose(&printed.into(), &["db1".into()], &access, place).unwrap()
}

/// The socket of haul's own master, if there may be one.
fn own(place: &MasterPlace) -> Option<PathBuf> {
    let master = chosen(USUAL, Login::default(), place);
    assert_eq!(master.socket.is_some(), !master.options.is_empty());
    master.socket
}

#[test]
fn haul_has_a_master_of_its_own_only_where_the_user_has_none() {
    let (_runtime, place) = runtime();
    let login = |option: &str| Login { ssh_options: vec![option.to_owned()], ..Login::default() };
    let master = chosen(USUAL, login("Compression=yes"), &place);
    let socket = master.socket.unwrap();
    let expected = ["-o", "ControlMaster=auto", "-o", &format!("ControlPath={}", socket.display()), "-o", PERSIST];
    assert_eq!(master.options, expected);
    assert_eq!(socket.parent(), place.directory.as_deref());
    assert_eq!(fs::read_dir(socket.parent().unwrap()).unwrap().count(), 0, "the trial leaves nothing");

    for (printed, socket) in [("controlpath /x/y\ncontrolmaster false\n", Some("/x/y")), ("controlmaster auto\n", None)]
    {
        let master = chosen(printed, Login::default(), &place);
        assert_eq!((master.options.len(), master.socket.as_deref()), (0, socket.map(Path::new)), "{printed}");
    }
    let never = Login { no_ssh_reuse: true, ..Login::default() };
    for login in [never, login("ControlPath=none"), login("controlmaster no"), login("ControlPersist = 5")] {
        assert!(chosen(USUAL, login.clone(), &place).socket.is_none(), "{login:?}");
    }
    assert!(chosen("", Login::default(), &place).socket.is_none(), "an ssh that knows no settings");
    assert!(chosen(USUAL, Login::default(), &MasterPlace::default()).socket.is_none());
}

#[test]
fn each_account_connection_and_agent_has_a_master_of_its_own() {
    let place = MasterPlace::default();
    let named = |settings: &str, words: &[&str], place: &MasterPlace| {
        name(&settings.into(), &words.iter().map(OsString::from).collect::<Vec<_>>(), place)
    };
    let usual = named(USUAL, &["-p", "22", "db1"], &place);
    assert_eq!((usual.len(), &usual), (32, &named(USUAL, &["-p", "22", "db1"], &place)));
    let agent = MasterPlace { agent: Some("/a".into()), ..MasterPlace::default() };
    let tickets = MasterPlace { tickets: Some("/a".into()), ..MasterPlace::default() };
    let others = [
        named(USUAL, &["-p", "2", "2db1"], &place),
        named("user ben\n", &["-p", "22", "db1"], &place),
        named(USUAL, &["-p", "22", "db1"], &agent),
        named(USUAL, &["-p", "22", "db1"], &tickets),
    ];
    for (at, other) in others.iter().enumerate() {
        assert!(*other != usual && !others[..at].contains(other), "{at}");
    }
    let relative = |printed: &str| SshSettings::from(printed).relative_files().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(relative("identityfile k\nidentityfile ~/k\nidentityagent none\nuserknownhostsfile /h\n"), ["k"]);
}

#[test]
fn what_others_or_links_could_have_planted_is_not_used() {
    let (runtime, place) = runtime();
    let directory = place.directory.clone().unwrap();
    let set = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let socket = own(&place).unwrap();
    set(&directory, 0o750);
    assert_eq!(own(&place), None, "others may enter it");
    set(&directory, 0o700);
    set(runtime.path(), 0o777);
    assert_eq!(own(&place), None, "others may exchange it");
    set(runtime.path(), 0o700);
    for plant in [|path: &Path| symlink("elsewhere", path), |path: &Path| fs::write(path, "")] {
        plant(&socket).unwrap();
        assert_eq!(own(&place), None);
        fs::remove_file(&socket).unwrap();
    }
    if geteuid().is_root() && !haul_lab::is_emulated_without("other owner") {
        drop(UnixListener::bind(&socket).unwrap());
        chown(&socket, Some(65_534), None).unwrap();
        assert_eq!(own(&place), None);
        chown(&directory, Some(65_534), None).unwrap();
        assert_eq!(own(&place), None);
        chown(&directory, Some(0), None).unwrap();
        fs::remove_file(&socket).unwrap();
    }
    assert_eq!(own(&place).as_ref(), Some(&socket));
    fs::rename(&directory, runtime.path().join("moved")).unwrap();
    symlink("moved", &directory).unwrap();
    assert_eq!(own(&place), None, "a link");
}

#[test]
fn a_path_that_ssh_could_not_use_is_not_used() {
    let (runtime, _) = runtime();
    let at = |name: &str| MasterPlace { directory: Some(runtime.path().join(name)), ..MasterPlace::default() };
    for name in ["absent/haul", "a b", "a%h", "a${HOME}", &"a".repeat(90)] {
        assert_eq!(own(&at(name)), None, "{name}");
    }
}

/// A process that lets in, and answers one request with this.
fn answering(socket: &Path, answer: &'static [u32]) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = [0; 24];
        connection.read_exact(&mut request).unwrap();
        let answer: Vec<u8> = answer.iter().copied().flat_map(u32::to_be_bytes).collect();
        connection.write_all(&answer).unwrap();
    })
}

#[test]
fn a_master_is_asked_whether_it_lives() {
    let (runtime, place) = runtime();
    let socket = runtime.path().join("socket");
    assert_eq!(ask(&socket), MasterState::Gone);
    for (answer, expected) in [
        (&[8, 1, 4, 12, IS_ALIVE, 0, 77][..], MasterState::Lives(77)),
        // A greeting with an extension.
        (&[16, 1, 4, 0, 0, 12, IS_ALIVE, 0, 78], MasterState::Lives(78)),
        (&[u32::MAX, 1], MasterState::Gone),
        (&[8, 1, 4], MasterState::Gone),
        (&[], MasterState::Gone),
    ] {
        let master = answering(&socket, answer);
        assert_eq!(ask(&socket), expected, "{answer:?}");
        master.join().unwrap();
        // Its socket stays, and is stale.
        assert_eq!(ask(&socket), MasterState::Gone);
        fs::remove_file(&socket).unwrap();
    }
    let stale = own(&place).unwrap();
    drop(UnixListener::bind(&stale).unwrap());
    assert_eq!(own(&place).as_ref(), Some(&stale), "ssh replaces a stale socket");
}

#[test]
fn a_master_that_hangs_is_named_or_replaced() {
    let (runtime, place) = runtime();
    let users = runtime.path().join("users");
    let _silent = UnixListener::bind(&users).unwrap();
    let printed = format!("controlpath {}\n", users.display());
    let access = RemoteAccess::default();
    let error = SshMaster::choose(&printed.as_str().into(), &[], &access, &place).unwrap_err().to_string();
    let what = format!("the ssh master at {} does not answer within 2 s\nend its process, or", users.display());
    assert!(error.starts_with(&what) && users.exists(), "{error}");
    let socket = own(&place).unwrap();
    let _silent = UnixListener::bind(&socket).unwrap();
    assert!(own(&place).as_ref() == Some(&socket) && !socket.exists());
}

#[test]
fn an_agent_that_hangs_is_told_from_one_that_is_gone() {
    let (runtime, _) = runtime();
    let agent = runtime.path().join("agent");
    assert!(!agent_hangs(&agent));
    let silent = UnixListener::bind(&agent).unwrap();
    assert!(agent_hangs(&agent));
    drop(silent);
    assert!(!agent_hangs(&agent));
}
