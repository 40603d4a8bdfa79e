//! Supply function as CSV for other programs.

use super::{ScheduleResult, WindowRow};

/// Renders a row for each CPU and each window length. All times are in nanoseconds.
pub fn render(scheduled: &ScheduleResult<'_>) -> String {
    let mut shares: Vec<_> = scheduled.cpus.iter().flat_map(|it| &it.shares).collect();
    shares.sort_unstable();
    shares.dedup();
    let mut text = String::from("cpu,window_ns,left_at_least_ns,unseen_at_most_ns");
    for share in &shares {
        text += &format!(",{}_at_most_ns", share.name());
    }
    text.push('\n');
    for cpu in &scheduled.cpus {
        for row in &cpu.rows {
            let WindowRow {
                length_ns,
                left_ns,
                unseen_ns,
                ..
            } = row;
            text += &format!("{},{length_ns},{left_ns},{unseen_ns}", cpu.cpu);
            for share in &shares {
                let place = cpu.shares.iter().position(|it| it == *share);
                text += &format!(",{}", place.map_or(0, |it| row.shares_ns[it]));
            }
            text.push('\n');
        }
    }
    text
}
