//! Why a file is no scenario.

/// What is wrong with a scenario's file, where, and what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScenarioError {
    /// It does not follow the schema.
    #[error("line {line}: {message}")]
    Schema {
        /// From 1 on.
        line: usize,
        /// What is wrong there, and what may stand there.
        message: String,
    },
    /// A number of repetitions that measures nothing.
    #[error("`repeat = 0` measures nothing: leave it out for once")]
    NoRepetition,
    /// A duration that measures nothing.
    #[error("a `duration` of 0 measures nothing: give one such as \"2s\"")]
    NoDuration,
    /// An axis without a value.
    #[error("no cell is left: an axis of [axes] has an empty list")]
    NoCell,
    /// A conclusion that always holds.
    #[error(
        "the conclusion {0:?} has neither `at-most` nor `at-least`: nothing could disagree with it"
    )]
    NoBound(String),
    /// A conclusion on a length alone, which no other environment has.
    #[error(
        "the conclusion {0:?} has no `by`: only a part of a whole can be judged without another cell"
    )]
    NoOther(String),
    /// A published figure that is not what its statistic is.
    #[error(
        "[[published]] has {figure} as `{statistic}`: a part of a whole ends with %, and a length with its unit"
    )]
    WrongFigure {
        /// As it stands there.
        figure: String,
        /// In words.
        statistic: String,
    },
    /// A published figure, or a conclusion, of no cell.
    #[error(
        "[[published]] or [[conclusion]] names `{cell}`, which is no cell; the cells are {known}"
    )]
    UnknownCell {
        /// What was named.
        cell: String,
        /// All there are.
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
