//! toNFKC_Casefold agrees with the tests and tables of the Unicode Character Database, which `data/` has a copy of.

use std::io::Read;

use flate2::read::GzDecoder;
use swiftwater_text::nfkc_casefold;

fn lines(packed: &[u8]) -> Vec<String> {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).expect("the file is whole");
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned());
    lines.filter(|line| !line.is_empty() && !line.starts_with('@')).collect()
}

fn characters(field: &str) -> String {
    let code = |code: &str| {
        let code = u32::from_str_radix(code, 16).expect("it is a number");
        char::from_u32(code).expect("it is a character")
    };
    field.split_whitespace().map(code).collect()
}

#[test]
fn every_form_of_a_text_folds_to_the_same() {
    let lines = lines(include_bytes!("data/NormalizationTest.txt.gz"));
    assert!(lines.len() > 18_000, "{} lines", lines.len());
    for line in lines {
        let forms: Vec<String> = line.split(';').take(5).map(characters).collect();
        let folded = nfkc_casefold(&forms[0]);
        for form in &forms {
            assert_eq!(nfkc_casefold(form), folded, "{line}");
        }
        assert_eq!(nfkc_casefold(&folded), folded, "folding once more changes nothing: {line}");
    }
}

#[test]
fn a_character_folds_as_its_case_folding_does() {
    let lines = lines(include_bytes!("data/CaseFolding.txt.gz"));
    assert!(lines.len() > 1500, "{} lines", lines.len());
    for line in lines {
        let fields: Vec<&str> = line.split(';').map(str::trim).collect();
        assert_eq!(nfkc_casefold(&characters(fields[0])), nfkc_casefold(&characters(fields[2])), "{line}");
    }
}
