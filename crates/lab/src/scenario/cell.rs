//! One combination of what a scenario varies.

use super::axes::{Axes, GuestType, Hypervisor, Kernel, Load, Tuning};
use super::length::Length;

/// A machine as it is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What runs the guest.
    pub hypervisor: Hypervisor,
    /// Of a guest of Xen.
    pub guest_type: Option<GuestType>,
    /// Of the host, or of Dom0.
    pub host_kernel: Kernel,
    /// Of the guest, if there is one.
    pub guest_kernel: Option<Kernel>,
    /// What works in the background.
    pub load: Load,
    /// How all is set up.
    pub tuning: Tuning,
    /// How often a periodic task wakes up.
    pub period: Length,
    /// What tells it from the other cells of its scenario.
    varied: Vec<String>,
}

impl Cell {
    /// Its name among the cells of its scenario, which is that of its folder too: the values of what is
    /// varied.
    pub fn name(&self) -> String {
        match self.varied.is_empty() {
            true => "only".to_owned(),
            false => self.varied.join("-"),
        }
    }

    /// All that there can be, the last axis the fastest.
    pub(super) fn all(axes: &Axes) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &hypervisor in &axes.hypervisor {
            for guest_type in guest_types(hypervisor, axes) {
                for &host_kernel in &axes.host_kernel {
                    for guest_kernel in guest_kernels(hypervisor, axes) {
                        let machine = (hypervisor, guest_type, host_kernel, guest_kernel);
                        cells.extend(set_up(machine, axes));
                    }
                }
            }
        }
        cells
    }
}

type Machine = (Hypervisor, Option<GuestType>, Kernel, Option<Kernel>);

fn set_up(machine: Machine, axes: &Axes) -> impl Iterator<Item = Cell> {
    let (hypervisor, guest_type, host_kernel, guest_kernel) = machine;
    let tuned = |load: Load| axes.tuning.iter().map(move |&tuning| (load, tuning));
    let loads = axes.load.iter().flat_map(move |&load| tuned(load));
    let all = loads.flat_map(|it| axes.period.iter().map(move |&period| (it, period)));
    all.map(move |((load, tuning), period)| {
        let mut varied = Vec::new();
        let mut add = |values: usize, name: Option<String>| {
            varied.extend(name.filter(|_| values > 1));
        };
        add(axes.hypervisor.len(), Some(hypervisor.to_string()));
        add(axes.guest_type.len(), guest_type.map(|it| it.to_string()));
        add(axes.host_kernel.len(), Some(host_kernel.to_string()));
        add(
            axes.guest_kernel.len(),
            guest_kernel.map(|it| it.to_string()),
        );
        add(axes.load.len(), Some(load.to_string()));
        add(axes.tuning.len(), Some(tuning.to_string()));
        add(axes.period.len(), Some(period.to_string()));
        Cell {
            hypervisor,
            guest_type,
            host_kernel,
            guest_kernel,
            load,
            tuning,
            period,
            varied,
        }
    })
}

fn guest_types(hypervisor: Hypervisor, axes: &Axes) -> Vec<Option<GuestType>> {
    match hypervisor {
        Hypervisor::Xen => axes.guest_type.iter().copied().map(Some).collect(),
        Hypervisor::Bare | Hypervisor::Kvm => vec![None],
    }
}

fn guest_kernels(hypervisor: Hypervisor, axes: &Axes) -> Vec<Option<Kernel>> {
    match hypervisor {
        Hypervisor::Bare => vec![None],
        Hypervisor::Kvm | Hypervisor::Xen => axes.guest_kernel.iter().copied().map(Some).collect(),
    }
}
