//! The tables of parts: one row for each part of a gap, a wake-up or an exit.

use vmnoise_events::Share;

use crate::table::{Cell, ColumnKind, Schema};

/// Column with the number of the host's CPU on which a part of a guest's lost time was spent.
pub(crate) const HOST_CPU: (&str, ColumnKind) = ("host_cpu", ColumnKind::Int);

/// One part of a gap, a wake-up or an exit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartRow<'a> {
    /// Row number of the gap, wake-up or exit to which the part belongs.
    pub(crate) of: u64,
    pub(crate) time_us: Option<i64>,
    pub(crate) cpu: u32,
    pub(crate) share: Share,
    pub(crate) source: Option<&'a str>,
    pub(crate) ns: u64,
}

/// Returns the schema of a table of parts. `of` is the name of the column that has the row number
/// of the gap, wake-up or exit.
pub(crate) fn schema(name: &'static str, of: &str) -> Schema {
    Schema::new(
        name,
        &[
            (of, ColumnKind::Int),
            ("time_utc", ColumnKind::Time),
            ("cpu", ColumnKind::Int),
            ("share", ColumnKind::Text),
            ("source", ColumnKind::Text),
            ("source_number", ColumnKind::Int),
            ("ns", ColumnKind::Int),
        ],
    )
}

pub(crate) fn row<'a>(part: PartRow<'a>) -> [Cell<'a>; 7] {
    let (source, number) = part.source.map_or((None, None), |source| {
        let (name, number) = split(source);
        (Some(name), number)
    });
    [
        part.of.into(),
        part.time_us.into(),
        part.cpu.into(),
        part.share.name().into(),
        source.into(),
        number.into(),
        part.ns.into(),
    ]
}

/// Splits `stress-ng:4711` into `stress-ng` and 4711. Over many hosts, only the name is useful.
fn split(source: &str) -> (&str, Option<i64>) {
    let apart = source.rsplit_once(':').and_then(|(name, number)| {
        let number: u32 = number.parse().ok()?;
        Some((name, Some(number.into())))
    });
    apart.unwrap_or((source, None))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_number_is_what_follows_the_last_colon() {
        assert_eq!(split("kworker/1:6:18391"), ("kworker/1:6", Some(18_391)));
        assert_eq!(split("local_timer:236"), ("local_timer", Some(236)));
        assert_eq!(split("EXCEPTION_NMI"), ("EXCEPTION_NMI", None));
        assert_eq!(split("a:b"), ("a:b", None));
    }
}
