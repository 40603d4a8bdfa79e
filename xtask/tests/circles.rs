//! The files of a crate have no cyclic dependencies, so that each can be read after the files that
//! it uses. A `mod.rs` is read after the modules of its folder that it uses. Modules may use items
//! of the `mod.rs` above them without a cycle, because these items are common to the folder.
//! Programs in `src/bin` and the arguments of macros are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Path from the root of a crate to a module, or to an item in a module.
type Names = Vec<String>;

/// Modules of a crate that are separate files, without test modules.
#[derive(Default)]
struct Files {
    /// For each file: the paths that it uses, from the root of the crate.
    uses: BTreeMap<Names, BTreeSet<Names>>,
    /// For each re-exported name: the path of its target.
    passed_on: BTreeMap<Names, Names>,
}

/// Paths that occur in one file.
#[derive(Default)]
struct File {
    /// Path of the module that is being read.
    module: Names,
    /// Submodules that are separate files.
    parts: Vec<String>,
    /// Used paths. Each pair is the module that uses the path, and the path.
    named: Vec<(Names, Names)>,
    /// Imported names: the module that imports, the name, and the path.
    imported: Vec<(Names, String, Names)>,
    /// Re-exported paths. Each pair is the module's own path for the item, and the item's path.
    passed_on: Vec<(Names, Names)>,
}

#[test]
fn no_file_needs_another_that_needs_it_back() {
    let mut crates: Vec<PathBuf> = fs::read_dir(format!("{ROOT}/crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    crates.push(format!("{ROOT}/xtask").into());
    let mut read = 0;
    let mut circles = Vec::new();
    for folder in crates {
        let files = Files::of(&folder);
        read += files.uses.len();
        let name = folder.file_name().unwrap().display().to_string();
        circles.extend(files.circles().map(|circle| format!("{name}: {circle}")));
    }
    assert!(read > 300, "only {read} files were read");
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn a_circle_is_found_and_a_module_with_its_parts_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a; mod b; mod c; pub use a::A;");
    write("a/mod.rs", "mod part; pub use part::A; use self::part::B;");
    write("a/part.rs", "use super::C; pub struct A; pub struct B;");
    write(
        "b.rs",
        "use crate::c::D; #[cfg(test)] mod tests { use crate::A; }",
    );
    write(
        "c.rs",
        "pub struct D; #[cfg(test)] mod tests { use crate::b::E; }",
    );
    assert_eq!(Files::of(folder.path()).circles().count(), 0);
    write("c.rs", "pub struct D; fn d() -> crate::A { todo() }");
    assert_eq!(Files::of(folder.path()).circles().count(), 0);
    write("a/part.rs", "use crate::b::E; pub struct A;");
    let circles: Vec<String> = Files::of(folder.path()).circles().collect();
    assert_eq!(circles, ["a::part -> b -> c -> a::part"]);

    // A cycle that passes through the `mod.rs` above a module.
    write("a/part.rs", "pub struct A;");
    write(
        "a/mod.rs",
        "mod part; mod other; pub struct F; fn f() { other::g() }",
    );
    write("a/other.rs", "use crate::b::E;");
    write("c.rs", "pub struct D; use crate::a::F;");
    let circles: Vec<String> = Files::of(folder.path()).circles().collect();
    assert_eq!(circles, ["a -> a::other -> b -> c -> a"]);
    write("a/part.rs", "use crate::b::E; pub struct A;");
    write("a/mod.rs", "mod part; pub use part::A; use self::part::B;");
    fs::remove_file(folder.path().join("src/a/other.rs")).unwrap();

    // A cycle that passes through a `mod.rs` that was reported before, and through one of its
    // modules.
    let by_its_part = [
        "a::part -> b -> c -> a -> a::part",
        "a::part -> b -> c -> a::part",
    ];
    write(
        "c.rs",
        "use crate::a; pub struct D; fn d() { a::part::f() }",
    );
    let circles: Vec<String> = Files::of(folder.path()).circles().collect();
    assert_eq!(circles, by_its_part);
    // A re-export is a use, too.
    write("c.rs", "pub struct D; pub use crate::a::part::A;");
    let circles: Vec<String> = Files::of(folder.path()).circles().collect();
    assert_eq!(circles, ["a::part -> b -> c -> a::part"]);
}

impl Files {
    /// Reads the sources of the package in this folder.
    fn of(package: &Path) -> Files {
        let mut files = Files::default();
        let sources = package.join("src");
        let root = ["lib.rs", "main.rs"].map(|name| sources.join(name));
        let root = root.iter().find(|path| path.is_file()).unwrap();
        files.read(Vec::new(), root, &sources);
        files
    }

    fn read(&mut self, module: Names, path: &Path, folder: &Path) {
        let parsed = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
        let mut file = File {
            module: module.clone(),
            ..File::default()
        };
        file.visit_file(&parsed);
        self.uses.insert(module.clone(), BTreeSet::new());
        for part in file.parts {
            let folder = folder.join(&part);
            let [own, inside] = [folder.with_extension("rs"), folder.join("mod.rs")];
            let path = if own.is_file() { own } else { inside };
            // A module with a path attribute belongs to another crate.
            if path.is_file() {
                let module = module.iter().cloned().chain([part]).collect();
                self.read(module, &path, &folder);
            }
        }
        let imports = file.imported.into_iter().filter_map(|(at, name, path)| {
            let path = self.absolute(&at, &path, &BTreeMap::new())?;
            Some(((at, name), path))
        });
        let imports: BTreeMap<(Names, String), Names> = imports.collect();
        for (at, path) in file.passed_on {
            if let Some(path) = self.absolute(&at, &path, &imports) {
                let name = at.into_iter().chain(path.last().cloned()).collect();
                self.passed_on.insert(name, path);
            }
        }
        let named = file.named.into_iter();
        let named: Vec<Names> = named
            .filter_map(|(at, path)| self.absolute(&at, &path, &imports))
            .collect();
        self.uses.entry(module).or_default().extend(named);
    }

    /// Returns the path from the root of the crate; `None` if the path leads to another crate.
    fn absolute(
        &self,
        at: &Names,
        path: &Names,
        imports: &BTreeMap<(Names, String), Names>,
    ) -> Option<Names> {
        let mut names = path.iter().peekable();
        let mut base = match names.peek()?.as_str() {
            "crate" => Names::new(),
            "self" | "super" => at.clone(),
            first => {
                let part: Names = at.iter().cloned().chain([first.to_owned()]).collect();
                let base = match self.uses.contains_key(&part) {
                    true => &part,
                    false => imports.get(&(at.clone(), first.to_owned()))?,
                };
                return Some(base.iter().chain(&path[1..]).cloned().collect());
            }
        };
        while let Some(name) =
            names.next_if(|name| ["crate", "self", "super"].contains(&name.as_str()))
        {
            if name == "super" {
                base.pop();
            }
        }
        base.extend(names.cloned());
        Some(base)
    }

    /// Returns the file that contains the item at this path.
    fn file(&self, path: &Names) -> Names {
        let mut path = path.clone();
        // A name may be re-exported several times.
        for _ in 0..8 {
            let known = (1..=path.len()).rev();
            let found = known.map(|length| path[..length].to_vec());
            let Some((name, to)) = found
                .filter_map(|name| Some((name.clone(), self.passed_on.get(&name)?)))
                .find(|(name, to)| name != *to)
            else {
                break;
            };
            path = to.iter().chain(&path[name.len()..]).cloned().collect();
        }
        let mut prefixes = (0..=path.len()).rev().map(|length| path[..length].to_vec());
        prefixes
            .find(|it| self.uses.contains_key(it))
            .unwrap_or_default()
    }

    /// Returns the files that each file uses. Leaves out the `mod.rs` files above the file.
    fn arrows(&self) -> BTreeMap<Names, BTreeSet<Names>> {
        let of = |(from, paths): (&Names, &BTreeSet<Names>)| {
            let to = paths.iter().map(|path| self.file(path));
            let to = to.filter(|to| !from.starts_with(to));
            (from.clone(), to.collect())
        };
        self.uses.iter().map(of).collect()
    }

    /// Returns one cycle for each file with which a cycle begins.
    fn circles(&self) -> impl Iterator<Item = String> {
        let arrows = self.arrows();
        let mut circles = Vec::new();
        let mut done = BTreeSet::new();
        for file in arrows.keys() {
            walk(&arrows, file, &mut Vec::new(), &mut done, &mut circles);
        }
        circles.into_iter()
    }
}

/// Follows all uses from this file. `done` contains the files whose uses were already followed.
fn walk(
    arrows: &BTreeMap<Names, BTreeSet<Names>>,
    file: &Names,
    way: &mut Vec<Names>,
    done: &mut BTreeSet<Names>,
    circles: &mut Vec<String>,
) {
    if let Some(place) = way.iter().position(|before| before == file) {
        let circle = way[place..].iter().chain([file]);
        let names: Vec<String> = circle.map(|names| names.join("::")).collect();
        circles.push(names.join(" -> "));
        return;
    }
    if done.contains(file) {
        return;
    }
    way.push(file.clone());
    for next in &arrows[file] {
        walk(arrows, next, way, done, circles);
    }
    way.pop();
    done.insert(file.clone());
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        if item.content.is_none() {
            self.parts.push(name);
            return;
        }
        self.module.push(name);
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut paths = Vec::new();
        leaves(&item.tree, &mut Vec::new(), &mut paths);
        for (name, path) in paths {
            let at = self.module.clone();
            if !matches!(item.vis, Visibility::Inherited) {
                self.passed_on.push((at.clone(), path.clone()));
            }
            self.imported.push((at.clone(), name, path.clone()));
            self.named.push((at, path));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        if names.len() > 1 && path.leading_colon.is_none() {
            self.named.push((self.module.clone(), names));
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let condition = attribute.path().is_ident("cfg");
    condition
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|path| path.is_ident("test"))
}

/// Collects each name that a `use` imports, and its path. `*` is left out, because it imports
/// unknown names.
fn leaves(tree: &UseTree, path: &mut Names, found: &mut Vec<(String, Names)>) {
    let with = |name: &syn::Ident| path.iter().cloned().chain([name.to_string()]).collect();
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            leaves(&tree.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            found.push((path.last().cloned().unwrap_or_default(), path.clone()));
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), with(&name.ident))),
        UseTree::Rename(name) => found.push((name.rename.to_string(), with(&name.ident))),
        UseTree::Glob(_) => found.push(("*".to_owned(), path.clone())),
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, path, found);
            }
        }
    }
}
