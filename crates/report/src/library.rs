//! The charts' library, packed by the build (`build.rs`).

/// The script as gzip in base64: the page unpacks it.
pub(crate) const PACKED: &str = include_str!(concat!(env!("OUT_DIR"), "/library.gz.base64"));

/// SHA-256 of the script in base64: the page's policy lets this one run.
pub(crate) const HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/library.sha256.base64"));

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
        let packed = STANDARD.decode(PACKED).unwrap();
        let mut script = String::new();
        GzDecoder::new(&*packed)
            .read_to_string(&mut script)
            .unwrap();
        assert!(script.contains("plotly.js v3"));
        assert!(script.contains("MIT license"), "its notice goes along");
        assert_eq!(STANDARD.encode(Sha256::digest(script.as_bytes())), HASH);
    }
}
