//! Bytes as a trace in format `Format::Std`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use snag_trace::open::Format;

fuzz_target!(|data: &[u8]| snag_trace::exercise::trace(Format::Std, data));
