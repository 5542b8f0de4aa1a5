//! Bytes as a trace in format `Format::Std`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use snag_formats::open::Format;

fuzz_target!(|data: &[u8]| snag_testkit::exercise::trace(Format::Std, data));
