//! Socket buffers that a user asked for: whether the kernel grants them, and whether they fit into memory.

use std::io;

use haul_base::size_text::{size, size_limit};
use haul_proto::advice::buffers_crowd_memory;
use haul_proto::wire::request::SocketOptions;

/// An unconnected socket.
pub(super) fn fresh() -> io::Result<socket2::Socket> {
    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
}

/// Whether a socket can have buffers of this size: `net.core.rmem_max` and `wmem_max` limit it.
pub fn grants(window_bytes: u32) -> bool {
    granted(window_bytes).is_ok_and(|has| has.iter().all(|bytes| *bytes >= u64::from(window_bytes)))
}

/// Returns the receive and send buffers that a socket has after a request for this size, in bytes.
fn granted(window_bytes: u32) -> io::Result<[u64; 2]> {
    let socket = fresh()?;
    socket.set_recv_buffer_size(window_bytes as usize)?;
    socket.set_send_buffer_size(window_bytes as usize)?;
    // Linux reports twice the requested size: it counts its own overhead.
    Ok([socket.recv_buffer_size()?, socket.send_buffer_size()?].map(|bytes| bytes as u64 / 2))
}

/// Returns warnings about the buffers of `streams` streams at this end, one line each; none if the kernel tunes them.
pub fn warnings(options: &SocketOptions, streams: u16, free_memory_bytes: u64) -> Vec<String> {
    let Some(wanted) = options.window_bytes else { return Vec::new() };
    let Ok(granted) = granted(wanted) else { return Vec::new() };
    let refused = refused(wanted, options.window_fixed, granted);
    let is_set = refused.is_none() || options.window_fixed;
    let crowded = is_set.then(|| crowded(streams, granted[0].max(granted[1]), free_memory_bytes)).flatten();
    refused.into_iter().chain(crowded).collect()
}

fn refused(wanted: u32, is_fixed: bool, [receive, send]: [u64; 2]) -> Option<String> {
    let (bytes, limit) = if receive <= send { (receive, "net.core.rmem_max") } else { (send, "net.core.wmem_max") };
    let instead = if is_fixed { "" } else { "; autotuning is used instead" };
    let typed = typed(wanted);
    (bytes < wanted.into())
        .then(|| format!("-w {typed} was asked for, the kernel grants {} ({limit}){instead}", size_limit(bytes)))
}

fn crowded(streams: u16, window_bytes: u64, free: u64) -> Option<String> {
    buffers_crowd_memory(streams, window_bytes, free).then(|| {
        let [window, free] = [size_limit(window_bytes), size(free)];
        format!("{streams} x {window} of buffers exceed a quarter of the free memory ({free}): lower -s or -w")
    })
}

/// A size as an argument.
fn typed(bytes: u32) -> String {
    let units = [(1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(unit, letter)| format!("{}{letter}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(bytes: u32, is_fixed: bool, streams: u16, free_memory_bytes: u64) -> Vec<String> {
        let options = SocketOptions { window_bytes: Some(bytes), window_fixed: is_fixed, ..SocketOptions::default() };
        warnings(&options, streams, free_memory_bytes)
    }

    #[test]
    fn the_lower_limit_is_named_with_the_resulting_window() {
        let warning = |fixed, granted| refused(1 << 20, fixed, granted);
        assert_eq!(warning(false, [1 << 20, 1 << 20]), None);
        assert_eq!(
            warning(false, [1 << 20, 4096]).unwrap(),
            "-w 1m was asked for, the kernel grants 4 KiB (net.core.wmem_max); autotuning is used instead"
        );
        assert_eq!(
            warning(true, [4096, 8192]).unwrap(),
            "-w 1m was asked for, the kernel grants 4 KiB (net.core.rmem_max)"
        );
    }

    #[test]
    fn sizes_are_shown_as_typed() {
        assert_eq!([512 << 20, 1 << 30, 3 << 10, 1025].map(typed), ["512m", "1g", "3k", "1025"]);
    }

    #[test]
    fn only_explicit_windows_can_exhaust_memory() {
        assert_eq!(warnings(&SocketOptions::default(), u16::MAX, 1), Vec::<String>::new(), "the kernel tunes them");
        assert_eq!(warned(65_536, false, 4, 1 << 20), Vec::<String>::new(), "just a quarter");
        let crowded = warned(65_536, false, 5, 1 << 20);
        assert!(crowded.len() == 1 && crowded[0].contains("5 x 64 KiB of buffers"), "{crowded:?}");
        if !grants(1 << 30) {
            assert_eq!(warned(1 << 30, false, 5, 1).len(), 1, "autotuning is used instead");
            assert_eq!(warned(1 << 30, true, 5, 1).len(), 2);
        }
    }
}
