//! Bytes as a frame of the log: read without a panic, and what is good is written anew as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, u64, Vec<u8>)| {
    let (seed, position, mut bytes) = input;
    // Put right what chance would not: the position and the checksum, so that what is behind them is read.
    if bytes.len() >= 32 {
        bytes[5] %= 2;
        bytes[24..32].copy_from_slice(&position.to_le_bytes());
        let end = 32 + usize::from(bytes[4]) + usize::from(bytes[5]) * 256;
        if let Some(summed) = bytes.get(4..end) {
            let crc = crc32c::crc32c_append(seed, summed);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            let payload = u32::from_le_bytes([bytes[8], bytes[9], 0, 0]) as usize;
            let payload = bytes.get(end..).map_or(0, |rest| rest.len().min(payload));
            let sum = crc32c::crc32c(&bytes[end..end + payload]);
            bytes[8..12].copy_from_slice(&(payload as u32).to_le_bytes());
            bytes[16..20].copy_from_slice(&sum.to_le_bytes());
            let crc = crc32c::crc32c_append(seed, &bytes[4..end]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
        }
    }
    if let Some(again) = swiftwater_log::check_frame(&bytes, seed, position) {
        assert_eq!(again, bytes[..again.len()]);
    }
});
