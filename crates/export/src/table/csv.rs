//! Writes rows as comma-separated values (RFC 4180).

use std::io::{self, Write};

use jiff::Timestamp;

use super::cells::{Cells, Known};
use super::{ColumnKind, Schema};

/// Kind of program that will read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A program that takes each text literally.
    Program,
    /// A spreadsheet, which runs a text that begins like a formula. A task with the name
    /// `=HYPERLINK(…)` could send the sheet's data to any address.
    Spreadsheet,
}

pub(super) fn write_header(out: &mut impl Write, schema: &Schema) -> io::Result<()> {
    let names: Vec<&str> = schema.columns.iter().map(|it| it.name.as_str()).collect();
    write!(out, "{}\r\n", names.join(","))
}

pub(super) fn write_rows(
    out: &mut impl Write,
    schema: &Schema,
    cells: &Cells,
    reader: Reader,
) -> io::Result<()> {
    // Number of known values that were already written, for each column.
    let mut written = vec![0; schema.columns.len()];
    for row in 0..cells.rows() {
        let columns = schema.columns.iter().zip(&cells.columns).enumerate();
        for (place, (column, values)) in columns {
            if place > 0 {
                out.write_all(b",")?;
            }
            if values.levels[row] == 0 {
                continue;
            }
            let at = written[place];
            written[place] += 1;
            match (&values.known, column.kind) {
                (Known::Ints(known), ColumnKind::Time) => write_time(out, known[at])?,
                (Known::Ints(known), _) => write!(out, "{}", known[at])?,
                (Known::Bools(known), _) => write!(out, "{}", known[at])?,
                (Known::Texts(known), _)
                    if reader == Reader::Spreadsheet && is_formula(&known[at]) =>
                {
                    write_text(out, &format!("'{}", known[at]))?;
                }
                (Known::Texts(known), _) => write_text(out, &known[at])?,
            }
        }
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

fn write_time(out: &mut impl Write, us: i64) -> io::Result<()> {
    match Timestamp::from_microsecond(us) {
        Ok(time) => write!(out, "{time:.6}"),
        // A time outside of the calendar's range is written as null.
        Err(_) => Ok(()),
    }
}

/// Returns whether a spreadsheet would run this text. The characters are those of OWASP (CSV
/// Injection), also in full width. Some spreadsheets skip tabs and carriage returns, but names
/// contain none.
fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    match text.contains(['"', ',', '\r', '\n']) {
        true => write!(out, "\"{}\"", text.replace('"', "\"\"")),
        false => out.write_all(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::super::cells::Cell;
    use super::*;

    #[test]
    fn what_would_end_a_cell_is_quoted_and_unknown_is_nothing() {
        let schema = Schema::new(
            "odd",
            &[
                ("at_utc", ColumnKind::Time),
                ("name", ColumnKind::Text),
                ("ns", ColumnKind::Int),
                ("known", ColumnKind::Bool),
            ],
        );
        let mut cells = Cells::new(&schema);
        cells.push([
            Cell::Int(1_500_000),
            Cell::Text("a \"b\", c".into()),
            Cell::Null,
            Cell::Bool(true),
        ]);
        cells.push([
            Cell::Null,
            Cell::Text("µ".into()),
            Cell::Int(-7),
            Cell::Null,
        ]);
        let mut out = Vec::new();
        write_header(&mut out, &schema).unwrap();
        write_rows(&mut out, &schema, &cells, Reader::Program).unwrap();
        let expected = "at_utc,name,ns,known\r\n\
            1970-01-01T00:00:01.500000Z,\"a \"\"b\"\", c\",,true\r\n\
            ,µ,-7,\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_spreadsheet_runs_no_name() {
        let schema = Schema::new(
            "names",
            &[("name", ColumnKind::Text), ("ns", ColumnKind::Int)],
        );
        let mut cells = Cells::new(&schema);
        for name in ["=1+1:7", "-3", "@a, b", "＝1", "sh:7", "'=1"] {
            cells.push([Cell::Text(name.into()), Cell::Int(-5)]);
        }
        let reported = |reader| {
            let mut out = Vec::new();
            write_rows(&mut out, &schema, &cells, reader).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            reported(Reader::Spreadsheet),
            "'=1+1:7,-5\r\n'-3,-5\r\n\"'@a, b\",-5\r\n'＝1,-5\r\nsh:7,-5\r\n'=1,-5\r\n"
        );
        assert!(reported(Reader::Program).starts_with("=1+1:7,-5\r\n-3,-5\r\n\"@a, b\""));
    }
}
