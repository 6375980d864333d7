//! Generates readings of devices in houses, of about 115 bytes each.
//!
//! - `house_id`: 1 to 21.
//! - `metro_area`: one of ten.
//! - `state`: that of the metro area (nine, one of them twice).
//! - `device_id`: 1 to 7.
//! - `power_reading`: a uniform share from 0 to 1, times a whole number from 1 to 10, times 100.
//! - `is_peak`: a fair coin.

use std::io::Write;

use crate::{Events, rng::Rng};

const METROS: [(&str, &str); 10] = [
    ("New York", "New York"),
    ("Los Angeles", "California"),
    ("San Francisco", "California"),
    ("Chicago", "Illinois"),
    ("Houston", "Texas"),
    ("Phoenix", "Arizona"),
    ("Philadelphia", "Pennsylvania"),
    ("Seattle", "Washington"),
    ("Boston", "Massachusetts"),
    ("Miami", "Florida"),
];

/// See the head of this module.
#[derive(Debug)]
pub(crate) struct SmartHome {
    rng: Rng,
    /// The event up to the device's number, by house and metro.
    beginnings: Vec<Vec<u8>>,
}

const HOUSES: usize = 21;
const DEVICES: usize = 7;

impl SmartHome {
    pub(crate) fn new(seed: u64) -> SmartHome {
        let beginning = |place: usize| {
            let (metro, state) = METROS[place % METROS.len()];
            let house = place / METROS.len() + 1;
            format!("{{\"house_id\":{house},\"metro_area\":\"{metro}\",\"state\":\"{state}\",\"device_id\":")
        };
        let places = 0..HOUSES * METROS.len();
        let beginnings = places.map(|place| beginning(place).into_bytes()).collect();
        SmartHome { rng: Rng::new(seed), beginnings }
    }
}

impl Events for SmartHome {
    fn push(&mut self, out: &mut Vec<u8>) {
        let beginning = self.rng.below(self.beginnings.len());
        out.extend_from_slice(&self.beginnings[beginning]);
        out.push(b'1' + self.rng.below(DEVICES) as u8);
        out.extend_from_slice(b",\"power_reading\":");
        let bits = self.rng.bits();
        // 24 bits are what a FLOAT of this kind holds; others of the same number decide the rest.
        let share = (bits >> 40) as f32 / (1 << 24) as f32;
        let factor = (((bits & 0xffff_ffff) * 10) >> 32) + 1;
        // Writing to memory does not fail.
        let _ = write!(out, "{:?}", share * factor as f32 * 100.0);
        let ending: &[u8] = match self.rng.bits() >> 63 {
            0 => b",\"is_peak\":false}\n",
            _ => b",\"is_peak\":true}\n",
        };
        out.extend_from_slice(ending);
    }
}
