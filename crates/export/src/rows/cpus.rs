//! The table `cpus`: sums of each CPU in a run that measures gaps.

use vmnoise_events::column::Columns;
use vmnoise_explain::CpuSummary;

use crate::table::Schema;

pub(crate) fn schema() -> Schema {
    Schema::new("cpus", &[]).with_columns(&columns())
}

pub(crate) fn columns() -> Columns<'static, CpuSummary> {
    Columns::<CpuSummary>::default()
        .count("cpu", |cpu| u64::from(cpu.cpu))
        .time("from_mono_ns", |cpu| Some(cpu.measured_mono_ns?.0))
        .time("to_mono_ns", |cpu| Some(cpu.measured_mono_ns?.1))
        .time("runtime_ns", |cpu| cpu.runtime_ns)
        .count("gaps", |cpu| cpu.gaps)
        .time("noise_ns", |cpu| cpu.noise_ns)
        .time("max_gap_ns", |cpu| cpu.max_gap_ns)
        .count("incomplete_gaps", |cpu| cpu.incomplete_gaps)
}
