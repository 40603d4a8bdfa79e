//! One combination of what a scenario varies.

use std::fmt::Display;

use super::axes::{Axes, Exercise, GuestType, Hypervisor, Kernel, Load, Policy, Tuning, Workload};
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
    /// Of a guest of Xen: what its kernel takes as the shortest timer.
    pub timer_slop: Option<Length>,
    /// Of vmnoise's own guest: which exits it makes.
    pub exercise: Option<Exercise>,
    /// How urgently the task runs that measures.
    pub policy: Policy,
    /// How often a periodic task wakes up.
    pub period: Length,
    /// What measures.
    pub workload: Workload,
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
    pub(super) fn all(axes: &Axes, workloads: &[Workload]) -> Vec<Cell> {
        let cells = axes.hypervisor.iter().map(|&hypervisor| Cell {
            hypervisor,
            guest_type: None,
            host_kernel: Kernel::Ordinary,
            guest_kernel: None,
            load: Load::Idle,
            tuning: Tuning::AsIs,
            timer_slop: None,
            exercise: None,
            policy: Policy::Usual,
            period: Length::default(),
            workload: Workload::Timerlat,
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

/// Each cell once for each value of an axis, if its hypervisor has any.
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

/// What a value adds to the name of its cell: nothing where there is no other.
fn name_of<T: Display>(value: T, values: &[T]) -> Vec<String> {
    match values {
        [_, _, ..] => vec![value.to_string()],
        _ => Vec::new(),
    }
}
