//! Records of a telecom probe, nested, about 2 KB each: 62 dimensions in eight objects, 20 measures, and what nobody asks
//! for. Values are seeded and skewed: few are often, many seldom.

use std::fmt::Write as _;

/// Objects with their dimensions, each with how many values it has.
pub const DIMENSIONS: [(&str, &[(&str, u64)]); 8] = [
    ("probe", &[("id", 64), ("vendor", 5), ("sw", 9), ("site", 40), ("link", 256), ("iface", 7)]),
    ("rec", &[("type", 4), ("procedure", 9), ("close", 12)]),
    (
        "sub",
        &[
            ("hash", 1_000_000),
            ("segment", 6),
            ("plan", 60),
            ("contract", 4),
            ("homeMcc", 200),
            ("homeMnc", 600),
            ("roaming", 2),
        ],
    ),
    (
        "dev",
        &[
            ("tac", 20_000),
            ("vendor", 300),
            ("model", 5000),
            ("os", 5),
            ("osVer", 200),
            ("type", 6),
            ("volte", 2),
            ("cat", 12),
        ],
    ),
    (
        "radio",
        &[
            ("rat", 4),
            ("mcc", 3),
            ("mnc", 5),
            ("tac", 500),
            ("enb", 10_000),
            ("cell", 50_000),
            ("sector", 3),
            ("band", 12),
            ("earfcn", 60),
            ("cellType", 4),
            ("vendor", 4),
            ("region", 30),
        ],
    ),
    (
        "core",
        &[
            ("mme", 16),
            ("sgw", 16),
            ("pgw", 16),
            ("pcrf", 8),
            ("apn", 100),
            ("pdnType", 3),
            ("qci", 9),
            ("arp", 15),
            ("bearer", 11),
        ],
    ),
    (
        "svc",
        &[
            ("app", 500),
            ("cat", 30),
            ("proto", 12),
            ("l4", 3),
            ("host", 100_000),
            ("cdn", 9),
            ("tls", 4),
            ("httpClass", 6),
            ("video", 3),
            ("country", 200),
            ("asn", 5000),
        ],
    ),
    ("out", &[("status", 3), ("layer", 5), ("cause", 300), ("sub", 100), ("stage", 7), ("retry", 4)]),
];

/// The measures, whole numbers in `meas`.
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

/// A stream of records.
#[derive(Debug, Clone)]
pub struct ProbeRecords {
    state: u64,
    sequence: u64,
}

impl ProbeRecords {
    /// The same seed gives the same records.
    pub fn new(seed: u64) -> ProbeRecords {
        ProbeRecords { state: seed, sequence: 0 }
    }

    /// Appends the next record, a line.
    pub fn write(&mut self, out: &mut String) {
        let sequence = self.sequence;
        self.sequence += 1;
        // Writing to a text cannot fail.
        let start = 1_767_225_600_000 + sequence;
        let _ = write!(out, "{{\"seq\":{sequence},\"tsStart\":{start},\"tsEnd\":{}", start + 900);
        for (object, dimensions) in DIMENSIONS {
            let _ = write!(out, ",\"{object}\":{{");
            for (place, (name, values)) in dimensions.iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                let _ = write!(out, "{comma}\"{name}\":\"{}-{}\"", &name[..2], self.skewed(*values));
            }
            out.push('}');
        }
        out.push_str(",\"meas\":{");
        for (place, name) in MEASURES.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(out, "{comma}\"{name}\":{}", self.skewed(100_000));
        }
        out.push_str("},\"raw\":{\"messages\":[");
        for place in 0..12 {
            let comma = if place == 0 { "" } else { "," };
            let at = self.below(1000);
            let _ = write!(
                out,
                "{comma}{{\"name\":\"InitialContextSetupRequest\",\"at\":{at},\"ie\":[{place},2,3]}}"
            );
        }
        out.push_str("]}}\n");
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.state) * u128::from(bound)) >> 64) as u64
    }

    fn skewed(&mut self, bound: u64) -> u64 {
        let share = self.below(1 << 32) as f64 / f64::from(1_u32 << 31) / 2.0;
        (share.powi(3) * bound as f64) as u64
    }
}

/// The paths of all dimensions.
pub fn dimension_paths() -> Vec<String> {
    let of = |(object, dimensions): &(&str, &[(&str, u64)])| -> Vec<String> {
        dimensions.iter().map(|(name, _)| format!("{object}.{name}")).collect()
    };
    DIMENSIONS.iter().flat_map(of).collect()
}

/// A query that sums all measures by each dimension alone.
pub fn rollup_query(window: &str) -> String {
    let sums: Vec<String> = MEASURES.iter().map(|name| format!("SUM(meas.{name}) AS {name}")).collect();
    let paths = dimension_paths().join(", ");
    format!(
        "SELECT COUNT(*) AS n, {} FROM STREAM(MAX, TIME) GROUP BY GROUPING SETS ({paths}){window}",
        sums.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_all_dimensions_and_measures() {
        let mut text = String::new();
        ProbeRecords::new(1).write(&mut text);
        let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((dimension_paths().len(), MEASURES.len()), (62, 20));
        for path in dimension_paths() {
            let pointer = format!("/{}", path.replace('.', "/"));
            assert!(record.pointer(&pointer).is_some_and(serde_json::Value::is_string), "{path}");
        }
        assert!(MEASURES.iter().all(|name| record["meas"][name].is_u64()));
        assert!((1800..2400).contains(&text.len()), "{}", text.len());
    }
}
