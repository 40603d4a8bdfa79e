//! Histogram in one table cell. Each character stands for one power of two; a darker character
//! means more exits.

use vmnoise_explain::ReasonExits;

/// Characters from light to dark: from nearly no exit to all exits of the row.
const SHADES: &[u8] = b".:-=+*#%@";

/// Range of powers of two that contains all lengths in a table.
#[derive(Debug, Clone, Copy)]
pub struct Powers {
    first: u32,
    last: u32,
}

impl Powers {
    /// Returns the range that contains the lengths of all these exits.
    pub fn of(reasons: &[ReasonExits]) -> Powers {
        let powers = || reasons.iter().flat_map(places).map(|(power, _)| power);
        Powers {
            first: powers().min().unwrap_or(0),
            last: powers().max().unwrap_or(0),
        }
    }

    /// Formats the lower bound of the first character and the upper bound of the last character.
    pub fn heading(self) -> String {
        format!("{}-{}", about(self.first), about(self.last + 1))
    }

    /// Draws the histogram of one row.
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

/// Returns pairs of power and number of exits; a power may occur several times.
fn places(reason: &ReasonExits) -> impl Iterator<Item = (u32, u64)> + '_ {
    let buckets = reason.histogram.iter();
    buckets.map(|&(edge_ns, count)| (edge_ns.checked_ilog2().unwrap_or(0), count))
}

fn shade(count: u64, of: u64) -> u8 {
    let darkest = SHADES.len() - 1;
    let step = (count as f64 / of.max(1) as f64 * darkest as f64).round();
    SHADES[(step as usize).min(darkest)]
}

/// Formats `2^power` ns approximately: `512ns`, `1us`, `16ms`.
fn about(power: u32) -> String {
    let units = ["ns", "us", "ms", "s"];
    let unit = (power / 10).min(3);
    format!("{}{}", 1_u64 << (power - unit * 10), units[unit as usize])
}
