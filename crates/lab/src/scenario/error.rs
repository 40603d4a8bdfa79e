//! Errors in the file of a scenario.

/// Error in the file of a scenario, with its place and remedy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScenarioError {
    /// The file does not follow the schema.
    #[error("line {line}: {message}")]
    Schema {
        /// Line, counted from 1.
        line: usize,
        /// Error in this line, and the allowed values.
        message: String,
    },
    /// The number of repetitions is 0.
    #[error("`repeat = 0` measures nothing: leave it out for once")]
    NoRepetition,
    /// The duration is 0.
    #[error("a `duration` of 0 measures nothing: give one such as \"2s\"")]
    NoDuration,
    /// An axis has no value.
    #[error("no cell is left: an axis of [axes] has an empty list")]
    NoCell,
    /// A conclusion has no bound, so it would always hold.
    #[error(
        "the conclusion {0:?} has neither `at-most` nor `at-least`: nothing could disagree with it"
    )]
    NoBound(String),
    /// A conclusion concerns a length alone, which differs in every environment.
    #[error(
        "the conclusion {0:?} has no `by`: only a part of a whole can be judged without another cell"
    )]
    NoOther(String),
    /// A published figure does not have the kind of its statistic.
    #[error(
        "[[published]] has {figure} as `{statistic}`: a part of a whole ends with %, and a length with its unit"
    )]
    WrongFigure {
        /// Figure in the file.
        figure: String,
        /// Name of the statistic.
        statistic: String,
    },
    /// A published figure or a conclusion names an unknown cell.
    #[error(
        "[[published]] or [[conclusion]] names `{cell}`, which is no cell; the cells are {known}"
    )]
    UnknownCell {
        /// Name in the file.
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
