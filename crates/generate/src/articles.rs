//! Generates articles in the columns of a Wikipedia dump: `sha1`, `title`, `revision_ts`, `contributor_username`,
//! `contributor_id`, `comment`, `model`, `format`, `text`, `length`. About 3.5 KB each, of very different lengths.
//!
//! The text is real prose, free of copyright, taken apart: short runs of words from random places, with interspersed links,
//! names and numbers. No two articles are alike, and they compress about as well as real ones. Few contributors write much,
//! and most write little.

use std::io::Write;

use crate::{Events, exact, rng::Rng};

const PROSE: &str = include_str!("prose.txt");
const CONSONANTS: &[u8; 16] = b"bcdfghklmnprstvw";
const VOWELS: &[u8; 8] = b"aeiouaei";
/// Maximum number of contributors.
const CONTRIBUTORS: f64 = 2_000_000.0;
const TEXT_CHARS_MIN: usize = 400;
/// The mean of what comes on top of these.
const TEXT_CHARS_MORE: f64 = 2600.0;
/// Number of runs of words of which one is a link, a name or a number.
const RARE: usize = 9;
/// 2001-01-15 and 2014-12-31, in seconds.
const TIMES: (i64, i64) = (979_516_800, 1_419_984_000);

/// See the head of this module.
#[derive(Debug)]
pub(crate) struct Articles {
    rng: Rng,
    prose: Vec<u8>,
    /// Start of each word, and after all of them the end.
    words: Vec<u32>,
}

impl Articles {
    pub(crate) fn new(seed: u64) -> Articles {
        let prose: Vec<u8> = PROSE.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }).collect();
        // Characters are bytes here, and none needs an escape in JSON.
        debug_assert!(prose.iter().all(|byte| (0x20..0x7f).contains(byte) && !b"\"\\".contains(byte)));
        let mut words = vec![0];
        words.extend((1..=prose.len()).filter(|&at| prose[at - 1] == b' ').map(|at| at as u32));
        Articles { rng: Rng::new(seed), prose, words }
    }

    /// Adds a run of one to three words, with the space behind it.
    #[inline]
    fn run(&mut self, out: &mut Vec<u8>) {
        let bits = self.rng.bits();
        let most = self.words.len() - 4;
        let first = (((bits >> 32) * most as u64) >> 32) as usize;
        let count = 1 + [0, 0, 1, 2][(bits & 3) as usize];
        let (start, end) = (self.words[first] as usize, self.words[first + count] as usize);
        out.extend_from_slice(&self.prose[start..end]);
    }

    /// Adds a name that nobody has.
    fn name(&mut self, out: &mut Vec<u8>) {
        let mut bits = self.rng.bits();
        let letters = 4 + (bits >> 61) as usize;
        for place in 0..letters {
            let letter = match place % 2 {
                0 => CONSONANTS[(bits & 15) as usize],
                _ => VOWELS[(bits & 7) as usize],
            };
            out.push(if place == 0 { letter.to_ascii_uppercase() } else { letter });
            bits >>= 4;
        }
    }

    /// Adds what prose has little of.
    fn rare(&mut self, out: &mut Vec<u8>) {
        match self.rng.below(4) {
            0 => {
                out.extend_from_slice(b"[[");
                self.name(out);
                out.extend_from_slice(b"]] ");
            }
            1 => {
                let year = 1000 + self.rng.below(1020);
                // Writing to memory does not fail.
                let _ = write!(out, "{year} ");
            }
            2 => {
                let page = self.rng.below(100_000);
                let _ = write!(out, "<ref>{page}</ref> ");
            }
            _ => {
                self.name(out);
                out.push(b' ');
            }
        }
    }
}

/// The fourth power, computed in this order on every machine.
fn fourth(share: f64) -> f64 {
    let square = share * share;
    square * square
}

impl Events for Articles {
    fn push(&mut self, out: &mut Vec<u8>) {
        let rng = &mut self.rng;
        let (one, two, three) = (rng.bits(), rng.bits(), rng.bits() as u32);
        let contributor = (CONTRIBUTORS * fourth(rng.share())) as u64 + 1;
        let at = TIMES.0 + rng.below((TIMES.1 - TIMES.0) as usize) as i64;
        let more = -exact::ln(1.0 - rng.share()) * TEXT_CHARS_MORE;
        let wanted = TEXT_CHARS_MIN + more as usize;
        // Writing to memory does not fail.
        let _ = write!(out, "{{\"sha1\":\"{one:016x}{two:016x}{three:08x}\",\"title\":\"");
        self.name(out);
        out.push(b' ');
        self.name(out);
        let _ = write!(out, "\",\"revision_ts\":{},\"contributor_username\":\"", at * 1000);
        // A contributor has one name, whatever comes before.
        let mut namer = Articles { rng: Rng::new(contributor), prose: Vec::new(), words: Vec::new() };
        namer.name(out);
        let _ = write!(out, "{contributor}\",\"contributor_id\":{contributor},\"comment\":\"");
        for _ in 0..3 {
            self.run(out);
        }
        out.extend_from_slice(b"\",\"model\":\"wikitext\",\"format\":\"text/x-wiki\",\"text\":\"");
        let start = out.len();
        while out.len() - start < wanted {
            match self.rng.below(RARE) {
                0 => self.rare(out),
                _ => (0..3).for_each(|_| self.run(out)),
            }
        }
        let length = out.len() - start;
        let _ = writeln!(out, "\",\"length\":{length}}}");
    }
}
