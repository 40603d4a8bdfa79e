//! Packs the charts' library, as its package ships it, for the page: three times smaller, and
//! unpacked by the browser itself (the Compression Streams standard).

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

const BEGIN: &str = "<script type=\"text/javascript\">";
const END: &str = "</script>";

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a directory"));
    let script = script();
    let put = |name: &str, text: String| write(&out.join(name), &text);
    put("library.gz.base64", STANDARD.encode(packed(&script)));
    put(
        "library.sha256.base64",
        STANDARD.encode(Sha256::digest(script.as_bytes())),
    );
    println!("cargo::rerun-if-changed=build.rs");
}

/// The script that draws, without the one that typesets formulas, which is half as large again
/// and not needed.
fn script() -> String {
    let sources = plotly::Plot::offline_js_sources();
    let first = sources.split_once(BEGIN).map(|(_, rest)| rest);
    let first = first.and_then(|rest| rest.split_once(END));
    let (script, _) = first.expect("the package `plotly` puts its own script first");
    assert!(script.contains("plotly.js v3"), "this is another script");
    assert!(script.contains("MIT license"), "its notice has to go along");
    script.to_owned()
}

fn packed(script: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(script.as_bytes())
        .and_then(|()| encoder.finish())
        .expect("memory takes what is written")
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text)
        .unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}
