//! Prints the sizes of the parts of the release binary and of a page, in bytes. The sizes in each
//! list add up to the size of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::cargo;

/// Build folder. The measured binary keeps its symbols, so this folder is separate from that of the
/// release.
const FOLDER: &str = "target/weight";
/// Number of crates that are listed. One more line has the sum of the others.
const NAMED: usize = 20;

/// Prints the sizes of the binary's parts. If `page` is given, also prints those of the page.
pub fn print(page: Option<&Path>) -> Result<()> {
    let binary = fs::read(build()?)?;
    show("the release binary", of_binary(&binary)?);
    if let Some(path) = page {
        let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        show(&path.display().to_string(), of_page(&page));
    }
    Ok(())
}

type Weights = Vec<(String, u64)>;

fn show(whole: &str, weights: Weights) {
    let total: u64 = weights.iter().map(|(_, bytes)| bytes).sum();
    println!("{total:>10}  {whole}");
    for (part, bytes) in weights {
        println!("{bytes:>10}    {part}");
    }
}

/// Builds the binary with its symbols. Returns the path of the binary.
fn build() -> Result<String> {
    let strip = "profile.release.strip=\"debuginfo\"";
    let built = Command::new(cargo())
        .args(["build", "--locked", "--release", "--package=vmnoise"])
        .args(["--target-dir", FOLDER, "--config", strip])
        .args(["--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(built.status.success(), "the release binary was not built");
    let messages = cargo_metadata::Message::parse_stream(built.stdout.as_slice());
    let binaries = messages.filter_map(|it| match it {
        Ok(cargo_metadata::Message::CompilerArtifact(artifact)) => artifact.executable,
        _ => None,
    });
    let last = binaries.last().context("cargo named no binary")?;
    Ok(last.into_string())
}

/// Returns the bytes of code and data of each crate, and then the bytes that belong to no crate.
fn of_binary(file: &[u8]) -> Result<Weights> {
    let elf = object::File::parse(file)?;
    let mut crates: BTreeMap<String, u64> = BTreeMap::new();
    let mut seen = 0;
    // The linker may merge equal functions into one, which then has several names.
    let mut placed = BTreeSet::new();
    for symbol in elf.symbols() {
        let section = symbol.section_index();
        let section = section.and_then(|it| elf.section_by_index(it).ok());
        let is_kept = section.is_some_and(|it| it.file_range().is_some_and(|(_, size)| size > 0));
        if is_kept && symbol.size() > 0 && placed.insert(symbol.address()) {
            let name = rustc_demangle::demangle(symbol.name().unwrap_or_default()).to_string();
            *crates.entry(crate_of(&name)).or_default() += symbol.size();
            seen += symbol.size();
        }
    }
    let mut weights: Weights = crates.into_iter().collect();
    weights.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let others: u64 = weights.iter().skip(NAMED).map(|(_, bytes)| bytes).sum();
    weights.truncate(NAMED);
    weights.push(("other crates".into(), others));
    let mut rest = stripped(&elf).saturating_sub(seen);
    for (name, what) in [
        (".eh_frame", "how to unwind the stack"),
        (".gcc_except_table", "what to drop when unwinding"),
        (".rela.dyn", "relocations"),
    ] {
        let size = elf.section_by_name(name).map_or(0, |it| it.size());
        rest = rest.saturating_sub(size);
        weights.push((what.into(), size));
    }
    weights.push(("texts, constants and headers".into(), rest));
    Ok(weights)
}

/// Returns the size that the file would have without its symbols. All loaded sections have an
/// address.
fn stripped(elf: &object::File<'_>) -> u64 {
    let loaded = elf.sections().filter(|it| it.address() > 0);
    let ends = loaded.filter_map(|it| it.file_range());
    ends.map(|(start, size)| start + size).max().unwrap_or(0)
}

/// Returns the crate in a symbol's first path: `core` for `<T as core::fmt::Debug>::fmt`. A symbol
/// without a path was written in C, or is a constant without a name.
fn crate_of(symbol: &str) -> String {
    let Some((before, _)) = symbol.split_once("::") else {
        return "libraries in C, BPF programs and the charts' library".into();
    };
    let is_of_a_name = |it: char| it.is_alphanumeric() || it == '_';
    let rest = before.trim_end_matches(is_of_a_name);
    match &before[rest.len()..] {
        "" => "methods of the language's own types".into(),
        name => name.to_owned(),
    }
}

/// Returns the sizes of a page's elements that are listed separately. The rest is the page's tables
/// and text.
fn of_page(page: &str) -> Weights {
    let mut weights = Weights::new();
    let mut rest = page.len() as u64;
    for (begin, end, what) in [
        (
            "<script type=\"text/plain\" id=\"library\">",
            "</script>",
            "the charts' library, packed",
        ),
        (
            "<script type=\"application/json\"",
            "</script>",
            "what the charts draw",
        ),
        ("<script>", "</script>", "our script"),
        ("<style>", "</style>", "our style"),
    ] {
        let elements = page.split(begin).skip(1);
        let bytes = elements.filter_map(|it| it.find(end)).map(|it| it as u64);
        let bytes: u64 = bytes.sum();
        rest -= bytes;
        weights.push((what.into(), bytes));
    }
    weights.push(("tables and words".into(), rest));
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_of_the_crate_that_its_path_begins_with() {
        assert_eq!(
            crate_of("<alloc::vec::Vec<T> as core::ops::Drop>::drop"),
            "alloc"
        );
        assert_eq!(
            crate_of("<&mut serde_json::ser::Compound>::end"),
            "serde_json"
        );
        assert_eq!(crate_of("<T as core::fmt::Debug>::fmt"), "core");
        assert_eq!(crate_of("vmnoise::main"), "vmnoise");
        assert!(crate_of("<[u8]>::to_vec").contains("own types"));
        assert!(crate_of("bpf_object__open").contains("in C"));
    }

    #[test]
    fn the_parts_of_a_page_add_up_to_it() {
        let page = "<style>ab</style><p>x</p><script type=\"application/json\" data-name=\"n\">[1]</script>\
            <script type=\"text/plain\" id=\"library\">zzzz</script><script>f()</script>";
        let weights = of_page(page);
        let of = |what: &str| weights.iter().find(|(it, _)| it.contains(what)).unwrap().1;
        assert_eq!((of("library"), of("script"), of("style")), (4, 3, 2));
        assert_eq!(
            weights.iter().map(|it| it.1).sum::<u64>(),
            page.len() as u64
        );
    }
}
