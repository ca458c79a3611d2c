//! Fuzzes [`haul_fuzz::link_header`]; the function says what it checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::link_header(data));
