//! Resolves the relocations of a binary's BPF programs for a kernel that does not run here. bpftool
//! does this with libbpf.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use object::elf::ELFMAG;
use object::read::elf::{ElfFile64, FileHeader};
use object::{Architecture, Endianness, Object};
use serde_json::Value;

/// One instruction of a BPF program that depends on a kernel's types (CO-RE).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation {
    /// Kind of the value that the instruction needs: `byte_off`, `byte_sz`, `field_exists`,
    /// `type_exists`.
    pub asked: String,
    /// Type and field that the value describes: `task_struct.pid`.
    pub of: String,
    /// Size of the field as the program declares it, bytes; `None` for structures.
    pub declared_size: Option<u64>,
    /// Matching field or type of the kernel; `None` if the kernel has no match.
    pub found: Option<KernelField>,
}

/// A field or a type of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelField {
    /// Path to the field in the kernel's types: `task_struct.pid`.
    pub path: String,
    /// Offset from the start of the outermost structure as libbpf reports it, bytes; `None` for
    /// types.
    pub offset: Option<u64>,
    /// The same offset, summed up from the BTF of the kernel, bytes.
    pub offset_by_types: Option<u64>,
    /// Size in bytes; `None` for structures.
    pub size: Option<u64>,
}

/// Returns the BPF objects that are embedded in a binary.
///
/// # Errors
/// If the binary cannot be read.
pub fn bpf_objects(binary: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(binary).with_context(|| binary.display().to_string())?;
    let starts = (0..bytes.len()).filter(|&start| bytes[start..].starts_with(&ELFMAG));
    let objects = starts.filter_map(|start| {
        let file = ElfFile64::<Endianness>::parse(&bytes[start..]).ok()?;
        let header = file.elf_header();
        let endian = file.endian();
        // clang writes the table of sections at the end of the file, so the table's end is the
        // object's end.
        let sections = u64::from(header.e_shentsize(endian)) * u64::from(header.e_shnum(endian));
        let end = header.e_shoff(endian).checked_add(sections)?;
        let object = bytes[start..].get(..usize::try_from(end).ok()?)?;
        (file.architecture() == Architecture::Bpf).then(|| object.to_vec())
    });
    Ok(objects.collect())
}

/// Resolves every relocation of a BPF object with these kernel types.
///
/// # Errors
/// If bpftool (package bpftool) fails.
pub fn resolve(object: &[u8], btf: &[u8]) -> Result<Vec<Relocation>> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [object_file, btf_file, used] = [path("bpf.o"), path("all.btf"), path("used.btf")];
    std::fs::write(&object_file, object)?;
    std::fs::write(&btf_file, btf)?;
    // bpftool writes only those kernel fields to `used` that the object uses.
    let arguments = ["-d", "gen", "min_core_btf", &btf_file, &used, &object_file];
    let (_, reported) = bpftool(&arguments)?;
    let declared = Types::read(&object_file)?;
    let used = Types::read(&used)?;
    let mut relocations: Vec<Relocation> = Vec::new();
    for line in reported.lines().filter_map(relocation) {
        let Some((candidate, spec)) = line.split_once('<') else {
            continue;
        };
        let (asked, of, offset) = specification(spec).with_context(|| line.to_owned())?;
        match (candidate, relocations.last_mut()) {
            ("", _) => relocations.push(Relocation {
                asked: asked.to_owned(),
                declared_size: declared.size_of_field(of),
                of: of.to_owned(),
                found: None,
            }),
            (candidate, Some(last)) if candidate.starts_with("matching") => {
                last.found = Some(KernelField {
                    path: of.to_owned(),
                    offset,
                    offset_by_types: used.offset_of_field(of),
                    size: used.size_of_field(of),
                });
            }
            _ => {}
        }
    }
    ensure!(
        !relocations.is_empty(),
        "bpftool reports no relocation: {reported}"
    );
    Ok(relocations)
}

/// Returns REST from a line `libbpf: prog 'SECTION': relo #N: REST`.
fn relocation(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(": relo #")?;
    Some(rest.split_once(": ")?.1)
}

/// Parses `byte_off> [67] struct task_struct.pid (0:1 @ offset 4)`. Returns the kind of the value,
/// the type with its field, and the offset in bytes.
fn specification(text: &str) -> Option<(&str, &str, Option<u64>)> {
    let (asked, rest) = text.split_once("> [")?;
    let mut words = rest.split(' ').skip(2);
    let of = words.next()?;
    let offset = rest.rsplit_once("@ offset ");
    let offset = offset.and_then(|(_, number)| number.trim_end_matches(')').parse().ok());
    Some((asked, of, offset))
}

/// BTF types by their number, as `bpftool --json btf dump` prints them.
struct Types(HashMap<u64, Value>);

impl Types {
    fn read(file: &str) -> Result<Types> {
        let (json, _) = bpftool(&["--json", "btf", "dump", "file", file])?;
        let mut document: Value = serde_json::from_str(&json)?;
        let types = document["types"].as_array_mut().map(std::mem::take);
        let types = types.context("bpftool dumps no types")?.into_iter();
        let numbered = types.filter_map(|it| Some((it["id"].as_u64()?, it)));
        Ok(Types(numbered.collect()))
    }

    fn size_of_field(&self, path: &str) -> Option<u64> {
        self.size(self.field(path)?.1)
    }

    fn offset_of_field(&self, path: &str) -> Option<u64> {
        Some(self.field(path)?.0 / 8)
    }

    /// Returns the offset of `TYPE.FIELD.FIELD...` in bits, and the number of the field's type.
    fn field(&self, path: &str) -> Option<(u64, u64)> {
        let (outermost, fields) = path.split_once('.')?;
        let outermost = self
            .0
            .iter()
            .find(|(_, it)| it["name"] == outermost && it["members"].is_array());
        fields
            .split('.')
            .try_fold((0, *outermost?.0), |(bits, id), name| {
                let (name, index) = name.split_once('[').unwrap_or((name, ""));
                let (more, id) = self.member(id, name)?;
                match index.strip_suffix(']') {
                    Some(index) => {
                        let (into, id) = self.element(id, index.parse().ok()?)?;
                        Some((bits + more + into, id))
                    }
                    None => Some((bits + more, id)),
                }
            })
    }

    /// Returns the offset of an array's element in bits, and the number of the element's type.
    fn element(&self, id: u64, index: u64) -> Option<(u64, u64)> {
        let element = self.0.get(&self.plain(id)?)?["type_id"].as_u64()?;
        match index {
            0 => Some((0, element)),
            index => Some((index * self.size(element)? * 8, element)),
        }
    }

    /// Finds a member by name: its offset in bits, and the number of its type. The members of an
    /// unnamed member count as members of the outer structure.
    fn member(&self, id: u64, name: &str) -> Option<(u64, u64)> {
        let members = self.0.get(&self.plain(id)?)?["members"].as_array()?;
        members.iter().find_map(|member| {
            let bits = member["bits_offset"].as_u64()?;
            let id = member["type_id"].as_u64()?;
            if member["name"] == name {
                return Some((bits, id));
            }
            let (more, id) = (member["name"] == "(anon)").then(|| self.member(id, name))??;
            Some((bits + more, id))
        })
    }

    /// Returns the number of the type without typedefs and qualifiers.
    fn plain(&self, id: u64) -> Option<u64> {
        let it = self.0.get(&id)?;
        match it["kind"].as_str()? {
            "TYPEDEF" | "CONST" | "VOLATILE" => self.plain(it["type_id"].as_u64()?),
            _ => Some(id),
        }
    }

    fn size(&self, id: u64) -> Option<u64> {
        let it = self.0.get(&self.plain(id)?)?;
        match it["kind"].as_str()? {
            "PTR" => Some(8),
            "ARRAY" => Some(it["nr_elems"].as_u64()? * self.size(it["type_id"].as_u64()?)?),
            "STRUCT" => None,
            _ => it["size"].as_u64(),
        }
    }
}

/// Runs bpftool, and returns its stdout and stderr.
fn bpftool(arguments: &[&str]) -> Result<(String, String)> {
    let output = Command::new("bpftool")
        .args(arguments)
        .output()
        .context("starting bpftool (package bpftool)")?;
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(
        output.status.success(),
        "bpftool {}: {stderr}",
        arguments.join(" ")
    );
    Ok((stdout, stderr))
}
