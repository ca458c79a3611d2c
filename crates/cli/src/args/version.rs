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
