//! Any bytes as a message of Avro, by one of several schemas: a line of JSON or a fault, in bounded time and memory.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property tests of the room check the same.
#[allow(dead_code)]
#[path = "../../crates/schema/tests/decoders/laws.rs"]
mod laws;

fuzz_target!(|input: (u8, &[u8])| {
    laws::check_round_trip(laws::avro(input.0), input.1);
});
