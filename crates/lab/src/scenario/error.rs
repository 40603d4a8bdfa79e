//! Errors in a scenario file.

/// Error in a scenario file. The message contains the place of the error, and the remedy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScenarioError {
    /// The file does not follow the schema.
    #[error("line {line}: {message}")]
    Schema {
        /// Number of the line, counted from 1.
        line: usize,
        /// Description of the error, with the allowed values.
        message: String,
    },
    /// The number of repetitions is 0.
    #[error("`repeat = 0` measures nothing: leave it out for once")]
    NoRepetition,
    /// The duration is 0.
    #[error("a `duration` of 0 measures nothing: give one such as \"2s\"")]
    NoDuration,
    /// The list of an axis is empty.
    #[error("no cell is left: an axis of [axes] has an empty list")]
    NoCell,
    /// A conclusion has no limit, so it would always hold.
    #[error(
        "the conclusion {0:?} has neither `at-most` nor `at-least`: nothing could disagree with it"
    )]
    NoBound(String),
    /// A conclusion compares no cells, although its figure is a length. Lengths differ in each
    /// environment, so a single one cannot be judged.
    #[error(
        "the conclusion {0:?} has no `by`: only a part of a whole can be judged without another cell"
    )]
    NoOther(String),
    /// A published figure has the wrong unit for its statistic.
    #[error(
        "[[published]] has {figure} as `{statistic}`: a part of a whole ends with %, and a length with its unit"
    )]
    WrongFigure {
        /// Figure, as written in the file.
        figure: String,
        /// Name of the statistic.
        statistic: String,
    },
    /// A published figure or a conclusion names an unknown cell.
    #[error(
        "[[published]] or [[conclusion]] names `{cell}`, which is no cell; the cells are {known}"
    )]
    UnknownCell {
        /// Name of the cell, as written in the file.
        cell: String,
        /// Names of all cells.
        known: String,
    },
}

impl ScenarioError {
    pub(super) fn of(text: &str, error: &toml::de::Error) -> ScenarioError {
        let before = error.span().and_then(|span| text.get(..span.start));
        ScenarioError::Schema {
            line: before.map_or(1, |text| text.matches('\n').count() + 1),
            message: error.message().to_owned(),
        }
    }
}
