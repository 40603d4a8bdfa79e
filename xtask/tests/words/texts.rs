//! Collects the texts that people read, by file.

use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprCall, ExprLit, ExprMethodCall, Lit, Meta};

/// Kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Documentation of an item, or help of a command-line argument.
    DocComment,
    /// Comment of a BPF program.
    Comment,
    /// Message of an error, or HELP of a metric.
    Message,
    /// Page of docs.
    Page,
}

/// A text, and the file that contains it.
#[derive(Debug)]
pub struct Text {
    pub file: String,
    pub kind: Kind,
    pub words: String,
}

/// Returns all texts of the repository.
pub fn all(root: &str) -> Vec<Text> {
    let mut texts = Vec::new();
    for file in files(root) {
        let path = format!("{root}/{file}");
        let content = || fs::read_to_string(&path).unwrap();
        match file.rsplit_once('.').map(|(_, ending)| ending) {
            Some("rs") => texts.extend(of_rust(&file, &content())),
            Some("h" | "c") => texts.extend(of_c(&file, &content())),
            Some("md") => texts.push(of_page(&file, &content())),
            _ => {}
        }
    }
    texts
}

/// Returns the pages, and the sources without their tests, as paths below the root.
pub fn files(root: &str) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["crates", "xtask/src", "docs"] {
        collect(Path::new(root), folder, &mut found);
    }
    found.extend(["README.md", "CONTRIBUTING.md"].map(str::to_owned));
    found.retain(|file| {
        let part_of = |name: &str| file.split('/').any(|part| part == name);
        file.starts_with("docs/") || file.ends_with(".md") || part_of("src") && !part_of("tests")
    });
    found.sort();
    found
}

fn collect(root: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().display());
        match entry.file_type().unwrap().is_dir() {
            true => collect(root, &name, found),
            false => found.push(name),
        }
    }
}

fn of_rust(file: &str, content: &str) -> Vec<Text> {
    let mut reader = Reader {
        file,
        texts: Vec::new(),
    };
    let parsed = syn::parse_file(content).unwrap_or_else(|error| panic!("{file}: {error}"));
    reader.doc_comment(&parsed.attrs);
    reader.visit_file(&parsed);
    reader.texts
}

struct Reader<'a> {
    file: &'a str,
    texts: Vec<Text>,
}

impl Reader<'_> {
    fn push(&mut self, kind: Kind, words: String) {
        let file = self.file.to_owned();
        self.texts.push(Text { file, kind, words });
    }

    /// Adds the doc comment in these attributes. Each line of the comment is one attribute.
    fn doc_comment(&mut self, attributes: &[Attribute]) {
        let lines: Vec<String> = attributes.iter().filter_map(doc_line).collect();
        if !lines.is_empty() {
            self.push(Kind::DocComment, without_blocks(&lines.join("\n")));
        }
    }

    /// Adds the HELP of a metric: the argument after a metric's name, if it is a text with spaces.
    fn help(&mut self, arguments: &[&Expr]) {
        let [name, help, ..] = arguments else { return };
        let (Some(name), Some(help)) = (literal(name), literal(help)) else {
            return;
        };
        let is_name = name.chars().all(|it| it.is_ascii_lowercase() || it == '_');
        if is_name && help.contains(' ') {
            self.push(Kind::Message, help);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta
            && list.path.is_ident("error")
            && let Ok(Lit::Str(message)) = list.parse_args()
        {
            self.push(Kind::Message, message.value());
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item::*;
        if let Mod(module) = item
            && module.attrs.iter().any(is_of_tests)
        {
            return;
        }
        let attributes = match item {
            Const(it) => &it.attrs,
            Enum(it) => &it.attrs,
            Fn(it) => &it.attrs,
            Macro(it) => &it.attrs,
            Mod(it) => &it.attrs,
            Static(it) => &it.attrs,
            Struct(it) => &it.attrs,
            Trait(it) => &it.attrs,
            Type(it) => &it.attrs,
            _ => &Vec::new(),
        };
        self.doc_comment(attributes);
        visit::visit_item(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.doc_comment(&field.attrs);
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.doc_comment(&variant.attrs);
        visit::visit_variant(self, variant);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.doc_comment(&function.attrs);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_impl_item_const(&mut self, constant: &'ast syn::ImplItemConst) {
        self.doc_comment(&constant.attrs);
        visit::visit_impl_item_const(self, constant);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.doc_comment(&function.attrs);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.help(&call.args.iter().collect::<Vec<_>>());
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.help(&call.args.iter().collect::<Vec<_>>());
        visit::visit_expr_method_call(self, call);
    }
}

fn is_of_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg") && list.tokens.to_string().contains("test")
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    let line = literal(&pair.value).filter(|_| pair.path.is_ident("doc"))?;
    Some(line.strip_prefix(' ').unwrap_or(&line).to_owned())
}

fn literal(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

/// Returns the comments of a C file, in order. Consecutive `//` lines are one comment.
fn of_c(file: &str, content: &str) -> Vec<Text> {
    let mut comments = Vec::new();
    let (mut in_block, mut words) = (false, String::new());
    for line in content.lines().map(str::trim) {
        let (text, ends) = match line {
            _ if in_block => (line.split("*/").next(), line.contains("*/")),
            _ if line.starts_with("/*") => (line[2..].split("*/").next(), line.contains("*/")),
            _ if line.starts_with("//") => (Some(&line[2..]), false),
            _ => (None, true),
        };
        in_block = !ends && (in_block || line.starts_with("/*"));
        if let Some(text) = text {
            words.push_str(text.trim_start_matches(['*', ' ', '/']));
            words.push('\n');
        }
        if ends && !words.is_empty() {
            comments.push(std::mem::take(&mut words));
        }
    }
    comments.push(words);
    comments.retain(|comment| !comment.is_empty());
    let text = |words| Text {
        file: file.to_owned(),
        kind: Kind::Comment,
        words,
    };
    comments.into_iter().map(text).collect()
}

fn of_page(file: &str, content: &str) -> Text {
    Text {
        file: file.to_owned(),
        kind: Kind::Page,
        words: without_blocks(content),
    }
}

/// Returns the text without code blocks, tables and headings.
fn without_blocks(content: &str) -> String {
    let mut in_code = false;
    let mut text = String::new();
    for line in content.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        let is_table = line.trim_start().starts_with('|');
        match in_code || is_fence || is_table || line.starts_with('#') {
            true => text.push('\n'),
            false => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[test]
fn every_kind_of_text_is_read_and_code_is_not() {
    let rust = "//! Module.\n/// Type.\npub struct A { /// Field.\n b: u8 }\n\
                #[derive(Error)]\npub enum E { #[error(\"a message: {0}\")]\n X(u8) }\n\
                fn f() { registry.register(\"vm_wait\", \"Seconds of waiting\", g); g(\"Not\", \"a help\"); }\n\
                #[cfg(test)]\nmod tests { /// Hidden.\n fn x() {} }";
    let words: Vec<String> = of_rust("f", rust)
        .into_iter()
        .map(|text| text.words)
        .collect();
    let words: Vec<&str> = words.iter().map(|words| words.trim()).collect();
    assert_eq!(
        words,
        [
            "Module.",
            "Type.",
            "Field.",
            "a message: {0}",
            "Seconds of waiting"
        ]
    );
    let c = "/* One\n * comment. */\nint a;\n// Another,\n// on two lines.\nint b;\n";
    let comments: Vec<String> = of_c("f", c).into_iter().map(|text| text.words).collect();
    assert_eq!(comments, ["One\ncomment. \n", "Another,\non two lines.\n"]);
    let page = of_page("f", "# Head\ntext\n```\ncode\n```\n| a | b |\nmore\n");
    let lines: Vec<&str> = page.words.split_whitespace().collect();
    assert_eq!(lines, ["text", "more"]);
}
