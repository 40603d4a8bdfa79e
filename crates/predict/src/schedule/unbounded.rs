//! Reasons why a response time has no bound.

use response_time_analysis::fixed_point::SearchFailure;

/// Reason why a response time has no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnboundedResponse {
    /// There is no bound below the limit.
    AboveLimit,
    /// The analysis would have to examine too many jobs.
    TooMany(ManyJobs),
}

/// Jobs that are too many for the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManyJobs {
    /// Jobs that arrive in the busy window.
    InBusyWindow,
    /// Jobs that arrive between the begin of the busy window and the latest deadline. Only
    /// [`super::ScheduleOrder::Edf`] compares deadlines.
    BeforeLatestDeadline,
}

impl From<SearchFailure> for UnboundedResponse {
    /// A search for a fixed point fails only if there is no fixed point below its limit.
    fn from(_: SearchFailure) -> UnboundedResponse {
        UnboundedResponse::AboveLimit
    }
}
