//! Conditions on which a comparison ends with status 2, such as `p99.9>20us`.

use std::fmt;

use vmnoise_judge::compare::{ComparedFigure, OfReason, RecordingKind};

use super::{limit, reason_names};

/// Condition as the user typed it: a figure, a relation and a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureCondition {
    name: String,
    relation: Relation,
    limit: String,
    text: String,
}

/// A condition for one kind of recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Figure to compare.
    pub figure: ComparedFigure,
    relation: Relation,
    /// Limit with which the figure is compared, in the figure's unit.
    pub limit: f64,
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

impl FigureCondition {
    /// Parses a condition.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is accepted.
    pub fn parse(text: &str) -> Result<FigureCondition, String> {
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
        let condition = FigureCondition {
            name: name.trim().to_owned(),
            relation,
            limit: limit.trim().to_owned(),
            text: text.to_owned(),
        };
        // Before any recording is read, refuse a figure that no kind of recording has.
        let meant = RecordingKind::ALL.map(|kind| condition.figure(kind));
        match meant.iter().flatten().next() {
            Some(figure) => condition.limit_of(figure).map(|_| condition),
            None => Err(condition.unknown(&RecordingKind::ALL)),
        }
    }

    /// Returns the condition for recordings of this kind.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is accepted.
    pub fn on(&self, kind: RecordingKind) -> Result<Bound, String> {
        let figure = self.figure(kind);
        let figure = figure.ok_or_else(|| self.unknown(&[kind]))?;
        Ok(Bound {
            limit: self.limit_of(&figure)?,
            relation: self.relation,
            figure,
        })
    }

    /// Returns the figure of this name. Recordings of exits also have figures for each exit reason,
    /// even if no exit had this reason.
    fn figure(&self, kind: RecordingKind) -> Option<ComparedFigure> {
        let named = ComparedFigure::all(kind).into_iter();
        let named = named.into_iter().find(|figure| figure.name() == self.name);
        let of_reason = || {
            let (reason, what) = self.name.rsplit_once('.')?;
            let what = OfReason::ALL.into_iter().find(|it| it.name() == what)?;
            let is_known = reason_names::check(&[reason.to_owned()], None).is_ok();
            (kind == RecordingKind::Exits && is_known)
                .then(|| ComparedFigure::Reason(reason.into(), what))
        };
        named.or_else(of_reason)
    }

    fn limit_of(&self, figure: &ComparedFigure) -> Result<f64, String> {
        limit::parse(&self.limit, &figure.name(), figure.unit())
    }

    fn unknown(&self, kinds: &[RecordingKind]) -> String {
        let of_kinds = kinds.iter().map(|kind| {
            let all = ComparedFigure::all(*kind).into_iter();
            let mut names: Vec<String> = all
                .filter(|figure| !matches!(figure, ComparedFigure::Delay(_)))
                .map(|figure| figure.name().into_owned())
                .collect();
            match kind {
                RecordingKind::Gaps => {}
                RecordingKind::Wakeups => names.push("by.SHARE".into()),
                RecordingKind::Exits => {
                    names.extend(OfReason::ALL.map(|it| format!("REASON.{}", it.name())))
                }
            }
            format!("for {}: {}", kind.name(), names.join(", "))
        });
        let known: Vec<String> = of_kinds.collect();
        format!(
            "there is no figure `{}`; write one of these, {}",
            self.name,
            known.join("; ")
        )
    }
}

impl Bound {
    /// Returns whether a run's figure meets the condition.
    pub fn holds(&self, value: f64) -> bool {
        match self.relation {
            Relation::Above => value > self.limit,
            Relation::AtLeast => value >= self.limit,
            Relation::Below => value < self.limit,
            Relation::AtMost => value <= self.limit,
        }
    }
}

impl fmt::Display for FigureCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_judge::compare::LatencyContext;

    use super::*;

    fn on(text: &str, kind: RecordingKind) -> Result<Bound, String> {
        FigureCondition::parse(text)?.on(kind)
    }

    #[test]
    fn conditions_are_read() {
        let limit = |text| on(text, RecordingKind::Gaps).unwrap().limit;
        assert_eq!(limit("p99.9>20us"), 20_000.0);
        assert_eq!(limit("max >= 1ms"), 1_000_000.0);
        assert_eq!(limit("p50<5"), 5_000.0);
        assert_eq!(limit("steal>0.1%"), 0.1);
        assert_eq!(limit("gaps<=100"), 100.0);
        let at_least = on("noise>=1%", RecordingKind::Gaps).unwrap();
        assert!(at_least.holds(1.0) && !at_least.holds(0.99));
    }

    #[test]
    fn what_a_name_means_is_up_to_the_recordings() {
        let irq = on("irq.p99.9>20us", RecordingKind::Wakeups).unwrap();
        assert_eq!(
            irq.figure,
            ComparedFigure::Latency(LatencyContext::Irq, 9_990)
        );
        let taken = on("by.steal>300ns", RecordingKind::Wakeups).unwrap();
        assert_eq!(taken.limit, 300.0);
        let io = on("io.exits>100", RecordingKind::Exits).unwrap();
        assert_eq!(
            io.figure,
            ComparedFigure::Reason("io".into(), OfReason::Exits)
        );
        assert_eq!(
            on("hlt.time>0.5%", RecordingKind::Exits).unwrap().limit,
            0.5
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        for (wrong, kind, said) in [
            ("p99.9", RecordingKind::Gaps, "compares nothing"),
            ("p99>", RecordingKind::Gaps, "compares with nothing"),
            (">20us", RecordingKind::Gaps, "compares with nothing"),
            (
                "p98>20us",
                RecordingKind::Gaps,
                "for gaps: noise, gaps, p50",
            ),
            ("p99>20us", RecordingKind::Wakeups, "for wakeups: irq.p50"),
            (
                "io.exits>1",
                RecordingKind::Gaps,
                "for gaps: noise, gaps, p50",
            ),
            (
                "io.p50>1us",
                RecordingKind::Exits,
                "REASON.exits, REASON.time, REASON.p99",
            ),
            ("hltt.p99>1us", RecordingKind::Exits, "no figure `hltt.p99`"),
            ("steal>0.1", RecordingKind::Gaps, "such as 0.1%"),
            ("steal>20us", RecordingKind::Gaps, "such as 0.1%"),
            ("p99>20%", RecordingKind::Gaps, "no time"),
            ("gaps>many", RecordingKind::Gaps, "such as 100"),
            ("noise>-1%", RecordingKind::Gaps, "such as 0.1%"),
        ] {
            let error = on(wrong, kind).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
