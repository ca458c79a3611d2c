//! TUN devices: interfaces with a file descriptor of this process as their cable.
//!
//! The kernel's `Documentation/networking/tuntap.rst`. The unsafe code is the two calls that set up such a device.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

use crate::Netns;

/// Where devices come from.
pub const DEVICE: &str = "/dev/net/tun";

/// `TUNSETIFF` and `TUNSETOFFLOAD`, linux/if_tun.h.
const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<u32>(b'T', 208);

/// IP packets without Ethernet's header; without `struct tun_pi`; with `struct virtio_net_hdr`.
const FLAGS: i16 = 0x0001 | 0x1000 | 0x4000;

/// Partial checksums (`TUN_F_CSUM`) and TCP superpackets over IPv4 (`TUN_F_TSO4`) are understood.
const OFFLOADS: usize = 0x01 | 0x02;

/// `IFNAMSIZ`.
const NAME_BYTES: usize = 16;

/// `struct ifreq` as `TUNSETIFF` uses it: a name, flags, and unused room up to the size of the whole.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: i16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40, "the size of struct ifreq");

/// Makes an interface called `name` in a namespace. It exists as long as the descriptor. Reads never wait.
pub fn create(netns: &Netns, name: &str) -> Result<OwnedFd> {
    netns.enter(|| create_here(name))?
}

fn create_here(name: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(DEVICE, flags, Mode::empty())
        .with_context(|| format!("opening {DEVICE} (is the module tun loaded? modprobe tun)"))?;
    let mut request = InterfaceRequest { name: [0; NAME_BYTES], flags: FLAGS, rest: [0; 22] };
    let room = request.name.iter_mut().take(NAME_BYTES - 1);
    room.zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    // SAFETY: TUNSETIFF reads and writes one struct ifreq of 40 bytes, the size of this one (asserted above); it lives
    // as long as the call.
    #[allow(unsafe_code)]
    let named = unsafe { ioctl(&device, Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request)) };
    named.with_context(|| format!("making the interface {name}"))?;
    // SAFETY: TUNSETOFFLOAD takes its flags as an integer and touches no memory of this process.
    #[allow(unsafe_code)]
    let offloads = unsafe { ioctl(&device, IntegerSetter::<TUNSETOFFLOAD>::new_usize(OFFLOADS)) };
    offloads.context("setting a TUN device's offloads")?;
    Ok(device)
}
