//! Paragraphs at the top of the report, about the limitations of the figures.

use super::measured::Measured;

/// Paragraph at the top of the report.
#[derive(Debug)]
pub(super) struct Banner {
    pub title: &'static str,
    pub text: &'static str,
}

/// Returns the paragraphs for the environments in which the cells ran: emulation, real time or
/// both.
pub(super) fn banners(all: &[Measured]) -> Vec<Banner> {
    let ran_on = |is_real: bool| {
        let mut cells = all.iter().flat_map(|measured| &measured.cells);
        cells.any(|ended| ended.accel.is_real() == is_real)
    };
    let emulated = Banner {
        title: "In emulation.",
        text: "In a cell of `tcg` every machine was emulated, and its time is counted in instructions. Such a length \
               says nothing about real hardware: compare cells of one clock with each other, and compare causes, but \
               never compare a length with one in a paper. An instruction takes 1 ns, but 4 ns in PV and PVH guests of \
               Xen and their Dom0. A verdict is about order and cause.",
    };
    let real = Banner {
        title: "On a host.",
        text: "Cells of `kvm` ran on the kernel and the KVM of a real machine, those of `xen` in a Dom0, in real time. \
               This machine is not a paper's: a verdict compares cells of this report, and never one of them with one \
               of a paper.",
    };
    let all = [(false, emulated), (true, real)].into_iter();
    all.filter(|(is_real, _)| ran_on(*is_real))
        .map(|(_, banner)| banner)
        .collect()
}
