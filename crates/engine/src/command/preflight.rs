//! Checks the CPUs before the command starts: a short `vmnoise osnoise` on all allowed CPUs, then
//! the steadiness of each CPU's work rate, one CPU after the other.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use vmnoise_events::Share;
use vmnoise_host::Host;
use vmnoise_judge::fitness::HypervisorRate;
use vmnoise_views::QuietCpu;
use vmnoise_workload::spin::{RateConfig, RateWindow, rate};
use vmnoise_workload::tsc;

/// Length of the windows whose rates are compared, in ns. One step of the loop takes some tens of
/// ns, less than a ten thousandth of a window.
const WINDOW_NS: u64 = 1_000_000;
/// Least number of windows for each CPU. Fewer windows may not show its fastest rate.
const LEAST_WINDOWS: u64 = 20;
/// Shortest polling time that `vmnoise osnoise` accepts.
const LEAST_POLL_NS: u64 = 10_000_000;
/// Threshold of `vmnoise osnoise`, in ns. A shorter gap counts as a lower rate.
const GAP_NS: u64 = 1_000;

/// Time for which the TSC is compared with the clock. The error is a few parts per million, which
/// is small enough for the length of the windows.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Polls all CPUs that this process may use. In the first half of `duration_ns`, all CPUs are
/// polled together for gaps. In the second half, each CPU is polled alone for its rate.
///
/// # Errors
/// If the CPUs cannot be polled.
pub fn look(duration_ns: u64) -> Result<Vec<QuietCpu>> {
    let cpus = Host::here()
        .allowed_cpus()
        .context("reading the allowed CPUs")?;
    let half_ns = duration_ns / 2;
    let mut quiet = gaps(&cpus, half_ns.max(LEAST_POLL_NS))?;
    let hz = tsc::calibrate_hz(CALIBRATION);
    let tsc = |ns: u64| ns * (hz / 1_000) / 1_000_000;
    let each_ns = half_ns / cpus.len().max(1) as u64;
    let config = RateConfig {
        windows: (each_ns / WINDOW_NS).max(LEAST_WINDOWS) as usize,
        window_tsc: tsc(WINDOW_NS),
        threshold_tsc: tsc(GAP_NS),
    };
    for it in &mut quiet {
        let windows = rate(it.cpu, &config).context("measuring the work rates of the CPUs")?;
        it.rate_lost_percent = lost_percent(&windows);
    }
    Ok(quiet)
}

/// Returns the lost work of all windows in percent, compared with the rate of the fastest window.
/// `None` if no window was mostly polled.
fn lost_percent(windows: &[RateWindow]) -> Option<f64> {
    let whole_tsc = windows.iter().map(|it| it.polled_tsc).max()?;
    let rate = |steps: u64, polled_tsc: u64| steps as f64 / polled_tsc as f64;
    let long = windows
        .iter()
        .filter(|it| it.steps > 0 && it.polled_tsc * 2 > whole_tsc);
    let best = long
        .map(|it| rate(it.steps, it.polled_tsc))
        .max_by(f64::total_cmp)?;
    let steps = windows.iter().map(|it| it.steps).sum();
    let polled_tsc = windows.iter().map(|it| it.polled_tsc).sum();
    Some((1.0 - rate(steps, polled_tsc) / best).max(0.0) * 100.0)
}

fn gaps(cpus: &[u32], duration_ns: u64) -> Result<Vec<QuietCpu>> {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let polled = Command::new("/proc/self/exe")
        .args(["osnoise", "-q", "--format", "json", "-c", &cpus.join(",")])
        .args(["-d", &format!("{}ms", duration_ns / 1_000_000)])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .stdout(Stdio::piped())
        .output()
        .context("polling the CPUs")?;
    if !polled.status.success() {
        bail!(
            "the CPUs cannot be polled before the command starts: run without --preflight, or see `vmnoise doctor`"
        );
    }
    let summary: Value =
        serde_json::from_slice(&polled.stdout).context("reading the result of the polling")?;
    let cpus = summary["cpus"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    cpus.iter().map(read).collect()
}

fn read(cpu: &Value) -> Result<QuietCpu> {
    let number = cpu["cpu"].as_u64().and_then(|it| u32::try_from(it).ok());
    Ok(QuietCpu {
        cpu: number.context("the result of the polling has a CPU without a number")?,
        polled_ns: cpu["runtime_ns"].as_u64(),
        noise_percent: cpu["noise_percent"].as_f64(),
        max_gap_ns: cpu["max_gap_ns"].as_u64(),
        most_by: cpu["sources"][0]["name"].as_str().map(str::to_owned),
        beyond_steal_percent: beyond_steal_percent(cpu),
        rate_lost_percent: None,
    })
}

fn beyond_steal_percent(cpu: &Value) -> Option<f64> {
    let ns = cpu["shares_ns"][Share::HvOrHw.name()].as_f64()?;
    let runtime_ns = cpu["runtime_ns"].as_f64().filter(|ns| *ns > 0.0)?;
    Some(100.0 * ns / runtime_ns)
}

/// Returns the hypervisor's rate for a verdict.
pub fn hypervisor_rate(quiet: Option<&[QuietCpu]>) -> HypervisorRate {
    if Host::here().hypervisor().is_none() {
        return HypervisorRate::Nothing;
    }
    worst_rate(quiet.unwrap_or_default()).unwrap_or(HypervisorRate::Unmeasured)
}

/// Returns the shortest polling, the largest rate, and the longest gap of any CPU. `None` if one of
/// these is unknown for a CPU, or without CPUs.
fn worst_rate(quiet: &[QuietCpu]) -> Option<HypervisorRate> {
    // The least of options is `None` if there is one.
    let polled_ns = quiet.iter().map(|it| it.polled_ns).min().flatten()?;
    let rates = quiet.iter().map(|it| it.beyond_steal_percent);
    let rates = rates.collect::<Option<Vec<f64>>>()?;
    let percent = rates.into_iter().max_by(f64::total_cmp)?;
    // A CPU without gaps has no longest gap.
    let longest_ns = quiet.iter().filter_map(|it| it.max_gap_ns).max();
    Some(HypervisorRate::Measured {
        polled_ns,
        taken_ns: (percent / 100.0 * polled_ns as f64).ceil() as u64,
        longest_ns: longest_ns.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(steps: u64, polled_tsc: u64) -> RateWindow {
        RateWindow { steps, polled_tsc }
    }

    fn quiet(polled_ns: u64, percent: Option<f64>, max_gap_ns: Option<u64>) -> QuietCpu {
        QuietCpu {
            cpu: 0,
            polled_ns: Some(polled_ns),
            noise_percent: None,
            max_gap_ns,
            most_by: None,
            beyond_steal_percent: percent,
            rate_lost_percent: None,
        }
    }

    #[test]
    fn the_worst_figures_of_all_cpus_are_the_rate() {
        let long = quiet(2_000_000_000, Some(0.0), Some(70_000));
        let much = quiet(1_000_000_000, Some(12.5), Some(30_000));
        let worst = HypervisorRate::Measured {
            polled_ns: 1_000_000_000,
            // One eighth of the shortest polling.
            taken_ns: 125_000_000,
            longest_ns: 70_000,
        };
        assert_eq!(worst_rate(&[long.clone(), much]), Some(worst));
        let unknown = quiet(1_000_000_000, None, Some(30_000));
        assert_eq!(worst_rate(&[long, unknown]), None);
        assert_eq!(worst_rate(&[]), None);
    }

    /// A CPU without a gap was measured all the same.
    #[test]
    fn a_preflight_without_gaps_is_a_measurement() {
        let nothing = HypervisorRate::Measured {
            polled_ns: 1_000_000_000,
            taken_ns: 0,
            longest_ns: 0,
        };
        let gapless = quiet(1_000_000_000, Some(0.0), None);
        assert_eq!(worst_rate(&[gapless]), Some(nothing));
    }

    #[test]
    fn what_is_below_the_fastest_millisecond_is_lost() {
        let steady = [window(128, 1_024); 4];
        assert_eq!(lost_percent(&steady), Some(0.0));
        // The second window is half as fast.
        let slower = [window(128, 1_024), window(64, 1_024)];
        assert_eq!(lost_percent(&slower), Some(25.0));
        // Windows that were hardly polled have no rate.
        let away = [window(100, 1_000), window(1, 5), window(0, 0)];
        let lost = lost_percent(&away).unwrap();
        assert!((0.0..0.4).contains(&lost), "{lost}");
        assert_eq!(lost_percent(&[window(0, 0); 3]), None);
        assert_eq!(lost_percent(&[]), None);
    }
}
