//! What makes a comparison end with status 2: `p99.9>20us`.

use std::fmt;

use vmnoise_explain::compare::{Figure, Window};

use super::limit;

/// A figure, and what it may not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    figure: Figure,
    relation: Relation,
    limit: f64,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Longest first, so that `>=` is not read as `>`.
const RELATIONS: [(&str, Relation); 4] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::Above),
    ("<", Relation::Below),
];

impl Condition {
    /// Reads one.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is accepted.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let split = RELATIONS
            .iter()
            .find_map(|(word, relation)| Some((text.split_once(word)?, *relation)));
        let ((name, limit), relation) = split.ok_or_else(|| {
            format!("`{text}` compares nothing; write a figure, > or <, and a limit: p99.9>20us")
        })?;
        if name.trim().is_empty() || limit.trim().is_empty() {
            return Err(format!(
                "`{text}` compares with nothing; write a figure, > or <, and a limit: p99.9>20us"
            ));
        }
        let figure = Figure::from_name(name.trim()).ok_or_else(|| {
            let names: Vec<&str> = Figure::all().map(Figure::name).collect();
            format!(
                "there is no figure `{}`; there are {}",
                name.trim(),
                names.join(", ")
            )
        })?;
        Ok(Condition {
            figure,
            relation,
            limit: limit::parse(limit.trim(), figure.name(), figure.unit())?,
            text: text.to_owned(),
        })
    }

    /// What it looks at.
    pub fn figure(&self) -> Figure {
        self.figure
    }

    /// Whether a run is so; `None` where it does not know the figure.
    pub fn holds(&self, run: &Window) -> Option<bool> {
        let value = self.figure.of(run)?;
        Some(match self.relation {
            Relation::Above => value > self.limit,
            Relation::AtLeast => value >= self.limit,
            Relation::Below => value < self.limit,
            Relation::AtMost => value <= self.limit,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let limit = |text| Condition::parse(text).unwrap().limit;
        assert_eq!(limit("p99.9>20us"), 20_000.0);
        assert_eq!(limit("max >= 1ms"), 1_000_000.0);
        assert_eq!(limit("p50<5"), 5_000.0);
        assert_eq!(limit("steal>0.1%"), 0.1);
        assert_eq!(limit("gaps<=100"), 100.0);
        let at_least = Condition::parse("noise>=1%").unwrap();
        assert_eq!(at_least.relation, Relation::AtLeast);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        for (wrong, said) in [
            ("p99.9", "compares nothing"),
            ("p99>", "compares with nothing"),
            (">20us", "compares with nothing"),
            ("p98>20us", "there are noise, gaps, p50"),
            ("steal>0.1", "such as 0.1%"),
            ("steal>20us", "such as 0.1%"),
            ("p99>20%", "no time"),
            ("gaps>many", "such as 100"),
            ("noise>-1%", "such as 0.1%"),
        ] {
            let error = Condition::parse(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
