//! `docs/data.md` lists all columns of all tables, in the same order and with the same types.

use vmnoise_export::{DATA_VERSION, schemas};

/// Returns the columns and types that this page lists for a table.
fn documented(page: &str, table: &str) -> Vec<(String, String)> {
    let body = page.split_once(&format!("\n### `{table}`\n")).unwrap().1;
    let body = body.split("\n#").next().unwrap();
    let rows = body.lines().filter(|line| line.starts_with("| `"));
    let columns = rows.flat_map(|row| {
        let [_, names, kind, ..] = row.split('|').collect::<Vec<_>>()[..] else {
            panic!("{row} is no row of columns");
        };
        let names = names.split_whitespace();
        names.map(move |name| (name.trim_matches('`').to_owned(), kind.trim().to_owned()))
    });
    columns.collect()
}

#[test]
fn every_column_is_documented_and_none_else() {
    let page = include_str!("../../../docs/data.md");
    let tables = page.lines().filter(|line| line.starts_with("### `"));
    let tables: Vec<&str> = tables
        .map(|line| line[4..].trim_matches(&['`', ' '][..]))
        .collect();
    let schemas = schemas();
    let names: Vec<&str> = schemas.iter().map(|schema| schema.name).collect();
    assert_eq!(tables, names);
    for schema in &schemas {
        let columns = schema.columns.iter();
        let columns: Vec<(String, String)> = columns
            .map(|column| (column.name.clone(), column.kind.name().to_owned()))
            .collect();
        assert_eq!(documented(page, schema.name), columns, "{}", schema.name);
    }
    assert!(page.contains(&format!("the columns of version {DATA_VERSION}:")));
}
