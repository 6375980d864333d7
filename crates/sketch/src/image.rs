//! The common part of the serialized form of all sketches.
//!
//! ```text
//! image := version kind rest          version: one byte, 1
//! ```
//!
//! Each sketch defines its `kind` and the bytes after it. Numbers are little endian. Bytes that are no image are an
//! error, never a panic, and never cause an allocation larger than their own length.

/// The version of the images that are written, and the only one that is read.
const VERSION: u8 = 1;

/// The reason why bytes are no sketch.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// They were written by a later version, or are something else.
    #[error("a sketch of version {found} cannot be read, only of version {VERSION}")]
    Version {
        /// The version that they say.
        found: u8,
    },
    /// They are of another kind of sketch.
    #[error("the bytes are not a sketch of {wanted}")]
    Kind {
        /// The expected kind.
        wanted: &'static str,
    },
    /// They end too early, or go on too long.
    #[error("a sketch of {of} has {bytes} bytes, which cannot be")]
    Length {
        /// The kind of sketch.
        of: &'static str,
        /// Bytes there are.
        bytes: usize,
    },
    /// The content is impossible.
    #[error("a sketch of {of} is invalid: {why}")]
    Content {
        /// The kind of sketch.
        of: &'static str,
        /// The fault.
        why: String,
    },
}

/// Begins an image.
pub(crate) fn begin(kind: u8) -> Vec<u8> {
    vec![VERSION, kind]
}

/// Reads an image from its beginning.
pub(crate) struct Reader<'b> {
    of: &'static str,
    bytes: usize,
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Checks the version; answers the kind and the rest.
    pub(crate) fn begin(bytes: &'b [u8], of: &'static str) -> Result<(u8, Reader<'b>), ImageError> {
        let mut reader = Reader { of, bytes: bytes.len(), rest: bytes };
        let [version, kind] = reader.take()?;
        if version != VERSION {
            return Err(ImageError::Version { found: version });
        }
        Ok((kind, reader))
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.length())?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn take_u64(&mut self) -> Result<u64, ImageError> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn take_u32(&mut self) -> Result<u32, ImageError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn take_bytes(&mut self, length: usize) -> Result<&'b [u8], ImageError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.length())?;
        self.rest = rest;
        Ok(taken)
    }

    /// The rest.
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// Makes sure that nothing is left.
    pub(crate) fn end(&self) -> Result<(), ImageError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.length()) }
    }

    pub(crate) fn length(&self) -> ImageError {
        ImageError::Length { of: self.of, bytes: self.bytes }
    }

    pub(crate) fn content(&self, why: impl ToString) -> ImageError {
        ImageError::Content { of: self.of, why: why.to_string() }
    }
}
