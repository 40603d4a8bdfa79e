//! The command line of `vmnoise serve`. The measuring program takes it and becomes `vmnoise-serve`,
//! which takes it again: help, manual and completions are of both.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// What to serve, and where.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Address and port to listen on; `/metrics` is for Prometheus
    ///
    /// Whoever reaches it can read the names of the VMs and of what runs beside them, so beyond the loopback
    /// address it takes the three options below. A service manager that hands over a socket decides
    /// instead where that is.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9752")]
    pub listen: SocketAddr,
    /// Room for this many vCPUs at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub vcpus: u32,
    /// Tell what vCPUs lost and did of each by itself, under label `vcpu`
    ///
    /// Of the first 333 at a time; what others of a VM did is told under `other`.
    #[arg(long)]
    pub per_vcpu: bool,
    /// Most that it may cost, in percent of the time of all CPUs
    ///
    /// Its own CPU time and that of its programs in the kernel. Above that for five seconds it looks at nothing for a
    /// minute, then it tries again; each pause is twice as long as the one before, up to an hour.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub cost_limit: f64,
    /// Serve https with this certificate (PEM, with those that vouch for it)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Answer only who shows the token in this file: as a bearer token, or as the password of any user
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl ServeArguments {
    /// The same as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let ServeArguments {
            listen,
            vcpus,
            per_vcpu,
            cost_limit,
            tls_cert,
            tls_key,
            token_file,
        } = self;
        let mut words = vec![
            "--listen".into(),
            listen.to_string().into(),
            "--vcpus".into(),
            vcpus.to_string().into(),
            "--cost-limit".into(),
            cost_limit.to_string().into(),
        ];
        if *per_vcpu {
            words.push("--per-vcpu".into());
        }
        let files = [
            ("--tls-cert", tls_cert),
            ("--tls-key", tls_key),
            ("--token-file", token_file),
        ];
        for (option, file) in files {
            if let Some(file) = file {
                words.extend([option.into(), file.into()]);
            }
        }
        words
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok();
    let is_some = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
    let percent = percent.filter(is_some);
    percent.ok_or_else(|| "has to be more than 0, and at most 100".to_owned())
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
        let line = "program --listen [::1]:9000 --vcpus 7 --cost-limit 0.5 --per-vcpu --tls-cert c --tls-key k --token-file t";
        let line: Vec<&str> = line.split(' ').collect();
        let taken = Program::parse_from(&line).arguments;
        assert_eq!(taken.words(), line[1..]);
        let by_default = Program::parse_from(["program"]).arguments.words();
        assert_eq!(by_default[1], "127.0.0.1:9752");
    }
}
