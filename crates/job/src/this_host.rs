//! Identification of this host for a shard's run.

use std::time::{SystemTime, UNIX_EPOCH};

use haul_base::sys::random::random;
use haul_engine::sys::machine::boot_id;
use haul_proto::checksum::hex;

/// The name of this host, for messages and file names.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// Identifies this boot of this host and this process namespace: process ids are unique within it. Containers on one
/// host share the boot.
pub fn boot_label() -> String {
    let boot = hex(&boot_id());
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>();
    if boot.is_empty() { boot } else { format!("{boot}-{digits}") }
}

/// Seconds since 1970 on this host's clock.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A random identifier of 16 hexadecimal digits.
pub fn random_label() -> Result<String, std::io::Error> {
    random::<8>().map(|bytes| hex(&bytes))
}
