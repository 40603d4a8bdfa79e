//! `vmnoise doctor`: prints the probe status of this machine.

use anyhow::{Context, Result};
use vmnoise_console::rights;
use vmnoise_console::status::ExitStatus;
use vmnoise_engine::feed::receiver::{self, FeedFrom, Transport};
use vmnoise_engine::{cpus, machine, vcpus};
use vmnoise_events::ProbeStatus;
use vmnoise_host::Host;
use vmnoise_tracer::{ExitTracer, LoadError, Streaming, VmSearch};
use vmnoise_workload::{microvm, tsc};

use crate::args::DoctorArguments;

/// Tries every probe and prints the table; returns status 3 if the microVM cannot run.
pub fn run(arguments: &DoctorArguments) -> Result<ExitStatus> {
    vmnoise_rights::begin(None)?;
    let (mut table, status) = match microvm::offer() {
        Ok(offer) => (cpus::probe_status::of_offer(&offer), ExitStatus::Ok),
        Err(error) => (
            vec![cpus::probe_status::no_microvm(&error)],
            ExitStatus::MachineCannot,
        ),
    };
    let survey: Vec<ProbeStatus> = vmnoise_tracer::survey();
    table.extend(survey);
    let tsc_hz = machine::tsc_hz();
    table.push(cpus::probe_status::of_tsc(tsc::rdtsc_cycles(), tsc_hz));
    let here = Host::here();
    let advance = here.lapic_timer_advance();
    table.extend(advance.map(cpus::probe_status::of_guest_timers));
    let host = here.facts().context("reading the facts of this machine")?;
    table.extend(exits(host.kvm_module.as_deref()));
    if host.hypervisor.is_some() {
        let transport = Transport::find(&FeedFrom::Auto, &host);
        table.push(receiver::probe_status::of_transport(transport.as_ref()));
    }
    rights::keep(&[])?;
    vmnoise_render::doctor::print(&host, &table, arguments.format)?;
    Ok(status)
}

/// Loads and attaches the BPF programs of `vmnoise exits`, and returns their probe status. The
/// programs are detached when this function returns.
fn exits(kvm_module: Option<&str>) -> Vec<ProbeStatus> {
    if kvm_module.is_none() {
        return vec![vcpus::probe_status::no_exits(
            "there is no KVM",
            "load kvm_intel or kvm_amd",
        )];
    }
    let mut tracer = match ExitTracer::load(1, Streaming::Exits { threshold_ns: 0 }) {
        Ok(tracer) => tracer,
        Err(LoadError::Refused { why, remedy }) => {
            return vec![vcpus::probe_status::no_exits(&why, &remedy)];
        }
        Err(error) => return vec![vcpus::probe_status::no_exits(&error.to_string(), "")],
    };
    match tracer.attach() {
        Ok(()) => vcpus::probe_status::of_exit_tracer(&tracer, &VmSearch::here()),
        Err(error) => vec![vcpus::probe_status::no_exits(
            &error.to_string(),
            "allow tracing to this process",
        )],
    }
}
