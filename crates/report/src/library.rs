//! The charts' library from npm: the smaller bundle of plotly.js, which only draws on plain axes.
//! It is compressed (`gzip -9n`), and the browser decompresses it (Compression Streams standard).

/// Compressed script `plotly-cartesian.min.js` of `plotly.js-cartesian-dist-min@3.0.1`.
pub(crate) const PACKED: &[u8] = include_bytes!("../library/plotly-cartesian.min.js.gz");

/// SHA-256 of the decompressed script in base64, for the page's Content-Security-Policy.
pub(crate) const HASH: &str = "J8UgPsugUt5kR2A2lvOVWPXRlhg5unqxU2OfZtPQ1Wk=";

#[cfg(test)]
mod tests {
    use std::io::Read;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use flate2::read::GzDecoder;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn what_is_packed_is_the_library_whole_and_no_more() {
        let mut script = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut script).unwrap();
        assert!(script.contains("plotly.js (cartesian - minified) v3.0.1"));
        assert!(script.contains("MIT license"), "its notice goes along");
        assert_eq!(STANDARD.encode(Sha256::digest(script.as_bytes())), HASH);
    }
}
