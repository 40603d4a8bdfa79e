//! Tests the output of `make sbom`: another program can read the bill of materials, and each
//! licence has a text.

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Reads a bill of materials with CycloneDX's own library. Returns its components, or the error.
fn read(bill: &Path) -> Result<String, String> {
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/bill.py");
    let output = Command::new("python3")
        .args([Path::new(reader), bill])
        .env("PYTHONPATH", format!("{ROOT}/target/python"))
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    if output.status.success() {
        Ok(out)
    } else {
        Err(err)
    }
}

mod engine {
    use super::*;

    #[test]
    fn what_is_in_the_binary_is_reported_with_its_licences() {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("sbom")
            .arg(folder.path())
            .current_dir(ROOT)
            .status();
        assert!(made.unwrap().success());
        let bill = folder.path().join("vmnoise.cdx.json");
        let components = read(&bill).unwrap();
        let licences = fs::read_to_string(folder.path().join("vmnoise.licences.txt")).unwrap();
        for component in components.lines() {
            let mut words = component.splitn(3, ' ');
            let mut next = || words.next().unwrap();
            let title = format!("\n{} {} ({})\n", next(), next(), next());
            assert!(licences.contains(&title), "no text: {title}");
        }
        // Parts of each kind: crates, code in crates, and system libraries.
        for name in [
            "libbpf-rs",
            "libbpf",
            "plotly.js-cartesian-dist-min",
            "libelf",
            "zlib",
            "glibc",
        ] {
            let is_it = |line: &str| line.starts_with(&format!("{name} "));
            assert!(
                components.lines().any(is_it),
                "{name} is missing: {components}"
            );
        }
        assert!(
            !components.contains("proptest "),
            "what tests use is not in the binary"
        );
        for text in ["GNU LESSER GENERAL PUBLIC LICENSE", "Apache License"] {
            assert!(licences.contains(text), "{text}");
        }

        // The library refuses an invalid bill of materials.
        let text = fs::read_to_string(&bill).unwrap();
        for (right, wrong) in [("\"library\"", "\"books\""), ("\"Zlib\"", "\"Zlob\"")] {
            fs::write(&bill, text.replace(right, wrong)).unwrap();
            assert!(read(&bill).is_err(), "{wrong}");
        }
    }
}
