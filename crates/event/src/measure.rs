//! Exposes parts of the decoder to benchmarks and speed tests, with each instruction set that the machine has.

use crate::{
    CheckLimits, EventBatch,
    structure::{
        Marks, StructureLimits,
        block::{self, Isa},
    },
};

/// The structural pass with one set of instructions.
#[derive(Debug, Clone, Copy)]
pub struct StructuralPass {
    isa: Isa,
}

impl StructuralPass {
    /// One for each set of instructions that this machine has, the widest first: that is the one that is used.
    pub fn all() -> impl Iterator<Item = StructuralPass> {
        block::isas().map(|isa| StructuralPass { isa })
    }

    /// The name of the instruction set: `avx512`, `avx2`, `neon` or `portable`.
    pub fn name(self) -> &'static str {
        match self.isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => "neon",
            Isa::Portable => "portable",
        }
    }

    /// Finds the structure of events that are known to be good, and writes down where it lies, in order: brackets, commas, and
    /// the colons of the events' own keys. Replaces what `places` holds.
    pub fn places(self, batch: &EventBatch, places: &mut Vec<u32>) {
        let marks = Marks::with(self.isa, batch.bytes(), batch.spans());
        marks.places(self.isa, places);
    }

    /// Finds the structure of events that are known to be good, as bits: what the decoder needs. Returns the number of
    /// brackets, commas and own colons in the first and last blocks of 64 bytes, so that the work is not optimised away.
    pub fn bits(self, batch: &EventBatch) -> u32 {
        Marks::with(self.isa, batch.bytes(), batch.spans()).ends()
    }

    /// Checks good events, one after another, by the whole grammar; returns their number.
    pub fn check(self, batch: &EventBatch) -> usize {
        let CheckLimits { event_bytes_max, depth_max, .. } = CheckLimits::default();
        let bounds = StructureLimits { array: false, event_bytes_max, depth_max };
        let bytes = batch.bytes();
        let mut marks = Marks::new(bytes.len());
        let mut spans = Vec::new();
        if !batch.is_empty() {
            marks.read_with(self.isa, bytes, batch.span(0).start, bounds, &mut spans);
        }
        spans.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_block;

    #[test]
    fn places_are_the_same_with_any_instructions() {
        let text = r#" {"a":{"b:":[1,2,"]"]},"c\"":true} {"d" : {}}"#.repeat(40);
        let batch = check_block(text.clone().into(), &CheckLimits::default(), 1).batch;
        let mut plain: Vec<u32> = Vec::new();
        for (pattern, back) in
            [("{", 0), ("}", 0), ("[1", 0), ("]}", 0), (",", 0), ("\":{", 1), ("\":true", 1), (" :", 1)]
        {
            plain.extend(text.match_indices(pattern).map(|(at, _)| at as u32 + back));
        }
        plain.sort_unstable();
        for pass in StructuralPass::all() {
            let mut places = vec![7];
            pass.places(&batch, &mut places);
            assert_eq!(places, plain, "{}", pass.name());
            assert_eq!(pass.check(&batch), 80);
            assert!(pass.bits(&batch) > 0);
        }
    }
}
