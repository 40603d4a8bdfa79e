//! Writes two files about the release binary: a machine-readable bill of materials (CycloneDX), and
//! a text with the licences of all its parts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::parts::{self, Part};

/// Folder with licence texts, for parts that contain none.
const LICENCES: &str = "LICENSES";

/// Writes `vmnoise.cdx.json` and `vmnoise.licences.txt` into a folder.
pub fn write(folder: &Path) -> Result<()> {
    let parts = parts::all()?;
    for (name, text) in [
        ("vmnoise.cdx.json", bill(&parts)?),
        ("vmnoise.licences.txt", licences(&parts)?),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Returns the bill of materials in the format of <https://cyclonedx.org/docs/1.6/json/>.
fn bill(parts: &[Part]) -> Result<String> {
    let (vmnoise, others) = parts.split_first().context("nothing is in the binary")?;
    let components: Vec<Value> = others.iter().map(|it| component(it, "library")).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": component(vmnoise, "application") },
        "components": components,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn component(part: &Part, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "licenses": [{ "expression": part.licence }],
        "purl": part.purl,
    });
    if let Some(sha256) = &part.sha256 {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    component
}

/// Returns all licence texts. Each text appears once, below the names of the parts that have it.
fn licences(parts: &[Part]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts {
        let own = part
            .texts
            .iter()
            .map(fs::read)
            .collect::<Result<Vec<_>, _>>()?;
        let own = own
            .iter()
            .map(|text| String::from_utf8_lossy(text).trim().to_owned());
        let mut own: Vec<String> = own.collect();
        if own.is_empty() {
            own = general(&part.licence)?;
        }
        for text in own {
            let title = format!("{} {} ({})", part.name, part.version, part.licence);
            texts.entry(text).or_default().push(title);
        }
    }
    let mut all = String::from(
        "Parts of the binary vmnoise, and their licences. Its source is published with its build: you may change\n\
         a library that is linked into it (glibc and libelf are under the LGPL), and link the binary again.\n",
    );
    for (text, names) in texts {
        writeln!(all, "\n{}\n{}\n\n{text}", "=".repeat(100), names.join("\n"))?;
    }
    Ok(all)
}

/// Returns the texts for a licence expression, for a part that contains no licence text.
fn general(licence: &str) -> Result<Vec<String>> {
    let words = licence.split([' ', '(', ')']);
    let texts = words.filter_map(|id| fs::read_to_string(format!("{LICENCES}/{id}.txt")).ok());
    let texts: Vec<String> = texts.map(|text| text.trim().to_owned()).collect();
    ensure!(!texts.is_empty(), "no text of {licence} in {LICENCES}");
    Ok(texts)
}
