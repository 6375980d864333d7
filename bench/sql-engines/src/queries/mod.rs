//! The 22 queries of TPC-H with the validation parameters of its specification, in SQL that all engines take.
//!
//! The view of Q15 is a `WITH` query. Q6 has its two bounds computed, since `0.06 + 0.01` of doubles is less than 0.07.

macro_rules! texts {
    ($($number:literal),*) => { [$((concat!("Q", $number), include_str!(concat!("q", $number, ".sql")))),*] };
}

const TEXTS: [(&str, &str); 22] = texts![
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "17",
    "18", "19", "20", "21", "22"
];

/// The name of each query and its text for a scale factor; Q11 depends on it.
pub(crate) fn queries(scale: f64) -> Vec<(&'static str, String)> {
    let fraction = (0.0001 / scale).to_string();
    TEXTS.iter().map(|&(name, text)| (name, text.trim().replace("{fraction}", &fraction))).collect()
}
