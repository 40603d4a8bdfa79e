//! BPF objects as the binary has them: packed by gzip, a fifth of their size.

use std::io::{self, Read};

use flate2::read::GzDecoder;

/// An object that `build.rs` has packed.
#[derive(Debug)]
pub(crate) struct Packed(pub(crate) &'static [u8]);

impl Packed {
    /// The ELF file.
    ///
    /// # Errors
    /// Where the bytes are not those that were packed.
    pub(crate) fn object(&self) -> io::Result<Vec<u8>> {
        let mut object = Vec::new();
        GzDecoder::new(self.0).read_to_end(&mut object)?;
        Ok(object)
    }
}

/// The object that is built of `src/bpf/NAME.bpf.c`.
macro_rules! packed_object {
    ($name:literal) => {
        $crate::packed::Packed(include_bytes!(concat!(
            env!("OUT_DIR"),
            "/",
            $name,
            ".bpf.o.gz"
        )))
    };
}
pub(crate) use packed_object;
