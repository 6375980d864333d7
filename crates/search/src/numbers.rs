//! Whole numbers of variable length (LEB128): seven bits a byte, the lowest first, the highest bit of all but the last byte set.

/// Appends a number.
pub(crate) fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The numbers of some bytes.
pub(crate) struct Numbers<'b> {
    pub(crate) bytes: &'b [u8],
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 || shift > 56 {
                return Some(number);
            }
            shift += 7;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let numbers = [0, 1, 127, 128, 300, 1 << 20, u64::from(u32::MAX), (1 << 62) + 5];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| push_number(*number, &mut bytes));
        assert_eq!(Numbers { bytes: &bytes }.collect::<Vec<u64>>(), numbers);
    }
}
