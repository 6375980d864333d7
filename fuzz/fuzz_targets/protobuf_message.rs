//! Any bytes as a message of Protobuf behind its indexes, and as descriptors with a message of theirs.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property tests of the room check the same.
#[allow(dead_code)]
#[path = "../../crates/schema/tests/decoders/laws.rs"]
mod laws;

fuzz_target!(|input: (&[u8], &[u8])| {
    laws::check_round_trip(laws::protobuf(), input.0);
    laws::check_descriptors(input.0, input.1);
});
