use std::net::IpAddr;
use std::path::Path;

use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::cpus::Cpus;
use haul_proto::file_range::RangeLen;
use haul_proto::wire::checksum::{ChecksumRequest, ChecksumSource};
use haul_proto::wire::file_session::{FileOperation, FileSessionRequest, SessionRights};
use haul_proto::wire::preserve::RightsOptions;
use haul_proto::wire::ranges::TargetRange;
use haul_proto::wire::samples::{replica_request, replica_steps};
use haul_proto::wire::storage::Fsync;

use super::*;
use crate::testing;
use crate::worker::client_limits::{ServePolicy, ServedPipe};

fn terms(access: ServedAccess) -> ClientLimits {
    let address = Some(IpAddr::from([10, 0, 0, 1]));
    ClientLimits {
        pipe: None,
        access,
        rate: Some(10),
        allowance: None,
        progress: None,
        ports: Some((5032, 5040)),
        address,
        sandboxed: false,
        deltas: true,
        audit: None,
        policy: ServePolicy::default(),
    }
}

fn settings() -> SessionSettings {
    let mut cpus = Cpus::default();
    assert!(cpus.insert(0));
    SessionSettings {
        streams: 4,
        streams_max: 128,
        report_files: true,
        cpus,
        all_paths: true,
        ports: Some((22, 22)),
        silence_ms: u32::MAX,
        ..testing::settings()
    }
}

fn source() -> SourceRequest {
    let compression = haul_proto::compression::CompressionPolicy::Auto;
    SourceRequest { settings: settings(), compression, ..testing::source_request(vec![b"a".to_vec()]) }
}

fn target() -> TargetRequest {
    TargetRequest {
        settings: settings(),
        partial: PartialOptions::default(),
        fsync: Fsync::Full,
        ..testing::target_request(Path::new("a"), Vec::new())
    }
}

/// Returns the policy's decision on a source's Request after `change`, with this access.
fn of_source(access: ServedAccess, change: impl FnOnce(&mut SourceRequest)) -> Result<(), ClientRefusal> {
    let mut request = source();
    change(&mut request);
    terms(access).enforce(&mut ControllerMessage::Source(request))
}

fn of_target(access: ServedAccess, change: impl FnOnce(&mut TargetRequest)) -> Result<(), ClientRefusal> {
    let mut request = target();
    change(&mut request);
    terms(access).enforce(&mut ControllerMessage::Target(request))
}

#[test]
fn access_decides_reading_and_writing() {
    let compares = |request: &mut TargetRequest| request.compare = Some(Symlinks::Keep);
    let digests = |request: &mut TargetRequest| request.digest_existing = true;
    let checksum = |at_source| {
        Some(ChecksumRequest { algorithm: ChecksumAlgorithm::Md5, at_source, against: ChecksumSource::Nothing })
    };
    let sums = |at_source| move |request: &mut TargetRequest| request.settings.checksum = checksum(at_source);
    for (access, reads, writes) in [
        (ServedAccess::ReadOnly, true, false),
        (ServedAccess::WriteOnly, false, true),
        (ServedAccess::Create, false, true),
        (ServedAccess::Both, true, true),
    ] {
        assert_eq!(of_source(access, |_| {}).is_ok(), reads, "{access:?}");
        assert_eq!(of_source(access, |request| request.compare = true).is_ok(), reads, "{access:?}");
        assert_eq!(of_target(access, |_| {}).is_ok(), writes, "{access:?}");
        assert_eq!(of_target(access, compares).is_ok(), reads, "{access:?}");
        assert_eq!(of_target(access, digests).is_ok(), reads && writes, "{access:?}");
        assert_eq!(of_target(access, sums(false)).is_ok(), reads && writes, "{access:?}");
        assert_eq!(of_target(access, sums(true)).is_ok(), writes, "{access:?}");
    }
}

#[test]
fn unreadable_old_files_are_not_reported() {
    let rules = |delta, in_place| {
        move |request: &mut TargetRequest| request.delta = DeltaOptions { delta, in_place, ..Default::default() }
    };
    for (delta, in_place, held) in [
        (DeltaMode::Off, false, true),
        (DeltaMode::Auto, false, true),
        (DeltaMode::Blocks, false, false),
        (DeltaMode::Rolling, false, false),
        (DeltaMode::Auto, true, false),
    ] {
        assert_eq!(of_target(ServedAccess::WriteOnly, rules(delta, in_place)).is_ok(), held, "{delta:?} {in_place}");
        assert!(of_target(ServedAccess::Both, rules(delta, in_place)).is_ok());
    }
    let mut message = ControllerMessage::Target(TargetRequest {
        delta: DeltaOptions { delta: DeltaMode::Auto, ..DeltaOptions::default() },
        ..target()
    });
    terms(ServedAccess::WriteOnly).enforce(&mut message).unwrap();
    let ControllerMessage::Target(held) = message else { unreachable!() };
    assert_eq!(held.delta, DeltaOptions::default());
}

#[test]
fn a_server_without_deltas_sends_no_block_hashes() {
    let held = |change: fn(&mut TargetRequest)| {
        let mut request =
            TargetRequest { delta: DeltaOptions { delta: DeltaMode::Auto, ..Default::default() }, ..target() };
        change(&mut request);
        let mut message = ControllerMessage::Target(request);
        let terms = ClientLimits { deltas: false, ..terms(ServedAccess::Both) };
        terms.enforce(&mut message)?;
        let ControllerMessage::Target(held) = message else { unreachable!() };
        Ok::<_, ClientRefusal>(held.delta)
    };
    assert_eq!(held(|_| {}), Ok(DeltaOptions::default()));
    for change in [
        (|request| request.delta.delta = DeltaMode::Rolling) as fn(&mut TargetRequest),
        |request| request.delta.delta = DeltaMode::Blocks,
        |request| request.delta.in_place = true,
        |request| request.sync.detect_renames = true,
    ] {
        assert!(held(change).is_err());
    }
}

#[test]
fn clients_cannot_start_programs_or_set_server_options() {
    for pipe in [PipeKind::Standard, PipeKind::Named] {
        assert!(of_source(ServedAccess::Both, |request| request.pipe = pipe).is_err());
    }
    assert!(of_source(ServedAccess::Both, |request| request.pipe = PipeKind::Growing(1)).is_ok());
    for pipe in [PipeKind::Standard, PipeKind::Named, PipeKind::Growing(1)] {
        assert!(of_target(ServedAccess::Both, |request| request.pipe = pipe).is_err());
    }
    assert!(of_source(ServedAccess::Both, |request| request.listed = true).is_err());
    assert!(of_source(ServedAccess::Both, |request| request.base = Some(b"../x".to_vec())).is_err());
    assert!(of_source(ServedAccess::Both, |request| request.base = Some(b"a".to_vec())).is_ok());
    for links in [Symlinks::Follow, Symlinks::FollowUnsafe, Symlinks::FollowDirectories] {
        assert!(of_source(ServedAccess::Both, |request| request.links = links).is_err());
        assert!(of_target(ServedAccess::Both, |request| request.compare = Some(links)).is_err());
    }
    assert!(of_source(ServedAccess::Both, |request| request.links = Symlinks::Safe).is_ok());
    assert!(of_target(ServedAccess::Both, |request| request.metadata.executability = true).is_err());
    assert!(of_target(ServedAccess::Both, |request| request.metadata.rights.mode = true).is_err());
    let compares_modes = |request: &mut TargetRequest| {
        (request.metadata.rights, request.compare) = (RightsOptions::ALL, Some(Symlinks::Keep))
    };
    assert!(of_target(ServedAccess::Both, compares_modes).is_ok());
    assert!(of_target(ServedAccess::Both, |request| request.partial.journal_dir = Some(b"x".to_vec())).is_err());
    for mode in [0o4755, 0o2755, 0o1777] {
        assert!(of_target(ServedAccess::Both, |request| request.write.modes.file = Some(mode)).is_err());
        assert!(of_target(ServedAccess::Both, |request| request.write.modes.directory = Some(mode)).is_err());
    }
    assert!(of_target(ServedAccess::Both, |request| request.write.modes.file = Some(0o777)).is_ok());
}

#[test]
fn the_server_sets_its_own_options() {
    let terms = terms(ServedAccess::Both);
    let mut message = ControllerMessage::Source(source());
    terms.enforce(&mut message).unwrap();
    let ControllerMessage::Source(held) = message else { unreachable!() };
    assert_eq!((held.rate_bytes_per_s, held.settings.ports), (10, Some((5032, 5040))));
    assert_eq!((held.settings.silence_ms, held.settings.cpus.is_empty()), (SILENCE_MS_MAX, true));
    assert_eq!(held.operands, [b"./a"]);
    let mut message = ControllerMessage::Target(target());
    terms.enforce(&mut message).unwrap();
    let ControllerMessage::Target(held) = message else { unreachable!() };
    assert!(held.write.modes.less_umask && held.path == b"./a");
    let mut message = ControllerMessage::Listen { address: None };
    terms.enforce(&mut message).unwrap();
    assert!(matches!(message, ControllerMessage::Listen { address } if address == terms.address));
    let mut message = ControllerMessage::Rate(0);
    terms.enforce(&mut message).unwrap();
    assert!(matches!(message, ControllerMessage::Rate(10)));
}

#[test]
fn memory_for_streams_is_bounded() {
    for (streams, frame, allowed) in
        [(128, 512, true), (256, 256, true), (64, 1024, true), (129, 512, false), (256, 1024, false)]
    {
        let frame = haul_proto::integrity::FrameLen::new(frame << 10).unwrap();
        let set = |settings: &mut SessionSettings| (settings.streams_max, settings.frame) = (streams, frame);
        let held = [
            of_source(ServedAccess::Both, |request| set(&mut request.settings)),
            of_target(ServedAccess::Both, |request| set(&mut request.settings)),
        ];
        assert!(held.iter().all(|held| held.is_ok() == allowed), "{held:?}");
    }
    let mut message = ControllerMessage::Target(target());
    if let ControllerMessage::Target(request) = &mut message {
        request.storage.under_way = 64;
    }
    terms(ServedAccess::Both).enforce(&mut message).unwrap();
    assert!(matches!(message, ControllerMessage::Target(request) if request.storage.under_way == 8));
}

#[test]
fn the_lower_limit_holds() {
    let limited = terms(ServedAccess::Both);
    assert_eq!([0, 5, 50].map(|wanted| limited.slower(wanted)), [10, 5, 10]);
    let free = ClientLimits { rate: None, ..limited };
    assert_eq!([0, 5].map(|wanted| free.slower(wanted)), [0, 5]);
}

#[test]
fn create_accepts_only_new_names() {
    type Change = fn(&mut TargetRequest);
    let refused: [(Change, ForbiddenAct); 9] = [
        (|request| request.write.overwrite = OverwritePolicy::Replace, ForbiddenAct::Replacement),
        (|request| request.range = Some(TargetRange::Finish(RangeLen::MIN)), ForbiddenAct::Ranges),
        (|request| request.write.overwrite = OverwritePolicy::Follow, ForbiddenAct::Replacement),
        (|request| request.sync.backup_dir = b"old".to_vec(), ForbiddenAct::Backups),
        (|request| request.sync.backup_suffix = b"~".to_vec(), ForbiddenAct::Backups),
        (|request| request.sync.equal = EqualityTest::Size, ForbiddenAct::TimeChanges),
        (|request| request.sync.delete = DeleteMode::During, ForbiddenAct::ExistingEntries),
        (|request| request.sync.link_dests = vec![b"old".to_vec()], ForbiddenAct::ExistingEntries),
        (|request| request.metadata.preserve.hard_links = true, ForbiddenAct::HardLinks),
    ];
    for (change, act) in refused {
        let refusal = ClientRefusal::Access { access: ServedAccess::Create, act };
        assert_eq!(of_target(ServedAccess::Create, change), Err(refusal));
        assert_eq!(of_target(ServedAccess::Both, change), Ok(()), "{act:?}");
    }
    let mut message = ControllerMessage::Target(target());
    terms(ServedAccess::Create).enforce(&mut message).unwrap();
    let ControllerMessage::Target(held) = message else { unreachable!() };
    assert!(held.partial == PartialOptions::NONE && held.delta == DeltaOptions::default());
}

fn tuned_socket() -> SocketOptions {
    SocketOptions {
        congestion: Some("bbr".into()),
        window_bytes: Some(1 << 20),
        window_fixed: true,
        traffic_class: 0xb8,
    }
}

#[test]
fn encryption_and_tuning_are_the_servers_to_decide() {
    let clear = |request: &mut SourceRequest| request.settings.suite = CipherSuite::AuthenticateOnly;
    assert!(of_source(ServedAccess::Both, clear).is_ok());
    let hold = |policy: ServePolicy, suite| {
        let tuned = SessionSettings { suite, socket: tuned_socket(), ..settings() };
        let mut message = ControllerMessage::Target(TargetRequest { settings: tuned, ..target() });
        let held = ClientLimits { policy, ..terms(ServedAccess::Both) }.enforce(&mut message);
        let ControllerMessage::Target(TargetRequest { settings, .. }) = message else { unreachable!() };
        held.map(|()| settings.socket)
    };
    let encrypted = ServePolicy { encryption: true, ..ServePolicy::default() };
    assert!(hold(encrypted, CipherSuite::AuthenticateOnly).is_err());
    assert_eq!(hold(encrypted, CipherSuite::Aes128Gcm), Ok(SocketOptions::default()));
    let tuning = ServePolicy { tuning: true, ..ServePolicy::default() };
    assert_eq!(hold(tuning, CipherSuite::AuthenticateOnly), Ok(tuned_socket()));
}

#[test]
fn paths_leading_outside_are_refused() {
    for bad in ["/etc/passwd", "..", "a/../../b", "a/..", "/"] {
        assert!(inside(&mut bad.into()).is_err(), "{bad}");
        assert!(of_source(ServedAccess::Both, |request| request.operands.push(bad.into())).is_err(), "{bad}");
        assert!(of_target(ServedAccess::Both, |request| request.path = bad.into()).is_err(), "{bad}");
    }
    let as_it_was = [("./a/", "./a/"), ("a/.", "./a/."), ("./", "./")];
    for (good, becomes) in
        [("", "."), (".", "."), ("a/b", "./a/b"), ("null:9g", "./null:9g")].into_iter().chain(as_it_was)
    {
        let mut path = good.into();
        inside(&mut path).unwrap();
        assert_eq!(String::from_utf8(path).unwrap(), becomes);
    }
}

#[test]
fn clients_of_a_served_pipe_reach_only_the_pipe() {
    let of_pipe = |access| ClientLimits { pipe: Some(ServedPipe::Program), ..terms(access) };
    let wanted = SourceRequest {
        operands: vec!["etc/passwd".into(), "null:1m".into()],
        base: Some("etc".into()),
        listed: true,
        remove_files: true,
        tell_owners: true,
        pipe: PipeKind::Named,
        ..source()
    };
    let mut message = ControllerMessage::Source(wanted);
    of_pipe(ServedAccess::ReadOnly).enforce(&mut message).unwrap();
    let ControllerMessage::Source(held) = message else { unreachable!() };
    assert_eq!((held.operands, held.base, held.pipe), (vec![b"-".to_vec()], None, PipeKind::Standard));
    assert!(!held.listed && !held.remove_files && !held.tell_owners);

    let comparing = SourceRequest { pipe: PipeKind::Named, compare: true, ..source() };
    assert!(of_pipe(ServedAccess::ReadOnly).enforce(&mut ControllerMessage::Source(comparing)).is_err());

    let wanted = TargetRequest {
        path: "etc/passwd".into(),
        partial: PartialOptions { journal_dir: Some("tmp".into()), ..PartialOptions::default() },
        metadata: MetadataOptions { rights: RightsOptions::ALL, ..MetadataOptions::default() },
        sync: SyncOptions { backup_dir: "old".into(), link_dests: vec!["old".into()], ..SyncOptions::default() },
        pipe: PipeKind::Named,
        ..target()
    };
    let mut message = ControllerMessage::Target(wanted);
    of_pipe(ServedAccess::WriteOnly).enforce(&mut message).unwrap();
    let ControllerMessage::Target(held) = message else { unreachable!() };
    assert_eq!((held.path, held.pipe), (b"-".to_vec(), PipeKind::Standard));
    assert!(held.partial == PartialOptions::NONE && !held.metadata.rights.any() && held.sync == SyncOptions::default());

    for (access, pipe) in [(ServedAccess::WriteOnly, PipeKind::Named), (ServedAccess::ReadOnly, PipeKind::No)] {
        let mut message = ControllerMessage::Source(SourceRequest { pipe, ..source() });
        assert!(of_pipe(access).enforce(&mut message).is_err(), "{access:?} {pipe:?}");
    }
}

#[test]
fn a_refusal_names_the_access_and_the_remedy() {
    let read = of_source(ServedAccess::Create, |_| {}).unwrap_err();
    assert_eq!(read.to_string(), "this server's directory is for new names only: reading is forbidden");
    let replaced = of_target(ServedAccess::Create, |request| request.write.overwrite = OverwritePolicy::Replace);
    let expected = "this server's directory is for new names only: replacing is forbidden\n\
                    omit -f, or use haul instead of haul sync";
    assert_eq!(replaced.unwrap_err().to_string(), expected);
    let written = of_target(ServedAccess::ReadOnly, |_| {}).unwrap_err();
    assert_eq!(written.to_string(), "this server's directory is read-only: writing is forbidden");
    let in_place = |request: &mut TargetRequest| request.delta.in_place = true;
    let expected = "this server's directory is write-only: existing files are not base files\n\
                    omit --delta and --inplace";
    assert_eq!(of_target(ServedAccess::WriteOnly, in_place).unwrap_err().to_string(), expected);
    let removed = of_source(ServedAccess::ReadOnly, |request| request.remove_files = true).unwrap_err();
    let expected = "this server's directory is read-only: deleting is forbidden\nomit --remove-source-files";
    assert_eq!(removed.to_string(), expected);
    let many = of_source(ServedAccess::Both, |request| request.settings.streams_max = 256).unwrap_err();
    let expected = "a server permits at most 128 streams with frames of 512 KiB\nuse -s 128, or a smaller --frame";
    assert_eq!(many.to_string(), expected);
    let outside = of_source(ServedAccess::Both, |request| request.operands.push(b"../\x1b".to_vec())).unwrap_err();
    assert_eq!(outside.to_string(), "../\\u{1b}: outside the served directory\nuse a path inside it");
}

#[test]
fn a_file_session_needs_the_right_to_read_and_stays_inside() {
    let begin = |limits: ClientLimits| {
        let mut message =
            ControllerMessage::FileSession(FileSessionRequest { silence_ms: u32::MAX, rights: SessionRights::Read });
        limits.enforce(&mut message).map(|()| message)
    };
    let shortened =
        ControllerMessage::FileSession(FileSessionRequest { silence_ms: SILENCE_MS_MAX, rights: SessionRights::Read });
    for access in [ServedAccess::ReadOnly, ServedAccess::Both] {
        assert!(begin(terms(access)) == Ok(shortened.clone()), "{access:?}");
    }
    for access in [ServedAccess::WriteOnly, ServedAccess::Create] {
        let refusal = ClientRefusal::Access { access, act: ForbiddenAct::Reading };
        assert_eq!(begin(terms(access)).err(), Some(refusal));
    }
    let pipe = ClientLimits { pipe: Some(ServedPipe::Program), ..terms(ServedAccess::ReadOnly) };
    assert_eq!(begin(pipe).err(), Some(ClientRefusal::FilesOfPipe));
    let open = |path: &str| {
        let mut message = ControllerMessage::FileOperation(FileOperation::Open { path: path.into() });
        terms(ServedAccess::ReadOnly).enforce(&mut message).map(|()| message)
    };
    assert!(open("a//b") == Ok(ControllerMessage::FileOperation(FileOperation::Open { path: b"./a/b".to_vec() })));
    for path in ["/etc/passwd", "../a", "a/../../b"] {
        assert_eq!(open(path).err(), Some(ClientRefusal::OutsidePath(path.into())));
    }
}

#[test]
fn a_file_session_changes_only_what_the_access_permits() {
    let permits = |access, mut message: ControllerMessage| terms(access).enforce(&mut message).is_ok();
    let begin = |rights| ControllerMessage::FileSession(FileSessionRequest { silence_ms: 0, rights });
    let path = || b"a".to_vec();
    let operation = |operation| ControllerMessage::FileOperation(operation);
    for (access, changes, makes, removes, lists) in [
        (ServedAccess::ReadOnly, false, true, false, true),
        (ServedAccess::WriteOnly, true, true, false, false),
        (ServedAccess::Create, true, true, false, false),
        (ServedAccess::Both, true, true, true, true),
    ] {
        assert_eq!(permits(access, begin(SessionRights::ChangeNames)), changes, "{access:?}");
        assert_eq!(permits(access, begin(SessionRights::RemovePartials)), changes, "{access:?}");
        for (asks, permitted) in [(true, removes), (false, lists)] {
            let find = FileOperation::FindPartials { path: path(), journals: Vec::new(), removes: asks };
            assert_eq!(permits(access, operation(find)), permitted, "{access:?}");
        }
        let make = operation(FileOperation::MakeDirectory { path: path(), has_parents: true });
        assert_eq!(permits(access, make), makes, "{access:?}");
        let remove = operation(FileOperation::Remove { path: path(), is_recursive: true });
        assert_eq!(permits(access, remove), removes, "{access:?}");
        for read in [
            FileOperation::List { path: path(), has_details: true },
            FileOperation::Stat { path: path(), follows: true },
            FileOperation::Measure { path: path() },
            FileOperation::Open { path: path() },
        ] {
            assert_eq!(permits(access, operation(read)), lists, "{access:?}");
        }
    }
    for outside in [
        FileOperation::List { path: b"..".to_vec(), has_details: false },
        FileOperation::MakeDirectory { path: b"../a".to_vec(), has_parents: true },
        FileOperation::FindPartials { path: b"..".to_vec(), journals: Vec::new(), removes: false },
        FileOperation::FindPartials { path: path(), journals: b"/j".to_vec(), removes: false },
        FileOperation::Remove { path: b"/etc".to_vec(), is_recursive: true },
    ] {
        assert!(!permits(ServedAccess::Both, operation(outside)));
    }
}

#[test]
fn a_server_synchronises_no_replica() {
    let steps = replica_steps().into_iter().map(|(_, step)| ControllerMessage::ReplicaStep(step));
    for mut message in [ControllerMessage::Replica(replica_request())].into_iter().chain(steps) {
        assert_eq!(terms(ServedAccess::Both).enforce(&mut message).err(), Some(ClientRefusal::Replica));
    }
}
