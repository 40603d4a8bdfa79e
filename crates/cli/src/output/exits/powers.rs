//! A histogram in one cell: one place for each power of two, as dark as it is full.

use vmnoise_explain::ReasonExits;

/// From nearly nothing to all exits of the row.
const SHADES: &[u8] = b".:-=+*#%@";

/// The powers of two that a table's lengths span.
#[derive(Debug, Clone, Copy)]
pub struct Powers {
    first: u32,
    last: u32,
}

impl Powers {
    /// Those of all these exits.
    pub fn of(reasons: &[ReasonExits]) -> Powers {
        let powers = || reasons.iter().flat_map(places).map(|(power, _)| power);
        Powers {
            first: powers().min().unwrap_or(0),
            last: powers().max().unwrap_or(0),
        }
    }

    /// What the first place and the end of the last stand for.
    pub fn heading(self) -> String {
        format!("{}-{}", about(self.first), about(self.last + 1))
    }

    /// The exits of one row.
    pub fn draw(self, reason: &ReasonExits) -> String {
        let place = |power: u32| {
            let counts = places(reason).filter(|&(its, _)| its == power);
            let count: u64 = counts.map(|(_, count)| count).sum();
            match count {
                0 => ' ',
                count => char::from(shade(count, reason.count)),
            }
        };
        (self.first..=self.last).map(place).collect()
    }
}

/// How many exits had a length of each power, several times the same.
fn places(reason: &ReasonExits) -> impl Iterator<Item = (u32, u64)> + '_ {
    let buckets = reason.histogram.iter();
    buckets.map(|&(edge_ns, count)| (edge_ns.checked_ilog2().unwrap_or(0), count))
}

fn shade(count: u64, of: u64) -> u8 {
    let darkest = SHADES.len() - 1;
    let step = (count as f64 / of.max(1) as f64 * darkest as f64).round();
    SHADES[(step as usize).min(darkest)]
}

/// `2^power` ns, as people round it: `512ns`, `1us`, `16ms`.
fn about(power: u32) -> String {
    let units = ["ns", "us", "ms", "s"];
    let unit = (power / 10).min(3);
    format!("{}{}", 1_u64 << (power - unit * 10), units[unit as usize])
}
