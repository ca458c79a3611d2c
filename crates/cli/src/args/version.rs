//! Version and licence of haul.

/// Output of `--version`.
pub const VERSION: &str = concat!("haul ", env!("CARGO_PKG_VERSION"), "\n");

/// Output of `--license`.
pub const LICENSE: &str = concat!(
    "haul ",
    env!("CARGO_PKG_VERSION"),
    "\nLicensed under the MIT License <https://opensource.org/license/mit> or the Apache\n\
     License, Version 2.0 <https://www.apache.org/licenses/LICENSE-2.0>, as you like.\n"
);

/// The licences of all that this executable is linked with; `cargo xtask notices` writes them.
const NOTICES: &[u8] = include_bytes!("notices.zst");
const NOTICES_BYTES_MAX: usize = 1 << 20;

/// Output of `--license all`.
///
/// # Panics
///
/// Where the notices were not compressed with zstd.
pub fn notices() -> String {
    let notices = zstd::bulk::decompress(NOTICES, NOTICES_BYTES_MAX).expect("compressed by cargo xtask notices");
    format!("{LICENSE}\n{}", String::from_utf8_lossy(&notices))
}
