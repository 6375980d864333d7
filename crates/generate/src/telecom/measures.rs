//! The twenty measures of a record or a flow: whole numbers, most of them small and some large, so that sums are exact.

use crate::rng::Rng;

/// The names of the twenty measures, which lie in `meas`.
pub const MEASURES: [&str; 20] = [
    "bytesUl",
    "bytesDl",
    "pktsUl",
    "pktsDl",
    "durMs",
    "setupMs",
    "ttfbMs",
    "dnsMs",
    "rttCliMs",
    "rttSrvMs",
    "retxUl",
    "retxDl",
    "ooo",
    "zeroWin",
    "attempts",
    "successes",
    "drops",
    "handovers",
    "hoFails",
    "radioActiveMs",
];

/// The measures in the order of [`MEASURES`].
#[derive(Debug)]
pub(super) struct Measures([u32; 20]);

/// A number below 2^`width` from so many bits, halved up to so often: small ones come more often than large ones.
#[inline]
fn sized(bits: u64, width: u32, halvings: u64) -> u32 {
    let number = bits & ((1 << width) - 1);
    let times = ((bits >> 40 & 0xff) * (halvings + 1)) >> 8;
    (number >> times) as u32
}

impl Measures {
    #[inline]
    pub(super) fn draw(rng: &mut Rng) -> Measures {
        let mut sized = |width, halvings| sized(rng.bits(), width, halvings);
        let (up, down) = (sized(20, 14), sized(24, 16));
        let duration = 1 + sized(17, 12);
        let (setup, first_byte, name) = (sized(9, 5), sized(11, 6), sized(8, 6));
        let (client, server) = (sized(8, 4), sized(9, 4));
        let active = sized(17, 12).min(duration);
        let rare = rng.bits();
        // Two of these in three are 0.
        let few = |shift: u32| ((rare >> shift & 15) as u32).saturating_sub(10);
        let attempts = 1 + (rare >> 32 & 3) as u32;
        let handovers = few(40);
        Measures([
            up,
            down,
            1 + up / 700,
            1 + down / 1300,
            duration,
            setup,
            first_byte,
            name,
            client,
            server,
            few(0),
            few(4),
            few(8),
            few(12),
            attempts,
            attempts - u32::from(rare >> 36 & 15 == 0),
            u32::from(rare >> 48 & 31 == 0),
            handovers,
            handovers.min(few(44)),
            active,
        ])
    }

    pub(super) fn duration_ms(&self) -> u32 {
        self.0[4]
    }

    /// Adds the members of `meas`.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        let mut before: &[u8] = b"\"";
        for (name, number) in MEASURES.iter().zip(self.0) {
            out.extend_from_slice(before);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            out.extend_from_slice(digits.format(number).as_bytes());
            before = b",\"";
        }
    }
}
