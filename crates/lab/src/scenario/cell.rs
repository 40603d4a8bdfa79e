//! Cells: the combinations of the values on a scenario's axes.

use std::fmt::Display;

use super::axes::{
    Axes, CellKernel, CellPolicy, CellWorkload, GuestExercise, GuestType, Hypervisor, Load, Tuning,
};
use super::length::Length;

/// A system to measure: one value from each axis of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Hypervisor of the guest.
    pub hypervisor: Hypervisor,
    /// Kind of virtualization; `None` unless the guest runs on Xen.
    pub guest_type: Option<GuestType>,
    /// Kernel of the host, or of Dom0.
    pub host_kernel: CellKernel,
    /// Kernel of the guest; `None` without a guest.
    pub guest_kernel: Option<CellKernel>,
    /// Load in the background.
    pub load: Load,
    /// Settings of host and guest.
    pub tuning: Tuning,
    /// Shortest timer that the guest's kernel sets; `None` unless the guest runs on Xen.
    pub timer_slop: Option<Length>,
    /// Exits that the guest makes on purpose; `None` unless it is vmnoise's own guest.
    pub exercise: Option<GuestExercise>,
    /// Scheduling policy of the measuring task.
    pub policy: CellPolicy,
    /// Period of the periodic task.
    pub period: Length,
    /// Program that measures.
    pub workload: CellWorkload,
    /// Values on the axes that have several values. They distinguish the cell from other cells.
    varied: Vec<String>,
}

impl Cell {
    /// Returns the cell's name in its scenario, which is also the name of its folder. The name has
    /// the cell's values on the axes with several values.
    pub fn name(&self) -> String {
        match self.varied.is_empty() {
            true => "only".to_owned(),
            false => self.varied.join("-"),
        }
    }

    /// Returns all combinations of the axes' values. The last axis varies fastest.
    pub(super) fn all(axes: &Axes, workloads: &[CellWorkload]) -> Vec<Cell> {
        let cells = axes.hypervisor.iter().map(|&hypervisor| Cell {
            hypervisor,
            guest_type: None,
            host_kernel: CellKernel::Ordinary,
            guest_kernel: None,
            load: Load::Idle,
            tuning: Tuning::AsIs,
            timer_slop: None,
            exercise: None,
            policy: CellPolicy::Usual,
            period: Length::default(),
            workload: CellWorkload::Timerlat,
            varied: name_of(hypervisor, &axes.hypervisor),
        });
        let any = |_| true;
        let is_guest_of_xen = |it| it == Hypervisor::Xen;
        let is_linux_guest = |it| matches!(it, Hypervisor::Kvm | Hypervisor::Xen);
        let is_microvm = |it| it == Hypervisor::Microvm;
        let cells = vary(
            cells.collect(),
            &axes.guest_type,
            is_guest_of_xen,
            |cell, it| {
                cell.guest_type = Some(it);
            },
        );
        let cells = vary(cells, &axes.host_kernel, any, |cell, it| {
            cell.host_kernel = it;
        });
        let cells = vary(cells, &axes.guest_kernel, is_linux_guest, |cell, it| {
            cell.guest_kernel = Some(it);
        });
        let cells = vary(cells, &axes.load, any, |cell, it| cell.load = it);
        let cells = vary(cells, &axes.tuning, any, |cell, it| cell.tuning = it);
        let cells = vary(cells, &axes.timer_slop, is_guest_of_xen, |cell, it| {
            cell.timer_slop = Some(it);
        });
        let cells = vary(cells, &axes.exercise, is_microvm, |cell, it| {
            cell.exercise = Some(it);
        });
        let cells = vary(cells, &axes.policy, any, |cell, it| cell.policy = it);
        let cells = vary(cells, &axes.period, any, |cell, it| cell.period = it);
        vary(cells, workloads, any, |cell, it| cell.workload = it)
    }
}

/// Replaces each cell by one cell for each value of an axis, if the axis applies to the cell's
/// hypervisor.
fn vary<T: Copy + Display>(
    cells: Vec<Cell>,
    values: &[T],
    has_any: impl Fn(Hypervisor) -> bool,
    set: impl Fn(&mut Cell, T),
) -> Vec<Cell> {
    let mut all = Vec::new();
    for cell in cells {
        if !has_any(cell.hypervisor) {
            all.push(cell);
            continue;
        }
        all.extend(values.iter().map(|&value| {
            let mut cell = cell.clone();
            set(&mut cell, value);
            cell.varied.extend(name_of(value, values));
            cell
        }));
    }
    all
}

/// Returns the word for a value in a cell's name; none if the axis has only one value.
fn name_of<T: Display>(value: T, values: &[T]) -> Vec<String> {
    match values {
        [_, _, ..] => vec![value.to_string()],
        _ => Vec::new(),
    }
}
