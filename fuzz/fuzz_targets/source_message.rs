//! Fuzzes [`haul_fuzz::source_message`]; the function says what it checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::source_message(data));
