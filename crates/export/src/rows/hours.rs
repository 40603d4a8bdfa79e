//! The table `hours`: sums of a host and its VMs over an hour. There are four kinds of rows. A
//! column that belongs to one kind is null in rows of the other kinds, so the sum of a column never
//! mixes kinds.

use std::iter;

use vmnoise_events::column::Columns;

use crate::error::ExportError;
use crate::host_hour::{CulpritHour, HostHour, VmHour, WaitHour};
use crate::table::{Cells, ColumnKind, Schema, cells, encoded};

impl HostHour {
    /// Returns the content of the Parquet file.
    ///
    /// # Errors
    /// If the Parquet library reports an error.
    pub fn parquet(&self) -> Result<Vec<u8>, ExportError> {
        let schema = schema();
        let columns = columns();
        let mut rows = Cells::new(&schema);
        let times = [self.begin, self.end].map(|time| time.as_microsecond().into());
        for row in Row::all(self) {
            let times = times.clone().into_iter();
            rows.push(times.chain(cells(&columns, &row)));
        }
        encoded(&schema, &rows).map_err(|error| ExportError::Parquet {
            path: schema.name.into(),
            error,
        })
    }
}

/// A row of the table. `about` is the kind of the row.
pub(crate) struct Row<'a> {
    hour: &'a HostHour,
    vm: Option<&'a VmHour>,
    about: About<'a>,
}

enum About<'a> {
    Host,
    Vm(&'a VmHour),
    Culprit(&'a CulpritHour),
    Wait(&'a WaitHour),
}

impl<'a> Row<'a> {
    pub(crate) fn all(hour: &'a HostHour) -> impl Iterator<Item = Row<'a>> {
        let row = |vm, about| Row { hour, vm, about };
        let vms = hour.vms.iter().flat_map(move |vm| {
            let culprits = vm.culprits.iter().map(About::Culprit);
            let waits = vm.waits.iter().map(About::Wait);
            let about = iter::once(About::Vm(vm)).chain(culprits).chain(waits);
            about.map(move |about| row(Some(vm), about))
        });
        iter::once(row(None, About::Host)).chain(vms)
    }

    fn host(&self, of: impl Fn(&HostHour) -> u64) -> Option<u64> {
        matches!(self.about, About::Host).then(|| of(self.hour))
    }

    fn vm(&self, of: impl Fn(&VmHour) -> u64) -> Option<u64> {
        match self.about {
            About::Vm(vm) => Some(of(vm)),
            _ => None,
        }
    }

    fn culprit(&self) -> Option<&'a CulpritHour> {
        match self.about {
            About::Culprit(culprit) => Some(culprit),
            _ => None,
        }
    }

    fn wait(&self) -> Option<&'a WaitHour> {
        match self.about {
            About::Wait(wait) => Some(wait),
            _ => None,
        }
    }

    fn about(&self) -> &'static str {
        match self.about {
            About::Host => "host",
            About::Vm(_) => "vm",
            About::Culprit(_) => "culprit",
            About::Wait(_) => "wait",
        }
    }
}

pub(crate) fn schema() -> Schema {
    let times = [
        ("begin_utc", ColumnKind::Time),
        ("end_utc", ColumnKind::Time),
    ];
    Schema::new("hours", &times).with_columns(&columns())
}

/// Returns all columns after the two time columns.
pub(crate) fn columns<'a>() -> Columns<'static, Row<'a>> {
    Columns::<Row<'a>>::default()
        .time("period_ns", |row| row.hour.period_ns)
        .truth("is_whole", |row| row.hour.is_whole)
        .name("about", |row| Some(row.about()))
        .name("vm", |row| row.vm?.vm.as_deref())
        .and(of_vms())
        .name("culprit_kind", |row| Some(row.culprit()?.kind))
        .name("culprit", |row| Some(&row.culprit()?.name))
        .time("culprit_ns", |row| Some(row.culprit()?.ns))
        .time("wait_up_to_ns", |row| row.wait()?.up_to_ns)
        .count("waits", |row| Some(row.wait()?.waits))
        .name("tool_version", |row| match row.about {
            About::Host => Some(&row.hour.tool_version),
            _ => None,
        })
        .count("missed_events", |row| row.host(|hour| hour.missed_events))
        .count("vcpus_without_room", |row| {
            row.host(|hour| hour.vcpus_without_room)
        })
        .time("self_cpu_ns", |row| row.host(|hour| hour.self_cpu_ns))
        .time("probe_ns", |row| row.host(|hour| hour.probe_ns))
}

fn of_vms<'a>() -> Columns<'static, Row<'a>> {
    Columns::<Row<'a>>::default()
        .count("vcpus", |row| row.vm(|vm| vm.vcpus))
        .time("running_ns", |row| row.vm(|vm| vm.running_ns))
        .time("halted_ns", |row| row.vm(|vm| vm.halted_ns))
        .time("asleep_ns", |row| row.vm(|vm| vm.asleep_ns))
        .time("preempted_ns", |row| row.vm(|vm| vm.preempted_ns))
        .time("throttled_ns", |row| row.vm(|vm| vm.throttled_ns))
        .time("idle_ns", |row| row.vm(|vm| vm.idle_ns))
        .time("unsure_ns", |row| row.vm(|vm| vm.unsure_ns))
        .time("blocked_ns", |row| row.vm(|vm| vm.blocked_ns))
        .time("unseen_ns", |row| row.vm(|vm| vm.unseen_ns))
}
