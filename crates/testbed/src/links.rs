//! Sets up network links of this network namespace with rtnetlink(7).

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

// linux/netlink.h, linux/rtnetlink.h.
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const REQUEST_AND_ACK: u16 = 1 | 4;
const CREATE: u16 = 0x400;
const HEADER: usize = 16;
// linux/if_link.h, linux/if_addr.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
/// IFF_UP of linux/if.h. It is used both as the flag and as the mask of changed flags.
const UP: u32 = 1;
const AF_INET: u8 = 2;

/// A netlink socket that sets up links.
#[derive(Debug)]
pub struct Links {
    kernel: OwnedFd,
}

impl Links {
    /// Opens a socket for the network namespace of this process.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn here() -> Result<Links> {
        let flags = SocketFlags::CLOEXEC;
        let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        Ok(Links { kernel })
    }

    /// Creates a bridge of this name.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add_bridge(&self, name: &str) -> Result<()> {
        let kind = attribute(IFLA_INFO_KIND, b"bridge");
        let mut message = link(0, 0);
        message.extend(attribute(IFLA_IFNAME, name.as_bytes()));
        message.extend(attribute(IFLA_LINKINFO, &kind));
        self.ask(RTM_NEWLINK, CREATE, &message)
            .with_context(|| format!("adding the bridge {name}"))
    }

    /// Sets a link up. If `bridge` is given, the link becomes a port of this bridge.
    ///
    /// # Errors
    /// If the kernel refuses, or there is no such link.
    pub fn set_up(&self, name: &str, bridge: Option<&str>) -> Result<()> {
        let mut message = link(index(name)?, UP);
        if let Some(bridge) = bridge {
            message.extend(attribute(IFLA_MASTER, &index(bridge)?.to_ne_bytes()));
        }
        self.ask(RTM_NEWLINK, 0, &message)
            .with_context(|| format!("setting {name} up"))
    }

    /// Sets the size of a link's largest packet, in bytes.
    ///
    /// # Errors
    /// If the kernel refuses, or there is no such link.
    pub fn set_mtu(&self, name: &str, bytes: u32) -> Result<()> {
        let mut message = link(index(name)?, 0);
        message.extend(attribute(IFLA_MTU, &bytes.to_ne_bytes()));
        self.ask(RTM_NEWLINK, 0, &message)
            .with_context(|| format!("setting the largest packet of {name}"))
    }

    /// Gives a link the address `own` in a /24 network, and the broadcast address.
    ///
    /// # Errors
    /// If the kernel refuses, or there is no such link.
    pub fn add_address(&self, name: &str, own: Ipv4Addr, broadcast: Ipv4Addr) -> Result<()> {
        let mut message = vec![AF_INET, 24, 0, 0];
        message.extend(index(name)?.to_ne_bytes());
        message.extend(attribute(IFA_LOCAL, &own.octets()));
        message.extend(attribute(IFA_BROADCAST, &broadcast.octets()));
        self.ask(RTM_NEWADDR, CREATE, &message)
            .with_context(|| format!("giving {name} the address {own}"))
    }

    /// Sends one request to the kernel, and waits until it is done.
    fn ask(&self, what: u16, flags: u16, message: &[u8]) -> Result<()> {
        let length = u32::try_from(HEADER + message.len())?;
        let mut request = length.to_ne_bytes().to_vec();
        request.extend(what.to_ne_bytes());
        request.extend((REQUEST_AND_ACK | flags).to_ne_bytes());
        // Sequence number and address are 0: there is only one request at a time.
        request.extend([0; 8]);
        request.extend(message);
        let to_kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.kernel, &request, SendFlags::empty(), &to_kernel)?;
        let mut answer = [0; 4096];
        recv(&self.kernel, &mut answer, RecvFlags::empty())?;
        // The answer is a `struct nlmsgerr`. It begins with a negative errno, or with 0 for
        // success.
        let error = answer[HEADER..HEADER + 4]
            .try_into()
            .map(i32::from_ne_bytes)?;
        match error {
            0 => Ok(()),
            error => Err(Errno::from_raw_os_error(-error).into()),
        }
    }
}

/// Returns a `struct ifinfomsg` in which these flags are set and marked as changed.
fn link(index: u32, flags: u32) -> Vec<u8> {
    let mut message = vec![0; 4];
    for word in [index, flags, flags] {
        message.extend(word.to_ne_bytes());
    }
    message
}

/// Returns a `struct rtattr` with this value, padded to a multiple of four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut attribute = u16::try_from(length)
        .unwrap_or(u16::MAX)
        .to_ne_bytes()
        .to_vec();
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(length.next_multiple_of(4), 0);
    attribute
}

fn index(name: &str) -> Result<u32> {
    let file = format!("/sys/class/net/{name}/ifindex");
    let text = std::fs::read_to_string(&file).context(file)?;
    Ok(text.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_ends_at_a_word_and_its_length_does_not_count_that() {
        let name = attribute(IFLA_IFNAME, b"br0");
        assert_eq!(name[..4], [7_u16, 3].map(u16::to_ne_bytes).concat()[..]);
        assert_eq!(name[4..], *b"br0\0");
        assert_eq!(link(2, UP).len(), 16);
    }
}
