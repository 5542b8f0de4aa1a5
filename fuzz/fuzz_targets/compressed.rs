//! Bytes as what they seem to be: a trace of any format, compressed or not.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| snag_testkit::exercise::unknown(data));
