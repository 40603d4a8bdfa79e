//! The command line.

use std::net::SocketAddr;

use clap::Parser;

/// Keep the books of every vCPU of this host, and serve them as metrics for Prometheus
#[derive(Debug, Parser)]
#[command(name = "vmnoise serve", version)]
pub(crate) struct Arguments {
    /// Address and port to listen on; `/metrics` is for Prometheus
    ///
    /// Whoever reaches it can read the names of the VMs and of what runs beside them.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9752")]
    pub(crate) listen: SocketAddr,
    /// Room for this many vCPUs at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) vcpus: u32,
}
