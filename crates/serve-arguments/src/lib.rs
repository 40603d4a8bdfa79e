//! The command line of `vmnoise serve`. The measuring program takes it and becomes `vmnoise-serve`,
//! which takes it again: help, manual and completions are of both.
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use clap::Args;

/// What to serve, and where.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Address and port to listen on; `/metrics` is for Prometheus
    ///
    /// Whoever reaches it can read the names of the VMs and of what runs beside them. A service manager
    /// that hands over a socket decides instead.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9752")]
    pub listen: SocketAddr,
    /// Room for this many vCPUs at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub vcpus: u32,
}

impl ServeArguments {
    /// The same as words of a command line.
    pub fn words(&self) -> [String; 4] {
        let ServeArguments { listen, vcpus } = self;
        [
            "--listen".to_owned(),
            listen.to_string(),
            "--vcpus".to_owned(),
            vcpus.to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: ServeArguments,
    }

    #[test]
    fn words_say_what_was_taken() {
        let line = ["program", "--listen", "[::1]:9000", "--vcpus", "7"];
        let taken = Program::parse_from(line).arguments;
        assert_eq!(taken.words(), line[1..]);
        let by_default = Program::parse_from(["program"]).arguments.words();
        assert_eq!(by_default[1], "127.0.0.1:9752");
    }
}
