//! What has to be known before anything else.

use super::measured::Measured;

/// A paragraph above all.
#[derive(Debug)]
pub(super) struct Banner {
    pub title: &'static str,
    pub text: &'static str,
}

/// What has to be known of all lengths, by where the cells ran.
pub(super) fn banners(all: &[Measured]) -> Vec<Banner> {
    let ran_on = |is_real: bool| {
        let mut cells = all.iter().flat_map(|measured| &measured.cells);
        cells.any(|ended| ended.accel.is_real() == is_real)
    };
    let emulated = Banner {
        title: "In emulation.",
        text: "Of a cell of `tcg` every machine was emulated, and its time is counted in instructions. Such time says \
               nothing of absolute values: compare cells of one clock with each other, and causes, never a length with \
               one in a paper. An instruction takes 1 ns, in PV and PVH guests of Xen and their Dom0 4 ns. A verdict \
               is on order and cause.",
    };
    let real = Banner {
        title: "On a host.",
        text: "Cells of `kvm` ran on the kernel and the KVM of a real machine, those of `xen` in a Dom0, in real time. \
               It is another machine than a paper's: a verdict is on the cells here, and never on one of them beside \
               one of a paper.",
    };
    let all = [(false, emulated), (true, real)].into_iter();
    all.filter(|(is_real, _)| ran_on(*is_real))
        .map(|(_, banner)| banner)
        .collect()
}
