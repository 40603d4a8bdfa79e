//! `lab-network storm` keeps packets moving forever between the two network cards of a lab. Both
//! cards are on one wire, and are ports of one bridge. The bridge sends each packet out of the
//! other port than the one by which it came in, so no program has to send. A broadcast of the
//! bridge itself leaves by both ports, so it moves once in each direction.
//!
//! `lab-network flood CPU here|elsewhere` sends packets to its own machine. It must be started in a
//! network namespace of its own: `unshare --net --mount lab-network flood …`. With `here`, this CPU
//! receives the packets (receive packet steering, Documentation/networking/scaling.rst). With
//! `elsewhere`, the CPU that sends also receives.

use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{MountFlags, mount};
use vmnoise_testbed::bed::inside;
use vmnoise_testbed::links::Links;
use vmnoise_testbed::placed;
use vmnoise_testbed::vmm::wait_for;

/// Number of packets that are sent at the same time; `storm` has this many per card. A device
/// driver handles up to 64 packets (NAPI_POLL_WEIGHT) before it yields the CPU.
const PACKETS: u64 = 32;
/// Maximum size of a packet in bytes, as on an Ethernet.
const MTU: u32 = 1_500;
/// Number of bytes of a fragmented datagram that one packet contains.
const FRAGMENT: usize = 1_480;
/// Size of the header of a datagram in bytes.
const HEADER: usize = 8;
/// Time between two rounds of packets. In a lab, the wire delays a packet by this time.
const EVERY: Duration = Duration::from_millis(1);
const BRIDGE: &str = "br0";
const PORTS: [&str; 2] = ["eth0", "eth1"];
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ALL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 255);
/// UDP port of the discard service (RFC 863), on which no program listens.
const DISCARD: u16 = 9;
/// BR_STATE_FORWARDING of linux/if_bridge.h: the state of a port that forwards packets.
const FORWARDING: &str = "3";

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["storm"] => storm(),
        ["flood", cpu, "here"] => match flood(cpu.parse()?, true)? {},
        ["flood", cpu, "elsewhere"] => match flood(cpu.parse()?, false)? {},
        _ => bail!("usage: lab-network storm | flood CPU here|elsewhere"),
    }
}

fn storm() -> Result<()> {
    ensure!(
        Path::new(inside::COMMANDS).exists(),
        "this lets a network of two cards never rest: inside a lab only"
    );
    // Otherwise IPv6 would send broadcasts, now and later.
    for links in ["all", "default"] {
        set(
            &format!("/proc/sys/net/ipv6/conf/{links}/disable_ipv6"),
            "1",
        )?;
    }
    let links = Links::here()?;
    links.add_bridge(BRIDGE)?;
    for port in PORTS {
        links.set_up(port, Some(BRIDGE))?;
        // Packets come back with this machine's own address. With `learning`, the kernel would warn
        // about this.
        set(&format!("/sys/class/net/{port}/brport/learning"), "0")?;
    }
    links.set_up(BRIDGE, None)?;
    links.add_address(BRIDGE, OWN, ALL)?;
    for port in PORTS {
        let state = format!("/sys/class/net/{port}/brport/state");
        wait_for(&format!("{port} to forward"), || is(&state, FORWARDING))?;
    }
    let socket = UdpSocket::bind((OWN, 0))?;
    socket.set_broadcast(true)?;
    for _ in 0..PACKETS {
        socket.send_to(&[0; 64], (ALL, DISCARD))?;
    }
    for port in PORTS {
        let file = format!("/sys/class/net/{port}/statistics/rx_packets");
        // The card has received more packets than were sent, so the packets keep moving.
        wait_for(&format!("packets to go round by {port}"), || {
            Ok(get(&file)?.parse::<u64>()? > PACKETS)
        })?;
    }
    Ok(())
}

fn flood(cpu: u32, is_here: bool) -> Result<Infallible> {
    // This check comes first, because a mount would affect all other processes of the namespace.
    for namespace in ["net", "mnt"] {
        ensure_own(namespace)?;
    }
    // sysfs shows the links of the network namespace in which it was mounted.
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None).context("mounting sysfs")?;
    let links = fs::read_dir("/sys/class/net")?.flatten();
    let mut others = links
        .map(|link| link.file_name())
        .filter(|name| name != "lo");
    if let Some(other) = others.next() {
        bail!(
            "{} is a link of others here: start it by `unshare --net --mount`",
            other.to_string_lossy()
        );
    }
    let links = Links::here()?;
    links.set_mtu("lo", MTU)?;
    links.set_up("lo", None)?;
    if is_here {
        set("/sys/class/net/lo/queues/rx-0/rps_cpus", &placed::mask(cpu))?;
    }
    placed::leave(cpu)?;
    ensure!(
        !placed::allowed()?.contains(&cpu),
        "CPU {cpu} is the only one that this process may use, and another has to send: let it use two (taskset, cpuset)"
    );
    let receives = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = receives.local_addr()?;
    let sends = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // The datagram is fragmented. The kernel sends fragments without a pause, faster than it
    // receives single packets.
    let datagram = vec![0; PACKETS as usize * FRAGMENT - HEADER];
    loop {
        // No program reads the packets. The kernel drops packets that do not fit into the buffer.
        sends.send_to(&datagram, to)?;
        sleep(EVERY);
    }
}

/// Checks that this process has another namespace of this kind than its parent, as after `unshare`.
/// A comparison with the machine's first process does not work in every container.
fn ensure_own(kind: &str) -> Result<()> {
    const REMEDY: &str = "start it as root by `unshare --net --mount`";
    let of = |process: &str| {
        let link = format!("/proc/{process}/ns/{kind}");
        fs::read_link(&link).with_context(|| format!("{link} cannot be read: {REMEDY}"))
    };
    ensure!(
        of("self")? != of(&parent_id().to_string())?,
        "this `{kind}` namespace is also that of the parent process: {REMEDY}"
    );
    Ok(())
}

fn is(file: &str, value: &str) -> Result<bool> {
    Ok(get(file)? == value)
}

fn get(file: &str) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
    Ok(text.trim().to_owned())
}

fn set(file: &str, value: &str) -> Result<()> {
    fs::write(file, value).with_context(|| format!("writing {value} to {file}"))
}
