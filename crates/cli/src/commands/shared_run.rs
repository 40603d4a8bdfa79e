//! What the options that are shared ask of a run.

use crate::args::Shared;
use crate::feed::receiver::FeedFrom;
use crate::rights::Work;
use crate::run::Run;

/// All but its trace.
pub fn of(shared: &Shared, feed: &FeedFrom) -> Run {
    let mut works = vec![Work::Measure];
    if matches!(feed, FeedFrom::Path(_)) {
        works.push(Work::HearHost);
    }
    Run {
        output: shared.output.clone(),
        on_threshold: shared.on_threshold.clone(),
        on_end: shared.on_end.clone(),
        user: shared.user.clone(),
        works,
        ..Run::default()
    }
}
